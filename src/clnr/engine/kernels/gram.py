"""P^T P of many rows: half of the blocks, and many programs for each."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.kernels.jit import blocks, chip, kernel, power

# For float32: "ieee" multiplies as the CPU does; "tf32x3" uses the matrix units, at nearly the same precision.
PRECISION = "ieee"
_STRIP, _SPLITS = 256, 16


def gram(p: Tensor) -> tuple[Tensor, Tensor]:
    """P^T P and the column sums of P [N, K], in float32; bitwise symmetric."""
    count, width = p.shape
    p = p.contiguous()
    narrow = p.element_size() == 4
    out = torch.empty(width, width, device=p.device, dtype=torch.float32)
    sums = torch.empty(width, device=p.device, dtype=torch.float32)
    if not width:
        return out, sums
    processors, shared = chip(p.device)
    # 128 x 128 results a program keep bf16's matrix units busy; multiplied in float32, 64 x 64 do.
    block, rows = min(power(width), 64 if narrow else 128), 16 if narrow else 64
    across = blocks(width, block)
    pairs = across * (across + 1) // 2
    tiles = blocks(count, rows)
    splits = max(1, min(2 * processors // pairs, tiles))
    each = blocks(tiles, splits)
    partial = torch.empty(splits, pairs, block * block, device=p.device, dtype=torch.float32)
    partial_sums = torch.empty(splits, width, device=p.device, dtype=torch.float32)
    _partial[(pairs, splits)](
        p,
        partial,
        partial_sums,
        count,
        each,
        K=width,
        ROWS=rows,
        BLOCK=block,
        PRECISION=PRECISION,
        WIDE=not p.is_cuda,
        num_warps=8 if block == 128 else 4,
        num_stages=3 if 3 * 2 * rows * block * p.element_size() < shared else 2,
    )
    strip = min(_STRIP, block * block)
    _total[(pairs, block * block // strip)](
        partial, partial_sums, out, sums, splits, K=width, BLOCK=block, STRIP=strip, SPLITS=_SPLITS, num_warps=4
    )
    return out, sums


@kernel()
def _pair(pair: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """The blocks i <= j of the pair's number, j (j + 1) / 2 + i."""
    j = ((tl.sqrt(8.0 * pair.to(tl.float32) + 1.0) - 1.0) / 2.0).to(tl.int32)
    # The root may be rounded to the wrong side of a whole number.
    j = tl.where(j * (j + 1) // 2 > pair, j - 1, j)
    j = tl.where((j + 1) * (j + 2) // 2 <= pair, j + 1, j)
    return pair - j * (j + 1) // 2, j


@kernel("count", "each")
def _partial(
    p: tl.tensor,
    partial: tl.tensor,
    partial_sums: tl.tensor,
    count: tl.tensor,
    each: tl.tensor,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
) -> None:
    """One block of P^T P over ``each`` tiles of rows; programs of the same rows run together, for the sake of the cache."""
    i, j = _pair(tl.program_id(0))
    split = tl.program_id(1)
    left = i * BLOCK + tl.arange(0, BLOCK)[None, :]
    right = j * BLOCK + tl.arange(0, BLOCK)[None, :]
    block = tl.zeros((BLOCK, BLOCK), tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    for tile in range(split * each, (split + 1) * each):
        row = tile * ROWS + tl.arange(0, ROWS)[:, None]
        place = p + row.to(tl.int64) * K
        x = tl.load(place + left, mask=(row < count) & (left < K), other=0)
        y = tl.load(place + right, mask=(row < count) & (right < K), other=0)
        if WIDE:
            x = x.to(tl.float32)
            y = y.to(tl.float32)
        block = tl.dot(tl.trans(x), y, block, input_precision=PRECISION)
        if i == j:
            sums += tl.sum(y.to(tl.float32), 0)
    element = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    first = (split * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * BLOCK * BLOCK
    tl.store(partial + first + element, block)
    if i == j:
        column = i * BLOCK + tl.arange(0, BLOCK)
        tl.store(partial_sums + split * K + column, sums, mask=column < K)


@kernel("splits")
def _total(
    partial: tl.tensor,
    partial_sums: tl.tensor,
    out: tl.tensor,
    sums: tl.tensor,
    splits: tl.tensor,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    STRIP: tl.constexpr,
    SPLITS: tl.constexpr,
) -> None:
    """A strip of one block, its parts added in order, written above the diagonal and below it."""
    i, j = _pair(tl.program_id(0))
    element = tl.program_id(1) * STRIP + tl.arange(0, STRIP)
    row = i * BLOCK + element // BLOCK
    column = j * BLOCK + element % BLOCK
    total = tl.zeros((SPLITS, STRIP), tl.float32)
    for first in range(0, splits, SPLITS):
        split = first + tl.arange(0, SPLITS)[:, None]
        place = (split * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * BLOCK * BLOCK
        total += tl.load(partial + place + element[None, :], mask=split < splits, other=0)
    value = tl.sum(total, 0)
    inside = (row <= column) & (column < K)
    tl.store(out + row * K + column, value, mask=inside)
    tl.store(out + column * K + row, value, mask=inside)
    if (i == j) & (tl.program_id(1) == 0):
        own = i * BLOCK + tl.arange(0, BLOCK)
        added = tl.zeros((SPLITS, BLOCK), tl.float32)
        for first in range(0, splits, SPLITS):
            nth = first + tl.arange(0, SPLITS)[:, None]
            added += tl.load(partial_sums + nth * K + own[None, :], mask=(nth < splits) & (own < K)[None, :], other=0)
        tl.store(sums + own, tl.sum(added, 0), mask=own < K)
