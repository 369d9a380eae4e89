"""How a claim is tested: contrasts of two batches, corrected for their number, and verdicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from clnr.evaluation import holm, wilcoxon
from clnr.experiments.results import Run
from clnr.paper.result_set import ResultSet
from clnr.paper.scope import Batch

LEVEL = 0.05
# With fewer pairs the signed-rank test cannot reach the level; and a method is not judged by two seeds.
_PAIRS = 6
_SEEDS = 3

Metric = Callable[[Run], float]


class Verdict(StrEnum):
    """The result of testing a claim, or one contrast within it."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class ClaimResult:
    """The verdict on a claim, and the numbers behind it."""

    verdict: Verdict
    numbers: str


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
    def testable(self) -> bool:
        """Whether there are enough seeds for a significant result."""
        few = min(len(self.larger), len(self.smaller))
        return few >= _SEEDS and 2 / math.comb(len(self.larger) + len(self.smaller), few) <= LEVEL

    @property
    def mean(self) -> float:
        if len(self.differences) >= _PAIRS:
            return statistics.fmean(self.differences)
        return statistics.fmean(self.larger.values()) - statistics.fmean(self.smaller.values())

    @property
    def p(self) -> float:
        """Two-sided: Wilcoxon's signed-rank test on pairs; with too few pairs, the Mann-Whitney test on all seeds."""
        if len(self.differences) >= _PAIRS:
            return wilcoxon(self.differences)
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(list(self.larger.values()), list(self.smaller.values())).pvalue)


def contrast(results: ResultSet, what: str, larger: Batch, smaller: Batch, metric: Metric) -> Contrast:
    """A metric of two batches, where it is finite."""
    first, second = (
        {seed: value for seed, run in results.run_index.seeds(batch).items() if math.isfinite(value := metric(run))}
        for batch in (larger, smaller)
    )
    return Contrast(what, first, second)


class TestResult(NamedTuple):
    """The verdict on a contrast, its mean difference and corrected p-value."""

    verdict: Verdict
    mean: float
    p: float

    def __str__(self) -> str:
        return f"{self.mean:+.3g} (p {'< 0.001' if self.p < 0.001 else f'{self.p:.3f}'}, {self.verdict})"


def evaluate_contrasts(contrasts: Iterable[Contrast]) -> dict[str, TestResult]:
    """Test the contrasts that have enough runs: a significant one holds or fails by its sign.

    The level is 5 %, corrected for the number of contrasts by Holm's method; the others are undecided.
    """
    known = [each for each in contrasts if each.testable]
    found = {}
    for each, p in zip(known, holm([each.p for each in known]), strict=True):
        verdict = Verdict.UNDECIDED if p > LEVEL else Verdict.HOLDS if each.mean > 0 else Verdict.FAILS
        found[each.what] = TestResult(verdict, each.mean, p)
    return found


def everywhere(contrasts: Sequence[Contrast]) -> ClaimResult:
    """A claim about all of some contrasts: it fails if one fails, and holds if all hold."""
    return at_least(len(contrasts), contrasts)


def at_least(count: int, contrasts: Sequence[Contrast], group: Callable[[str], str] = str) -> ClaimResult:
    """A claim that at least ``count`` contrasts hold; or groups of them, each with all its contrasts.

    It fails if too few are left that have not failed.
    """
    if not contrasts:
        return ClaimResult(Verdict.UNDECIDED, "not asked for")
    found = evaluate_contrasts(contrasts)
    verdicts: dict[str, list[Verdict]] = {}
    for each in contrasts:
        verdict = found[each.what].verdict if each.what in found else Verdict.UNDECIDED
        verdicts.setdefault(group(each.what), []).append(verdict)
    held = sum(set(each) == {Verdict.HOLDS} for each in verdicts.values())
    failed = sum(Verdict.FAILS in each for each in verdicts.values())
    texts = [f"{what} {result}" for what, result in found.items()]
    missing = [each.what for each in contrasts if each.what not in found]
    numbers = f"of {len(verdicts)}, {held} hold and {failed} fail: {_listed(texts, missing)}"
    if len(verdicts) < count:
        return ClaimResult(Verdict.UNDECIDED, numbers)
    if len(verdicts) - failed < count:
        return ClaimResult(Verdict.FAILS, numbers)
    return ClaimResult(Verdict.HOLDS if held >= count else Verdict.UNDECIDED, numbers)


def _listed(texts: Sequence[str], missing: Sequence[str]) -> str:
    return "; ".join([*texts, *([f"too few runs: {', '.join(missing)}"] if missing else [])])


Bounds = tuple[float, float, float]


def reaches(values: Mapping[str, Bounds | None], goal: float, nothing: float) -> ClaimResult:
    """A claim that the largest of some values reaches a goal; each value has bounds, or is None if unknown.

    It holds if the goal lies within or below the bounds of one whose lower bound is above ``nothing``, the value of no effect;
    it fails if all are known and lie below the goal.
    """
    known = {what: bounds for what, bounds in values.items() if bounds is not None}
    missing = [what for what in values if what not in known]
    texts = [f"{what} {middle:.2f} ({low:.2f} to {high:.2f})" for what, (low, middle, high) in known.items()]
    verdict = Verdict.UNDECIDED
    if any(nothing < low and high >= goal for low, _, high in known.values()):
        verdict = Verdict.HOLDS
    elif known and not missing and all(high < goal for _, _, high in known.values()):
        verdict = Verdict.FAILS
    return ClaimResult(verdict, _listed(texts, missing) or "not asked for")


def interval(values: Sequence[float], number: int) -> Bounds:
    """The mean with its 95 % bounds by Student's t, with Bonferroni's correction for ``number`` intervals."""
    from scipy.stats import t

    middle = statistics.fmean(values)
    if len(values) < 2:
        return -math.inf, middle, math.inf
    half = float(t.ppf(1 - LEVEL / 2 / number, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return middle - half, middle, middle + half


def within(values: Mapping[str, Sequence[float]], margin: float) -> ClaimResult:
    """A claim that some means are zero within a margin: it holds if all intervals lie inside, and fails if one lies outside."""
    known = {what: interval(each, len(values)) for what, each in values.items() if len(each) > 1}
    missing = [what for what in values if what not in known]
    texts = [f"{what} {middle:+.3f} ({low:+.3f} to {high:+.3f})" for what, (low, middle, high) in known.items()]
    verdict = Verdict.UNDECIDED
    if any(low > margin or high < -margin for low, _, high in known.values()):
        verdict = Verdict.FAILS
    elif known and not missing and all(-margin <= low and high <= margin for low, _, high in known.values()):
        verdict = Verdict.HOLDS
    return ClaimResult(verdict, _listed(texts, missing) or "not asked for")
