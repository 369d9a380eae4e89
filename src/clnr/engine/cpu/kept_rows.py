"""Which entries of a view's matrix are kept, row by row, as the compiled loops take it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clnr import rng
from clnr.engine.cpu.csr_arrays import CSRArrays, allocated, numba_kernels
from clnr.engine.cpu.threads import share_rows
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.view import Drop, View
from clnr.graph.csr import Array


def structure(x: SparseMatrix, transposed: bool) -> tuple[Array, Array]:
    """``indptr`` and columns of a matrix or its transpose."""
    indptr, columns = (x.transposed_indptr, x.transposed_columns) if transposed else (x.indptr, x.columns)
    return indptr.numpy(force=True), columns.numpy(force=True)


class KeptRows(ABC):
    """Rows of the matrix that a view propagates by, without what the view drops."""

    @abstractmethod
    def count(self, rows: Array) -> tuple[Array, Array]:
        """How many entries of each of these rows are kept, and the sum of their values."""

    def sums(self, rows: Array) -> Array:
        """The sum of the values of the kept entries of each of these rows."""
        return self.count(rows)[1]

    @abstractmethod
    def fill(self, rows: Array, counts: Array) -> CSRArrays:
        """The kept entries of these rows, so many of each."""


class MatrixKeptRows(KeptRows):
    """Rows of a matrix in memory, or of its transpose."""

    def __init__(self, view: View, transposed: bool = False):
        links, drop = view.propagation, view.drop
        values = links.transposed_values if transposed else links.values
        self._entries = (*structure(links, transposed), values.numpy(force=True))
        self._rule = drop_rule(drop, links, transposed)

    @property
    def all_rows(self) -> Array:
        return np.arange(len(self._entries[0]) - 1)

    def _load(self, rows: Array) -> Array:
        """How many entries the rows before each of these have, and all of them."""
        indptr = self._entries[0]
        return np.concatenate([[0], np.cumsum(indptr[rows + 1] - indptr[rows])])

    def count(self, rows: Array) -> tuple[Array, Array]:
        kernels, counts, sums = numba_kernels(), np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
        share_rows(self._load(rows), kernels.count_kept, *self._entries, self._rule, rows, counts, sums)
        return counts, sums

    def fill(self, rows: Array, counts: Array) -> CSRArrays:
        kernels, kept = numba_kernels(), allocated(counts)
        share_rows(self._load(rows), kernels.fill_kept, *self._entries, self._rule, rows, *kept)
        return kept


def drop_rule(drop: Drop | None, links: SparseMatrix | None = None, transposed: bool = False) -> tuple[Any, ...]:
    """What the compiled loops take to know which entries are kept: of a matrix, if each has a rate, or of its transpose."""
    rate = 0.0 if drop is None else drop.rate
    a, b, _ = rng.Key(0, 0) if drop is None else rng.settled(drop.key)
    each = isinstance(rate, Tensor)
    thresholds = torch.as_tensor(rng.threshold(rate)).reshape(-1)
    thresholds = thresholds[links.order] if each and transposed and links is not None else thresholds
    pairs = drop is not None and drop.pairs
    return np.uint32(int(a)), np.uint32(int(b)), thresholds.numpy().astype(np.uint64), int(each), pairs, transposed
