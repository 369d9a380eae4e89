"""The engine for CPU and GPU: fixed compressed rows whose values change with the view, and losses in blocks.

Dropped edges get the value zero on a structure that never changes, so nothing is sorted or allocated by shape in an epoch.
A column mask on X is a row mask on W, so a masked view needs no copy of X. Gradients with respect to values are never asked
for, since torch would form N x N for them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clnr.engine.base import Engine, Operators, Placed, View, place
from clnr.engine.pattern import Pattern
from clnr.graph import Graph

Multiply = Callable[[Tensor, Tensor], Tensor]

# torch remarks once a process that CSR tensors are young. What is used of them here is tested against the reference, so the
# remark is spent on an empty one, and a user's own warning filters stay as they are.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0), size=(0, 0))

_SIMILARITIES = 1 << 24


class _Product(torch.autograd.Function):
    """S h for a constant sparse S given with its transpose; the gradient is S^T g."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, matrix: Tensor, transposed: Tensor, multiply: Multiply) -> Tensor:
        ctx.transposed, ctx.multiply = transposed, multiply
        return multiply(matrix, h)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.multiply(ctx.transposed, grads[0].contiguous()), None, None, None


class _Sparse:
    """A pattern with one view's values, ready to multiply."""

    def __init__(self, pattern: Pattern, values: Tensor, multiply: Multiply):
        rows, columns = pattern.shape
        self._multiply = multiply
        self._matrix = torch.sparse_csr_tensor(pattern.start, pattern.columns, values, size=(rows, columns))
        self._transposed = torch.sparse_csr_tensor(
            pattern.transposed_start, pattern.transposed_columns, values[pattern.order], size=(columns, rows)
        )

    def __matmul__(self, h: Tensor) -> Tensor:
        return _Product.apply(h.contiguous(), self._matrix, self._transposed, self._multiply)

    def dense(self) -> Tensor:
        return self._matrix.to_dense()


class SparseOperators(Operators):
    """Sparse products for propagation and, where features are sparse, for the first layer."""

    def __init__(self, view: View, multiply: Multiply):
        super().__init__(view)
        placed, mask = view.placed, view.mask
        links = placed.edges if view.links is None else view.links
        weight = links.values if view.drop is None else links.values * view.drop.keep(links)
        if view.links is None:
            ones = torch.ones(placed.graph.num_nodes, 1, device=placed.device)
            degree = multiply(torch.sparse_csr_tensor(links.start, links.columns, weight, size=links.shape), ones)[:, 0]
            scale = degree.rsqrt()
            weight = scale[links.rows] * weight * scale[links.columns]
        self._adjacency = _Sparse(links, weight, multiply)
        self._x: Tensor | _Sparse
        self._columns: Tensor | None = None
        x = placed.features
        count = placed.graph.num_features
        if mask is not None and not mask.elements:
            self._columns = mask.of_columns(count, placed.device)
        if isinstance(x, Tensor):
            if mask is not None and mask.elements:
                rows = torch.arange(x.shape[0], device=x.device)[:, None]
                x = x * mask.of_elements(rows, torch.arange(count, device=x.device)[None, :])
            self._x = x
        else:
            values = x.values if mask is None or not mask.elements else x.values * mask.of_elements(x.rows, x.columns)
            self._x = _Sparse(x, values, multiply)

    @property
    def features(self) -> Tensor:
        x = self._x if isinstance(self._x, Tensor) else self._x.dense()
        return self._ordered(x if self._columns is None else x * self._columns)

    def project(self, weight: Tensor) -> Tensor:
        return self._ordered(self._x @ (weight if self._columns is None else weight * self._columns[:, None]))

    def _ordered(self, rows: Tensor) -> Tensor:
        return rows if self.view.order is None else rows.index_select(0, self.view.order)

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        return self._adjacency @ (h.relu() if relu else h)

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        narrow = weight.shape[0] < weight.shape[1]
        if h is None and narrow and isinstance(self._x, Tensor):
            return torch.addmm(bias, self.propagate(self.features), weight)
        if h is None:
            return self.propagate(self.project(weight)) + bias
        if narrow:
            return torch.addmm(bias, self.propagate(h, relu), weight)
        return self.propagate((h.relu() if relu else h) @ weight) + bias


class _Contrast(torch.autograd.Function):
    r"""NT-Xent over all 2m rows, in blocks of rows: memory grows with m, never with m squared.

    With :math:`l = R R^T / \tau` (diagonal left out) and :math:`P_{ij} = \exp(l_{ij} - \mathrm{lse}_i)` the gradient is
    :math:`((P + P^T) R - 2 R_{twin}) / (2 m \tau)`, and :math:`P^T_{ij} = \exp(l_{ij} - \mathrm{lse}_j)` since l is symmetric.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float) -> Tensor:
        count = rows.shape[0]
        lse = rows.new_empty(count)
        for block in _blocks(count):
            logits = _logits(rows, block, temperature)
            lse[block] = logits.logsumexp(1)
        twin = rows.roll(count // 2, 0)
        # A single block's logits are kept for the way back; several would fill the memory and are computed again.
        ctx.save_for_backward(rows, lse, logits if len(_blocks(count)) == 1 else None)
        ctx.temperature = temperature
        return (lse - (rows * twin).sum(1) / temperature).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, lse, kept = ctx.saved_tensors
        count = rows.shape[0]
        gradient = rows.roll(count // 2, 0).mul_(-2.0)
        for block in _blocks(count):
            logits = _logits(rows, block, ctx.temperature) if kept is None else kept
            both = (logits - lse[block, None]).exp_().add_((logits - lse).exp_())
            gradient[block] += both @ rows
        return gradient * (grads[0] / (count * ctx.temperature)), None


def _blocks(count: int) -> list[slice]:
    """Rows in runs whose similarities to all rows take a bounded memory."""
    size = max(1, _SIMILARITIES // max(count, 1))
    return [slice(begin, begin + size) for begin in range(0, count, size)]


def _logits(rows: Tensor, block: slice, temperature: float) -> Tensor:
    logits = (rows[block] @ rows.T).div_(temperature)
    logits.diagonal(block.start).fill_(-torch.inf)
    return logits


class SparseEngine(Engine):
    """One device, one sparse product.

    Args:
        name: Of the engine, as recorded with a run.
        device: Where it computes.
        multiply: Compressed rows times dense.
        dense_above: Share of non-zero features above which a dense first layer is faster.
    """

    def __init__(self, name: str, device: torch.device, multiply: Multiply, dense_above: float):
        self.name = name
        self.device = device
        self._multiply = multiply
        self._dense_above = dense_above

    def place(self, graph: Graph) -> Placed:
        return place(graph, self.device, self._dense_above)

    def operators(self, view: View) -> Operators:
        return SparseOperators(view, self._multiply)

    def contrast(self, rows: Tensor, temperature: float) -> Tensor:
        return _Contrast.apply(rows, temperature)
