"""Attention along edges, with sums over a node's edges in a fixed order: on CPU and GPU alike, and the same every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clnr.engine.pattern import Pattern


def attend(
    edges: Pattern, keep: Tensor | None, h: Tensor, source: Tensor, target: Tensor, dropout: Callable[[Tensor], Tensor]
) -> Tensor:
    """What ``Operators.attend`` says; ``keep`` says which entries are there, and ``dropout`` thins out the shares."""
    score = torch.nn.functional.leaky_relu(_at_source(source, edges) + _at_target(target, edges), 0.2)
    if keep is not None:
        score = score.masked_fill(~keep[:, None], -torch.inf)
    # The softmax does not depend on what is subtracted, so neither does its gradient.
    top = torch.segment_reduce(score.detach(), "max", offsets=edges.start, unsafe=True)
    share = (score - top[edges.rows]).exp()
    share = share / _at_target(_collect(share, edges), edges)
    message = dropout(share)[:, :, None] * _at_source(h.flatten(1), edges).unflatten(1, h.shape[1:])
    return _collect(message.flatten(1), edges).unflatten(1, h.shape[1:])


class _Spread(torch.autograd.Function):
    """A node's row at each of its edges; the gradient is the sum over these, in the order in which they stand."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, start: Tensor, order: Tensor | None) -> Tensor:
        ctx.start, ctx.order = start, order
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0] if ctx.order is None else grads[0].index_select(0, ctx.order)
        return _sums(grad, ctx.start), None, None, None


class _Collect(torch.autograd.Function):
    """The sum over the edges to each node; the gradient is the node's at each of them."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, start: Tensor, rows: Tensor) -> Tensor:
        ctx.rows = rows
        return _sums(values, start)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].index_select(0, ctx.rows), None, None


def _sums(values: Tensor, start: Tensor) -> Tensor:
    return torch.segment_reduce(values.contiguous(), "sum", offsets=start, unsafe=True)


def _at_target(rows: Tensor, edges: Pattern) -> Tensor:
    return _Spread.apply(rows, edges.rows, edges.start, None)


def _at_source(rows: Tensor, edges: Pattern) -> Tensor:
    return _Spread.apply(rows, edges.columns, edges.transposed_start, edges.order)


def _collect(values: Tensor, edges: Pattern) -> Tensor:
    return _Collect.apply(values, edges.start, edges.rows)
