from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from clnr.evaluation import accuracy_error, auc_error, holm, wilcoxon


def by_all_signs(differences):
    """The chance that random signs give a rank sum at least as far from the middle, counted out over every pattern."""
    left = [value for value in differences if value != 0]
    if not left:
        return 1.0
    sizes = [abs(value) for value in left]
    ranks = [sum(other < size for other in sizes) + (sizes.count(size) + 1) / 2 for size in sizes]
    middle = sum(ranks) / 2
    seen = abs(sum(rank for rank, value in zip(ranks, left, strict=True) if value > 0) - middle)
    patterns = [abs(sum(itertools.compress(ranks, signs)) - middle) for signs in itertools.product((0, 1), repeat=len(ranks))]
    return sum(far >= seen for far in patterns) / len(patterns)


@pytest.mark.parametrize("count", range(11))
def test_it_is_exact_with_ties_and_zeros(count):
    random = np.random.default_rng(count)
    for _ in range(12):
        differences = random.integers(-3, 5, count) / 4
        assert wilcoxon(differences) == pytest.approx(by_all_signs(differences.tolist()), abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_without_ties_it_is_scipys(shift):
    for seed in range(10):
        differences = np.random.default_rng(seed).standard_normal(20) + shift
        assert wilcoxon(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue, rel=1e-9)


def test_accuracies_that_differ_by_the_same_tie_though_binary_cannot_tell():
    """0.3 - 0.2 and 0.2 - 0.1 are not the same float; as ranks they must be."""
    assert 0.3 - 0.2 != 0.2 - 0.1
    assert wilcoxon([0.3 - 0.2, 0.1 - 0.2, 0.5]) == by_all_signs([1, -1, 5])


def test_holm_by_definition():
    """Corrected value: the lowest level at which the step-down procedure rejects. Held against the procedure itself."""

    def rejected(values, level):
        out, left = set(), list(range(len(values)))
        while left:
            least = min(left, key=lambda i: values[i])
            if values[least] * len(left) > level:
                break
            out.add(least)
            left.remove(least)
        return out

    assert holm([]) == []
    random = np.random.default_rng(2)
    for _ in range(60):
        values = (random.integers(1, 12, random.integers(1, 7)) / 100).tolist()
        corrected = holm(values)
        for level in (0.0305, 0.0505, 0.1005, 0.2005, 0.5005):
            assert {i for i, value in enumerate(corrected) if value <= level} == rejected(values, level)
        assert all(before <= after <= 1 for before, after in zip(values, corrected, strict=True))


def test_the_error_of_two_accuracies_is_that_of_mcnemar():
    random = np.random.default_rng(0)
    first, second = random.random(500) < 0.8, random.random(500) < 0.7
    only_first, only_second = (first & ~second).sum(), (second & ~first).sum()
    variance = only_first + only_second - (only_first - only_second) ** 2 / 500
    assert accuracy_error(first, second) == pytest.approx(100 * np.sqrt(variance / 499 / 500))
    assert accuracy_error(first, first) == 0
    assert np.isnan(accuracy_error(first[:1], second[:1]))


def test_the_error_of_two_aucs_is_that_of_the_bootstrap():
    random = np.random.default_rng(0)
    shared = np.r_[random.normal(1, 1, 300), random.normal(0, 1, 300)]
    first, second = (shared + random.normal(0, noise, 600) for noise in (0.3, 1))

    def auc(scores):
        return (scores[:300, None] > scores[None, 300:]).mean()

    drawn = [np.r_[random.integers(0, 300, 300), random.integers(300, 600, 300)] for _ in range(1500)]
    spread = np.std([auc(first[some]) - auc(second[some]) for some in drawn])
    assert auc_error(first, second) == pytest.approx(spread, rel=0.1)
    assert auc_error(first, np.exp(first)) == 0
    assert np.isnan(auc_error(first[:2], second[:2]))


def test_ties_count_half_in_the_error_of_two_aucs():
    random = np.random.default_rng(0)
    first, second = random.integers(0, 3, (2, 40)).astype(float)
    above = [np.array([[(a > b) + 0.5 * (a == b) for b in scores[20:]] for a in scores[:20]]) for scores in (first, second)]
    difference = above[0] - above[1]
    variance = difference.mean(1).var(ddof=1) / 20 + difference.mean(0).var(ddof=1) / 20
    assert auc_error(first, second) == pytest.approx(np.sqrt(variance))
