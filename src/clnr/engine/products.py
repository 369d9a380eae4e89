"""Products of rows in float32 or bfloat16, in float32 or better."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

_COLUMNS_WORTH_HALVING = 128


def empty_rows(rows: int, columns: int, device: torch.device) -> Tensor:
    """Uninitialised rows in float32.

    On a CPU by NumPy, which asks for large pages, as page faults of small ones are slow, and gives them back when rows are
    freed; torch may keep them.
    """
    if device.type == "cpu":
        return torch.from_numpy(np.empty((rows, columns), np.float32))
    return torch.empty(rows, columns, device=device)


@functools.cache
def widens() -> bool:
    """Whether this torch multiplies bfloat16 into float32 on a GPU."""
    return "dtype" in torch.ops.aten.mm.overloads()


def at_least_float32(z: Tensor) -> Tensor:
    """The tensor itself, or in float32 where it is bfloat16."""
    return z.float() if z.dtype == torch.bfloat16 else z


def narrowed(z: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in bfloat16 where ``dtype`` is that, else itself."""
    return z.to(dtype) if dtype == torch.bfloat16 else z


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """A B, or A B + bias, in float32 or better; on a CPU a product of bfloat16 is rounded to that before the bias is added."""
    if a.dtype != torch.bfloat16:
        return a @ b if bias is None else torch.addmm(bias, a, b)
    if not a.is_cuda:
        out = (a @ b).float()
    elif widens():
        wide: Any = {"out_dtype": torch.float32}
        out = torch.mm(a, b, **wide)
    else:
        return product(a.float(), b.float(), bias)
    return out if bias is None else out.add_(bias)


def gram(p: Tensor) -> Tensor:
    """P^T P in float32 or better; blocks below the diagonal are copied from above it, not computed."""
    half = p.shape[1] // 2
    if half < _COLUMNS_WORTH_HALVING or (p.is_cuda and p.dtype == torch.bfloat16):
        return product(p.T, p)
    left, right = p[:, :half], p[:, half:]
    across = product(left.T, right)
    return torch.cat([torch.cat([gram(left), across], 1), torch.cat([across.T, gram(right)], 1)])
