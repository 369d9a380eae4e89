"""What contrasts and intervals say of a claim: a verdict, and that in words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clnr.paper.contrasts import Bounds, Contrast, Effect, Verdict, evaluate_contrasts, interval, seeds_needed

# How many are named in a sentence, and how many seeds nobody will run.
_MOST_NAMES = 4
_MOST_SEEDS = 1000

NOT_ASKED = "Not asked for."


@dataclass(frozen=True)
class ClaimResult:
    """The verdict on a claim, and what is behind it.

    Attributes:
        verdict: The verdict.
        words: It in a few short sentences.
        effects: All that was measured.
        missing: What has too few runs.
        line: The value that effects are compared with: of no effect, or the goal.
        margin: How far from the line still counts as equal.
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
    if len(verdicts) < count:
        verdict = Verdict.UNDECIDED
    elif len(verdicts) - failed < count:
        verdict = Verdict.FAILS
    effects = tuple(effects_by_name.values())
    grouped = len(verdicts) < len(contrasts)
    if len(contrasts) == 1 and effects:
        return ClaimResult(verdict, _alone(effects[0]), effects)
    first = _all_or_some(effects, len(verdicts), held, count, grouped)
    return ClaimResult(verdict, _joined(first, *_by_verdict(effects, missing)), effects, missing)


def _alone(effect: Effect) -> str:
    low, middle, high = effect.bounds
    decided = f"{_needed_in_words(effect).capitalize()} would decide it" if effect.needed is not None else ""
    return _joined(f"The difference is {middle:+.3g} ({low:.3g} to {high:.3g})", decided)


def _all_or_some(effects: Sequence[Effect], total: int, held: Sequence[str], count: int, grouped: bool) -> str:
    if grouped:
        names = f" ({', '.join(held)})" if held else ""
        return f"It holds on {len(held)} of {total}{names}, and {count} are claimed"
    if len(held) == total > 1:
        least, most = (choose(effects, key=lambda each: each.bounds[1]) for choose in (min, max))
        return f"All {total} hold, from {least} to {most}"
    return f"{len(held)} of {total} hold"


def _by_verdict(effects: Sequence[Effect], missing: Sequence[str]) -> list[str]:
    against, open_ = ([each for each in effects if each.verdict is one] for one in (Verdict.FAILS, Verdict.UNDECIDED))
    open_.sort(key=lambda each: math.inf if each.needed is None else each.needed)
    lists = (("The other way", [str(each) for each in against]), ("Open", [_open(each) for each in open_]))
    return [_listed(name, texts) for name, texts in (*lists, ("Too few runs", list(missing))) if texts]


def _open(effect: Effect) -> str:
    return f"{effect} ({_needed_in_words(effect)})" if effect.needed is not None else str(effect)


def _needed_in_words(effect: Effect) -> str:
    """How many seeds an undecided effect would take, rounded as the guess that it is."""
    if effect.needed is None:
        return ""
    return (
        f"some {float(f'{effect.needed:.2g}'):,.0f} seeds"
        if effect.needed <= _MOST_SEEDS
        else f"more than {_MOST_SEEDS:,} seeds"
    )


def _listed(name: str, texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{name}: {', '.join(texts[:_MOST_NAMES])}{more}"


def _joined(*sentences: str) -> str:
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def reaches(values: Mapping[str, Bounds | None], goal: float, nothing: float) -> ClaimResult:
    """A claim that the largest of some values reaches a goal; each value has bounds, or is None if unknown.

    It holds if the goal lies within or below the bounds of one whose lower bound is above ``nothing``, the value of no effect;
    it fails if all are known and lie below the goal.
    """
    known = {what: bounds for what, bounds in values.items() if bounds is not None}
    if not values:
        return ClaimResult(Verdict.UNDECIDED, NOT_ASKED)
    missing = tuple(what for what in values if what not in known)
    reached = {what: nothing < low and high >= goal for what, (low, _, high) in known.items()}
    verdict = Verdict.UNDECIDED
    if any(reached.values()):
        verdict = Verdict.HOLDS
    elif known and not missing and all(high < goal for _, _, high in known.values()):
        verdict = Verdict.FAILS
    effects = tuple(
        Effect(what, bounds, Verdict.HOLDS if reached[what] else Verdict.FAILS if bounds[2] < goal else Verdict.UNDECIDED)
        for what, bounds in known.items()
    )
    words = ""
    if effects:
        largest = max(effects, key=lambda each: each.bounds[1])
        low, middle, high = largest.bounds
        how = {Verdict.HOLDS: "reaches", Verdict.FAILS: "is below", Verdict.UNDECIDED: "may or may not reach"}[largest.verdict]
        words = f"The largest, {middle:.3g} on {largest.what} ({low:.3g} to {high:.3g}), {how} {goal:g}"
    gone = _listed("Too few runs", missing) if missing else ""
    return ClaimResult(verdict, _joined(words, gone), effects, missing, goal)


def within(values: Mapping[str, Sequence[float]], margin: float) -> ClaimResult:
    """A claim that some means are zero within a margin: it holds if all intervals lie inside, and fails if one lies outside."""
    if not values:
        return ClaimResult(Verdict.UNDECIDED, NOT_ASKED)
    effects = tuple(_within(what, each, margin, len(values)) for what, each in values.items() if len(each) > 1)
    missing = tuple(what for what, each in values.items() if len(each) < 2)
    verdicts = {each.verdict for each in effects} | ({Verdict.UNDECIDED} if missing else set())
    verdict = next((one for one in (Verdict.FAILS, Verdict.UNDECIDED) if one in verdicts), Verdict.HOLDS)
    inside = [each for each in effects if each.verdict is Verdict.HOLDS]
    words = f"{len(inside)} of {len(values)} lie within {margin:g} of zero"
    if verdict is Verdict.HOLDS:
        farthest = max(effects, key=lambda each: abs(each.bounds[1]))
        words = f"All {len(values)} lie within {margin:g} of zero, the farthest {farthest}"
    beyond = sorted((each for each in effects if each.verdict is Verdict.FAILS), key=lambda each: -abs(each.bounds[1]))
    rest = [each for each in effects if each.verdict is Verdict.UNDECIDED]
    outside = _listed("Beyond", [str(each) for each in beyond]) if beyond else ""
    return ClaimResult(verdict, _joined(words, outside, *_by_verdict(rest, missing)), effects, missing, margin=margin)


def _within(what: str, values: Sequence[float], margin: float, number: int) -> Effect:
    low, middle, high = bounds = interval(values, number)
    if low > margin or high < -margin:
        return Effect(what, bounds, Verdict.FAILS, seeds=len(values))
    if -margin <= low and high <= margin:
        return Effect(what, bounds, Verdict.HOLDS, seeds=len(values))
    needed = seeds_needed(margin - abs(middle), statistics.stdev(values), number)
    return Effect(what, bounds, Verdict.UNDECIDED, seeds=len(values), needed=needed)
