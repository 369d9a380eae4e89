"""What a user hands in for a graph, made into arrays that can be trusted, or refused with the reason."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from clnr.edges import Array
from clnr.errors import DataError

Matrix = Any  # an Array or a scipy.sparse.csr_array; SciPy carries no types


def host(values: Any) -> Any:
    """A tensor's array, wherever it lives; anything else as it is."""
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values


def features_of(features: Any) -> Matrix:
    if sp.issparse(features):
        x = sp.csr_array(features, dtype=np.float32, copy=True)
        x.sum_duplicates()
        values = x.data
    else:
        try:
            values = x = np.array(host(features), dtype=np.float32, order="C")
        except (ValueError, TypeError) as error:
            raise DataError(f"features must be a matrix of numbers: {error}") from None
        if x.ndim != 2:
            raise DataError(f"features must be a matrix with one row per node, not of shape {x.shape}")
    if not np.isfinite(values).all():
        where = np.argwhere(~np.isfinite(x.toarray() if sp.issparse(x) else x))[0]
        raise DataError(f"features must be finite; row {where[0]}, column {where[1]} is not")
    return x


def indices(index: Any, count: int, what: str) -> Array:
    array = whole(host(index), what).reshape(-1)
    if array.size and not (array.min() >= 0 and array.max() < count):
        worst = int(array.max()) if array.max() >= count else int(array.min())
        raise DataError(f"{what} is node {worst}, but nodes go from 0 to {count - 1}")
    return array


def whole(values: Any, what: str) -> Array:
    """As int64; a number with a fraction, or none at all, is an error rather than cut off."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        try:
            array = array.astype(np.float64)
        except (ValueError, TypeError):
            raise DataError(f"{what} must be whole numbers, not such as {array.reshape(-1)[0]!r}") from None
        odd = array[~np.isfinite(array) | (array != np.floor(array))]
        if odd.size:
            raise DataError(f"{what} must be whole numbers, not such as {odd[0]}")
    return array.astype(np.int64)


def per_node(array: Array, count: int, what: str) -> Array:
    if array.shape != (count,):
        raise DataError(f"there are {count} nodes but {what} of shape {array.shape}")
    return array


def checked_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_array:
    """A matrix in compressed sparse rows whose index arrays were checked completely before any compiled code sees them."""
    try:
        rows, columns = (operator.index(each) for each in shape)
    except (TypeError, ValueError):
        raise DataError("a CSR matrix must be of two whole numbers of rows and columns") from None
    if not (0 <= rows < 2**63 and 0 <= columns < 2**63):
        raise DataError(f"a CSR matrix cannot have {rows} rows and {columns} columns")
    data, indices, indptr = (np.asarray(part) for part in (data, indices, indptr))
    if any(part.ndim != 1 for part in (data, indices, indptr)) or {indices.dtype.kind, indptr.dtype.kind} - {"i", "u"}:
        raise DataError("a CSR matrix must have indptr and indices of whole numbers, and data, each of one dimension")
    if len(indptr) != rows + 1 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise DataError(f"indptr must have {rows + 1:,} numbers that start at 0 and never fall")
    if not indptr[-1] == len(indices) == len(data):
        raise DataError(f"indptr ends at {indptr[-1]}, and there are {len(indices):,} indices and {len(data):,} values")
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < columns:
        raise DataError(f"indices must be from 0 to {columns - 1:,}")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))
