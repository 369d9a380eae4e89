"""P^T P, of which half is enough."""

from __future__ import annotations

import functools
from types import ModuleType

import torch
from torch import Tensor

_WORTH_HALVING = 128


@functools.cache
def kernels() -> ModuleType | None:
    """``clnr.engine.kernels``, where Triton can be imported; not before it is asked for, since that takes its time."""
    try:
        from clnr.engine import kernels as found
    except ImportError:
        return None
    return found


def gram(p: Tensor) -> Tensor:
    """P^T P in float32 or better, where what stands below the diagonal is not computed but copied from above."""
    if p.dtype != torch.bfloat16:
        return _by_halves(p)
    there = kernels() if p.is_cuda else None
    return _by_halves(p.float()) if there is None else there.gram(p)[0]


def _by_halves(p: Tensor) -> Tensor:
    half = p.shape[1] // 2
    if half < _WORTH_HALVING:
        return p.T @ p
    left, right = p[:, :half], p[:, half:]
    across = left.T @ right
    return torch.cat([torch.cat([_by_halves(left), across], 1), torch.cat([across.T, _by_halves(right)], 1)])
