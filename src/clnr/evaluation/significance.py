"""Significance of paired results: tests over the same seeds and splits, standard errors over the same nodes and pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clnr.graph.csr import Array
from clnr.nn.ranking import mean_ranks


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
    # Ranks are integers when doubled.
    ranks = (2 * mean_ranks(np.abs(values))).astype(np.int64)
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


def accuracy_error(first: Array, second: Array) -> float:
    """The standard error of the difference of two accuracies, in points, from which of the same nodes each had right.

    NaN for less than two nodes.
    """
    return 100 * _mean_error(first.astype(np.float64) - second)


def auc_error(first: Array, second: Array) -> float:
    """The standard error of the difference of two areas under the ROC curve (DeLong et al., 1988).

    Both are scores of the same positives, then of as many negatives.
    """
    positive, negative = (a - b for a, b in zip(_placements(first), _placements(second), strict=True))
    return float(np.hypot(_mean_error(positive), _mean_error(negative)))


def _mean_error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def _placements(scores: Array) -> tuple[Array, Array]:
    """For each positive the share of negatives below it, for each negative the share of positives above it; ties are half."""
    count = len(scores) // 2
    within = np.concatenate([mean_ranks(scores[:count]), mean_ranks(scores[count:])])
    below = (mean_ranks(scores) - within) / count
    return below[:count], 1 - below[count:]
