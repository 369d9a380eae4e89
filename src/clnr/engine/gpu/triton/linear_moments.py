"""The column moments of a linear layer's output, from those of its input."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.dense import LinearStats
from clnr.engine.gpu.triton.jit import blocks, kernel, power

_NUMBERS_PER_TILE = 4096


def linear_moments(stats: LinearStats, bias: Tensor) -> tuple[Tensor, Tensor]:
    """``Dense.linear_moments``, for float32 weights."""
    inputs, width = stats.weight.shape
    out = torch.empty(2, width, device=bias.device, dtype=torch.float32)
    if width:
        _linear_moments[(blocks(width, 16),)](
            stats.weight, stats.covariance_weight, stats.mean, bias, out, inputs, F=width, ROWS=64, BLOCK=16, num_warps=4
        )
    return out[0], out[1]


@kernel("inputs")
def _linear_moments(
    weight, covariance_weight, mean, bias, out, inputs, F: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    variance = tl.zeros((ROWS, BLOCK), tl.float32)
    middle = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, inputs, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < inputs) & (column < F)
        w = tl.load(weight + row * F + column, mask=inside, other=0)
        variance += w * tl.load(covariance_weight + row * F + column, mask=inside, other=0)
        middle += w * tl.load(mean + row, mask=row < inputs, other=0)
    added = tl.load(bias + column, mask=column < F, other=0)
    tl.store(out + column, tl.maximum(tl.sum(variance, 0)[None, :], 0.0), mask=column < F)
    tl.store(out + F + column, tl.sum(middle, 0)[None, :] + added, mask=column < F)


def linear_moments_backward(
    stats: LinearStats, of_weight: Tensor, of_variance: Tensor, of_mean: Tensor, of_bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``Dense.linear_moments_backward``, for float32 weights."""
    weight = stats.weight
    inputs, width = weight.shape
    out = torch.empty_like(weight)
    scaled = torch.empty(weight.shape, device=weight.device, dtype=stats.dtype)
    of_middle = torch.empty(inputs, device=weight.device, dtype=torch.float32)
    block = min(power(width), 1024)
    rows = max(1, _NUMBERS_PER_TILE // (2 * block))
    if inputs:
        _linear_moments_backward[(blocks(inputs, rows),)](
            weight, stats.covariance_weight, stats.mean, of_weight, of_variance.contiguous(), of_mean.contiguous(), of_bias,
            out, scaled, of_middle, inputs, 1 / stats.num_rows,
            F=width, ROWS=rows, BLOCK=block, num_warps=4,
        )  # fmt: skip
    return out, scaled, of_middle


@kernel("inputs", "share")
def _linear_moments_backward(
    weight,
    covariance_weight,
    mean,
    of_weight,
    of_variance,
    of_mean,
    of_bias,
    out,
    scaled,
    of_middle,
    inputs,
    share,
    F: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    middle = tl.load(mean + row, mask=row < inputs, other=0)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, F, BLOCK):
        column = first + tl.arange(0, BLOCK)[None, :]
        inside = (row < inputs) & (column < F)
        place = row * F + column
        w = tl.load(weight + place, mask=inside, other=0)
        slope = tl.load(of_variance + column, mask=column < F, other=0)
        value = tl.load(of_weight + place, mask=inside, other=0)
        value += 2 * slope * tl.load(covariance_weight + place, mask=inside, other=0)
        value += middle * tl.load(of_bias + column, mask=column < F, other=0)
        tl.store(out + place, value, mask=inside)
        tl.store(scaled + place, (2 * share * slope * w).to(scaled.dtype.element_ty), mask=inside)
        total += w * tl.load(of_mean + column, mask=column < F, other=0)
    tl.store(of_middle + row, tl.sum(total, 1)[:, None] * share, mask=row < inputs)
