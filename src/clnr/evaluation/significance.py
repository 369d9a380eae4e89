"""Significance tests on paired results, of the same seeds and splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def wilcoxon(differences: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test (1945), exact also with ties and zeros.

    Differences of zero are left out, as in the original; if there is no other, p is 1. Under the null hypothesis each rank has
    either sign with probability 1/2: the distribution of the rank sum is computed over all signs, one rank after another.

    ``scipy.stats.wilcoxon`` is not used: with ties or zeros, which accuracies often have, its exact method is wrong (by up to
    0.1 for 20 pairs or fewer), its normal approximation is off by up to 0.02, and a permutation test takes 2^20 samples.
    """
    values = np.asarray(differences, dtype=np.float64)
    # The difference of two accuracies is not exact in binary; equal ones must tie.
    values = np.round(values, 9)
    values = values[values != 0]
    if not len(values):
        return 1.0
    # Ties share the mean of their ranks, which is an integer when doubled.
    _, index, counts = np.unique(np.abs(values), return_inverse=True, return_counts=True)
    ranks = (2 * np.cumsum(counts) - counts + 1)[index]
    total = int(ranks.sum())
    probability = np.zeros(total + 1)
    probability[0] = 1.0
    for rank in ranks:
        probability[rank:] = (probability[rank:] + probability[: total + 1 - rank]) / 2
        probability[:rank] /= 2
    positive = int(ranks[values > 0].sum())
    return float(min(1.0, 2 * probability[: min(positive, total - positive) + 1].sum()))


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for multiple tests by Holm's step-down method (1979), in the order given."""
    order = np.argsort(values, kind="stable")
    corrected = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = largest
    return corrected
