"""Sums over the entries of a sparse matrix's rows, and dropping entries at random."""

from __future__ import annotations

import triton.language as tl

from clnr.engine.gpu.triton.counter_rng import draw, open_key, survives
from clnr.engine.gpu.triton.jit import kernel

_PARTS = ("split", "long", "items")


@kernel()
def _sum(
    begin,
    end,
    h,
    columns,
    values,
    right,
    RELU: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    EACH: tl.constexpr,
):
    """The sums of ``ROWS`` runs of entries side by side, ``EACH`` entries of each at a time: [ROWS, BLOCK]."""
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    place = begin[:, None] + tl.arange(0, EACH)[None, :]
    column = tl.load(columns + place, mask=place < end[:, None], other=-1)
    for _ in range(0, tl.max(end - begin, 0), EACH):
        # Requested before this round's rows are waited for, so that a round costs one memory latency, not two.
        beyond = place + EACH
        following = tl.load(columns + beyond, mask=beyond < end[:, None], other=-1)
        valid = column >= 0
        wanted = column[:, :, None]
        inside = wanted >= 0
        if F % BLOCK != 0:
            inside = inside & (feature < F)[None, None, :]
        x = tl.load(h + wanted.to(tl.int64) * F + feature[None, None, :], mask=inside, other=0).to(tl.float32)
        if RELU:
            x = tl.maximum(x, 0)
        if values is not None:
            weight = tl.load(values + place, mask=valid, other=0)
            if right is not None:
                weight *= tl.load(right + column, mask=valid, other=0)
            x *= weight[:, :, None]
        elif right is not None:
            x *= tl.load(right + column, mask=valid, other=0)[:, :, None]
        total += tl.sum(x, 1)
        place = beyond
        column = following
    return total


@kernel()
def _finish(total, row, valid, out, left, mask, bias, F: tl.constexpr, BLOCK: tl.constexpr):
    """Scale, shift, mask and store the sums of rows."""
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = valid[:, None] & (feature < F)[None, :]
    where = row.to(tl.int64)[:, None] * F + feature[None, :]
    if left is not None:
        total *= tl.load(left + row, mask=valid, other=0)[:, None]
    if bias is not None:
        total += tl.load(bias + feature, mask=feature < F, other=0)[None, :]
    if mask is not None:
        total = tl.where(tl.load(mask + where, mask=inside, other=0).to(tl.float32) > 0, total, 0)
    tl.store(out + where, total.to(out.dtype.element_ty), mask=inside)


@kernel()
def _items(item, valid, item_row, item_begin, item_end):
    """The row of each work item, and where its entries begin and end; an item that does not exist has none."""
    row = tl.load(item_row + item, mask=valid, other=0)
    begin = tl.load(item_begin + item, mask=valid, other=0)
    end = tl.load(item_end + item, mask=valid, other=0)
    return row, begin, end


@kernel(*_PARTS)
def multiply_by(
    h,
    out,
    partial,
    columns,
    values,
    item_row,
    item_begin,
    item_end,
    left,
    right,
    mask,
    bias,
    split,
    long,
    items,
    RELU: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """One long item, which gets all entries of a round, or several short ones side by side."""
    program = tl.program_id(0)
    # Triton wants one shape for a name, hence different names in the branches.
    if program < long:
        item = program + tl.arange(0, 1)
        row, begin, end = _items(item, item >= 0, item_row, item_begin, item_end)
        total = _sum(
            begin, end, h, columns, values, right, RELU, F, BLOCK, 1, ROWS * CHUNK,
        )  # fmt: skip
        if program < split:
            feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
            tl.store(partial + item.to(tl.int64)[:, None] * F + feature, total, mask=feature < F)
        else:
            _finish(total, row, row >= 0, out, left, mask, bias, F, BLOCK)
    else:
        several = long + (program - long) * ROWS + tl.arange(0, ROWS)
        rows, begins, ends = _items(several, several < items, item_row, item_begin, item_end)
        totals = _sum(
            begins, ends, h, columns, values, right, RELU, F, BLOCK, ROWS, CHUNK,
        )  # fmt: skip
        _finish(totals, rows, (several < items) & (rows >= 0), out, left, mask, bias, F, BLOCK)


@kernel()
def add(partial, out, hubs, hub_items, left, mask, bias, F: tl.constexpr, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    """The sum of a split row's partial sums, in the order of its segments."""
    hub = tl.program_id(0) + tl.arange(0, 1)
    row = tl.load(hubs + hub)
    begin = tl.load(hub_items + tl.program_id(0))
    end = tl.load(hub_items + tl.program_id(0) + 1)
    feature = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ITEMS, BLOCK), tl.float32)
    for first in range(begin, end, ITEMS):
        item = first + tl.arange(0, ITEMS)[:, None]
        total += tl.load(partial + item.to(tl.int64) * F + feature, mask=(item < end) & (feature < F), other=0)
    _finish(tl.sum(total, 0)[None, :], row, row >= 0, out, left, mask, bias, F, BLOCK)


@kernel("a", "b", "last", *_PARTS)
def drop_and_compact(
    columns,
    values,
    columns_left,
    values_left,
    ends,
    sums,
    partial,
    item_row,
    item_begin,
    item_end,
    item_to,
    nodes,
    place,
    found,
    word,
    thresholds,
    a,
    b,
    last,
    split,
    long,
    items,
    DROP: tl.constexpr,
    PAIRS: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Move the kept entries of one long item, or of several short ones, together, and add up their values."""
    a, b = open_key(a, b, word)
    program = tl.program_id(0)
    if program < long:
        item = program + tl.arange(0, 1)
        row, begin, end = _items(item, item >= 0, item_row, item_begin, item_end)
        left, total = _compact(
            _node(nodes, row), begin, end, tl.load(item_to + item), columns, values, columns_left, values_left,
            place, found, thresholds, a, b, last, DROP, PAIRS, TRANSPOSED, 1, ROWS * CHUNK,
        )  # fmt: skip
        tl.store(ends + item, left)
        if program < split:
            tl.store(partial + item, total)
        else:
            tl.store(sums + row, total, mask=row >= 0)
    else:
        several = long + (program - long) * ROWS + tl.arange(0, ROWS)
        rows, begins, stops = _items(several, several < items, item_row, item_begin, item_end)
        lefts, totals = _compact(
            _node(nodes, rows), begins, stops, tl.load(item_to + several, mask=several < items, other=0), columns, values,
            columns_left, values_left, place, found, thresholds, a, b, last, DROP, PAIRS, TRANSPOSED, ROWS, CHUNK,
        )  # fmt: skip
        tl.store(ends + several, lefts, mask=several < items)
        tl.store(sums + rows, totals, mask=(several < items) & (rows >= 0))


@kernel()
def _node(nodes, row):
    """The row of the whole matrix that a row is."""
    if nodes is not None:
        row = tl.load(nodes + row, mask=row >= 0, other=0)
    return row


@kernel()
def _compact(
    row,
    begin,
    end,
    left,
    columns,
    values,
    columns_left,
    values_left,
    place,
    found,
    thresholds,
    a,
    b,
    last,
    DROP: tl.constexpr,
    PAIRS: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    ROWS: tl.constexpr,
    EACH: tl.constexpr,
):
    """Where each run of entries, moved to ``left``, ends there, and the sum of its kept values."""
    total = tl.zeros((ROWS, EACH), tl.float32)
    entry = begin[:, None] + tl.arange(0, EACH)[None, :]
    for _ in range(0, tl.max(end - begin, 0), EACH):
        column = tl.load(columns + entry, mask=entry < end[:, None], other=-1)
        kept = _kept(row[:, None], column, entry, a, b, last, thresholds, DROP, PAIRS, TRANSPOSED)
        if found is not None:
            tl.store(found + column, kept.to(tl.int8), mask=kept)
        if place is not None:
            column = tl.load(place + column, mask=kept, other=-1)
            kept = column >= 0
        one = kept.to(tl.int32)
        to = left[:, None] + tl.cumsum(one, 1) - one
        tl.store(columns_left + to, column, mask=kept)
        if values is not None:
            value = tl.load(values + entry, mask=kept, other=0)
            tl.store(values_left + to, value, mask=kept)
            total += value
        else:
            total += kept.to(tl.float32)
        left += tl.sum(one, 1)
        entry += EACH
    return left, tl.sum(total, 1)


@kernel()
def _kept(row, column, place, a, b, last, thresholds, DROP: tl.constexpr, PAIRS: tl.constexpr, TRANSPOSED: tl.constexpr):
    """Which entries exist and are kept; a column below zero means no entry."""
    valid = column >= 0
    if not DROP:
        return valid
    if PAIRS:
        word = draw(a, b, tl.minimum(row, column), tl.maximum(row, column))
    elif TRANSPOSED:
        word = draw(a, b, row, column)
    else:
        word = draw(a, b, column, row)
    return valid & ((row == column) | survives(word, last, thresholds, place, valid))
