"""Rows of all nodes that workers compute together: each computes its share of every product, and then they exchange rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.cpu.kept_rows import MatrixKeptRows
from clnr.engine.operators import Operators
from clnr.engine.sparse_engine import BlockEngine, Features, Matrix, MatrixOperators
from clnr.engine.sparse_matrix import SparseMatrix, to_scipy
from clnr.engine.view import View
from clnr.support.processes.workers import Workers


class SharedRows:
    """So many rows, of which each worker computes a contiguous share, from whole inputs that all of them have.

    Args:
        workers: Who share them; all must ask for the same in the same order.
        count: How many rows there are.
    """

    def __init__(self, workers: Workers, count: int):
        self._workers, self.count, self.own_rows = workers, count, workers.own_rows(count)

    def __call__(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """All rows, given a function of the inputs that computes this worker's; gradients pass."""
        given = [_Given.apply(each, self._workers) for each in inputs]
        return _Collected.apply(function(*given), self._workers, self)


class _Given(torch.autograd.Function):
    """What all workers have; its gradient is the sum of those of each one's rows."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, workers: Workers) -> Tensor:
        ctx.workers = workers
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.workers.all_reduce(grads[0])[0], None


class _Collected(torch.autograd.Function):
    """All workers' rows; each goes on with all of them alike, so that its own rows have their whole gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, workers: Workers, shared: SharedRows) -> Tensor:
        ctx.own_rows = shared.own_rows
        return workers.all_gather_rows(rows, shared.count)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0][ctx.own_rows], None, None


def is_whole(view: View) -> bool:
    """Whether a view is a graph in memory as it is, or another matrix on its nodes: nothing is drawn."""
    return view == View(view.device_graph, propagation_matrix=view.propagation_matrix) and not view.device_graph.in_files


class _OwnRows(MatrixOperators):
    """This worker's rows of the maps of all nodes; ``propagate`` takes the rows of all."""

    def __init__(self, view: View, engine: BlockEngine, own_rows: slice):
        super().__init__(view, engine)
        self._blocks, self._own_rows = engine, own_rows

    @property
    def _x(self) -> Tensor | Features:
        x, rows = self.view.device_graph.features, self._own_rows
        if isinstance(x, SparseMatrix):
            return x.once(("rows", rows.start, rows.stop), lambda: self._blocks.block_features(to_scipy(x)[rows], None))
        return self._engine.all_features(self.view.device_graph, x)[rows]

    @property
    def _adjacency(self) -> Matrix:
        return self.matrix

    @property
    def matrix(self) -> Matrix:
        """Own rows of what the view propagates by."""
        links, rows = self.view.propagation, self._own_rows
        asker = "rows", rows.start, rows.stop, self.view.propagation_matrix is None
        shape = rows.stop - rows.start, links.shape[1]
        return links.once(asker, lambda: self._blocks.block_matrix(_row_block(self.view, rows), shape))


def _row_block(view: View, rows: slice) -> CSRArrays:
    """Some rows of the matrix that a view propagates by."""
    rule = MatrixKeptRows(view)
    counts, sums = rule.count(rule.all_rows)
    kept = rule.fill(np.arange(rows.start, rows.stop), counts[rows])
    if view.propagation_matrix is None:
        # As rows among all, which have no entries here: a row is scaled by its own sum.
        among = np.concatenate([np.zeros(rows.start, np.int64), kept.indptr, np.full(len(sums) - rows.stop, kept.indptr[-1])])
        kept = kept._replace(values=kept._replace(indptr=among).scaled(sums).values)
    return kept


class SharedOperators(Operators):
    """The maps of all nodes, of whose rows each worker computes its share.

    Args:
        view: A view that ``is_whole``.
        engine: Computes, among workers.
    """

    def __init__(self, view: View, engine: BlockEngine):
        super().__init__(view)
        self._engine, self._rows = engine, SharedRows(engine.workers, view.propagation.shape[0])
        self._own = _OwnRows(view, engine, self._rows.own_rows)
        self.dense = engine.dense.by_rows(self._rows)

    @property
    def features(self) -> Tensor:
        x = self.view.device_graph.features
        if isinstance(x, SparseMatrix):
            return self._engine.features(x, None).to_dense()
        return self._engine.all_features(self.view.device_graph, x)[:, : self.view.device_graph.graph.num_features].float()

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is None:
            return self._rows(self._own.project, weight)
        return self._rows(self._own.project, weight, bias)

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        return self._rows(lambda given: self._own.propagate(given, relu), h)

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        engine, own_rows, x = self._engine, self._rows.own_rows, self.view.device_graph.features
        given = engine.all_features(self.view.device_graph, x) if h is None and isinstance(x, Tensor) else h
        if given is not None and weight.shape[0] <= weight.shape[1]:

            def layer(given: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                narrow = engine.weight(weight, first=h is None)
                return engine.dense.linear(self._own.propagate(given, relu and h is not None), narrow, bias)

            return self._rows(layer, given, weight, bias)
        if h is None:
            projected = self.project(weight)
        else:
            projected = self._rows(
                lambda h, weight: (h[own_rows].relu() if relu else h[own_rows]) @ engine.weight(weight), h, weight
            )
        return self._rows(lambda given, bias: self._own.matrix(given, bias=bias), projected, bias)
