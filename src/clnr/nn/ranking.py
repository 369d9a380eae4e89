"""How well scores rank what is true above what is not. By NumPy alone: the import of scikit-learn takes over a second."""

from __future__ import annotations

import numpy as np

from clnr.graph.csr import Array


def mean_ranks(values: Array) -> Array:
    """The rank of each value, from 1 on; equal ones share the mean of their ranks."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[index]


def roc_auc(truth: Array, scores: Array) -> float:
    """The area under the ROC curve: how often a true one has a higher score than another; equal scores are half."""
    count = int(truth.sum())
    # Sums of ranks, which are halves, are exact.
    above = mean_ranks(scores)[truth].sum() - count * (count + 1) / 2
    return float(above / (count * (len(truth) - count)))


def average_precision(truth: Array, scores: Array) -> float:
    """The mean over the true ones of the precision where those with at least their score are taken."""
    _, index, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    true = np.bincount(index, weights=truth)
    return float((true * np.cumsum(true) / np.cumsum(counts)).sum() / true.sum())
