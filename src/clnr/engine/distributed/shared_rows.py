"""Rows that workers compute together: each computes its share of them, and then they exchange rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clnr.support.processes.workers import Workers


class SharedRows:
    """Rows of which each worker computes a contiguous share, from whole inputs that all have; all ask in the same order."""

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
