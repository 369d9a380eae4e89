"""Attention along edges. Sums over a node's edges have a fixed order, so that results repeat, on a GPU too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clnr.engine.sparse_matrix import SparseMatrix

_NUMBERS = 1 << 27


def attend(
    edges: SparseMatrix, keep: Tensor | None, h: Tensor, source: Tensor, target: Tensor, dropout: Callable[[Tensor], Tensor]
) -> Tensor:
    """``Operators.attend``, where ``keep`` is the mask of kept edges and ``dropout`` that of the attention weights."""
    score = torch.nn.functional.leaky_relu(at_source(source, edges) + at_target(target, edges), 0.2)
    if keep is not None:
        score = score.masked_fill(~keep[:, None], -torch.inf)
    # The softmax does not depend on what is subtracted, so the maximum needs no gradient.
    top = torch.segment_reduce(score.detach(), "max", offsets=edges.indptr, unsafe=True)
    share = (score - top[edges.rows]).exp()
    share = share / at_target(collect(share, edges), edges)
    return _Mix.apply(dropout(share), h, edges)


class _Spread(torch.autograd.Function):
    """Each edge gets the row of its node; the gradient is the sum over a node's edges, in their order."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, indptr: Tensor, order: Tensor | None) -> Tensor:
        ctx.indptr, ctx.order = indptr, order
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0] if ctx.order is None else grads[0].index_select(0, ctx.order)
        return _sums(grad, ctx.indptr), None, None, None


class _Collect(torch.autograd.Function):
    """The sum over the edges to each node; each edge gets the gradient of its node."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, indptr: Tensor, rows: Tensor) -> Tensor:
        ctx.rows = rows
        return _sums(values, indptr)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].index_select(0, ctx.rows), None, None


class _Mix(torch.autograd.Function):
    """The weighted sum of source rows at each target; some heads at a time, and no messages are kept."""

    @staticmethod
    def forward(ctx: Any, share: Tensor, h: Tensor, edges: SparseMatrix) -> Tensor:
        ctx.save_for_backward(share, h)
        ctx.edges = edges
        return torch.cat([_mix(share[:, k], h[:, k].index_select(0, edges.columns), edges.indptr) for k in _heads(share, h)], 1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        share, h = ctx.saved_tensors
        edges, order = ctx.edges, ctx.edges.order
        shares, rows = [], []
        for k in _heads(share, h):
            grad = grads[0][:, k].index_select(0, edges.rows)
            shares.append((grad * h[:, k].index_select(0, edges.columns)).sum(2))
            rows.append(_mix(share[:, k].index_select(0, order), grad.index_select(0, order), edges.transposed_indptr))
        return torch.cat(shares, 1), torch.cat(rows, 1), None


def _mix(share: Tensor, rows: Tensor, indptr: Tensor) -> Tensor:
    return _sums((share[:, :, None] * rows).flatten(1), indptr).unflatten(1, rows.shape[1:])


def _heads(share: Tensor, h: Tensor) -> list[slice]:
    """Heads in groups whose messages take a bounded memory."""
    size = max(1, _NUMBERS // max(share.shape[0] * h.shape[2], 1))
    return [slice(begin, begin + size) for begin in range(0, share.shape[1], size)]


def _sums(values: Tensor, indptr: Tensor) -> Tensor:
    return torch.segment_reduce(values.contiguous(), "sum", offsets=indptr, unsafe=True)


def at_target(rows: Tensor, edges: SparseMatrix) -> Tensor:
    """Each edge's target's row."""
    return _Spread.apply(rows, edges.rows, edges.indptr, None)


def at_source(rows: Tensor, edges: SparseMatrix) -> Tensor:
    """Each edge's source's row."""
    return _Spread.apply(rows, edges.columns, edges.transposed_indptr, edges.order)


def collect(values: Tensor, edges: SparseMatrix) -> Tensor:
    """The sum of each target's edges' rows."""
    return _Collect.apply(values, edges.indptr, edges.rows)
