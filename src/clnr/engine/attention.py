"""Attention along edges. Sums over a node's edges have a fixed order, so that results repeat, on a GPU too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clnr.engine.dense import Dense
from clnr.engine.sparse_matrix import SparseMatrix

_NUMBERS_PER_GROUP = 1 << 27


def attend(
    edges: SparseMatrix,
    keep: Tensor | None,
    h: Tensor,
    source: Tensor,
    target: Tensor,
    dropout: Callable[[Tensor], Tensor],
    dense: Dense,
) -> Tensor:
    """``Operators.attend``, where ``keep`` is the mask of kept edges and ``dropout`` that of the attention weights."""

    def at_target(rows: Tensor) -> Tensor:
        return _Spread.apply(rows, edges, dense, False)

    score = torch.nn.functional.leaky_relu(_Spread.apply(source, edges, dense, True) + at_target(target), 0.2)
    if keep is not None:
        score = score.masked_fill(~keep[:, None], -torch.inf)
    # The softmax does not depend on what is subtracted, so the maximum needs no gradient.
    share = (score - dense.segment_max(score.detach(), edges)[edges.rows]).exp()
    share = share / at_target(_Collect.apply(share, edges, dense))
    return _Mix.apply(dropout(share), h, edges, dense)


class _Spread(torch.autograd.Function):
    """Each edge gets the row of its source, or of its target; the gradient is the sum over a node's edges, in their order."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, edges: SparseMatrix, dense: Dense, source: bool) -> Tensor:
        ctx.edges, ctx.dense, ctx.source = edges, dense, source
        return rows.index_select(0, edges.columns if source else edges.rows)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0].index_select(0, ctx.edges.order) if ctx.source else grads[0]
        return ctx.dense.segment_sums(grad, ctx.edges, transposed=ctx.source), None, None, None


class _Collect(torch.autograd.Function):
    """The sum over the edges to each node; each edge gets the gradient of its node."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, edges: SparseMatrix, dense: Dense) -> Tensor:
        ctx.edges = edges
        return dense.segment_sums(values, edges)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].index_select(0, ctx.edges.rows), None, None


class _Mix(torch.autograd.Function):
    """The weighted sum of source rows at each target; some heads at a time, and no messages are kept."""

    @staticmethod
    def forward(ctx: Any, share: Tensor, h: Tensor, edges: SparseMatrix, dense: Dense) -> Tensor:
        ctx.save_for_backward(share, h)
        ctx.edges, ctx.dense = edges, dense

        def mixed(k: slice) -> Tensor:
            return _weighted(share[:, k], h[:, k].index_select(0, edges.columns), partial(dense.segment_sums, links=edges))

        return torch.cat([mixed(k) for k in _heads(share, h)], 1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        share, h = ctx.saved_tensors
        edges, order = ctx.edges, ctx.edges.order
        sums = partial(ctx.dense.segment_sums, links=edges, transposed=True)
        shares, rows = [], []
        for k in _heads(share, h):
            grad = grads[0][:, k].index_select(0, edges.rows)
            shares.append((grad * h[:, k].index_select(0, edges.columns)).sum(2))
            rows.append(_weighted(share[:, k].index_select(0, order), grad.index_select(0, order), sums))
        return torch.cat(shares, 1), torch.cat(rows, 1), None, None


def _weighted(share: Tensor, rows: Tensor, sums: Callable[[Tensor], Tensor]) -> Tensor:
    return sums((share[:, :, None] * rows).flatten(1)).unflatten(1, rows.shape[1:])


def _heads(share: Tensor, h: Tensor) -> list[slice]:
    """Heads in groups whose messages take a bounded memory."""
    size = max(1, _NUMBERS_PER_GROUP // max(share.shape[0] * h.shape[2], 1))
    return [slice(begin, begin + size) for begin in range(0, share.shape[1], size)]
