"""Contrasts of two batches of runs: tested, corrected for their number, and with intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from clnr.evaluation import holm, wilcoxon
from clnr.experiments.results import Run
from clnr.paper.paper_runs.result_set import ResultSet
from clnr.paper.paper_runs.scope import Batch

LEVEL = 0.05
# With fewer pairs the signed-rank test cannot reach the level; and a method is not judged by two seeds.
_LEAST_PAIRS = 6
_LEAST_SEEDS = 3
_POWER = 0.8

Metric = Callable[[Run], float]
Bounds = tuple[float, float, float]


class Verdict(StrEnum):
    """The result of testing a claim, or one contrast within it."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Effect:
    """One measured difference or ratio behind a claim.

    Attributes:
        what: A short name, as "GRACE on Cora".
        bounds: Its 95 % interval, corrected for the number of effects, with the mean in the middle.
        verdict: What it says of the claim.
        p: Of its test, corrected likewise; None if it is judged by its interval.
        seeds: How many it was measured with: of the method that has fewer.
        needed: If it is undecided, how many would probably decide it; None if that is not known.
    """

    what: str
    bounds: Bounds
    verdict: Verdict
    p: float | None = None
    seeds: int = 0
    needed: int | None = None

    def __str__(self) -> str:
        return f"{self.what} {self.bounds[1]:+.3g}"


@dataclass(frozen=True)
class Contrast:
    """Values by seed, of which one side is claimed to be larger.

    Attributes:
        what: A short name: mostly a data set.
        larger: Values by seed.
        smaller: Values by seed.
    """

    what: str
    larger: Mapping[int, float]
    smaller: Mapping[int, float]

    @property
    def differences(self) -> list[float]:
        """Differences of the seeds that both sides have."""
        return [self.larger[seed] - self.smaller[seed] for seed in sorted(self.larger.keys() & self.smaller.keys())]

    @property
    def paired(self) -> bool:
        """Whether most seeds are in pairs, so that the test is of their differences."""
        most = max(len(self.larger), len(self.smaller))
        return len(self.differences) >= _LEAST_PAIRS and 2 * len(self.differences) > most

    @property
    def testable(self) -> bool:
        """Whether there are enough seeds for a significant result."""
        few = min(len(self.larger), len(self.smaller))
        return few >= _LEAST_SEEDS and 2 / math.comb(len(self.larger) + len(self.smaller), few) <= LEVEL

    @property
    def mean(self) -> float:
        if self.paired:
            return statistics.fmean(self.differences)
        return statistics.fmean(self.larger.values()) - statistics.fmean(self.smaller.values())

    @property
    def p(self) -> float:
        """Two-sided: Wilcoxon's signed-rank test on pairs; where few are paired, the Mann-Whitney test on all seeds."""
        if self.paired:
            return wilcoxon(self.differences)
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(list(self.larger.values()), list(self.smaller.values())).pvalue)

    def interval(self, number: int) -> Bounds:
        """The mean with its bounds, as ``interval``; where few are paired by Welch's t on all seeds."""
        if self.paired:
            return interval(self.differences, number)
        from scipy.stats import t

        sides = [list(self.larger.values()), list(self.smaller.values())]
        squares = [statistics.variance(side) / len(side) for side in sides]
        error = math.sqrt(sum(squares))
        parts = sum(square**2 / (len(side) - 1) for square, side in zip(squares, sides, strict=True))
        half = float(t.ppf(1 - LEVEL / 2 / number, error**4 / parts)) * error if parts else 0.0
        return self.mean - half, self.mean, self.mean + half

    def needed(self, number: int) -> int | None:
        """How many seeds would probably decide it (``seeds_needed``)."""
        if self.paired:
            spread = statistics.stdev(self.differences)
        else:
            spread = math.hypot(*(statistics.stdev(side.values()) for side in (self.larger, self.smaller)))
        return seeds_needed(self.mean, spread, number)


def contrast(results: ResultSet, what: str, larger: Batch, smaller: Batch, metric: Metric) -> Contrast:
    """A metric of two batches, where it is finite."""
    first, second = (
        {seed: value for seed, run in results.run_index.seeds(batch).items() if math.isfinite(value := metric(run))}
        for batch in (larger, smaller)
    )
    return Contrast(what, first, second)


def seeds_needed(distance: float, spread: float, number: int) -> int | None:
    """How many pairs of seeds decide a difference in 4 of 5 trials, if its mean and spread are what was measured.

    For Wilcoxon's test at the level, corrected for ``number`` tests; of normal differences it needs pi / 3 times as many as
    the t-test. None if the mean is zero.
    """
    if not distance:
        return None
    quantile = statistics.NormalDist().inv_cdf
    sure = quantile(1 - LEVEL / 2 / number) + quantile(_POWER)
    return max(_LEAST_PAIRS, math.ceil(math.pi / 3 * (sure * spread / distance) ** 2))


def evaluate_contrasts(contrasts: Iterable[Contrast]) -> dict[str, Effect]:
    """Test the contrasts that have enough runs: a significant one holds or fails by its sign.

    The level is 5 %, corrected for the number of contrasts by Holm's method; the others are undecided.
    """
    known = [each for each in contrasts if each.testable]
    effects = {}
    for each, p in zip(known, holm([each.p for each in known]), strict=True):
        verdict = Verdict.UNDECIDED if p > LEVEL else Verdict.HOLDS if each.mean > 0 else Verdict.FAILS
        needed = each.needed(len(known)) if verdict is Verdict.UNDECIDED else None
        seeds = min(len(each.larger), len(each.smaller))
        effects[each.what] = Effect(each.what, each.interval(len(known)), verdict, p, seeds, needed)
    return effects


def interval(values: Sequence[float], number: int) -> Bounds:
    """The mean with its 95 % bounds by Student's t, with Bonferroni's correction for ``number`` intervals."""
    from scipy.stats import t

    middle = statistics.fmean(values)
    if len(values) < 2:
        return -math.inf, middle, math.inf
    half = float(t.ppf(1 - LEVEL / 2 / number, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return middle - half, middle, middle + half
