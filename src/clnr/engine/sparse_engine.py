"""What engines with sparse matrices share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from clnr.engine.base import Engine
from clnr.engine.dense import PLAIN, Dense
from clnr.engine.operators import Operators, unit_rows
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.streams import IdentityKey, Streams
from clnr.engine.torch_ntxent import blocked_nt_xent
from clnr.engine.view import DeviceGraph, Mask, View
from clnr.graph import Graph


class Matrix(ABC):
    """A sparse matrix of one view, ready to multiply; its values get no gradient.

    A product includes ReLU before it, bias after it, and ReLU's mask of the gradient.
    """

    dense: Dense = PLAIN
    """The engine's dense operations, for the gradient of the bias."""

    @abstractmethod
    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """S f(h) + bias, f being ReLU or the identity, and zero where ``mask`` is not above zero; or the same of S^T."""

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        """S h, or S relu(h); plus ``bias`` where given."""
        return _FusedProduct.apply(h.contiguous(), bias, self, relu)

    def some_rows(self, rows: Tensor | slice, h: Tensor) -> Tensor:
        """Some rows of S h, without a gradient where no others are computed."""
        return self(h)[rows]


class Features(Matrix):
    """The features of a view."""

    @abstractmethod
    def to_dense(self) -> Tensor: ...


class _FusedProduct(torch.autograd.Function):
    """S f(h) + b, f being ReLU or the identity; its gradient is S^T g, and zero where f was."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, bias: Tensor | None, matrix: Matrix, relu: bool) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(h if relu else None)
        return matrix.multiply(False, h, relu=relu, bias=bias)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        (h,) = ctx.saved_tensors
        of_h = ctx.matrix.multiply(True, g.contiguous(), mask=h) if ctx.needs_input_grad[0] else None
        return of_h, ctx.matrix.dense.column_sums(g) if ctx.needs_input_grad[1] else None, None, None


class MatrixOperators(Operators):
    """Products with a sparse matrix for propagation and, where features are sparse, with another for the first layer."""

    def __init__(self, view: View, engine: SparseEngine):
        super().__init__(view)
        self._engine, self.dense = engine, engine.dense

    @property
    @abstractmethod
    def _x(self) -> Tensor | Features:
        """X, masked where it is sparse or elements are masked; a mask of dense columns is applied to the weight instead."""

    @property
    @abstractmethod
    def adjacency(self) -> Matrix:
        """What to propagate by."""

    @property
    def features(self) -> Tensor:
        mask = self.view.mask
        if isinstance(self._x, Features):
            return self._permuted(self._x.to_dense())
        x = self._x[:, : self.view.device_graph.num_features].float()
        return self._permuted(x if mask is None or mask.elements else x * mask.of_columns(x.shape[1], x.device))

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if isinstance(self._x, Features):
            return self._permuted(self._x(weight, bias=bias).to(self._engine.dtype))
        weight = self._masked(weight)
        return self._permuted(self._x @ weight if bias is None else self.dense.linear(self._x, weight, bias))

    def _masked(self, weight: Tensor) -> Tensor:
        """A column mask on X is a row mask on W, so that X need not be copied."""
        mask = self.view.mask
        return self._engine.weight(weight, None if mask is None or mask.elements else mask, first=True)

    def _without_masked_elements(self, rows: Tensor, nodes: Tensor | None) -> Tensor:
        """Dense features of some nodes, or of all, after a mask of elements, if that is the view's."""
        mask = self.view.mask
        if mask is None or not mask.elements:
            return rows
        nodes = torch.arange(len(rows), device=rows.device) if nodes is None else nodes
        return rows * mask.of_elements(nodes[:, None], torch.arange(rows.shape[1], device=rows.device)).to(rows.dtype)

    def _permuted(self, rows: Tensor) -> Tensor:
        """Rows in the order of the view's nodes."""
        return rows

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        return self.adjacency(h, relu)

    def propagate_to(self, nodes: Tensor | slice, h: Tensor) -> Tensor:
        return self.adjacency.some_rows(nodes, h)

    def _propagates_first(self, weight: Tensor) -> bool:
        """Whether A_hat h is cheaper to multiply by a weight than h is, before it is propagated."""
        return weight.shape[0] <= weight.shape[1]

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        first = self._propagates_first(weight)
        if h is None and first and isinstance(self._x, Tensor):
            return self.dense.linear(self.propagate(self._permuted(self._x)), self._masked(weight), bias)
        if h is None:
            return self.adjacency(self.project(weight), bias=bias)
        if first:
            return self.dense.linear(self.propagate(h, relu), self._engine.weight(weight), bias)
        return self.adjacency((h.relu() if relu else h) @ self._engine.weight(weight), bias=bias)


class SparseOperators(MatrixOperators):
    """The maps of all nodes. Views of the same features share what they are multiplied by, and nodes may be permuted."""

    def __init__(self, view: View, engine: SparseEngine, streams: Streams | None):
        super().__init__(view, engine)
        self._streams = streams
        # Both are made now, before views part.
        _ = self._x, self.adjacency

    @cached_property
    def _x(self) -> Tensor | Features:
        x = self.view.device_graph.features
        if not isinstance(x, Tensor):
            return self._engine.features(x, self.view.mask)
        return self._without_masked_elements(self._engine.all_features(self.view.device_graph, x), None)

    @cached_property
    def adjacency(self) -> Matrix:
        return self._engine.propagation(self.view)

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if self._streams is None or self.view.mask is not None or self.view.node_permutation is not None:
            return super().project(weight, bias)
        # Views with all features share this product, and their gradients are added up before it is differentiated.
        product = super().project
        return self._streams.once(IdentityKey(weight, bias), lambda: product(weight, bias))

    def _permuted(self, rows: Tensor) -> Tensor:
        return rows if self.view.node_permutation is None else rows.index_select(0, self.view.node_permutation)


class SparseEngine(Engine):
    """An engine that multiplies sparse matrices."""

    dense_above: float
    """Share of non-zero features above which a dense first layer is faster."""

    @abstractmethod
    def propagation(self, view: View) -> Matrix:
        """The matrix that the view propagates by."""

    @abstractmethod
    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        """The masked features."""

    def prepare(self, view: View) -> None:
        if not view.device_graph.in_blocks and isinstance(view.device_graph.features, Tensor):
            self.all_features(view.device_graph, view.device_graph.features)

    def all_features(self, device_graph: DeviceGraph, x: Tensor) -> Tensor:
        """``dense_features``, computed once for a graph."""
        return device_graph.once(("features", self.dtype), lambda: self.dense_features(x))

    def dense_features(self, x: Tensor) -> Tensor:
        """Dense features in the form that is multiplied."""
        return x.to(self.dtype)

    def weight(self, weight: Tensor, mask: Mask | None = None, first: bool = False) -> Tensor:
        """A weight in the form that rows are multiplied by, the ``first`` fitting ``dense_features``; masked rows are zero."""
        if mask is not None:
            weight = weight * mask.of_columns(weight.shape[0], weight.device)[:, None]
        return weight.to(self.dtype)

    def to_device(self, graph: Graph, loop_weight: float = 1.0) -> DeviceGraph:
        return DeviceGraph(graph, self.device, loop_weight, dense_above=self.dense_above)

    def operators(self, view: View, streams: Streams | None = None) -> Operators:
        return SparseOperators(view, self, streams)

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        return blocked_nt_xent(unit_rows(rows), temperature, self.dtype)
