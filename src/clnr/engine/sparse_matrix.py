"""A fixed sparse matrix on a device."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.graph.csr import Array

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Keeper:
    """An object with what others have computed from it once, ``made``, by who asked; it is freed with the object."""

    made: dict[Hashable, Any] = field(default_factory=dict, repr=False, kw_only=True)

    def once(self, asker: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` returns; called once for each asker."""
        if asker not in self.made:
            self.made[asker] = make()
        return self.made[asker]


@dataclass(frozen=True, eq=False)
class SparseMatrix(Keeper):
    """A fixed sparse matrix on a device, in CSR form, with its transpose.

    ``values`` are in the order of ``columns``. ``pattern`` is a matrix with the same entries, but for their values, where this
    one has its entries from it. On a CPU, ``rows`` and the transpose are made when they are first asked for.
    """

    indptr: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]
    pattern: SparseMatrix | None = field(default=None, repr=False)

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def rows(self) -> Tensor:
        """The row of each entry."""
        return (self.pattern or self).once("rows", lambda: torch.from_numpy(_rows(self.indptr.numpy())))

    @property
    def transposed_indptr(self) -> Tensor:
        return self._transpose[0]

    @property
    def transposed_columns(self) -> Tensor:
        return self._transpose[1]

    @property
    def order(self) -> Tensor:
        """Where each entry of the transpose is among ``values``."""
        return self._transpose[2]

    @property
    def transposed_values(self) -> Tensor:
        return self.once("transposed values", lambda: self.values[self.order])

    @property
    def _transpose(self) -> tuple[Tensor, ...]:
        def make() -> tuple[Tensor, ...]:
            parts = _transpose(self.indptr.numpy(), self.columns.numpy(), self.shape)
            return tuple(torch.from_numpy(each) for each in parts)

        return (self.pattern or self).once("transpose", make)

    def with_values(self, values: Tensor) -> SparseMatrix:
        matrix = replace(self, values=values, made={}, pattern=self.pattern or self)
        if not values.is_cpu:
            _ = matrix.transposed_values
        return matrix


def to_sparse_matrix(matrix: sp.csr_array, device: torch.device) -> SparseMatrix:
    """A SciPy matrix on a device, with its transpose."""
    if not matrix.has_sorted_indices:
        matrix = matrix.copy()
        matrix.sort_indices()

    def move(array: Array) -> Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(device)

    values = torch.tensor(matrix.data, dtype=torch.float32, device=device)
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    made: dict[Hashable, Any] = {}
    if device.type != "cpu":
        transpose = tuple(map(move, _transpose(matrix.indptr, matrix.indices, shape)))
        made = {"rows": move(_rows(matrix.indptr)), "transpose": transpose, "transposed values": values[transpose[2]]}
    return SparseMatrix(move(matrix.indptr), move(matrix.indices), values, shape, made=made)


def _rows(indptr: Array) -> Array:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def _transpose(indptr: Array, columns: Array, shape: tuple[int, int]) -> tuple[Array, ...]:
    """``indptr`` and columns of the transpose of a matrix, and where each of its entries is in the matrix."""
    position = sp.csr_array((np.arange(len(columns)), columns, indptr), shape=shape).T.tocsr()
    position.sort_indices()
    return position.indptr.astype(np.int64), position.indices.astype(np.int64), position.data


def to_scipy(x: SparseMatrix) -> sp.csr_array:
    values, columns, indptr = (each.numpy(force=True) for each in (x.values, x.columns, x.indptr))
    parts = values, columns.astype(np.int32), indptr
    return sp.csr_array(parts, shape=x.shape)
