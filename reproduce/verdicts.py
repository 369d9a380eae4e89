"""What the runs say of a claim: contrasts of two sides by seed, tested and with intervals, and the verdict in words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from scipy.stats import mannwhitneyu, t

from clnr.evaluation import holm, wilcoxon

LEVEL = 0.05
# With fewer pairs the signed-rank test cannot reach the level; and a method is not judged by two seeds.
_LEAST_PAIRS = 6
_LEAST_SEEDS = 3
_POWER = 0.8
# How many are named in a sentence, and how many seeds nobody will run.
_MOST_NAMES = 4
_MOST_SEEDS = 1000

Bounds = tuple[float, float, float]


class Verdict(StrEnum):
    """The result of testing a claim, or one contrast within it."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


class Effect(NamedTuple):
    """One measured difference or ratio behind a claim, named as "GRACE on Cora".

    ``bounds`` are its 95 % interval, corrected for the number of effects, with the mean in the middle; ``p`` is
    corrected likewise, and None if it is judged by its interval. ``seeds`` are those of the method that has fewer;
    ``needed`` is how many would probably decide what is undecided.
    """

    what: str
    bounds: Bounds
    verdict: Verdict
    p: float | None = None
    seeds: int = 0
    needed: int | None = None

    def __str__(self) -> str:
        return f"{self.what} {self.bounds[1]:+.3g}"


class Contrast(NamedTuple):
    """Values by seed, of which one side is claimed to be larger."""

    what: str
    larger: Mapping[int, float]
    smaller: Mapping[int, float]

    @property
    def differences(self) -> list[float]:
        """Differences of the seeds that both sides have."""
        return [self.larger[seed] - self.smaller[seed] for seed in sorted(self.larger.keys() & self.smaller.keys())]

    @property
    def is_paired(self) -> bool:
        """Whether most seeds are in pairs, so that the test is of their differences."""
        most = max(len(self.larger), len(self.smaller))
        return len(self.differences) >= _LEAST_PAIRS and 2 * len(self.differences) > most

    @property
    def is_testable(self) -> bool:
        """Whether there are enough seeds for a significant result."""
        few = min(len(self.larger), len(self.smaller))
        return few >= _LEAST_SEEDS and 2 / math.comb(len(self.larger) + len(self.smaller), few) <= LEVEL

    @property
    def mean(self) -> float:
        if self.is_paired:
            return statistics.fmean(self.differences)
        return statistics.fmean(self.larger.values()) - statistics.fmean(self.smaller.values())

    @property
    def p(self) -> float:
        """Two-sided: Wilcoxon's signed-rank test on pairs; where few are paired, the Mann-Whitney test on all seeds."""
        if self.is_paired:
            return wilcoxon(self.differences)
        return float(mannwhitneyu(list(self.larger.values()), list(self.smaller.values())).pvalue)

    def interval(self, number: int) -> Bounds:
        """The mean with its bounds, as ``interval``; where few are paired by Welch's t on all seeds."""
        if self.is_paired:
            return interval(self.differences, number)
        sides = [list(self.larger.values()), list(self.smaller.values())]
        squares = [statistics.variance(side) / len(side) for side in sides]
        error = math.sqrt(sum(squares))
        parts = sum(square**2 / (len(side) - 1) for square, side in zip(squares, sides, strict=True))
        half = float(t.ppf(1 - LEVEL / 2 / number, error**4 / parts)) * error if parts else 0.0
        return self.mean - half, self.mean, self.mean + half

    def effect(self, p: float, number: int) -> Effect:
        """Judged by its corrected p-value and its sign, as one of a number."""
        verdict = Verdict.UNDECIDED if p > LEVEL else Verdict.HOLDS if self.mean > 0 else Verdict.FAILS
        spreads = [self.differences] if self.is_paired else [self.larger.values(), self.smaller.values()]
        spread = math.hypot(*map(statistics.stdev, spreads))
        needed = seeds_needed(self.mean, spread, number) if verdict is Verdict.UNDECIDED else None
        return Effect(self.what, self.interval(number), verdict, p, min(len(self.larger), len(self.smaller)), needed)


def seeds_needed(distance: float, spread: float, number: int) -> int | None:
    """How many pairs of seeds decide a difference in 4 of 5 trials, if its mean and spread are what was measured.

    For Wilcoxon's test at the level, corrected for ``number`` tests; of normal differences it needs pi / 3 times as
    many as the t-test. None if the mean is zero.
    """
    if not distance:
        return None
    quantile = statistics.NormalDist().inv_cdf
    sure = quantile(1 - LEVEL / 2 / number) + quantile(_POWER)
    return max(_LEAST_PAIRS, math.ceil(math.pi / 3 * (sure * spread / distance) ** 2))


def interval(values: Sequence[float], number: int) -> Bounds:
    """The mean with its 95 % bounds by Student's t, with Bonferroni's correction for ``number`` intervals."""
    middle = statistics.fmean(values)
    if len(values) < 2:
        return -math.inf, middle, math.inf
    half = float(t.ppf(1 - LEVEL / 2 / number, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return middle - half, middle, middle + half


class ClaimResult(NamedTuple):
    """The verdict on a claim, and what is behind it: the effects, and the names of those that have too few runs.

    ``line`` is the value that effects are compared with, that of no effect or the goal, and ``margin`` how far from it
    still counts as equal.
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

    It fails if too few are left that have not failed. P-values are corrected for the number of contrasts by Holm's method;
    those with too few runs are undecided.
    """
    known = [each for each in contrasts if each.is_testable]
    corrected = holm([each.p for each in known])
    effects = tuple(each.effect(p, len(known)) for each, p in zip(known, corrected, strict=True))
    by_name = {each.what: each.verdict for each in effects}
    groups: dict[str, list[Verdict]] = {}
    for each in contrasts:
        groups.setdefault(group(each.what), []).append(by_name.get(each.what, Verdict.UNDECIDED))
    held = [name for name, verdicts in groups.items() if set(verdicts) == {Verdict.HOLDS}]
    failed = sum(Verdict.FAILS in verdicts for verdicts in groups.values())
    missing = tuple(each.what for each in contrasts if each.what not in by_name)
    verdict = Verdict.HOLDS if len(held) >= count else Verdict.UNDECIDED
    if len(groups) - failed < count <= len(groups):
        verdict = Verdict.FAILS
    if len(contrasts) == 1 and effects:
        (low, middle, high), needed = effects[0].bounds, effects[0].needed
        decided = "" if needed is None else f"{_needed_in_words(needed).capitalize()} would decide it"
        return ClaimResult(verdict, _joined(f"The difference is {middle:+.3g} ({low:.3g} to {high:.3g})", decided), effects)
    words = f"{len(held)} of {len(groups)} hold"
    if len(groups) < len(contrasts):
        names = f" ({', '.join(held)})" if held else ""
        words = f"It holds on {len(held)} of {len(groups)}{names}, and {count} are claimed"
    elif len(held) == len(groups) > 1:
        least, most = (choose(effects, key=lambda each: each.bounds[1]) for choose in (min, max))
        words = f"All {len(groups)} hold, from {least} to {most}"
    against = [str(each) for each in effects if each.verdict is Verdict.FAILS]
    return ClaimResult(verdict, _joined(words, _listed("The other way", against), *_open(effects, missing)), effects, missing)


def reaches(values: Mapping[str, Bounds | None], goal: float, nothing: float) -> ClaimResult:
    """A claim that the largest of some values reaches a goal; each value has bounds, or is None if unknown.

    It holds if the goal lies within or below the bounds of one whose lower bound is above ``nothing``, the value of no
    effect; it fails if all are known and lie below the goal.
    """

    def judge(low: float, high: float) -> Verdict:
        return Verdict.FAILS if high < goal else Verdict.HOLDS if low > nothing else Verdict.UNDECIDED

    effects = tuple(Effect(what, each, judge(each[0], each[2])) for what, each in values.items() if each is not None)
    missing = tuple(what for what, each in values.items() if each is None)
    verdict = _first((Verdict.HOLDS, Verdict.UNDECIDED, Verdict.FAILS), effects, missing)
    words = ""
    if effects:
        largest = max(effects, key=lambda each: each.bounds[1])
        low, middle, high = largest.bounds
        how = {Verdict.HOLDS: "reaches", Verdict.FAILS: "is below", Verdict.UNDECIDED: "may or may not reach"}[largest.verdict]
        words = f"The largest, {middle:.3g} on {largest.what} ({low:.3g} to {high:.3g}), {how} {goal:g}"
    return ClaimResult(verdict, _joined(words, _listed("Too few runs", missing)), effects, missing, goal)


def within(values: Mapping[str, Sequence[float]], margin: float) -> ClaimResult:
    """A claim that some means are zero within a margin: it holds if all intervals lie inside, and fails if one lies outside."""

    def judge(what: str, each: Sequence[float]) -> Effect:
        low, middle, high = bounds = interval(each, len(values))
        if low > margin or high < -margin:
            return Effect(what, bounds, Verdict.FAILS, seeds=len(each))
        if -margin <= low and high <= margin:
            return Effect(what, bounds, Verdict.HOLDS, seeds=len(each))
        needed = seeds_needed(margin - abs(middle), statistics.stdev(each), len(values))
        return Effect(what, bounds, Verdict.UNDECIDED, seeds=len(each), needed=needed)

    effects = tuple(judge(what, each) for what, each in values.items() if len(each) > 1)
    missing = tuple(what for what, each in values.items() if len(each) < 2)
    verdict = _first((Verdict.FAILS, Verdict.UNDECIDED, Verdict.HOLDS), effects, missing)
    words = f"{sum(each.verdict is Verdict.HOLDS for each in effects)} of {len(values)} lie within {margin:g} of zero"
    if verdict is Verdict.HOLDS:
        farthest = max(effects, key=lambda each: abs(each.bounds[1]))
        words = f"All {len(values)} lie within {margin:g} of zero, the farthest {farthest}"
    beyond = sorted((each for each in effects if each.verdict is Verdict.FAILS), key=lambda each: -abs(each.bounds[1]))
    text = _joined(words, _listed("Beyond", list(map(str, beyond))), *_open(effects, missing))
    return ClaimResult(verdict, text, effects, missing, margin=margin)


def _first(order: Sequence[Verdict], effects: Iterable[Effect], missing: Sequence[str]) -> Verdict:
    """The first of some verdicts that an effect has; what has too few runs is undecided, and the last is that of all."""
    found = {each.verdict for each in effects} | ({Verdict.UNDECIDED} if missing else set())
    return next((each for each in order if each in found), order[-1])


def _open(effects: Iterable[Effect], missing: Sequence[str]) -> list[str]:
    """What is undecided, in sentences; first what the fewest seeds would decide."""
    undecided = [each for each in effects if each.verdict is Verdict.UNDECIDED]
    undecided.sort(key=lambda each: math.inf if each.needed is None else each.needed)
    texts = [str(each) if each.needed is None else f"{each} ({_needed_in_words(each.needed)})" for each in undecided]
    return [_listed("Open", texts), _listed("Too few runs", missing)]


def _needed_in_words(seeds: int) -> str:
    """How many seeds an undecided effect would take, rounded as the guess that it is."""
    return f"more than {_MOST_SEEDS:,} seeds" if seeds > _MOST_SEEDS else f"some {float(f'{seeds:.2g}'):,.0f} seeds"


def _listed(name: str, texts: Sequence[str]) -> str:
    """A sentence with the first of some texts; empty where there are none."""
    more = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{name}: {', '.join(texts[:_MOST_NAMES])}{more}" if texts else ""


def _joined(*sentences: str) -> str:
    return " ".join(f"{sentence}." for sentence in sentences if sentence)
