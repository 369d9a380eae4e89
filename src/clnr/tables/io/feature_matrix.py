"""A matrix of features beside the node table: .npy, SciPy's .npz, or an array. Nothing in a file is run."""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, one_line
from clnr.graph.arrays import check_sparse
from clnr.graph.csr import Array
from clnr.support.humanize import describe_error

_ROWS_AT_A_TIME = 1 << 14


@dataclass(frozen=True)
class FeatureMatrix:
    """A matrix with one row for each row of the node table, or for each of the nodes 0, 1, 2 ... without one.

    Attributes:
        name: What to call it in messages: the file, or the argument.
        values: Dense, or CSR.
    """

    name: str
    values: Any

    @classmethod
    def open(cls, given: Any) -> FeatureMatrix:
        """A file, or an array of NumPy or SciPy; checked, but for whether its numbers are finite."""
        name = one_line(os.fspath(given)) if isinstance(given, str | Path) else "the feature matrix"
        try:
            values = _load(Path(given)) if isinstance(given, str | Path) else given
        except DataError:
            raise
        except Exception as error:  # Anything may be in a file.
            raise DataError(f"{name}: it cannot be read as a matrix: {one_line(describe_error(error))}") from None
        if sp.issparse(values):
            values = check_sparse(values, name).tocsr()
        elif not isinstance(values, np.ndarray):
            raise DataError(f"feature_matrix must be a file or an array of NumPy or SciPy, not a {type(values).__name__}")
        if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "biuf":
            shape = " x ".join(map(str, values.shape))
            raise DataError(f"{name}: features are a matrix of numbers, not {shape} values of {values.dtype}")
        return cls(name, values)

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self.values.shape[0]), int(self.values.shape[1]))

    def rows(self, first: int, last: int) -> Any:
        """Some rows, in float32; numbers that are not finite are an error."""
        some = self.values[first:last].astype(np.float32)
        wrong = ~np.isfinite(some.data if sp.issparse(some) else some)
        if wrong.any():
            at = int(np.flatnonzero(wrong if wrong.ndim == 1 else wrong.any(1))[0])
            row = first + (int(np.searchsorted(some.indptr, at, "right")) - 1 if sp.issparse(some) else at)
            raise DataError(f"{self.name}: a number in row {row + 1:,} is not finite in float32; replace it, by 0 for instance")
        return some


@dataclass(frozen=True)
class MatrixEncoder:
    """How a feature matrix becomes features: it is divided by one number.

    A dense matrix is divided by the root mean square of its numbers, as lists of numbers are; a sparse one by that of the
    lengths of its rows, since those of text have length 1.
    """

    width: int
    scale: float
    sparse: bool

    def __post_init__(self) -> None:
        right = type(self.width) is int and self.width > 0 and isinstance(self.sparse, bool)
        right = right and isinstance(self.scale, int | float) and math.isfinite(self.scale) and self.scale > 0
        if not right:
            raise DataError("not a valid saved feature encoder: the numbers of its matrix are out of range")

    @classmethod
    def fit(cls, matrix: FeatureMatrix) -> MatrixEncoder:
        count, width = matrix.shape
        sparse, total = sp.issparse(matrix.values), 0.0
        for first in range(0, count, _ROWS_AT_A_TIME):
            rows = matrix.rows(first, first + _ROWS_AT_A_TIME)
            total += float(np.square(rows.data if sparse else rows, dtype=np.float64).sum())
        return cls(width, math.sqrt(total / max(1, count if sparse else count * width)) or 1.0, sparse)

    def encode(self, matrix: FeatureMatrix | None, first: int, last: int) -> Array | sp.csr_array:
        """The features of some rows; all are 0 without a matrix."""
        if matrix is None:
            shape = (last - first, self.width)
            return sp.csr_array(shape, dtype=np.float32) if self.sparse else np.zeros(shape, np.float32)
        rows = matrix.rows(first, last)
        scaled = rows * np.float32(1 / self.scale) if sp.issparse(rows) else rows / np.float32(self.scale)
        if self.sparse:
            return sp.csr_array(scaled)
        return scaled.toarray() if sp.issparse(scaled) else scaled


def _load(path: Path) -> Any:
    name = path.name.lower()
    if name.endswith(".npy"):
        return np.load(path, mmap_mode="r", allow_pickle=False)
    if name.endswith(".npz"):
        return _load_npz(path)
    raise DataError(f"{one_line(str(path))}: its format is unknown; a matrix of features ends in .npy or .npz")


def _load_npz(path: Path) -> Any:
    """A sparse matrix of SciPy, or the only array of NumPy's savez."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{one_line(str(path))}: it is not an .npz file, or is truncated")
    with np.load(path, allow_pickle=False) as arrays:
        if "format" in arrays.files:
            return sp.load_npz(path)
        if len(arrays.files) == 1:
            return arrays[arrays.files[0]]
        raise DataError(
            f"{one_line(str(path))}: it holds the arrays {', '.join(arrays.files)}; write one matrix, by "
            "scipy.sparse.save_npz or numpy.save"
        )
