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

    ``values`` are in the order of ``columns``; ``transposed_values``, equal to ``values[order]``, in that of
    ``transposed_columns``. ``pattern`` is a matrix with the same entries, but for their values, where this one has its entries
    from it.
    """

    indptr: Tensor
    columns: Tensor
    rows: Tensor
    values: Tensor
    transposed_indptr: Tensor
    transposed_columns: Tensor
    transposed_values: Tensor
    order: Tensor
    shape: tuple[int, int]
    pattern: SparseMatrix | None = field(default=None, repr=False)

    @property
    def device(self) -> torch.device:
        return self.values.device

    def with_values(self, values: Tensor) -> SparseMatrix:
        """The same entries with other values."""
        return replace(self, values=values, transposed_values=values[self.order], made={}, pattern=self.pattern or self)


def to_sparse_matrix(matrix: sp.csr_array, device: torch.device) -> SparseMatrix:
    """A SciPy matrix on a device, with its transpose."""
    matrix = matrix.copy()
    matrix.sort_indices()
    count = matrix.nnz
    position = sp.csr_array((np.arange(count), matrix.indices, matrix.indptr), shape=matrix.shape).T.tocsr()
    position.sort_indices()

    def move(array: Array) -> Tensor:
        return torch.tensor(array.astype(np.int64), device=device)

    return SparseMatrix(
        indptr=move(matrix.indptr),
        columns=move(matrix.indices),
        rows=move(np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))),
        values=torch.tensor(matrix.data, dtype=torch.float32, device=device),
        transposed_indptr=move(position.indptr),
        transposed_columns=move(position.indices),
        transposed_values=torch.tensor(matrix.data[position.data], dtype=torch.float32, device=device),
        order=move(position.data),
        shape=(int(matrix.shape[0]), int(matrix.shape[1])),
    )


def to_scipy(x: SparseMatrix) -> sp.csr_array:
    """A sparse matrix on the host."""
    values, columns, indptr = (each.numpy(force=True) for each in (x.values, x.columns, x.indptr))
    parts = values, columns.astype(np.int32), indptr
    return sp.csr_array(parts, shape=x.shape)
