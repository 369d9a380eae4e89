"""Are two methods different? Tests on pairs of results of the same seeds and splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def wilcoxon(differences: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test (1945), exact also with ties.

    Differences of zero are left out, as in the original; without any other, p is 1. Under the hypothesis each rank has either
    sign with equal chance: the sums' law is counted out over all signs, rank by rank.
    """
    given = np.asarray(differences, dtype=np.float64)
    # What two measured accuracies differ by is not exact in binary; equal ones must tie.
    given = np.round(given, 9)
    given = given[given != 0]
    if not len(given):
        return 1.0
    # Equals share the mean of their ranks, which is a whole number when doubled.
    _, place, equals = np.unique(np.abs(given), return_inverse=True, return_counts=True)
    ranks = (2 * np.cumsum(equals) - equals + 1)[place]
    total = int(ranks.sum())
    law = np.zeros(total + 1)
    law[0] = 1.0
    for rank in ranks:
        law[rank:] = (law[rank:] + law[: total + 1 - rank]) / 2
        law[:rank] /= 2
    seen = int(ranks[given > 0].sum())
    return float(min(1.0, 2 * law[: min(seen, total - seen) + 1].sum()))


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number by Holm's step-down method (1979), in the order given."""
    order = np.argsort(values, kind="stable")
    corrected = [0.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = largest
    return corrected
