"""What the runs say of a claim: contrasts of two batches, tested and with intervals, and the verdict in words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from clnr.evaluation import holm, wilcoxon
from clnr.experiments.results import Run
from reproduce.paper_runs.run_index import ResultSet
from reproduce.paper_runs.scope import Batch

LEVEL = 0.05
# With fewer pairs the signed-rank test cannot reach the level; and a method is not judged by two seeds.
_LEAST_PAIRS = 6
_LEAST_SEEDS = 3
_POWER = 0.8
# How many are named in a sentence, and how many seeds nobody will run.
_MOST_NAMES = 4
_MOST_SEEDS = 1000

NOT_ASKED = "Not asked for."

Metric = Callable[[Run], float]
Bounds = tuple[float, float, float]


class Verdict(StrEnum):
    """The result of testing a claim, or one contrast within it."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Effect:
    """One measured difference or ratio behind a claim, named as "GRACE on Cora".

    ``bounds`` are its 95 % interval, corrected for the number of effects, with the mean in the middle; ``p`` is corrected
    likewise, and None if it is judged by its interval. ``seeds`` are those of the method that has fewer; ``needed`` is how many
    would probably decide what is undecided.
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
    """Values by seed, of which one side is claimed to be larger."""

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


@dataclass(frozen=True)
class ClaimResult:
    """The verdict on a claim, and what is behind it: the effects, and the names of those that have too few runs.

    ``line`` is the value that effects are compared with, that of no effect or the goal, and ``margin`` how far from it still
    counts as equal.
    """

    verdict: Verdict
    words: str
    effects: tuple[Effect, ...] = ()
    missing: tuple[str, ...] = ()
    line: float = 0.0
    margin: float = 0.0


def everywhere(contrasts: Sequence[Contrast]) -> ClaimResult:
    """A claim about all of some contrasts: it fails if one fails, and holds if all hold."""
    return at_least(len(contrasts), contrasts)


def at_least(count: int, contrasts: Sequence[Contrast], group: Callable[[str], str] = str) -> ClaimResult:
    """A claim that at least ``count`` contrasts hold; or groups of them, each with all its contrasts.

    It fails if too few are left that have not failed.
    """
    if not contrasts:
        return ClaimResult(Verdict.UNDECIDED, NOT_ASKED)
    effects_by_name = evaluate_contrasts(contrasts)
    verdicts: dict[str, list[Verdict]] = {}
    for each in contrasts:
        verdict = effects_by_name[each.what].verdict if each.what in effects_by_name else Verdict.UNDECIDED
        verdicts.setdefault(group(each.what), []).append(verdict)
    held = [name for name, each in verdicts.items() if set(each) == {Verdict.HOLDS}]
    failed = sum(Verdict.FAILS in each for each in verdicts.values())
    missing = tuple(each.what for each in contrasts if each.what not in effects_by_name)
    verdict = Verdict.HOLDS if len(held) >= count else Verdict.UNDECIDED
    if len(verdicts) - failed < count <= len(verdicts):
        verdict = Verdict.FAILS
    effects = tuple(effects_by_name.values())
    if len(contrasts) == 1 and effects:
        (alone,), (low, middle, high) = effects, effects[0].bounds
        decided = "" if alone.needed is None else f"{_needed_in_words(alone.needed).capitalize()} would decide it"
        return ClaimResult(verdict, _joined(f"The difference is {middle:+.3g} ({low:.3g} to {high:.3g})", decided), effects)
    words = f"{len(held)} of {len(verdicts)} hold"
    if len(verdicts) < len(contrasts):
        names = f" ({', '.join(held)})" if held else ""
        words = f"It holds on {len(held)} of {len(verdicts)}{names}, and {count} are claimed"
    elif len(held) == len(verdicts) > 1:
        least, most = (choose(effects, key=lambda each: each.bounds[1]) for choose in (min, max))
        words = f"All {len(verdicts)} hold, from {least} to {most}"
    return ClaimResult(verdict, _joined(words, *_by_verdict(effects, missing)), effects, missing)


def _by_verdict(effects: Iterable[Effect], missing: Sequence[str]) -> list[str]:
    """What is not as claimed, in sentences."""
    against, open_ = ([each for each in effects if each.verdict is one] for one in (Verdict.FAILS, Verdict.UNDECIDED))
    open_.sort(key=lambda each: math.inf if each.needed is None else each.needed)
    needed = [str(each) if each.needed is None else f"{each} ({_needed_in_words(each.needed)})" for each in open_]
    return [_listed("The other way", list(map(str, against))), _listed("Open", needed), _listed("Too few runs", missing)]


def _needed_in_words(seeds: int) -> str:
    """How many seeds an undecided effect would take, rounded as the guess that it is."""
    return f"more than {_MOST_SEEDS:,} seeds" if seeds > _MOST_SEEDS else f"some {float(f'{seeds:.2g}'):,.0f} seeds"


def _listed(name: str, texts: Sequence[str]) -> str:
    """A sentence with the first of some texts; empty where there are none."""
    more = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{name}: {', '.join(texts[:_MOST_NAMES])}{more}" if texts else ""


def _joined(*sentences: str) -> str:
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def reaches(values: Mapping[str, Bounds | None], goal: float, nothing: float) -> ClaimResult:
    """A claim that the largest of some values reaches a goal; each value has bounds, or is None if unknown.

    It holds if the goal lies within or below the bounds of one whose lower bound is above ``nothing``, the value of no effect;
    it fails if all are known and lie below the goal.
    """
    if not values:
        return ClaimResult(Verdict.UNDECIDED, NOT_ASKED)

    def verdict_on(low: float, high: float) -> Verdict:
        return Verdict.FAILS if high < goal else Verdict.HOLDS if low > nothing else Verdict.UNDECIDED

    effects = tuple(Effect(what, each, verdict_on(each[0], each[2])) for what, each in values.items() if each is not None)
    missing = tuple(what for what, each in values.items() if each is None)
    verdicts = {each.verdict for each in effects} | ({Verdict.UNDECIDED} if missing else set())
    verdict = next((one for one in (Verdict.HOLDS, Verdict.UNDECIDED) if one in verdicts), Verdict.FAILS)
    words = ""
    if effects:
        largest = max(effects, key=lambda each: each.bounds[1])
        low, middle, high = largest.bounds
        how = {Verdict.HOLDS: "reaches", Verdict.FAILS: "is below", Verdict.UNDECIDED: "may or may not reach"}[largest.verdict]
        words = f"The largest, {middle:.3g} on {largest.what} ({low:.3g} to {high:.3g}), {how} {goal:g}"
    return ClaimResult(verdict, _joined(words, _listed("Too few runs", missing)), effects, missing, goal)


def within(values: Mapping[str, Sequence[float]], margin: float) -> ClaimResult:
    """A claim that some means are zero within a margin: it holds if all intervals lie inside, and fails if one lies outside."""
    if not values:
        return ClaimResult(Verdict.UNDECIDED, NOT_ASKED)
    effects = tuple(_within(what, each, margin, len(values)) for what, each in values.items() if len(each) > 1)
    missing = tuple(what for what, each in values.items() if len(each) < 2)
    verdicts = {each.verdict for each in effects} | ({Verdict.UNDECIDED} if missing else set())
    verdict = next((one for one in (Verdict.FAILS, Verdict.UNDECIDED) if one in verdicts), Verdict.HOLDS)
    inside = sum(each.verdict is Verdict.HOLDS for each in effects)
    words = f"{inside} of {len(values)} lie within {margin:g} of zero"
    if verdict is Verdict.HOLDS:
        farthest = max(effects, key=lambda each: abs(each.bounds[1]))
        words = f"All {len(values)} lie within {margin:g} of zero, the farthest {farthest}"
    beyond = sorted((each for each in effects if each.verdict is Verdict.FAILS), key=lambda each: -abs(each.bounds[1]))
    rest = _by_verdict([each for each in effects if each.verdict is Verdict.UNDECIDED], missing)
    return ClaimResult(
        verdict, _joined(words, _listed("Beyond", list(map(str, beyond))), *rest), effects, missing, margin=margin
    )


def _within(what: str, values: Sequence[float], margin: float, number: int) -> Effect:
    low, middle, high = bounds = interval(values, number)
    if low > margin or high < -margin:
        return Effect(what, bounds, Verdict.FAILS, seeds=len(values))
    if -margin <= low and high <= margin:
        return Effect(what, bounds, Verdict.HOLDS, seeds=len(values))
    needed = seeds_needed(margin - abs(middle), statistics.stdev(values), number)
    return Effect(what, bounds, Verdict.UNDECIDED, seeds=len(values), needed=needed)
