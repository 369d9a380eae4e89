"""Column statistics of dense rows: sums, centring, standardisation."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.gpu.triton.jit import blocks, chip, kernel, power

_NUMBERS_PER_TILE = 4096
_ROWS_PER_TILE, _COLUMNS_PER_TILE = 64, 128
# Few columns to a program that holds all of their rows, so that there are enough programs.
_COLUMNS_PER_STRIP = 4


def column_sums(z: Tensor, scale: float, shift: Tensor | None = None, square: bool = False) -> Tensor:
    """``scale`` times the sum of each column less ``shift`` [F], or of the squares of that; float32 [F]."""
    count, width = z.shape
    z = z.contiguous()
    across = blocks(width, _COLUMNS_PER_TILE)
    tiles = blocks(count, _ROWS_PER_TILE)
    splits = max(1, min(tiles, 4 * chip(z.device)[0] // max(across, 1)))
    partial = torch.empty(splits, width, device=z.device, dtype=torch.float32)
    if partial.numel():
        _sums[(splits, across)](
            z, shift, partial, count, blocks(tiles, splits), scale,
            SQUARE=square, F=width, ROWS=_ROWS_PER_TILE, COLUMNS=_COLUMNS_PER_TILE, num_warps=4,
        )  # fmt: skip
    if splits == 1:
        return partial[0]
    out = torch.empty(width, device=z.device, dtype=torch.float32)
    if width:
        _total[(blocks(width, 32),)](partial, out, splits, F=width, SPLITS=64, COLUMNS=32, num_warps=4)
    return out


@kernel("splits")
def _total(partial, out, splits, F: tl.constexpr, SPLITS: tl.constexpr, COLUMNS: tl.constexpr):
    """Add up partial sums of some columns, in a fixed order."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((SPLITS, COLUMNS), tl.float32)
    for first in range(0, splits, SPLITS):
        row = first + tl.arange(0, SPLITS)[:, None]
        total += tl.load(partial + row * F + column, mask=(row < splits) & (column < F), other=0)
    tl.store(out + column, tl.sum(total, 0)[None, :], mask=column < F)


@kernel("count", "each", "scale")
def _sums(
    z, shift, partial, count, each, scale, SQUARE: tl.constexpr, F: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Sums of some columns over ``each`` tiles of rows."""
    split = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    less = tl.zeros((1, COLUMNS), tl.float32)
    if shift is not None:
        less += tl.load(shift + column, mask=column < F, other=0)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(split * each, (split + 1) * each):
        row = tile * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < count) & (column < F)
        x = tl.load(z + row.to(tl.int64) * F + column, mask=inside, other=0).to(tl.float32)
        x = tl.where(inside, x - less, 0.0)
        total += x * x if SQUARE else x
    tl.store(partial + split * F + column, tl.sum(total, 0)[None, :] * scale, mask=column < F)


def centred(z: Tensor, mean: Tensor) -> Tensor:
    """Rows less ``mean``, subtracted in float32 and rounded to the type of the rows."""
    return _along(_centre, z, torch.empty_like(z), mean)


def standardised(z: Tensor, variance: Tensor, mean: Tensor) -> Tensor:
    """Columns less their mean, over their deviation; zero where ``constant``; float32."""
    return _along(_standardise, z, torch.empty(z.shape, device=z.device, dtype=torch.float32), variance, mean)


def _along(work: Any, z: Tensor, out: Tensor, *vectors: Tensor) -> Tensor:
    count, width = z.shape
    if out.numel():
        block = min(power(width), 1024)
        rows = max(1, _NUMBERS_PER_TILE // block)
        grid = (blocks(count, rows), blocks(width, block))
        work[grid](z.contiguous(), out, *vectors, count, F=width, ROWS=rows, BLOCK=block, num_warps=4)
    return out


@kernel("count")
def _centre(z, out, mean, count, F: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < count) & (column < F)
    place = row.to(tl.int64) * F + column
    x = tl.load(z + place, mask=inside, other=0).to(tl.float32) - tl.load(mean + column, mask=column < F, other=0)
    tl.store(out + place, x.to(out.dtype.element_ty), mask=inside)


@kernel()
def _inverse(variance, mean, column, F: tl.constexpr):
    """Inverse deviation and mean of some columns; the former is zero where a column is constant up to rounding."""
    v = tl.load(variance + column, mask=column < F, other=0)
    m = tl.load(mean + column, mask=column < F, other=0)
    return _inverse_deviation(v, m), m


@kernel()
def _inverse_deviation(v, m):
    constant = v <= 1e-12 * (v + m * m)
    return tl.where(constant, 0.0, 1.0 / tl.sqrt(tl.where(constant, 1.0, v)))


@kernel("count")
def _standardise(z, out, variance, mean, count, F: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inverse, middle = _inverse(variance, mean, column, F)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < count) & (column < F)
    place = row.to(tl.int64) * F + column
    x = tl.load(z + place, mask=inside, other=0).to(tl.float32)
    tl.store(out + place, (x - middle) * inverse, mask=inside)


def standardised_backward(g: Tensor, z: Tensor, variance: Tensor, mean: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``standardised``: of rows, variance and mean."""
    count, width = z.shape
    out = torch.empty_like(z)
    slopes = torch.empty(2, width, device=z.device, dtype=torch.float32)
    if width:
        block = 8
        _standardise_backward[(blocks(width, block),)](
            g.contiguous(), z, out, variance, mean, slopes, count, F=width, ROWS=128, BLOCK=block, num_warps=4
        )
    return out, slopes[0], slopes[1]


@kernel("count")
def _standardise_backward(g, z, out, variance, mean, slopes, count, F: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradients of some columns."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inverse, middle = _inverse(variance, mean, column, F)
    plain = tl.zeros((ROWS, BLOCK), tl.float32)
    along = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, count, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < count) & (column < F)
        place = row.to(tl.int64) * F + column
        slope = tl.load(g + place, mask=inside, other=0).to(tl.float32)
        x = tl.load(z + place, mask=inside, other=0).to(tl.float32)
        tl.store(out + place, (slope * inverse).to(out.dtype.element_ty), mask=inside)
        plain += slope
        along += slope * (x - middle)
    of_variance = tl.sum(along, 0)[None, :] * (-0.5 * inverse * inverse * inverse)
    tl.store(slopes + column, of_variance, mask=column < F)
    tl.store(slopes + F + column, -inverse * tl.sum(plain, 0)[None, :], mask=column < F)


def standardise(z: Tensor) -> tuple[Tensor, Tensor]:
    """``standardised`` by the columns' own moments, float32; and one over the deviation of each column, float32 [F].

    For few rows: a program holds all of some columns.
    """
    count, width = z.shape
    out = torch.empty(z.shape, device=z.device, dtype=torch.float32)
    inverses = torch.empty(width, device=z.device, dtype=torch.float32)
    if out.numel():
        rows = power(count)
        _standardise_own[(blocks(width, _COLUMNS_PER_STRIP),)](
            z, out, inverses, count, 1 / count, F=width, ROWS=rows, BLOCK=_COLUMNS_PER_STRIP, num_warps=_warps(rows)
        )
    return out, inverses


def _warps(rows: int) -> int:
    return 4 if rows < 1024 else 8 if rows < 4096 else 16


@kernel("count", "share")
def _standardise_own(z, out, inverses, count, share, F: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    inside = (row < count) & (column < F)
    place = row.to(tl.int64) * F + column
    x = tl.load(z + place, mask=inside, other=0).to(tl.float32)
    mean = tl.sum(x, 0)[None, :] * share
    away = tl.where(inside, x - mean, 0.0)
    inverse = _inverse_deviation(tl.sum(away * away, 0)[None, :] * share, mean)
    tl.store(inverses + column, inverse, mask=column < F)
    tl.store(out + place, away * inverse, mask=inside)


def standardise_backward(g: Tensor, out: Tensor, inverses: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient of ``standardise``, from what it returned: of rows of ``dtype``."""
    count, width = out.shape
    slope = torch.empty(out.shape, device=out.device, dtype=dtype)
    if slope.numel():
        rows = power(count)
        _standardise_own_backward[(blocks(width, _COLUMNS_PER_STRIP),)](
            g.contiguous(), out, inverses, slope, count, 1 / count,
            F=width, ROWS=rows, BLOCK=_COLUMNS_PER_STRIP, num_warps=_warps(rows),
        )  # fmt: skip
    return slope


@kernel("count", "share")
def _standardise_own_backward(g, out, inverses, slope, count, share, F: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient less its mean, and less its part along the result."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    inside = (row < count) & (column < F)
    place = row.to(tl.int64) * F + column
    inverse = tl.load(inverses + column, mask=column < F, other=0)
    each = tl.load(g + place, mask=inside, other=0).to(tl.float32)
    result = tl.load(out + place, mask=inside, other=0)
    mean = tl.sum(each, 0)[None, :] * share
    part = tl.sum(each * result, 0)[None, :] * share
    tl.store(slope + place, ((each - mean - part * result) * inverse).to(slope.dtype.element_ty), mask=inside)
