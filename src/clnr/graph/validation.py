"""Checks of what a graph is made from: features, edges, labels, ids and splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.arrays import as_array, as_float32, as_int64, check_csr_indices, check_sparse, is_sparse, to_host
from clnr.graph.csr import CSR, Array

Matrix = Any  # an Array or a scipy.sparse.csr_array; SciPy carries no types

_FINE_CLASSES = 1000  # Class indices below this are fine however few nodes there are.


def as_features(features: Any) -> Matrix:
    """A copy of features as float32, dense or CSR; all must be finite."""
    if is_sparse(features):
        with np.errstate(over="ignore"):
            x = sp.csr_array(check_sparse(features, "features"), dtype=np.float32, copy=True)
        x.sum_duplicates()
        values = x.data
    else:
        values = x = as_float32(features, "features")
        if x.ndim != 2:
            raise DataError(f"features must be a matrix with one row per node, not of shape {x.shape}")
    finite = np.isfinite(values)
    if not finite.all():
        row, column = _position(x, int(np.argmin(finite)))
        raise DataError(f"features must be finite in float32; row {row}, column {column} is not")
    return x


def _position(x: Matrix, entry: int) -> tuple[int, int]:
    """Row and column of the stored number with this offset."""
    if not sp.issparse(x):
        return divmod(entry, x.shape[1])
    return int(np.searchsorted(x.indptr, entry, "right")) - 1, int(x.indices[entry])


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
    most = _most_classes(count)
    odd = np.flatnonzero((array < -1) | (array >= most))
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
        distinct = len(set(names))
    except TypeError:
        odd = next(name for name in names if not _hashable(name))
        raise DataError(f"an id must be hashable, such as a number, text or a tuple, not {odd!r:.80}") from None
    if distinct < count:
        seen: set[Any] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"ids must be distinct, but two nodes have {twice!r:.80}")
    return array


def _as_equal_array(ids: Any) -> Array:
    """A one-dimensional array whose entries equal the given ones: of numbers, of text, or else of objects."""
    try:
        listed = to_host(ids).tolist() if hasattr(ids, "tolist") else list(ids)
    except TypeError:
        raise DataError(f"ids must be a list with one per node, not {ids!r:.80}") from None
    objects = np.empty(len(listed), dtype=object)
    for i, name in enumerate(listed):
        objects[i] = name
    if len({type(name) for name in listed}) != 1 or type(listed[0]) not in (int, str):
        return objects
    array = np.array(listed)
    return array if array.tolist() == listed else objects


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_features(x: Any) -> None:
    """Raise unless features have the form that compiled code depends on."""
    if sp.issparse(x) and x.format == "csr":
        check_csr_indices(x.indptr, x.indices, *x.shape)
        values, shape = x.data, (len(x.indices),)
    elif isinstance(x, np.ndarray) and x.ndim == 2:
        values, shape = x, x.shape
    else:
        raise DataError(f"features must be a two-dimensional array or a CSR matrix, not a {type(x).__name__}")
    if values.dtype != np.float32 or values.shape != shape:
        raise DataError(f"features must be float32 of shape {shape}, not {values.dtype} of shape {values.shape}")


def check_edges(edges: CSR, count: int, what: str) -> None:
    """Raise unless edges are CSR arrays, each row sorted and without duplicates."""
    try:
        indptr, indices, weight = edges
        check_csr_indices(indptr, indices, count, count)
    except DataError as error:
        raise DataError(f"{what} edges: {error}") from None
    except (TypeError, ValueError, AttributeError):
        raise DataError(f"{what} edges must be CSR: indptr, indices and weight, not {edges!r:.80}") from None
    if indptr.dtype != np.int64 or indices.dtype != np.int32:
        raise DataError(f"{what} edges must have an indptr of int64 and int32 indices, not {indptr.dtype} and {indices.dtype}")
    follows = np.ones(len(indices) + 1, bool)
    follows[1:-1] = indices[1:] > indices[:-1]
    follows[indptr] = True
    if not follows.all():
        raise DataError(f"{what} edges must be sorted within each node, and none twice")
    if weight is not None:
        if not isinstance(weight, np.ndarray) or weight.dtype != np.float32 or weight.shape != indices.shape:
            raise DataError(f"{what} edges must have weights of float32, one per edge")
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise DataError("edge weights, added up over duplicates, must be finite and not negative")
