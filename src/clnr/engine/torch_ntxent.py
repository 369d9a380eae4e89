"""NT-Xent of unit rows in plain torch: in blocks of rows, for one worker or many; and of few rows, with half the products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from clnr.engine.products import narrowed, product
from clnr.support.processes.workers import ALONE, Workers

_SIMILARITIES_PER_BLOCK = 1 << 24


def blocked_nt_xent(rows: Tensor, temperature: float, dtype: torch.dtype = torch.float32, workers: Workers = ALONE) -> Tensor:
    """A worker's part of ``Engine.nt_xent``, given its unit rows: one view's, then the other's. All parts add up to it.

    Products are of rows in ``dtype``; all else is in float32.
    """
    return _BlockedNTXent.apply(rows, temperature, dtype, workers)


class _BlockedNTXent(torch.autograd.Function):
    r"""NT-Xent over all 2m rows R of all workers, in blocks of rows: memory grows with m, never with m squared.

    With :math:`l = R R^T / \tau` (diagonal left out) and :math:`P_{ij} = \exp(l_{ij} - \mathrm{lse}_i)` the gradient is
    :math:`((P + P^T) R - 2 R_{twin}) / (2 m \tau)`, and :math:`P^T_{ij} = \exp(l_{ij} - \mathrm{lse}_j)` since l is symmetric.
    So a worker needs R and every lse for the gradients of its own rows, and no gradient has to be sent: all workers' parts are
    added up, hence have the same weight.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float, dtype: torch.dtype, workers: Workers) -> Tensor:
        # Of each node its rows in both views side by side, so that all rows are in the order of nodes.
        every = torch.cat(workers.all_gather(torch.cat(rows.chunk(2), 1)).chunk(2, 1))
        count, narrow, anchors = len(every), narrowed(every, dtype), narrowed(rows, dtype)
        nodes = workers.share(torch.arange(count // 2, device=rows.device))
        assert nodes is not None
        places = torch.cat([nodes, nodes + count // 2])
        lse, blocks = rows.new_empty(len(rows)), _blocks(len(rows), count)
        for block in blocks:
            logits = _logits(anchors[block], narrow, places[block], temperature)
            lse[block] = logits.logsumexp(1)
        every_lse = workers.all_gather(torch.stack(lse.chunk(2), 1)).T.reshape(-1)
        twins = every[(places + count // 2) % count]
        # The logits of a single block are kept for the backward pass; those of several are computed again, to save memory.
        ctx.save_for_backward(rows, every, places, lse, every_lse, logits if len(blocks) == 1 else None)
        ctx.temperature, ctx.dtype = temperature, dtype
        losses = lse - (rows * twins).sum(1) / temperature
        return losses.mean() if workers.alone else losses.sum() / count

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, every, places, lse, every_lse, kept = ctx.saved_tensors
        count, narrow, anchors = len(every), narrowed(every, ctx.dtype), narrowed(rows, ctx.dtype)
        twins = (places + count // 2) % count
        gradient = every[twins].mul_(-2.0) if narrow is every else torch.empty_like(rows)
        for block in _blocks(len(rows), count):
            logits = _logits(anchors[block], narrow, places[block], ctx.temperature) if kept is None else kept
            both = (logits - lse[block, None]).exp_().add_((logits - every_lse).exp_())
            if narrow is every:
                gradient[block] += both @ every
            else:
                gradient[block] = product(narrowed(_less_twins(both, twins[block]), narrow.dtype), narrow)
        return gradient * (grads[0] / (count * ctx.temperature)), None, None, None


def _blocks(rows: int, count: int) -> list[slice]:
    """Blocks of rows whose similarities to ``count`` rows take a bounded memory."""
    size = max(1, _SIMILARITIES_PER_BLOCK // max(count, 1))
    return [slice(begin, begin + size) for begin in range(0, rows, size)]


def _logits(anchors: Tensor, every: Tensor, places: Tensor, temperature: float) -> Tensor:
    """The similarities of some rows, which are in these places, with every row; minus infinity with themselves."""
    return product(anchors, every.T).div_(temperature).scatter_(1, places[:, None], -torch.inf)


def _less_twins(both: Tensor, twins: Tensor) -> Tensor:
    """Some rows of P + P^T, less 2 where a row meets its twin, in place: the gradient as one product.

    Where twins are close, both are nearly 2. They are subtracted before they are rounded to bfloat16.
    """
    return both.scatter_add_(1, twins[:, None], both.new_full((len(both), 1), -2.0))


class FewRowsNTXent(torch.autograd.Function):
    r"""NT-Xent of few unit rows: all similarities are kept, and as they are symmetric, only half of them are computed.

    A form of its own, since blocks of rows of many workers have no such symmetry, and its sums are of other numbers.

    Products are of rows in ``dtype``; the rest, and the similarities of twins in the numerator, is in float32.

    With :math:`E = \exp((R R^T - 1) / \tau)` (diagonal zero) and row sums s, the loss is the mean of
    :math:`\log s_i + (1 - r_i \cdot r_{twin}) / \tau`, and its gradient
    :math:`((E \circ (1/s_i + 1/s_j)) R - 2 R_{twin}) / (2 m \tau)`.
    """

    LARGEST = 4096
    _ROWS_PER_BLOCK = 512

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float, dtype: torch.dtype) -> Tensor:
        count, narrow = rows.shape[0], narrowed(rows, dtype)
        blocks = [slice(i, i + FewRowsNTXent._ROWS_PER_BLOCK) for i in range(0, count, FewRowsNTXent._ROWS_PER_BLOCK)]
        e = rows.new_empty(count, count)
        for i, one in enumerate(blocks):
            for other in blocks[i:]:
                part = product(narrow[one], narrow[other].T).sub_(1).div_(temperature).exp_()
                e[one, other] = part
                e[other, one] = part.T
        e.fill_diagonal_(0)
        total = e.sum(1)
        twin = rows.roll(count // 2, 0)
        ctx.save_for_backward(rows, None if narrow is rows else narrow, e, total)
        ctx.temperature = temperature
        return (total.log() + (1 - (rows * twin).sum(1)) / temperature).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, narrow, e, total = ctx.saved_tensors
        count = rows.shape[0]
        share = 1 / total
        both = (share[:, None] + share).mul_(e)
        if narrow is None:
            gradient = torch.addmm(rows.roll(count // 2, 0), both, rows, beta=-2)
        else:
            twins = torch.arange(count, device=rows.device).roll(count // 2)
            gradient = product(narrowed(_less_twins(both, twins), narrow.dtype), narrow)
        return gradient * (grads[0] / (count * ctx.temperature)), None, None
