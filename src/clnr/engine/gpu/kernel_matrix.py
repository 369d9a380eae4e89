"""Sparse matrices that Triton's kernels multiply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from torch import Tensor

from clnr.engine.dense import Dense
from clnr.engine.gpu.triton_dense import the_kernels
from clnr.engine.sparse_engine import Features, Matrix, SparseEngine
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.view import Mask


class KernelMatrix(Matrix):
    """A matrix without what one view drops, its rows times ``left`` and its columns times ``right``, laid out for the kernels.

    Its transpose is built when a gradient needs it.
    """

    def __init__(
        self,
        dense: Dense,
        forward: Any,
        transposed: Callable[[], Any],
        left: Tensor | None = None,
        right: Tensor | None = None,
    ):
        self._kernels, self.dense = the_kernels(), dense
        self._forward, self._transposed = forward, cache(transposed)
        self._left, self._right = left, right

    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        matrix, left, right = self._forward, self._left, self._right
        if transposed:
            matrix, left, right = self._transposed(), right, left
        return self._kernels.multiply(matrix, h, left, right, relu, mask, bias)


class KernelFeatures(KernelMatrix, Features):
    """Sparse features; a mask of columns sets rows of the weight to zero."""

    def __init__(self, forward: Any, transposed: Callable[[], Any], engine: SparseEngine, x: SparseMatrix, mask: Mask | None):
        super().__init__(engine.dense, forward, transposed)
        self._engine, self._x, self._mask = engine, x, mask

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        return super().__call__(self._engine.weight(h, self._mask), relu, bias)

    def to_dense(self) -> Tensor:
        x, mask = self._x, self._mask
        dense = x.values.new_zeros(x.shape)
        dense[x.rows, x.columns] = x.values if mask is None else x.values * mask.of_columns(x.shape[1], x.device)[x.columns]
        return dense


def structures(matrix: SparseMatrix) -> tuple[Any, Any]:
    """A matrix and its transpose, laid out for the kernels once."""

    def laid_out() -> tuple[Any, Any]:
        if matrix.pattern is not None:
            # To lay out is to wait for the GPU, but not to fill in other values.
            forward, transposed = structures(matrix.pattern)
            return replace(forward, values=matrix.values), replace(transposed, values=matrix.transposed_values)
        prepare, (rows, columns) = the_kernels().prepare, matrix.shape
        values = None if bool((matrix.values == 1).all()) else matrix.values
        forward = prepare(matrix.indptr, matrix.columns, values, (rows, columns))
        values = None if values is None else matrix.transposed_values
        return forward, prepare(matrix.transposed_indptr, matrix.transposed_columns, values, (columns, rows))

    return matrix.once("structure", laid_out)
