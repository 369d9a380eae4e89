"""Unit rows and masked weights: one kernel forward and one backward where torch needs several."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from clnr import rng
from clnr.engine.gpu.triton.counter_rng import NOTHING_DROPPED, DropRule, draw, open_key, survives, to_drop_rule
from clnr.engine.gpu.triton.jit import blocks, kernel, power
from clnr.engine.view import Mask

_NUMBERS_PER_TILE = 2048


def unit_rows(z: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Rows scaled to length 1, in ``dtype``; a zero row stays zero, with a zero gradient."""
    return _UnitRows.apply(z, dtype or z.dtype)


def masked_weight(weight: Tensor, mask: Mask | None, dtype: torch.dtype, rows: int) -> Tensor:
    """A float32 weight in ``dtype``, its rows times the factors of a mask of columns, and ``rows`` rows, the last of zeros."""
    drop_rule = NOTHING_DROPPED if mask is None else to_drop_rule(mask.key, rng.threshold(mask.rate))
    return _MaskedWeight.apply(weight, drop_rule, 1.0 if mask is None else mask.scale, dtype, rows)


class _UnitRows(torch.autograd.Function):
    r""":math:`u = z / |z|`, with the gradient :math:`(g - u (u \cdot g)) / |z|`."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, dtype: torch.dtype) -> Tensor:
        z = z.contiguous()
        ctx.save_for_backward(z)
        return _scaled(z, None, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (z,) = ctx.saved_tensors
        return _scaled(z, grads[0].contiguous(), z.dtype), None


def _scaled(z: Tensor, g: Tensor | None, dtype: torch.dtype) -> Tensor:
    out = torch.empty(z.shape, device=z.device, dtype=dtype)
    if z.numel():
        block = power(z.shape[1])
        rows = max(1, _NUMBERS_PER_TILE // block)
        _unit[(blocks(z.shape[0], rows),)](z, g, out, z.shape[0], F=z.shape[1], ROWS=rows, BLOCK=block, num_warps=4)
    return out


@kernel("count")
def _unit(z, g, out, count, F: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Unit rows of z; or, given the gradient g of these, the gradient of z."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    feature = tl.arange(0, BLOCK)[None, :]
    inside = (row < count) & (feature < F)
    place = row.to(tl.int64) * F + feature
    x = tl.load(z + place, mask=inside, other=0).to(tl.float32)
    square = tl.sum(x * x, 1)[:, None]
    zero = square == 0
    inverse = tl.where(zero, 0.0, 1.0 / tl.sqrt(tl.where(zero, 1.0, square)))
    value = x * inverse
    if g is not None:
        y = tl.load(g + place, mask=inside, other=0).to(tl.float32)
        value = (y - value * tl.sum(value * y, 1)[:, None]) * inverse
    tl.store(out + place, value.to(out.dtype.element_ty), mask=inside)


class _MaskedWeight(torch.autograd.Function):
    """A diagonal matrix of zeros and ``scale``, times W; the gradient is multiplied by the same."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, drop_rule: DropRule, scale: float, dtype: torch.dtype, rows: int) -> Tensor:
        # The rule's counter is not saved through autograd, which would object when it moves, as it does between epochs.
        ctx.drop_rule, ctx.scale, ctx.rows = drop_rule, scale, weight.shape[0]
        return _masked(weight.contiguous(), drop_rule, scale, dtype, rows)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _masked(grads[0].contiguous(), ctx.drop_rule, ctx.scale, torch.float32, ctx.rows), None, None, None, None


def _masked(weight: Tensor, drop_rule: DropRule, scale: float, dtype: torch.dtype, count: int) -> Tensor:
    known, width = weight.shape
    out = torch.empty(count, width, device=weight.device, dtype=dtype)
    if out.numel():
        block = min(power(width), _NUMBERS_PER_TILE)
        rows = max(1, _NUMBERS_PER_TILE // block)
        _mask[(blocks(count, rows), blocks(width, block))](
            weight, out, drop_rule.word, drop_rule.thresholds, drop_rule.a, drop_rule.b, drop_rule.last, count, known,
            scale,
            DROP=drop_rule.drops, F=width, ROWS=rows, BLOCK=block, num_warps=4,
        )  # fmt: skip
    return out


@kernel("a", "b", "last", "count", "known", "scale")
def _mask(
    weight,
    out,
    word,
    thresholds,
    a,
    b,
    last,
    count,
    known,
    scale,
    DROP: tl.constexpr,
    F: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    factor = tl.zeros((ROWS,), tl.float32) + scale
    if DROP:
        a, b = open_key(a, b, word)
        factor = tl.where(survives(draw(a, b, row, row * 0), last, thresholds, row, row < known), factor, 0.0)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < count)[:, None] & (feature < F)
    place = row.to(tl.int64)[:, None] * F + feature
    value = tl.load(weight + place, mask=inside & (row < known)[:, None], other=0).to(tl.float32) * factor[:, None]
    tl.store(out + place, value.to(out.dtype.element_ty), mask=inside)
