"""Checks of what a graph is made from: features, edges, labels, ids and splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.arrays import as_array, as_float32, as_int64, check_sparse, is_sparse, to_host
from clnr.graph.csr import Array

Matrix = Any  # an Array or a scipy.sparse.csr_array; SciPy carries no types

_FINE_CLASSES = 1000  # Class indices below this are fine however few nodes there are.


def as_features(features: Any) -> Matrix:
    """A copy of features as float32, dense or CSR; all must be finite."""
    if is_sparse(features):
        with np.errstate(over="ignore"):
            x = sp.csr_array(check_sparse(features, "features"), dtype=np.float32, copy=True)
        x.sum_duplicates()
    else:
        x = as_float32(features, "features")
        if x.ndim != 2:
            raise DataError(f"features must be a matrix with one row per node, not of shape {x.shape}")
    finite = np.isfinite(x.data if sp.issparse(x) else x)
    if not finite.all():
        wrong = sp.csr_array((~finite, x.indices, x.indptr), shape=x.shape) if sp.issparse(x) else ~finite
        row, column = (places[0] for places in wrong.nonzero())
        raise DataError(f"features must be finite in float32; row {row}, column {column} is not")
    return x


def as_node_indices(index: Any, count: int, what: str) -> Array:
    """Node indices as int64, each from 0 to ``count - 1``."""
    array = as_array(index, what)
    if array.ndim != 1:
        raise DataError(f"{what} must be a one-dimensional list of node indices, not an array of shape {array.shape}")
    if array.dtype.kind == "b" and array.size:
        raise DataError(f"{what} must be a node's index, not True or False as in a mask")
    array = as_int64(array, what)
    if array.size and not (array.min() >= 0 and array.max() < count):
        worst = int(array.max()) if array.max() >= count else int(array.min())
        raise DataError(f"{what} is node {worst}, but nodes go from 0 to {count - 1}")
    return array


def check_per_node(array: Array, count: int, what: str) -> Array:
    """An array that must have one entry per node."""
    if array.shape != (count,):
        raise DataError(f"there are {count} nodes but {what} of shape {array.shape}")
    return array


def as_labels(labels: Any, count: int) -> Array:
    """Class indices, -1 where unknown. A number far above all others is refused: it would allocate classes up to it."""
    array = check_per_node(as_int64(labels, "labels"), count, "labels")
    odd = np.flatnonzero((array < -1) | (array >= _most_classes(count)))
    if odd.size:
        raise DataError(
            f"labels must number the classes 0, 1, 2 ..., with -1 where unknown: node {odd[0]} has {array[odd[0]]}, "
            f"and there are {count} nodes"
        )
    return array


def _most_classes(count: int) -> int:
    return max(count, _FINE_CLASSES)


def check_class_count(classes: int, count: int) -> None:
    """Refuse more classes than ``count`` nodes can have."""
    if classes > _most_classes(count):
        raise DataError(f"{classes:,} classes are too many for {count:,} nodes")


def as_ids(ids: Any, count: int) -> Array:
    """One id per node: distinct and hashable; a list of tuples stays one."""
    array = ids.copy() if isinstance(ids, np.ndarray) else _as_equal_array(ids)
    names = check_per_node(array, count, "ids").tolist()
    try:
        rows = {name: row for row, name in enumerate(names)}
    except TypeError as error:
        raise DataError(f"ids must be hashable, such as numbers, texts or tuples: {error}") from None
    if len(rows) < count:
        twice = next(name for row, name in enumerate(names) if rows[name] != row)
        raise DataError(f"ids must be distinct, but two nodes have {twice!r:.80}")
    return array


def _as_equal_array(ids: Any) -> Array:
    """A one-dimensional array whose entries equal the given ones: of numbers, of text, or else of objects."""
    try:
        listed = to_host(ids).tolist() if hasattr(ids, "tolist") else list(ids)
    except TypeError:
        raise DataError(f"ids must be a list with one per node, not {ids!r:.80}") from None
    if {type(name) for name in listed} in ({int}, {str}) and (array := np.array(listed)).tolist() == listed:
        return array
    return np.fromiter(listed, object, len(listed))


def check_features(x: Any) -> None:
    """Raise unless features have the form that compiled code depends on."""
    if not (isinstance(x, np.ndarray) or (sp.issparse(x) and x.format == "csr")) or x.ndim != 2:
        raise DataError(f"features must be a two-dimensional array or a CSR matrix, not a {type(x).__name__}")
    if x.dtype != np.float32:
        raise DataError(f"features must be float32, not {x.dtype}")
