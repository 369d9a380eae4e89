"""Edges in CSR form, by source or by target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

Array = np.ndarray[Any, np.dtype[Any]]
_PARTS, _PART = 64, 1 << 16


class CSR(NamedTuple):
    """Edges by one end: the neighbours of node ``i`` are ``indices[indptr[i] : indptr[i + 1]]``, sorted; weight may be None."""

    indptr: Array
    indices: Array
    weight: Array | None


def to_csr(row: Array, column: Array, weight: Array | None, count: int) -> CSR:
    """Edges by their row end, sorted; duplicates become one, weights added; weight 0 is no edge."""
    values = np.ones(len(row), np.float32) if weight is None else weight
    matrix = sp.coo_array((values, (row, column)), shape=(count, count)).tocsr()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return _from_matrix(matrix, weight is not None)


def transpose(edges: CSR) -> CSR:
    """The same edges by their other end."""
    indptr, indices, weight = edges
    values = np.ones(len(indices), np.float32) if weight is None else weight
    matrix = sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1,) * 2).T.tocsr()
    matrix.sort_indices()
    return _from_matrix(matrix, weight is not None)


def median_weight(weights: Array | None) -> float:
    """The lower median of the weights of edges, of many by parts of them here and there; 1 where there are none."""
    if weights is None or not len(weights):
        return 1.0
    if len(weights) > _PARTS * _PART:
        starts = np.linspace(0, len(weights) - _PART, _PARTS).astype(np.int64)
        weights = np.concatenate([weights[start : start + _PART] for start in starts])
    middle = (len(weights) - 1) // 2
    return float(np.partition(weights, middle)[middle])


def _from_matrix(matrix: sp.csr_array, weighted: bool) -> CSR:
    weight = matrix.data.astype(np.float32) if weighted else None
    return CSR(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), weight)
