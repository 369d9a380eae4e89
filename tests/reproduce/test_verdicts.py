from __future__ import annotations

import math

import numpy as np
import pytest
from reproduce.verdicts import Contrast, Verdict, at_least, interval, reaches, seeds_needed, within
from scipy import stats

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED


def by(shift, count=20, what="x", seed=0):
    """A contrast whose differences are about ``shift``, with a spread of one."""
    noise = np.random.default_rng(seed).standard_normal(count)
    return Contrast(what, {i: shift + noise[i] for i in range(count)}, dict.fromkeys(range(count), 0.0))


def test_the_test_is_wilcoxons_on_pairs_and_mann_and_whitneys_where_there_are_few():
    values = np.random.default_rng(1).standard_normal(8) + 1
    pairs = Contrast("x", dict(enumerate(values)), dict.fromkeys(range(8), 0.0))
    assert pairs.p == pytest.approx(stats.wilcoxon(values).pvalue)
    assert pairs.interval(1)[1] == pytest.approx(values.mean())
    few = Contrast("x", dict(enumerate(values[:3])), dict(enumerate(values + 3)))
    assert few.p == pytest.approx(stats.mannwhitneyu(values[:3], values + 3).pvalue)
    half = Contrast("x", dict(enumerate(values)), dict(enumerate(np.tile(values, 2) - 3)))
    assert half.p == pytest.approx(stats.mannwhitneyu(values, np.tile(values, 2) - 3).pvalue)
    # Unpaired means of all seeds, not of those in common.
    assert few.interval(1)[1] == pytest.approx(values[:3].mean() - values.mean() - 3)


def test_too_few_seeds_to_tell_are_no_contrast():
    assert not Contrast("x", {}, {0: 1.0}).is_testable
    assert not Contrast("x", {0: 9.0, 1: 9.0}, dict.fromkeys(range(20), 1.0)).is_testable
    assert Contrast("x", dict.fromkeys(range(5), 9.0), dict.fromkeys(range(20), 1.0)).is_testable


def test_each_contrast_is_judged_by_its_sign_where_it_is_significant():
    found = at_least([by(5, what="up"), by(-5, what="down"), by(0, what="level"), Contrast("none", {}, {})])
    assert {each.what: each.verdict for each in found.effects} == {"up": HOLDS, "down": FAILS, "level": UNDECIDED}
    assert found.missing == ["none"]


def test_p_values_are_corrected_for_their_number():
    lone = by(0.7, seed=3)
    for others, verdict in ((0, HOLDS), (30, UNDECIDED)):
        first = at_least([lone, *(by(0, what=f"{i}", seed=i) for i in range(others))]).effects[0]
        assert (first.p, first.verdict) == (pytest.approx(min(1.0, (1 + others) * lone.p)), verdict)


@pytest.mark.parametrize(
    ("shifts", "of_all", "of_two"),
    [
        ([5, 5, 5], HOLDS, HOLDS),
        ([5, 5, 0], UNDECIDED, HOLDS),
        ([5, 5, -5], FAILS, HOLDS),
        ([5, 0, -5], FAILS, UNDECIDED),
        ([5, -5, -5], FAILS, FAILS),
        ([0, 0, 0], UNDECIDED, UNDECIDED),
        ([5, None], UNDECIDED, UNDECIDED),
    ],
)
def test_a_claim_about_all_fails_if_one_does_and_a_claim_about_two_if_too_few_are_left(shifts, of_all, of_two):
    contrasts = [Contrast(f"{i}", {}, {}) if shift is None else by(shift, what=f"{i}") for i, shift in enumerate(shifts)]
    assert at_least(contrasts).verdict is of_all
    assert at_least(contrasts, 2).verdict is of_two


def test_a_group_holds_where_all_of_it_does():
    def outcome(*shifts):
        contrasts = [by(shift, what=f"{i} on {'abc'[i // 2]}") for i, shift in enumerate(shifts)]
        return at_least(contrasts, 2)

    assert outcome(5, 5, 5, 5, 5, -5).verdict is HOLDS
    assert outcome(5, 5, 5, -5, 5, -5).verdict is FAILS
    assert outcome(5, 5, 5, 0, 5, -5).verdict is UNDECIDED


def test_the_seeds_that_are_said_to_decide_do_so_in_four_of_five_trials():
    needed = seeds_needed(0.6, 1.0, 3)
    random = np.random.default_rng(0)
    found = [stats.wilcoxon(random.normal(0.6, 1.0, needed)).pvalue <= 0.05 / 3 for _ in range(400)]
    assert 0.74 < np.mean(found) < 0.88
    assert seeds_needed(0.0, 1.0, 3) is None
    assert seeds_needed(-0.6, 1.0, 3) == needed


def test_reaching_a_goal():
    values = {"a": (1, 2, 3), "b": (0, 1, 1.5)}
    assert reaches(values, 2.5, nothing=0).verdict is HOLDS
    assert reaches(values, 3.5, nothing=0).verdict is FAILS
    # What may be nothing at all is no gain, and what is not known may be large.
    assert reaches({"b": (0, 1, 1.5)}, 1.2, nothing=0).verdict is UNDECIDED
    assert reaches(values | {"c": None}, 3.5, nothing=0).verdict is UNDECIDED


def test_an_interval_is_students_with_bonferronis_correction():
    values = np.random.default_rng(0).normal(3.0, 2.0, 6)
    for number in (1, 10):
        expected = stats.t.interval(1 - 0.05 / number, 5, values.mean(), stats.sem(values))
        assert interval(values.tolist(), number) == pytest.approx((expected[0], values.mean(), expected[1]))
    assert interval([1.0], 1) == (-math.inf, 1.0, math.inf)


def test_being_nothing_to_within_a_margin():
    def judged(**differences):
        pairs = [Contrast(what, dict(enumerate(each)), dict.fromkeys(range(4), 0.0)) for what, each in differences.items()]
        return within(pairs, 0.05)

    small = [0.001, -0.001, 0.002, 0.0]
    assert judged(a=small, b=small).verdict is HOLDS
    assert judged(a=small, b=[1.0, 1.1, 0.9, 1.0]).verdict is FAILS
    assert judged(a=small, b=[1.0, -1.0, 0.5, 0.0]).verdict is UNDECIDED
    assert judged(a=small, b=[]).verdict is UNDECIDED
