"""Label leakage: columns that predict the label alone, mostly because they were filled in after it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from clnr.graph.csr import Array
from clnr.tables.columns.feature_encoder import FeatureEncoder

# The least correlation of a feature with a class, and the least share of labelled nodes in such classes.
_LEAST_CORRELATION = 0.95
_LEAST_SHARE = 0.95
_LEAST_NODES_OF_CLASS = 5
_MOST_PAIRS = 10_000_000
_BLOCK_ROWS = 65_536


def telling_columns(encoder: FeatureEncoder, features: Array | sp.csr_array, labels: Array) -> list[str]:
    """The columns in which one value, or whether there is a value, predicts the class of nearly every labelled node."""
    labelled = np.flatnonzero(labels >= 0)
    sizes = np.bincount(labels[labelled]).astype(float)
    large = sizes >= _LEAST_NODES_OF_CLASS
    if large.sum() < 2 or len(sizes) * features.shape[1] > _MOST_PAIRS:
        return []
    least = 0.0 if sp.issparse(features) else features.min(axis=0)
    both = np.zeros((len(sizes), features.shape[1]))
    for start in range(0, len(labelled), _BLOCK_ROWS):
        rows = labelled[start : start + _BLOCK_ROWS]
        classes = sp.csr_array((np.ones(len(rows)), labels[rows], np.arange(len(rows) + 1)), (len(rows), len(sizes)))
        product = classes.T @ (features[rows] != least)
        both += product.toarray() if sp.issparse(product) else product
    count, having = len(labelled), both.sum(axis=0)
    spread = np.sqrt(np.outer(sizes * (count - sizes), having * (count - having)))
    correlation = np.abs(count * both - np.outer(sizes, having)) / np.maximum(spread, 1e-9)
    tells, end, columns = (correlation >= _LEAST_CORRELATION) & large[:, None], 0, []
    for each in encoder.column_encoders:
        start, end = end, end + each.width + each.missing
        if sizes[tells[:, start:end].any(axis=1)].sum() >= _LEAST_SHARE * count:
            columns.append(each.column)
    return columns
