"""How rare a word, or a feature, is."""

from __future__ import annotations

import numpy as np

from clnr.graph.csr import Array


def idf(counts: Array, total: int) -> Array:
    """ln((1 + total) / (1 + those that have it)) + 1, as scikit-learn's ``TfidfTransformer(smooth_idf=True)`` has it."""
    return np.log((1 + total) / (1 + counts)) + 1
