"""NT-Xent of rows that workers share: each has some of the anchors, and compares them with all rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from clnr.engine.base import unit_rows
from clnr.support.processes.workers import Workers

_BLOCK = 1 << 22


def shared_nt_xent(rows: Tensor, temperature: float, workers: Workers) -> Tensor:
    """A worker's part of ``Engine.nt_xent``, given its rows: one view's, then the other's. All workers' parts add up to it."""
    return _SharedNTXent.apply(unit_rows(rows), temperature, workers)


class _SharedNTXent(torch.autograd.Function):
    r"""With all workers' unit rows R and :math:`\ell_i` the logarithm of the sum of :math:`\exp(r_i \cdot r_j / \tau)` over
    :math:`j \ne i`, the loss is the mean of :math:`\ell_i - r_i \cdot r_{twin} / \tau` over all rows, and its gradient

    .. math:: \frac{1}{2 m \tau} \left( \sum_j (e^{s_{ij} - \ell_i} + e^{s_{ij} - \ell_j}) r_j - 2 r_{twin} \right)

    where :math:`s_{ij} = r_i \cdot r_j / \tau`. So a worker needs R and all :math:`\ell` for the gradients of its own rows, and
    no gradient has to be sent: all workers' parts are added up, hence have the same weight.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float, workers: Workers) -> Tensor:
        # Of each node its rows in both views side by side, so that all rows are in the order of nodes.
        every = workers.all_gather(torch.cat(rows.chunk(2), 1))
        every = torch.cat(every.chunk(2, 1))
        count = len(every)
        own = workers.share(torch.arange(count // 2, device=rows.device))
        assert own is not None
        own = torch.cat([own, own + count // 2])
        twins = every[(own + count // 2) % count]
        logs = torch.cat([each.logsumexp(1) for each in _similarities(rows, every, own, temperature)])
        all_logs = workers.all_gather(torch.stack(logs.chunk(2), 1)).T.reshape(-1)
        ctx.save_for_backward(rows, every, own, logs, all_logs, twins)
        ctx.temperature = temperature
        return (logs - (rows * twins).sum(1) / temperature).sum() / count

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, every, own, logs, all_logs, twins = ctx.saved_tensors
        gradient, done = -2 * twins, 0
        for each in _similarities(rows, every, own, ctx.temperature):
            here = slice(done, done + len(each))
            share = (each - logs[here, None]).exp_() + (each - all_logs).exp_()
            gradient[here].addmm_(share, every)
            done += len(each)
        return gradient * (grads[0] / (len(every) * ctx.temperature)), None, None


def _similarities(rows: Tensor, every: Tensor, own: Tensor, temperature: float) -> Any:
    """The similarities of rows with every row, block by block; minus infinity with themselves."""
    size = max(1, _BLOCK // len(every))
    for some, places in zip(rows.split(size), own.split(size), strict=True):
        yield (some @ every.T).div_(temperature).scatter_(1, places[:, None], -torch.inf)
