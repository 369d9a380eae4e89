"""At most some neighbours of each node: rows of a fixed size, of which nothing is read but the entries that are taken."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.gpu.triton.counter_rng import draw, open_key, signed
from clnr.engine.gpu.triton.csr_layout import SHORT_ROW_ENTRIES, Structure
from clnr.engine.gpu.triton.jit import blocks, kernel
from clnr.engine.gpu.triton.listed_rows import Places
from clnr.rng import Key

_ENTRIES_PER_BLOCK = 256
_COLUMN_BEYOND_ALL = 2**31 - 1


def take_neighbors(kept: Structure, places: Places, key: Key, most: int, loops: Tensor | None) -> Structure:
    """Of each row at most ``most`` entries, scaled up, and its self-loop (``engine.view.Neighbors``).

    Rows have been through ``list_rows``, each alone, and ``drop_entries``; their columns are in order. ``loops`` are the values
    of the nodes' self-loops, float32 [N]; None where all values are 1.
    """
    count, device, split = len(places), places.place.device, kept.split
    row = torch.arange(count, device=device, dtype=torch.int32)
    end = torch.empty_like(row)
    columns = torch.empty(count * (most + 1), device=device, dtype=torch.int32)
    values = torch.empty(len(columns), device=device)
    hub, before = None, None
    if split:
        # Nobody's hubs go to one place more, which is not read.
        hub = torch.full((count + 1,), -1, device=device, dtype=torch.int32)
        at = torch.where(kept.hubs < 0, count, kept.hubs).long()
        hub.index_copy_(0, at, torch.arange(len(kept.hubs), device=device, dtype=torch.int32))
        sizes = kept.end[:split] - kept.begin[:split]
        before = torch.nn.functional.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
    if count:
        _take[(blocks(len(columns), _ENTRIES_PER_BLOCK),)](
            kept.columns, kept.values, kept.begin, kept.end, kept.hub_items, hub, before,
            places.place if places.nodes is None else places.nodes, loops, columns, values, end, key.word,
            signed(key.a), signed(key.b), split, count,
            MOST=most, BLOCK=_ENTRIES_PER_BLOCK, num_warps=4,
        )  # fmt: skip
    shape, long = (count, kept.shape[1]), 0 if most < SHORT_ROW_ENTRIES else count
    entries = {"columns": columns, "values": values, "begin": row * (most + 1), "end": end}
    return _unsplit(kept, shape=shape, row=row, long=long, **entries)


def _unsplit(like: Structure, **changes: Any) -> Structure:
    """A matrix with these changes, none of whose rows is split."""
    return dataclasses.replace(like, split=0, hubs=like.hubs[:0], hub_items=like.hub_items[:1], **changes)


def mark_columns(taken: Structure, found: Tensor) -> None:
    """Set ``found``, int8, to 1 where a column has an entry."""
    size = len(taken.columns) // max(len(taken.row), 1)
    if size:
        _mark[(blocks(len(taken.columns), _ENTRIES_PER_BLOCK),)](
            taken.columns, taken.end, found, len(taken.columns),
            SIZE=size, BLOCK=_ENTRIES_PER_BLOCK, num_warps=4,
        )  # fmt: skip


def transpose(taken: Structure, rows: int) -> Structure:
    """The transpose, with ``rows`` rows, of rows of a fixed size, the columns of which have been numbered."""
    size = len(taken.columns) // max(len(taken.row), 1)
    entry = torch.arange(len(taken.columns), device=taken.columns.device, dtype=torch.int32)
    there = entry < taken.end[entry // max(size, 1)]
    column, order = torch.where(there, taken.columns, _COLUMN_BEYOND_ALL).sort(stable=True)
    starts = torch.searchsorted(column, torch.arange(rows + 1, device=column.device, dtype=torch.int32), out_int32=True)
    row = torch.arange(rows, device=column.device, dtype=torch.int32)
    assert taken.values is not None
    columns, values = (order // max(size, 1)).int(), taken.values[order]
    # A hub may have been taken by many: each row has a program of its own.
    entries = {"columns": columns, "values": values, "begin": starts[:-1], "end": starts[1:]}
    return _unsplit(taken, shape=(rows, taken.shape[0]), row=row, long=rows, **entries)


@kernel()
def _entry(position, begin, hub, item_begin, hub_items, before):
    """The entry at a position of a row, which may be split."""
    entry = begin + position
    if before is not None:
        split = hub >= 0
        low = tl.load(hub_items + hub, mask=split, other=0)
        high = tl.load(hub_items + hub + 1, mask=split, other=0)
        position += tl.load(before + low, mask=split, other=0)
        while tl.max(high - low) > 1:
            middle = (low + high) // 2
            further = tl.load(before + middle, mask=split, other=0) <= position
            low = tl.where((high - low > 1) & further, middle, low)
            high = tl.where((high - low > 1) & (further == 0), middle, high)
        within = position - tl.load(before + low, mask=split, other=0)
        entry = tl.where(split, tl.load(item_begin + low, mask=split, other=0) + within, entry)
    return entry


@kernel("a", "b", "split", "count")
def _take(
    columns,
    values,
    item_begin,
    item_end,
    hub_items,
    hubs,
    before,
    nodes,
    loops,
    columns_taken,
    values_taken,
    ends,
    word,
    a,
    b,
    split,
    count,
    MOST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    a, b = open_key(a, b, word)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = at // (MOST + 1)
    nth = at % (MOST + 1)
    inside = row < count
    node = tl.load(nodes + row, mask=inside, other=-1)
    there = node >= 0
    begin = tl.load(item_begin + split + row, mask=there, other=0)
    size = tl.load(item_end + split + row, mask=there, other=0) - begin
    hub = row * 0 - 1
    if before is not None:
        hub = tl.load(hubs + row, mask=there, other=-1)
        first = tl.load(hub_items + hub, mask=hub >= 0, other=0)
        last = tl.load(hub_items + hub + 1, mask=hub >= 0, other=0)
        whole = tl.load(before + last, mask=hub >= 0, other=0) - tl.load(before + first, mask=hub >= 0, other=0)
        size = tl.where(hub >= 0, whole, size)
    n = tl.maximum(size - 1, 0)
    taken = tl.minimum(n, MOST)
    # The last position p for which s + p * most has not reached the next multiple of n, which is where one is taken.
    s = draw(a, b, node, node * 0).to(tl.int64) % tl.maximum(n, 1)
    spread = ((nth + 1).to(tl.int64) * n - s + (MOST - 1)) // MOST - 1
    position = tl.where(n > MOST, spread.to(tl.int32), nth)
    wanted = there & (nth < taken)
    position = tl.where(wanted, position, 0)
    column = tl.load(columns + _entry(position, begin, hub, item_begin, hub_items, before), mask=wanted, other=-1)
    # Columns are in order, and the self-loop does not count.
    position += (column >= node).to(tl.int32)
    entry = _entry(position, begin, hub, item_begin, hub_items, before)
    column = tl.load(columns + entry, mask=wanted, other=-1)
    value = n.to(tl.float32) / tl.maximum(taken, 1)
    if values is not None:
        value *= tl.load(values + entry, mask=wanted, other=0)
    own = there & (nth == taken)
    loop = value * 0 + 1
    if loops is not None:
        loop = tl.load(loops + node, mask=own, other=0)
    tl.store(columns_taken + at, tl.where(own, node, column), mask=wanted | own)
    tl.store(values_taken + at, tl.where(own, loop, value), mask=wanted | own)
    tl.store(ends + row, at + tl.where(there, taken + 1, 0), mask=inside & (nth == 0))


@kernel("count")
def _mark(columns, ends, found, count, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    there = inside & (at < tl.load(ends + at // SIZE, mask=inside, other=0))
    node = tl.load(columns + at, mask=there, other=0)
    tl.store(found + node, there.to(tl.int8), mask=there)
