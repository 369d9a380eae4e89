"""What the runs say of a claim: contrasts of two sides by seed, tested and with intervals, and the verdict in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from scipy import stats

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


HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED


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
    def samples(self) -> list[list[float]]:
        """What is tested: one sample of differences if most seeds are in pairs, else the two sides."""
        differences, sides = self.differences, [list(self.larger.values()), list(self.smaller.values())]
        is_paired = len(differences) >= _LEAST_PAIRS and 2 * len(differences) > max(map(len, sides))
        return [differences] if is_paired else sides

    @property
    def is_testable(self) -> bool:
        """Whether there are enough seeds for a significant result."""
        few = min(len(self.larger), len(self.smaller))
        return few >= _LEAST_SEEDS and 2 / math.comb(len(self.larger) + len(self.smaller), few) <= LEVEL

    @property
    def p(self) -> float:
        """Two-sided: Wilcoxon's signed-rank test on pairs; where few are paired, the Mann-Whitney test on all seeds."""
        samples = self.samples
        return wilcoxon(samples[0]) if len(samples) == 1 else float(stats.mannwhitneyu(*samples).pvalue)

    def interval(self, number: int) -> Bounds:
        """The mean with its bounds, as ``interval``; where few are paired by Welch's t on all seeds."""
        samples = self.samples
        if len(samples) == 1:
            return interval(samples[0], number)
        low, high = stats.ttest_ind(*samples, equal_var=False).confidence_interval(1 - LEVEL / number)
        return float(low), fmean(samples[0]) - fmean(samples[1]), float(high)

    def effect(self, p: float, number: int) -> Effect:
        """Judged by its corrected p-value and its sign, as one of a number."""
        bounds, needed = self.interval(number), None
        verdict = HOLDS if bounds[1] > 0 else FAILS
        if p > LEVEL:
            verdict = UNDECIDED
            needed = seeds_needed(bounds[1], math.hypot(*map(stdev, self.samples)), number)
        return Effect(self.what, bounds, verdict, p, min(len(self.larger), len(self.smaller)), needed)


def seeds_needed(distance: float, spread: float, number: int) -> int | None:
    """How many pairs of seeds decide a difference in 4 of 5 trials, if its mean and spread are what was measured.

    For Wilcoxon's test at the level, corrected for ``number`` tests; of normal differences it needs pi / 3 times as
    many as the t-test. None if the mean is zero.
    """
    if not distance:
        return None
    sure = NormalDist().inv_cdf(1 - LEVEL / 2 / number) + NormalDist().inv_cdf(_POWER)
    return max(_LEAST_PAIRS, math.ceil(math.pi / 3 * (sure * spread / distance) ** 2))


def interval(values: Sequence[float], number: int) -> Bounds:
    """The mean with its 95 % bounds by Student's t, with Bonferroni's correction for ``number`` intervals."""
    middle = fmean(values)
    if len(values) < 2:
        return -math.inf, middle, math.inf
    half = float(stats.t.ppf(1 - LEVEL / 2 / number, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return middle - half, middle, middle + half


class ClaimResult(NamedTuple):
    """The verdict on a claim, and what is behind it: the effects, and the names of those that have too few runs.

    ``line`` is the value that effects are compared with, that of no effect or the goal, and ``margin`` how far from it
    still counts as equal.
    """

    verdict: Verdict
    words: str
    effects: Sequence[Effect]
    missing: Sequence[str]
    line: float = 0.0
    margin: float = 0.0


def at_least(contrasts: Sequence[Contrast], count: int | None = None) -> ClaimResult:
    """A claim that all contrasts hold; or that on at least ``count`` data sets all of theirs do.

    P-values are corrected for the number of contrasts by Holm's method; those with too few runs are undecided.
    """
    known = [each for each in contrasts if each.is_testable]
    corrected = holm([each.p for each in known])
    effects = [each.effect(p, len(known)) for each, p in zip(known, corrected, strict=True)]
    missing = [each.what for each in contrasts if not each.is_testable]
    verdicts = dict.fromkeys((each.what for each in contrasts), UNDECIDED)
    verdicts |= {each.what: each.verdict for each in effects}
    groups = defaultdict(set)
    for what, verdict in verdicts.items():
        groups[what.rpartition(" on ")[2] if count else what].add(verdict)
    held = [name for name, found in groups.items() if found == {HOLDS}]
    words = f"{len(held)} of {len(groups)} hold"
    if count:
        names = f" ({', '.join(held)})" if held else ""
        words = f"It holds on {len(held)} of {len(groups)}{names}, and {count} are claimed"
    elif len(held) == len(groups) > 1:
        least, most = (choose(effects, key=lambda each: each.bounds[1]) for choose in (min, max))
        words = f"All {len(held)} hold, from {least} to {most}"
    words = _joined(words, *_details(effects, missing, "The other way"))
    if len(contrasts) == len(effects) == 1:
        words = _about_one(effects[0])
    return ClaimResult(_decide(groups.values(), count or len(groups)), words, effects, missing)


def reaches(values: Mapping[str, Bounds | None], goal: float, nothing: float) -> ClaimResult:
    """A claim that one of some values reaches a goal; each value has bounds, or is None if unknown.

    One does if the goal lies within or below its bounds and these lie above ``nothing``, the value of no effect.
    """
    effects = []
    for what, bounds in values.items():
        if bounds is not None:
            verdict = FAILS if bounds[2] < goal else HOLDS if bounds[0] > nothing else UNDECIDED
            effects.append(Effect(what, bounds, verdict))
    missing = [what for what, bounds in values.items() if bounds is None]
    words = ""
    if effects:
        largest = max(effects, key=lambda each: each.bounds[1])
        how = {HOLDS: "reaches", FAILS: "is below", UNDECIDED: "may or may not reach"}[largest.verdict]
        low, middle, high = largest.bounds
        words = f"The largest, {middle:.3g} on {largest.what} ({low:.3g} to {high:.3g}), {how} {goal:g}"
    verdict = _decide([{each.verdict} for each in effects] + [{UNDECIDED}] * len(missing), 1)
    return ClaimResult(verdict, _joined(words, _listed("Too few runs", missing)), effects, missing, goal)


def within(contrasts: Sequence[Contrast], margin: float) -> ClaimResult:
    """A claim that all differences are zero within a margin: one is if its interval lies inside, not if outside."""
    effects = []
    for what, differences in ((each.what, each.differences) for each in contrasts if len(each.differences) > 1):
        low, middle, high = bounds = interval(differences, len(contrasts))
        verdict, needed = HOLDS, None
        if low > margin or high < -margin:
            verdict = FAILS
        elif low < -margin or high > margin:
            verdict = UNDECIDED
            needed = seeds_needed(margin - abs(middle), stdev(differences), len(contrasts))
        effects.append(Effect(what, bounds, verdict, seeds=len(differences), needed=needed))
    missing = [each.what for each in contrasts if len(each.differences) < 2]
    verdict = _decide([{each.verdict} for each in effects] + [{UNDECIDED}] * len(missing), len(contrasts))
    farthest_first = sorted(effects, key=lambda each: -abs(each.bounds[1]))
    words = f"{sum(each.verdict is HOLDS for each in effects)} of {len(contrasts)} lie within {margin:g} of zero"
    if verdict is HOLDS:
        words = f"All {len(contrasts)} lie within {margin:g} of zero, the farthest {farthest_first[0]}"
    words = _joined(words, *_details(farthest_first, missing, "Beyond"))
    return ClaimResult(verdict, words, effects, missing, margin=margin)


def _decide(groups: Collection[set[Verdict]], count: int) -> Verdict:
    """Whether so many groups hold, each with all of it; it fails if too few are left that have not failed."""
    if sum(each == {HOLDS} for each in groups) >= count:
        return HOLDS
    return FAILS if sum(FAILS not in each for each in groups) < count else UNDECIDED


def _about_one(effect: Effect) -> str:
    low, middle, high = effect.bounds
    decided = f"{_seeds(effect).capitalize()} would decide it" if effect.needed else ""
    return _joined(f"The difference is {middle:+.3g} ({low:.3g} to {high:.3g})", decided)


def _details(effects: Sequence[Effect], missing: Sequence[str], against: str) -> list[str]:
    """What speaks against a claim, and what is undecided, in sentences; first what the fewest seeds would decide."""
    failing = [str(each) for each in effects if each.verdict is FAILS]
    undecided = sorted((each for each in effects if each.verdict is UNDECIDED), key=lambda each: each.needed or math.inf)
    texts = [f"{each} ({_seeds(each)})" if each.needed else str(each) for each in undecided]
    return [_listed(against, failing), _listed("Open", texts), _listed("Too few runs", missing)]


def _seeds(effect: Effect) -> str:
    """How many seeds an undecided effect would take, rounded as the guess that it is."""
    needed = effect.needed or 0
    return f"more than {_MOST_SEEDS:,} seeds" if needed > _MOST_SEEDS else f"some {float(f'{needed:.2g}'):,.0f} seeds"


def _listed(name: str, texts: Sequence[str]) -> str:
    """A sentence with the first of some texts; empty where there are none."""
    more = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{name}: {', '.join(texts[:_MOST_NAMES])}{more}" if texts else ""


def _joined(*sentences: str) -> str:
    return " ".join(f"{sentence}." for sentence in sentences if sentence)
