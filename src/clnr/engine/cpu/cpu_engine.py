"""The CPU engine: compiled loops over the edges that a view keeps."""

from __future__ import annotations

import functools
from collections.abc import Callable

import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.blocks import BlockEngine
from clnr.engine.cpu.csr_arrays import CSRArrays, MatrixRows, to_arrays
from clnr.engine.operators import Operators, unit_rows
from clnr.engine.sparse_engine import Features, Matrix
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.streams import Streams
from clnr.engine.torch_ntxent import FewRowsNTXent
from clnr.engine.view import Mask, View
from clnr.graph.csr import Array

DENSE_ABOVE = 0.2
"""Share of non-zero features above which a dense first layer is faster."""
_LARGEST_EXPONENT = 80
_CPU = torch.device("cpu")


class CompiledMatrix(Features):
    """A matrix without what one view drops; ``build`` makes it, and given True its transpose, when a gradient needs that."""

    def __init__(self, build: Callable[[bool], CSRArrays], shape: tuple[int, int]):
        self.arrays, self.shape = functools.cache(build), shape
        self.arrays(False)

    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.arrays(transposed).multiply(h, relu, bias, mask)

    def some_rows(self, rows: Tensor | slice, h: Tensor) -> Tensor:
        if isinstance(rows, slice) or h.requires_grad:
            return super().some_rows(rows, h)
        return self.arrays(False).rows(rows.numpy()).multiply(h.contiguous())

    def to_dense(self) -> Tensor:
        indptr, columns, values = self.arrays(False)
        return torch.from_numpy(sp.csr_array((values, columns, indptr), shape=self.shape).toarray())


class MaskedColumns(Features):
    """Sparse features with each column times a factor, zero where it is masked; the matrix itself is not copied."""

    def __init__(self, whole: CompiledMatrix, factor: Tensor):
        self._whole, self._factor = whole, factor

    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        assert not relu
        assert mask is None
        arrays, factor = self._whole.arrays(transposed), self._factor
        return arrays.multiply_rows(factor, h) if transposed else arrays.multiply_columns(factor, h, bias)

    def to_dense(self) -> Tensor:
        return self._whole.to_dense() * self._factor


class CompiledEngine(BlockEngine):
    """Compiled loops: a view's dropped edges are removed once, so that its products visit only the others."""

    name = "cpu"
    device = _CPU
    gathers_rows = False
    dense_above = DENSE_ABOVE

    def __init__(self, dtype: torch.dtype = torch.float32):
        self.dtype = dtype

    def propagation(self, view: View) -> Matrix:
        kept_rows = MatrixRows(view)
        counts, sums = kept_rows.count(kept_rows.all_rows)

        def build(transposed: bool) -> CSRArrays:
            there = MatrixRows(view, transposed)
            kept = there.fill(there.all_rows, there.count(there.all_rows)[0] if transposed else counts)
            return kept.scaled(sums) if view.propagation_matrix is None else kept

        return CompiledMatrix(build, view.propagation.shape)

    def sampled_operators(
        self, view: View, nodes: Tensor, streams: Streams | None = None, draws: Tensor | None = None
    ) -> Operators:
        return self.block_operators(view, nodes)

    def block_matrix(self, arrays: CSRArrays, shape: tuple[int, int]) -> CompiledMatrix:
        return CompiledMatrix(lambda transposed: arrays.transposed(shape) if transposed else arrays, shape)

    def stored_product(self, matrix: CSRArrays, rows: Array) -> Callable[[bool], Tensor]:
        return functools.partial(matrix.multiply_array, rows)

    def block_features(self, rows: sp.csr_array, mask: Mask | None) -> Features:
        return _masked(self.block_matrix(to_arrays(rows), rows.shape), mask)

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        if mask is not None and mask.elements:
            return self.block_matrix(_without_zeros(x, x.values * mask.of_elements(x.rows, x.columns)), x.shape)
        return _masked(x.once("features", lambda: self.block_matrix(_without_zeros(x, x.values), x.shape)), mask)

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        # The logits of unit rows are within 1 / tau, so exp needs no maximum subtracted unless it would overflow.
        if rows.shape[0] <= FewRowsNTXent.LARGEST and 2 / temperature < _LARGEST_EXPONENT:
            return FewRowsNTXent.apply(unit_rows(rows), temperature, self.dtype)
        return super().nt_xent(rows, temperature)


def _masked(features: CompiledMatrix, mask: Mask | None) -> Features:
    """Features, with their columns masked where there is a mask."""
    return features if mask is None else MaskedColumns(features, mask.of_columns(features.shape[1], _CPU).float())


def _without_zeros(x: SparseMatrix, values: Tensor) -> CSRArrays:
    """Features with other values, of which zeros are left out."""
    kept = sp.csr_array((values.numpy(), x.columns.numpy(), x.indptr.numpy()), shape=x.shape, copy=True)
    kept.eliminate_zeros()
    return to_arrays(kept)
