"""Arrays and sparse matrices from whatever users pass: NumPy, SciPy and torch of every format, lists, data frame columns.

Compiled loops trust index arrays, so these are checked completely first. SciPy's own check is not enough: where the last entry
of ``indptr`` is 0 it looks at nothing else.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.humanize import describe_error

_INTEGER_KINDS = "iu"  # Kinds of NumPy types.
_NUMBER_KINDS = "biuf"
_MOST_ROWS = 1 << 48  # Rows or columns of a matrix: no memory holds that many numbers.


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
    if array.size and array.dtype.kind not in _INTEGER_KINDS:
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


def check_csr_indices(indptr: Array, indices: Array, rows: int, columns: int) -> None:
    """Raise unless ``indptr`` and ``indices`` are the index arrays of a CSR matrix of this shape."""
    for name, part in (("indptr", indptr), ("indices", indices)):
        if part.ndim != 1 or part.dtype.kind not in _INTEGER_KINDS:
            raise DataError(f"a sparse matrix's {name} must be a list of whole numbers, not {part.dtype} of shape {part.shape}")
    if len(indptr) != rows + 1:
        raise DataError(f"a sparse matrix of {rows} rows has an indptr of length {len(indptr)}, not {rows + 1}")
    if indptr[0] != 0 or indptr[-1] != len(indices):
        raise DataError(
            f"a sparse matrix's indptr must go from 0 to its {len(indices)} entries, not from {indptr[0]} to {indptr[-1]}"
        )
    decreases = indptr[1:] < indptr[:-1]
    if decreases.any():
        raise DataError(f"a sparse matrix's indptr must not decrease, but does after row {int(np.argmax(decreases))}")
    _check_within(indices, columns, "column")


def _check_within(index: Array, size: int, what: str) -> None:
    if len(index) and not (index.min() >= 0 and index.max() < size):
        worst = index.max() if index.max() >= size else index.min()
        raise DataError(f"a sparse matrix of {size} {what}s has an entry in {what} {worst}")


def check_csr(data: Array, indices: Array, indptr: Array, shape: Any) -> sp.csr_array:
    """A CSR matrix of numbers from its parts, complete and consistent."""
    data, indices, indptr = (as_array(part, "a sparse matrix's part") for part in (data, indices, indptr))
    rows, columns = _check_shape(shape)
    check_csr_indices(indptr, indices, rows, columns)
    _check_values(data, (len(indices),))
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _check_shape(shape: Any) -> tuple[int, int]:
    try:
        rows, columns = (operator.index(side) for side in shape)
    except (TypeError, ValueError):
        raise DataError(f"a sparse matrix's shape must be two whole numbers, not {shape!r:.80}") from None
    if not (0 <= rows < _MOST_ROWS and 0 <= columns < _MOST_ROWS):
        raise DataError(f"a sparse matrix cannot be of {rows} x {columns}")
    return rows, columns


def _check_values(data: Array, shape: tuple[int, ...]) -> None:
    if data.dtype.kind not in _NUMBER_KINDS:
        raise DataError(f"a sparse matrix must hold numbers, not {data.dtype}")
    if data.shape != shape:
        raise DataError(f"a sparse matrix has indices for values of shape {shape}, and values of shape {data.shape}")


def is_sparse(matrix: Any) -> bool:
    """Whether it is a sparse matrix of SciPy or torch."""
    return sp.issparse(matrix) or (is_tensor(matrix) and str(matrix.layout) != "torch.strided")


def check_sparse(matrix: Any, what: str) -> Any:
    """A sparse matrix of SciPy or torch, checked, as one of SciPy; they may share memory."""
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


def _bsr(matrix: Any) -> Any:
    rows, columns = _check_shape(matrix.shape)
    data = as_array(matrix.data, "blocks")
    if data.ndim != 3 or not (data.shape[1] and data.shape[2]) or rows % data.shape[1] or columns % data.shape[2]:
        raise DataError(f"a sparse matrix of {rows} x {columns} cannot be of blocks of shape {data.shape}")
    check_csr_indices(matrix.indptr, matrix.indices, rows // data.shape[1], columns // data.shape[2])
    _check_values(data, (len(matrix.indices), *data.shape[1:]))
    return sp.bsr_array((data, matrix.indices, matrix.indptr), shape=(rows, columns))


def _coo(data: Any, coords: Any, shape: Any) -> sp.coo_array:
    lengths = _check_shape(shape)
    coords = tuple(as_array(part, "coordinates") for part in coords)
    for index, size, what in zip(coords, lengths, ("row", "column"), strict=True):
        if index.ndim != 1 or index.dtype.kind not in _INTEGER_KINDS:
            raise DataError(f"a sparse matrix's {what}s must be whole numbers, not {index.dtype} of shape {index.shape}")
        _check_within(index, size, what)
    data = as_array(data, "values")
    for index in coords:
        _check_values(data, index.shape)
    return sp.coo_array((data, coords), shape=lengths)


def _dia(matrix: Any) -> sp.coo_array:
    """Not by SciPy, which on some machines reads beyond offsets that are too few."""
    rows, columns = _check_shape(matrix.shape)
    data, offsets = as_array(matrix.data, "diagonals"), as_int64(matrix.offsets, "offsets")
    if data.ndim != 2 or offsets.shape != data.shape[:1]:
        raise DataError(f"a sparse matrix has {data.shape} diagonals at offsets of shape {offsets.shape}")
    offset, column = (part.reshape(-1) for part in np.broadcast_arrays(offsets[:, None], np.arange(data.shape[1])))
    inside = (column < columns) & (offset <= column) & (offset > column - rows)
    coords = ((column - offset)[inside], column[inside])
    return _coo(data.reshape(-1)[inside], coords, (rows, columns))


def _dok(matrix: Any) -> sp.coo_array:
    entries = matrix.tocoo()
    return _coo(entries.data, (entries.row, entries.col), entries.shape)


def _lil(matrix: Any) -> sp.csr_array:
    columns, values = (list(chain.from_iterable(lines)) for lines in (matrix.rows, matrix.data))
    indptr = np.cumsum([0, *map(len, matrix.rows)])
    return check_csr(np.array(values, matrix.dtype), np.array(columns, np.int64), indptr, matrix.shape)


_LAYOUTS: dict[Any, Callable[[Any], Any]] = {
    "csr": lambda matrix: check_csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape),
    "csc": lambda matrix: check_csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape[::-1]).T,
    "bsr": _bsr,
    "coo": lambda matrix: _coo(matrix.data, (matrix.row, matrix.col), matrix.shape),
    "dia": _dia,
    "lil": _lil,
    "dok": _dok,
    "torch.sparse_coo": lambda tensor: _coo(tensor._values(), tensor._indices(), tensor.shape),
    "torch.sparse_csr": lambda tensor: check_csr(tensor.values(), tensor.col_indices(), tensor.crow_indices(), tensor.shape),
    "torch.sparse_csc": lambda tensor: (
        check_csr(tensor.values(), tensor.row_indices(), tensor.ccol_indices(), tensor.shape[::-1]).T
    ),
}
