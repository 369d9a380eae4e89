from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from clnr.methods import CLNR, GRACE
from clnr.paper.result_set import ResultSet
from clnr.paper.run_index import RunFilter, RunIndex
from clnr.paper.scope import Scope
from clnr.paper.stats import Contrast, Verdict, at_least, contrast, evaluate_contrasts, everywhere, interval, reaches, within
from tests.paper.made import cache_of, made

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED


def by(shift, count=20, what="x", seed=0):
    """A contrast whose differences are about ``shift``, with a spread of one."""
    noise = np.random.default_rng(seed).standard_normal(count)
    return Contrast(what, {i: shift + noise[i] for i in range(count)}, dict.fromkeys(range(count), 0.0))


def test_pairs_are_of_the_seeds_that_both_have():
    pair = Contrast("x", {0: 1.0, 1: 5.0, 3: 4.0}, {1: 2.0, 3: 3.0, 9: 0.0})
    assert pair.differences == [3.0, 1.0]


def test_the_test_is_wilcoxons_on_pairs_and_mann_and_whitneys_where_there_are_few():
    values = np.random.default_rng(1).standard_normal(8) + 1
    pairs = Contrast("x", dict(enumerate(values)), dict.fromkeys(range(8), 0.0))
    assert pairs.p == pytest.approx(stats.wilcoxon(values).pvalue)
    assert pairs.mean == pytest.approx(values.mean())
    few = Contrast("x", dict(enumerate(values[:3])), dict(enumerate(values + 3)))
    assert few.p == pytest.approx(stats.mannwhitneyu(values[:3], values + 3).pvalue)
    # Unpaired means of all seeds, not of those in common.
    assert few.mean == pytest.approx(values[:3].mean() - values.mean() - 3)


def test_too_few_seeds_to_tell_are_no_contrast():
    assert not Contrast("x", {}, {0: 1.0}).testable
    assert not Contrast("x", {0: 9.0, 1: 9.0}, {0: 1.0, 1: 1.0}).testable
    assert not Contrast("x", {0: 9.0, 1: 9.0}, dict.fromkeys(range(20), 1.0)).testable
    assert Contrast("x", dict.fromkeys(range(5), 9.0), dict.fromkeys(range(20), 1.0)).testable


def test_each_contrast_is_judged_by_its_sign_where_it_is_significant():
    found = evaluate_contrasts([by(5, what="up"), by(-5, what="down"), by(0, what="level"), Contrast("none", {}, {})])
    assert {what: each.verdict for what, each in found.items()} == {"up": HOLDS, "down": FAILS, "level": UNDECIDED}


def test_p_values_are_corrected_for_their_number():
    lone = by(0.7, seed=3)
    alone = evaluate_contrasts([lone])["x"]
    beside = evaluate_contrasts([lone, *(by(0, what=f"{i}", seed=i) for i in range(30))])["x"]
    assert alone.p == pytest.approx(lone.p)
    assert alone.verdict is HOLDS
    assert beside.p == pytest.approx(min(1.0, 31 * lone.p))
    assert beside.verdict is UNDECIDED


@pytest.mark.parametrize(
    ("shifts", "verdict"),
    [
        ([5, 5, 5], HOLDS),
        ([5, 5, 0], UNDECIDED),
        ([5, 5, -5], FAILS),
        ([5, 0, -5], FAILS),
        ([5, None], UNDECIDED),
        ([], UNDECIDED),
    ],
)
def test_a_claim_about_all_holds_if_all_do_and_fails_if_one_does(shifts, verdict):
    contrasts = [Contrast(f"{i}", {}, {}) if shift is None else by(shift, what=f"{i}") for i, shift in enumerate(shifts)]
    assert everywhere(contrasts).verdict is verdict


@pytest.mark.parametrize(
    ("shifts", "verdict"),
    [
        ([5, 5, -5], HOLDS),
        ([5, 5, 5], HOLDS),
        ([5, 0, -5], UNDECIDED),
        ([5, -5, -5], FAILS),
        ([0, 0, 0], UNDECIDED),
        ([5], UNDECIDED),
    ],
)
def test_a_claim_about_two_of_three(shifts, verdict):
    assert at_least(2, [by(shift, what=f"{i}") for i, shift in enumerate(shifts)]).verdict is verdict


def test_a_group_holds_where_all_of_it_does():
    def outcome(*shifts):
        contrasts = [by(shift, what=f"{'abc'[i // 2]}, {i}") for i, shift in enumerate(shifts)]
        return at_least(2, contrasts, lambda what: what.partition(",")[0])

    assert outcome(5, 5, 5, 5, 5, -5).verdict is HOLDS
    assert outcome(5, 5, 5, -5, 5, -5).verdict is FAILS
    assert outcome(5, 5, 5, 0, 5, -5).verdict is UNDECIDED
    assert outcome(5, 5, 5, 0, 5, -5).numbers.startswith("of 3, 1 hold and 1 fail: a, 0 +")


def test_numbers_name_what_has_too_few_runs():
    assert "too few runs: b" in everywhere([by(5, what="a"), Contrast("b", {}, {})]).numbers


def test_reaching_a_goal():
    values = {"a": (1, 2, 3), "b": (0, 1, 1.5)}
    assert reaches(values, 2.5, nothing=0).verdict is HOLDS
    assert reaches(values, 0.5, nothing=0).verdict is HOLDS
    assert reaches(values, 3.5, nothing=0).verdict is FAILS
    # What may be nothing at all is no gain, and what is not known may be large.
    assert reaches({"b": (0, 1, 1.5)}, 1.2, nothing=0).verdict is UNDECIDED
    assert reaches(values | {"c": None}, 3.5, nothing=0).verdict is UNDECIDED
    assert "too few runs: c" in reaches(values | {"c": None}, 3.5, nothing=0).numbers
    assert reaches({}, 3.5, nothing=0).verdict is UNDECIDED


def test_an_interval_covers_the_mean_as_often_as_it_says():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        low, middle, high = interval(random.normal(3.0, 2.0, 6), 1)
        assert low < middle < high
        covered += low <= 3.0 <= high
    assert 0.92 < covered / 400 < 0.98
    wider = interval([1.0, 2.0, 3.0], 10)
    assert wider[0] < interval([1.0, 2.0, 3.0], 1)[0]
    assert interval([1.0], 1) == (-math.inf, 1.0, math.inf)


def test_being_nothing_to_within_a_margin():
    small = [0.001, -0.001, 0.002, 0.0]
    assert within({"a": small, "b": small}, 0.05).verdict is HOLDS
    assert within({"a": small, "b": [1.0, 1.1, 0.9, 1.0]}, 0.05).verdict is FAILS
    assert within({"a": small, "b": [1.0, -1.0, 0.5, 0.0]}, 0.05).verdict is UNDECIDED
    assert within({"a": small, "b": []}, 0.05).verdict is UNDECIDED
    assert within({}, 0.05).verdict is UNDECIDED


def test_a_contrast_of_batches_is_of_their_runs():
    scope = Scope(seeds=2)
    first, second = scope.batch(CLNR, "cora"), scope.batch(GRACE, "cora")
    nan = made(second, 0, strict=float("nan"))
    run_cache = cache_of(*(made(first, seed, strict=90.0 + seed) for seed in range(3)), made(second, 1, strict=80.0), nan)
    pair = contrast(ResultSet(RunIndex(run_cache, RunFilter())), "Cora", first, second, lambda run: run.strict)
    assert (pair.larger, pair.smaller) == ({0: 90.0, 1: 91.0}, {1: 80.0})
