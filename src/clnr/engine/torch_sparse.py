"""An engine of torch's own sparse products."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clnr.engine.sparse_engine import Features, Matrix, SparseEngine
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.view import Mask, View

Multiply = Callable[[Tensor, Tensor], Tensor]

# torch warns once a process that CSR tensors are in beta. What is used of them here is tested against the reference, so the
# warning is triggered here, on an empty one, and ignored; a user's own warning filters stay as they are.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0), size=(0, 0))


class _Product(torch.autograd.Function):
    """S h for a constant sparse S, given with its transpose; the gradient is S^T g."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, matrix: Tensor, transposed: Tensor, multiply: Multiply) -> Tensor:
        ctx.transposed, ctx.multiply = transposed, multiply
        return multiply(matrix, h)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.multiply(ctx.transposed, grads[0].contiguous()), None, None, None


class TorchMatrix(Features):
    """A sparse matrix with one view's values, multiplied by torch."""

    def __init__(self, matrix: SparseMatrix, values: Tensor, multiply: Multiply):
        rows, columns = matrix.shape
        self._multiply = multiply
        self._matrix = torch.sparse_csr_tensor(matrix.indptr, matrix.columns, values, size=(rows, columns))
        self._transposed = torch.sparse_csr_tensor(
            matrix.transposed_indptr, matrix.transposed_columns, values[matrix.order], size=(columns, rows)
        )

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        h = (h.relu() if relu else h).contiguous()
        product = _Product.apply(h, self._matrix, self._transposed, self._multiply)
        return product if bias is None else product + bias

    def to_dense(self) -> Tensor:
        return self._matrix.to_dense()


class TorchEngine(SparseEngine):
    """Torch's own sparse product, on a fixed structure: dropped edges get the value zero."""

    def __init__(self, name: str, device: torch.device, multiply: Multiply, dense_above: float):
        self.name = name
        self.device = device
        self.dense_above = dense_above
        self._multiply = multiply

    def propagation(self, view: View) -> Matrix:
        links = view.propagation
        weight = links.values if view.drop is None else links.values * view.drop.keep(links)
        if view.propagation_matrix is None:
            ones = torch.ones(links.shape[1], 1, device=self.device)
            structure = torch.sparse_csr_tensor(links.indptr, links.columns, weight, size=links.shape)
            scale = self._multiply(structure, ones)[:, 0].rsqrt()
            weight = scale[links.rows] * weight * scale[links.columns]
        return TorchMatrix(links, weight, self._multiply)

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        return TorchMatrix(x, x.values if mask is None else x.values * mask.of_entries(x), self._multiply)


def matrix_product(matrix: Tensor, dense: Tensor) -> Tensor:
    """Torch's product, which on a GPU is cuSPARSE's."""
    return matrix @ dense


def row_reduction(matrix: Tensor, dense: Tensor) -> Tensor:
    """The same as a sum over each row, which is faster on a CPU."""
    return torch.sparse.mm(matrix, dense, "sum")
