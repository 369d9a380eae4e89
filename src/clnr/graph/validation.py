"""What a user or a file hands in for a graph, made into arrays that can be trusted, or refused with the reason."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import CSR, Array

Matrix = Any  # an Array or a scipy.sparse.csr_array; SciPy carries no types

_NUMBERS = "biuf"
_WHOLE = "iu"
_LONGEST = 1 << 48  # Of a side of a matrix: no memory holds a row of so many numbers.
_CLASSES = 1000  # So many class numbers are in order however few the nodes are.


def host(values: Any) -> Any:
    """A tensor's array, wherever it lives; anything else as it is."""
    return values.detach().cpu().numpy() if _is_tensor(values) else values


def array_of(values: Any, what: str) -> Array:
    """An array of whatever a user has."""
    try:
        return np.asarray(host(values))
    except Exception as error:  # A foreign object's own conversion may raise anything.
        raise DataError(f"{what} cannot be read as an array: {_reason(error)}") from None


def numbers(values: Any, what: str) -> Array:
    """As float32, a copy; what is too large for it becomes infinite."""
    return _cast(array_of(values, what), np.float32, what)


def whole(values: Any, what: str) -> Array:
    """As int64; a number with a fraction, or none at all, is an error rather than cut off."""
    array = array_of(values, what)
    if array.size and array.dtype.kind not in _WHOLE:
        array = _cast(array, np.float64, what)
        odd = array[~(np.abs(array) < 2**63) | (array != np.floor(array))]
        if odd.size:
            raise DataError(f"{what} must be whole numbers, not such as {odd[0]}")
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        raise DataError(f"{what} must be whole numbers below 2^63, not such as {array.max()}")
    return array.astype(np.int64)


def _cast(array: Array, dtype: type, what: str) -> Array:
    if array.dtype.kind in "cmMV":
        raise DataError(f"{what} must be numbers, not {array.dtype}")
    try:
        with np.errstate(over="ignore"):
            return array.astype(dtype, order="C")
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{what} must be numbers: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """An error's message on one line of bounded length."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def features_of(features: Any) -> Matrix:
    """Features in form, a copy: float32, dense or in compressed rows, finite."""
    if is_sparse(features):
        with np.errstate(over="ignore"):
            x = sp.csr_array(checked_sparse(features, "features"), dtype=np.float32, copy=True)
        x.sum_duplicates()
        values = x.data
    else:
        values = x = numbers(features, "features")
        if x.ndim != 2:
            raise DataError(f"features must be a matrix with one row per node, not of shape {x.shape}")
    finite = np.isfinite(values)
    if not finite.all():
        row, column = _place(x, int(np.argmin(finite)))
        raise DataError(f"features must be finite in float32; row {row}, column {column} is not")
    return x


def _place(x: Matrix, entry: int) -> tuple[int, int]:
    """Row and column of the stored number that is so many places from the first."""
    if not sp.issparse(x):
        return divmod(entry, x.shape[1])
    return int(np.searchsorted(x.indptr, entry, "right")) - 1, int(x.indices[entry])


def indices(index: Any, count: int, what: str) -> Array:
    """Node indices as int64, each of them a node's."""
    array = array_of(index, what)
    if array.ndim != 1:
        raise DataError(f"{what} must come in a plain list of node indices, not in an array of shape {array.shape}")
    if array.dtype.kind == "b" and array.size:
        raise DataError(f"{what} must be a node's index, not True or False as in a mask")
    array = whole(array, what)
    if array.size and not (array.min() >= 0 and array.max() < count):
        worst = int(array.max()) if array.max() >= count else int(array.min())
        raise DataError(f"{what} is node {worst}, but nodes go from 0 to {count - 1}")
    return array


def per_node(array: Array, count: int, what: str) -> Array:
    if array.shape != (count,):
        raise DataError(f"there are {count} nodes but {what} of shape {array.shape}")
    return array


def labels_of(labels: Any, count: int) -> Array:
    """Class indices, -1 where unknown. A number far above all classes would have others make room for each below it."""
    array = per_node(whole(labels, "labels"), count, "labels")
    most = max(count, _CLASSES)
    odd = np.flatnonzero((array < -1) | (array >= most))
    if odd.size:
        raise DataError(
            f"labels must number the classes 0, 1, 2 ..., with -1 where unknown: node {odd[0]} has {array[odd[0]]}, "
            f"and there are {count} nodes"
        )
    return array


def ids_of(ids: Any, count: int) -> Array:
    """One id per node: distinct, and of any kind that can be looked up; a list of tuples stays one."""
    array = ids.copy() if isinstance(ids, np.ndarray) else _as_given(ids)
    names = per_node(array, count, "ids").tolist()
    try:
        distinct = len(set(names))
    except TypeError:
        odd = next(name for name in names if not _hashable(name))
        raise DataError(f"an id must be hashable, such as a number, text or a tuple, not {odd!r:.80}") from None
    if distinct < count:
        seen: set[Any] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"ids must be distinct, and {twice!r:.80} is that of two nodes")
    return array


def _as_given(ids: Any) -> Array:
    """An array of one dimension whose entries are equal to what was given: of numbers, of text, or else of objects."""
    try:
        listed = host(ids).tolist() if hasattr(ids, "tolist") else list(ids)
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


# -- sparse matrices: compiled loops trust their index arrays, so that these are checked completely before -------------


def check_compressed(start: Array, nodes: Array, rows: int, columns: int) -> None:
    """That ``start`` and ``nodes`` are the index arrays of compressed rows: every row lies within, and every column."""
    for name, part in (("indptr", start), ("indices", nodes)):
        if part.ndim != 1 or part.dtype.kind not in _WHOLE:
            raise DataError(f"a sparse matrix's {name} must be a list of whole numbers, not {part.dtype} of shape {part.shape}")
    if len(start) != rows + 1:
        raise DataError(f"a sparse matrix of {rows} rows has an indptr of length {len(start)}, not {rows + 1}")
    if start[0] != 0 or start[-1] != len(nodes):
        raise DataError(f"a sparse matrix's indptr must go from 0 to its {len(nodes)} entries, not {start[0]} to {start[-1]}")
    falls = start[1:] < start[:-1]
    if falls.any():
        raise DataError(f"a sparse matrix's indptr must not decrease, as it does after row {int(np.argmax(falls))}")
    _check_within(nodes, columns, "column")


def _check_within(index: Array, size: int, what: str) -> None:
    if len(index) and not (index.min() >= 0 and index.max() < size):
        worst = index.max() if index.max() >= size else index.min()
        raise DataError(f"a sparse matrix of {size} {what}s has an entry in {what} {worst}")


def checked_csr(data: Array, indices: Array, indptr: Array, shape: Any) -> sp.csr_array:
    """CSR rows of numbers, complete and consistent.

    SciPy's own check will not do: where the last of ``indptr`` is 0 it looks at nothing else.
    """
    data, indices, indptr = (array_of(part, "a sparse matrix's part") for part in (data, indices, indptr))
    rows, columns = _size(shape)
    check_compressed(indptr, indices, rows, columns)
    _check_values(data, (len(indices),))
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _size(shape: Any) -> tuple[int, int]:
    try:
        rows, columns = (operator.index(side) for side in shape)
    except (TypeError, ValueError):
        raise DataError(f"a sparse matrix's shape must be two whole numbers, not {shape!r:.80}") from None
    if not (0 <= rows < _LONGEST and 0 <= columns < _LONGEST):
        raise DataError(f"a sparse matrix cannot be of {rows} x {columns}")
    return rows, columns


def _check_values(data: Array, shape: tuple[int, ...]) -> None:
    if data.dtype.kind not in _NUMBERS:
        raise DataError(f"a sparse matrix must hold numbers, not {data.dtype}")
    if data.shape != shape:
        raise DataError(f"a sparse matrix has indices for values of shape {shape}, and values of shape {data.shape}")


def is_sparse(matrix: Any) -> bool:
    return sp.issparse(matrix) or (_is_tensor(matrix) and str(matrix.layout) != "torch.strided")


def _is_tensor(values: Any) -> bool:
    """Without importing torch: what has made a tensor has imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def checked_sparse(matrix: Any, what: str) -> Any:
    """A sparse matrix of SciPy or torch, checked, as one of SciPy; it may share memory with what was given."""
    layout = matrix.format if sp.issparse(matrix) else str(matrix.layout)
    if layout not in _LAYOUTS:
        raise DataError(f"{what} in the layout {layout} cannot be read; give compressed rows")
    try:
        return _LAYOUTS[layout](matrix)
    except DataError as error:
        raise DataError(f"{what}: {error}") from None
    except Exception as error:  # A damaged matrix may lack any of its parts.
        raise DataError(f"{what}: a damaged sparse matrix, {_reason(error)}") from None


def adjacency_of(matrix: Any) -> sp.coo_array:
    """A square matrix, dense or sparse, entry by entry; duplicates are kept."""
    if is_sparse(matrix):
        entries = checked_sparse(matrix, "the adjacency matrix").tocoo()
    else:
        dense = numbers(matrix, "the adjacency matrix")
        if dense.ndim != 2:
            raise DataError(f"the adjacency matrix must be a matrix, not of shape {dense.shape}")
        entries = sp.coo_array(dense)
    if entries.shape[0] != entries.shape[1]:
        raise DataError(f"the adjacency matrix must be square, and is {entries.shape[0]} x {entries.shape[1]}")
    return entries


def _compressed(matrix: Any) -> sp.csr_array:
    return checked_csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape)


def _compressed_columns(matrix: Any) -> Any:
    return checked_csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape[::-1]).T


def _blocks(matrix: Any) -> Any:
    rows, columns = _size(matrix.shape)
    data = array_of(matrix.data, "blocks")
    if data.ndim != 3 or not (data.shape[1] and data.shape[2]) or rows % data.shape[1] or columns % data.shape[2]:
        raise DataError(f"a sparse matrix of {rows} x {columns} cannot be of blocks of shape {data.shape}")
    check_compressed(matrix.indptr, matrix.indices, rows // data.shape[1], columns // data.shape[2])
    _check_values(data, (len(matrix.indices), *data.shape[1:]))
    return sp.bsr_array((data, matrix.indices, matrix.indptr), shape=(rows, columns))


def _triplets(data: Any, ends: Any, shape: Any) -> sp.coo_array:
    sides, ends = _size(shape), tuple(array_of(part, "coordinates") for part in ends)
    for index, size, what in zip(ends, sides, ("row", "column"), strict=True):
        if index.ndim != 1 or index.dtype.kind not in _WHOLE:
            raise DataError(f"a sparse matrix's {what}s must be whole numbers, not {index.dtype} of shape {index.shape}")
        _check_within(index, size, what)
    data = array_of(data, "values")
    for index in ends:
        _check_values(data, index.shape)
    return sp.coo_array((data, ends), shape=sides)


def _diagonals(matrix: Any) -> sp.coo_array:
    rows, columns = _size(matrix.shape)
    data, offsets = array_of(matrix.data, "diagonals"), whole(matrix.offsets, "offsets")
    if data.ndim != 2 or offsets.shape != data.shape[:1]:
        raise DataError(f"a sparse matrix has {data.shape} diagonals at offsets of shape {offsets.shape}")
    offset, column = (part.reshape(-1) for part in np.broadcast_arrays(offsets[:, None], np.arange(data.shape[1])))
    inside = (column < columns) & (offset <= column) & (offset > column - rows)
    ends = ((column - offset)[inside], column[inside])
    return _triplets(data.reshape(-1)[inside], ends, (rows, columns))


def _lists(matrix: Any) -> sp.csr_array:
    columns, values = (list(chain.from_iterable(lines)) for lines in (matrix.rows, matrix.data))
    start = np.cumsum([0, *map(len, matrix.rows)])
    return checked_csr(np.array(values, matrix.dtype), np.array(columns, np.int64), start, matrix.shape)


def _by_key(matrix: Any) -> sp.coo_array:
    ends = np.array(list(matrix.keys()), np.int64).reshape(-1, 2)
    return _triplets(np.array(list(matrix.values()), matrix.dtype), ends.T, matrix.shape)


_LAYOUTS: dict[Any, Callable[[Any], Any]] = {
    "csr": _compressed,
    "csc": _compressed_columns,
    "bsr": _blocks,
    "coo": lambda matrix: _triplets(matrix.data, (matrix.row, matrix.col), matrix.shape),
    "dia": _diagonals,
    "lil": _lists,
    "dok": _by_key,
    "torch.sparse_coo": lambda tensor: _triplets(tensor._values(), tensor._indices(), tensor.shape),
    "torch.sparse_csr": lambda tensor: checked_csr(tensor.values(), tensor.col_indices(), tensor.crow_indices(), tensor.shape),
    "torch.sparse_csc": lambda tensor: (
        checked_csr(tensor.values(), tensor.row_indices(), tensor.ccol_indices(), tensor.shape[::-1]).T
    ),
}


# -- a graph's own arrays ----------------------------------------------------------------------------------------------


def check_features(x: Any) -> None:
    """That features are in form, as far as compiled code depends on it."""
    if sp.issparse(x) and x.format == "csr":
        check_compressed(x.indptr, x.indices, *x.shape)
        values, shape = x.data, (len(x.indices),)
    elif isinstance(x, np.ndarray) and x.ndim == 2:
        values, shape = x, x.shape
    else:
        raise DataError(f"features must be an array of two dimensions or compressed rows, not a {type(x).__name__}")
    if values.dtype != np.float32 or values.shape != shape:
        raise DataError(f"features must be float32 of shape {shape}, not {values.dtype} of shape {values.shape}")


def check_edges(edges: CSR, count: int, what: str) -> None:
    """That edges are grouped as they say, each group sorted and without duplicates."""
    try:
        start, nodes, weight = edges
        check_compressed(start, nodes, count, count)
    except DataError as error:
        raise DataError(f"{what} edges: {error}") from None
    except (TypeError, ValueError, AttributeError):
        raise DataError(f"{what} edges must be CSR: start, nodes and weight, not {edges!r:.80}") from None
    if start.dtype != np.int64 or nodes.dtype != np.int64:
        raise DataError(f"{what} edges must have start and nodes of int64, not {start.dtype} and {nodes.dtype}")
    follows = np.ones(len(nodes) + 1, bool)
    follows[1:-1] = nodes[1:] > nodes[:-1]
    follows[start] = True
    if not follows.all():
        raise DataError(f"{what} edges must be sorted within each node, and none twice")
    if weight is not None:
        if not isinstance(weight, np.ndarray) or weight.dtype != np.float32 or weight.shape != nodes.shape:
            raise DataError(f"{what} edges must have weights of float32, one per edge")
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise DataError("edge weights, added up over duplicates, must be finite and not negative")
