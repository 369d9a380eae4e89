"""Tiles of R R^T: their sums of exponentials, and the gradient of R."""

from __future__ import annotations

import triton.language as tl

from clnr.engine.gpu.triton.jit import kernel


@kernel()
def _tile(rows, row, first, count, F: tl.constexpr, DEPTH: tl.constexpr, WIDE: tl.constexpr):
    """``DEPTH`` features, from the first on, of some rows; zero outside of the matrix."""
    feature = first + tl.arange(0, DEPTH)[None, :]
    x = tl.load(rows + row.to(tl.int64)[:, None] * F + feature, mask=(row < count)[:, None] & (feature < F), other=0)
    if WIDE:
        x = x.to(tl.float32)
    return x


@kernel()
def _product(
    rows,
    i,
    j,
    count,
    F: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """A tile of R R^T, ``DEPTH`` features at a time."""
    out = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, F, DEPTH):
        x = _tile(rows, i, first, count, F, DEPTH, WIDE)
        y = _tile(rows, j, first, count, F, DEPTH, WIDE)
        out = tl.dot(x, tl.trans(y), out, input_precision=PRECISION)
    return out


@kernel("count", "each", "inverse")
def reduce(
    rows,
    partial,
    count,
    each,
    inverse,
    F: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The maximum, the sum of exponentials and the twin's logit of some rows, over one split of the columns."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    split = tl.program_id(1)
    half = count // 2
    twin = tl.where(i < half, i + half, i - half)
    best = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    near = tl.zeros((ROWS,), tl.float32)
    if DEPTH >= F:
        own = _tile(rows, i, 0, count, F, DEPTH, WIDE)
    for tile in range(split * each, (split + 1) * each):
        j = tile * COLUMNS + tl.arange(0, COLUMNS)
        if DEPTH >= F:
            logits = tl.dot(own, tl.trans(_tile(rows, j, 0, count, F, DEPTH, WIDE)), input_precision=PRECISION)
        else:
            logits = _product(rows, i, j, count, F, ROWS, COLUMNS, DEPTH, PRECISION, WIDE)
        logits = logits * inverse
        near += tl.sum(tl.where(twin[:, None] == j[None, :], logits, 0.0), 1)
        logits = tl.where((j < count)[None, :] & (i[:, None] != j[None, :]), logits, float("-inf"))
        higher = tl.maximum(best, tl.max(logits, 1))
        # All logits of a split may be masked, and infinity less infinity is a NaN.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(best - base) + tl.sum(tl.exp(logits - base[:, None]), 1)
        best = higher
    place = split * count + i
    stride = tl.num_programs(1) * count
    tl.store(partial + place, best, mask=i < count)
    tl.store(partial + stride + place, total, mask=i < count)
    tl.store(partial + 2 * stride + place, near, mask=i < count)


@kernel("count", "splits")
def loss_of(partial, lse, loss, count, splits, SPLITS: tl.constexpr, ROWS: tl.constexpr):
    """Each row's log of the sum, and its mean excess over the twin's logit; one program, so that the order is fixed."""
    split = tl.arange(0, SPLITS)[:, None]
    added = tl.zeros((ROWS,), tl.float32)
    for first in range(0, count, ROWS):
        i = first + tl.arange(0, ROWS)
        inside = (split < splits) & (i < count)[None, :]
        place = split * count + i[None, :]
        best = tl.load(partial + place, mask=inside, other=float("-inf"))
        total = tl.load(partial + splits * count + place, mask=inside, other=0)
        near = tl.load(partial + 2 * splits * count + place, mask=inside, other=0)
        highest = tl.max(best, 0)
        highest = tl.where(highest == float("-inf"), 0.0, highest)
        value = highest + tl.log(tl.where(i < count, tl.sum(total * tl.exp(best - highest[None, :]), 0), 1.0))
        tl.store(lse + i, value, mask=i < count)
        added += tl.where(i < count, value - tl.sum(near, 0), 0.0)
    tl.store(loss, tl.sum(added, 0) / count)


@kernel("count", "inverse")
def reduce_stored(similarities, lse, excess, count, inverse, BLOCK: tl.constexpr):
    """The log of one row's sum of exponentials, and its excess over the twin's logit."""
    i = tl.program_id(0)
    half = count // 2
    twin = tl.where(i < half, i + half, i - half)
    j = tl.arange(0, BLOCK)
    logits = tl.load(similarities + i.to(tl.int64) * count + j, mask=j < count, other=0) * inverse
    near = tl.sum(tl.where(j == twin, logits, 0.0), 0)
    logits = tl.where((j < count) & (j != i), logits, float("-inf"))
    best = tl.max(logits, 0)
    value = best + tl.log(tl.sum(tl.exp(logits - best), 0))
    tl.store(lse + i, value)
    tl.store(excess + i, value - near)


@kernel("count", "inverse")
def softmaxes(similarities, lse, out, count, inverse, BLOCK: tl.constexpr):
    """One row of P + P^T."""
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    place = i.to(tl.int64) * count + j
    logits = tl.load(similarities + place, mask=j < count, other=0) * inverse
    both = tl.exp(logits - tl.load(lse + i)) + tl.exp(logits - tl.load(lse + j, mask=j < count, other=0))
    tl.store(out + place, tl.where(j != i, both, 0.0).to(out.dtype.element_ty), mask=j < count)


@kernel("count", "each", "inverse")
def attract(
    rows,
    lse,
    partial,
    count,
    each,
    inverse,
    F: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Some rows and features of (P + P^T) R over one split of the columns."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    split = tl.program_id(1)
    start = tl.program_id(2) * WIDTH
    lse_i = tl.load(lse + i, mask=i < count, other=0)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    if DEPTH >= F:
        own = _tile(rows, i, 0, count, F, DEPTH, WIDE)
    for tile in range(split * each, (split + 1) * each):
        j = tile * COLUMNS + tl.arange(0, COLUMNS)
        if DEPTH >= F:
            other = _tile(rows, j, 0, count, F, DEPTH, WIDE)
            logits = tl.dot(own, tl.trans(other), input_precision=PRECISION)
        else:
            logits = _product(rows, i, j, count, F, ROWS, COLUMNS, DEPTH, PRECISION, WIDE)
            other = _tile(rows, j, start, count, F, WIDTH, WIDE)
        logits = logits * inverse
        lse_j = tl.load(lse + j, mask=j < count, other=0)
        both = tl.exp(logits - lse_i[:, None]) + tl.exp(logits - lse_j[None, :])
        both = tl.where((j < count)[None, :] & (i[:, None] != j[None, :]), both, 0.0)
        total = tl.dot(both.to(other.dtype), other, total, input_precision=PRECISION)
    feature = start + tl.arange(0, WIDTH)[None, :]
    place = (split.to(tl.int64) * count + i.to(tl.int64)[:, None]) * F + feature
    tl.store(partial + place, total, mask=(i < count)[:, None] & (feature < F))


@kernel("count", "scale")
def gradient(rows, partial, slope, out, count, scale, F: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """One row's gradient: its parts in order, less twice its twin, scaled."""
    i = tl.program_id(0).to(tl.int64)
    half = count // 2
    twin = tl.where(i < half, i + half, i - half)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = feature < F
    value = -2.0 * tl.load(rows + twin * F + feature, mask=inside, other=0).to(tl.float32)
    for split in tl.static_range(SPLITS):
        value += tl.load(partial + (split * count + i) * F + feature, mask=inside, other=0)
    value *= tl.load(slope).to(tl.float32) * scale
    tl.store(out + i * F + feature, value.to(out.dtype.element_ty), mask=inside)
