"""Arrays, features, labels and ids from what users pass: NumPy, SciPy and torch, lists, columns of data frames.

Compiled loops trust index arrays, so these are checked completely first. SciPy's own check of CSR is not enough: where
the last entry of ``indptr`` is 0 it looks at nothing else, and its conversions of damaged matrices read out of bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.humanize import describe_error

Matrix = Any  # an Array or a scipy.sparse.csr_array; SciPy carries no types

_FINE_CLASSES = 1000  # Class indices below this are fine however few nodes there are.


def is_tensor(values: Any) -> bool:
    """Whether it is a tensor of torch, which is not imported for this: whoever made a tensor has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def to_host(values: Any) -> Any:
    """A tensor on any device as a NumPy array; anything else unchanged."""
    return values.detach().cpu().numpy() if is_tensor(values) else values


def as_array(values: Any, what: str) -> Array:
    """Any array-like value as a NumPy array, without a copy where possible."""
    try:
        return np.asarray(to_host(values))
    except Exception as error:  # A foreign object's own conversion may raise anything.
        raise DataError(f"{what} cannot be read as an array: {describe_error(error)}") from None


def as_float32(values: Any, what: str) -> Array:
    """A float32 copy; numbers beyond its range become infinite."""
    return _cast(as_array(values, what), np.float32, what)


def as_int64(values: Any, what: str) -> Array:
    """An int64 copy; a fraction or NaN is an error, never truncated."""
    array = as_array(values, what)
    if array.size and array.dtype.kind not in "iu":
        array = _cast(array, np.float64, what)
        odd = array[~(np.abs(array) < 2**63) | (array != np.floor(array))]
        if odd.size:
            raise DataError(f"{what} must be whole numbers, not {odd[0]}")
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        raise DataError(f"{what} must be whole numbers below 2^63, not {array.max()}")
    return array.astype(np.int64)


def _cast(array: Array, dtype: type, what: str) -> Array:
    if array.dtype.kind in "cmMV":
        raise DataError(f"{what} must be numbers, not {array.dtype}")
    try:
        with np.errstate(over="ignore"):
            return array.astype(dtype, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{what} must be numbers: {describe_error(error)}") from None


def check_csr(data: Any, indices: Any, indptr: Any, shape: Any) -> sp.csr_array:
    """A CSR matrix of numbers from its parts, complete and consistent."""
    data, indices, indptr = _check_parts(data, indices, indptr)
    rows, columns = shape
    matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
    if (np.diff(matrix.indptr) < 0).any():
        raise DataError("a sparse matrix must have rows in their order")
    matrix.check_format(full_check=True)
    return matrix


def _check_coo(data: Any, coords: Any, shape: Any) -> sp.coo_array:
    data, row, column = _check_parts(data, *coords)
    # Of this format SciPy checks everything.
    return sp.coo_array((data, (row, column)), shape=shape)


def _check_parts(values: Any, *places: Any) -> list[Array]:
    """The parts of a sparse matrix as arrays, of numbers and of whole numbers: SciPy would cut off fractions."""
    parts = [as_array(part, "a sparse matrix's part") for part in (values, *places)]
    if parts[0].dtype.kind not in "biuf" or any(part.dtype.kind not in "iu" for part in parts[1:]):
        raise DataError(f"a sparse matrix must hold numbers at whole places, not {[str(part.dtype) for part in parts]}")
    return parts


def is_sparse(matrix: Any) -> bool:
    """Whether it is a sparse matrix of SciPy or torch."""
    return sp.issparse(matrix) or (is_tensor(matrix) and str(matrix.layout) != "torch.strided")


_LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "csr": lambda matrix: check_csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape),
    "csc": lambda matrix: check_csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape[::-1]).T,
    "coo": lambda matrix: _check_coo(matrix.data, (matrix.row, matrix.col), matrix.shape),
    "torch.sparse_coo": lambda tensor: _check_coo(tensor._values(), tensor._indices(), tensor.shape),
    "torch.sparse_csr": lambda tensor: check_csr(tensor.values(), tensor.col_indices(), tensor.crow_indices(), tensor.shape),
}


def check_sparse(matrix: Any, what: str) -> Any:
    """A sparse matrix of SciPy (CSR, CSC, COO) or torch (CSR, COO), checked, as one of SciPy that may share its memory."""
    layout = matrix.format if sp.issparse(matrix) else str(matrix.layout)
    if layout not in _LAYOUTS:
        raise DataError(f"{what} in the layout {layout} cannot be read; convert it to CSR")
    try:
        return _LAYOUTS[layout](matrix)
    except DataError as error:
        raise DataError(f"{what}: {error}") from None
    except Exception as error:  # A damaged matrix may lack any of its parts.
        raise DataError(f"{what}: a damaged sparse matrix, {describe_error(error)}") from None


def as_adjacency(matrix: Any) -> sp.coo_array:
    """A square matrix, dense or sparse, in COO format; duplicates are kept."""
    if is_sparse(matrix):
        entries = check_sparse(matrix, "the adjacency matrix").tocoo()
    else:
        dense = as_float32(matrix, "the adjacency matrix")
        if dense.ndim != 2:
            raise DataError(f"the adjacency matrix must be a matrix, not of shape {dense.shape}")
        entries = sp.coo_array(dense)
    if entries.shape[0] != entries.shape[1]:
        raise DataError(f"the adjacency matrix must be square, and is {entries.shape[0]} x {entries.shape[1]}")
    return entries


# -- of a graph ----------------------------------------------------------------------------------------------------------


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
    odd = np.flatnonzero((array < -1) | (array >= most_classes(count)))
    if odd.size:
        raise DataError(
            f"labels must number the classes 0, 1, 2 ..., with -1 where unknown: node {odd[0]} has {array[odd[0]]}, "
            f"and there are {count} nodes"
        )
    return array


def most_classes(count: int) -> int:
    """The most classes that so many nodes may have."""
    return max(count, _FINE_CLASSES)


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
    if sp.issparse(x):
        check_sparse(x, "features")
