"""Some rows of a sparse matrix, listed on the device: their number is known only there, and nothing waits for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.gpu.triton.csr_layout import Structure
from clnr.engine.gpu.triton.jit import blocks, kernel

_ITEMS_PER_BLOCK = 256
_NODES_PER_BLOCK = 2048
_PLACES_PER_LONG_ROW = 2


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows of some nodes go.

    Attributes:
        place: The place of each node, int32 [N]; below zero where it has none.
        nodes: The node at each place, int32; below zero where there is none. None where each node's place is its own number.
        excess: 0, or NaN where places were too few, float32 [1]; None where there is one for every node.
    """

    place: Tensor
    nodes: Tensor | None
    excess: Tensor | None = None

    def __len__(self) -> int:
        return len(self.place if self.nodes is None else self.nodes)


def list_rows(structure: Structure, places: Places, room: int | None = None, alone: bool = False) -> Structure:
    """Some rows of a matrix at their places; other places are empty.

    Long rows, split or not, keep their items, which are empty where a row has no place. There is one more item for each place;
    that of a long row is nobody's. Where most rows are long, or few are listed, or all shall be ``alone``, only split ones
    keep theirs, and each place has a program of its own.

    If ``room``, a number of entries, is given, what is kept of these rows will move together; should it be too little,
    ``places.excess`` becomes NaN.
    """
    place, nodes = places.place, places.nodes
    alone = alone or len(places) <= _PLACES_PER_LONG_ROW * (structure.long - structure.split)
    kept = structure.split if alone else structure.long
    items = kept + len(places)
    row, begin, end = (torch.empty(items, device=place.device, dtype=torch.int32) for _ in range(3))
    to = None if room is None else torch.empty_like(row)
    used = None if room is None else torch.zeros(1, device=place.device, dtype=torch.int32)
    if items:
        _list[(blocks(items, _ITEMS_PER_BLOCK),)](
            structure.row, structure.begin, structure.end, structure.first_item, nodes, place, row, begin, end, to,
            used, places.excess, room or 0, kept, items,
            BLOCK=_ITEMS_PER_BLOCK, num_warps=4,
        )  # fmt: skip
    hubs, shape, long = place.index_select(0, structure.hubs), (len(places), structure.shape[1]), items if alone else kept
    listed = dataclasses.replace(structure, shape=shape, row=row, begin=begin, end=end, long=long, hubs=hubs)
    return dataclasses.replace(listed, to=to, room=room or 0)


@kernel("room", "kept", "items")
def _list(
    item_row,
    item_begin,
    item_end,
    first_item,
    nodes,
    place,
    rows,
    begins,
    ends,
    to_places,
    used,
    excess,
    room,
    kept,
    items,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = at < kept
    to = tl.load(place + tl.load(item_row + at, mask=own, other=0), mask=own, other=-1)
    position = at - kept
    single = (at >= kept) & (at < items)
    if nodes is not None:
        node = tl.load(nodes + position, mask=single, other=-1)
    else:
        node = tl.load(place + position, mask=single, other=-1)
    item = tl.load(first_item + node, mask=node >= 0, other=-1)
    row = tl.where(own, to, tl.where((item >= 0) & (item < kept), -1, position))
    source = tl.where(own, tl.where(to >= 0, at, -1), tl.where(item >= kept, item, -1))
    tl.store(rows + at, row, mask=at < items)
    begin = tl.load(item_begin + source, mask=source >= 0, other=0)
    end = tl.load(item_end + source, mask=source >= 0, other=0)
    if used is not None:
        # Which program comes first decides where its rows lie, but not what is in them.
        size = end - begin
        behind = tl.atomic_add(used, tl.sum(size)) + tl.cumsum(size)
        over = behind > room
        tl.store(excess + at * 0, float("nan"), mask=over)
        tl.store(to_places + at, tl.where(over, 0, behind - size), mask=at < items)
        end = tl.where(over, begin, end)
    tl.store(begins + at, begin, mask=at < items)
    tl.store(ends + at, end, mask=at < items)


def number_nodes(found: Tensor, capacity: int) -> Places:
    """Give nodes for which ``found``, int8 [N], is 1 places in their order; with one for every node, each stays at its own."""
    count, device = len(found), found.device
    place, nodes, excess, behind = torch.empty(count, device=device, dtype=torch.int32), None, None, None
    grid = (blocks(count, _NODES_PER_BLOCK),)
    if capacity < count:
        nodes = torch.full((capacity,), -1, device=device, dtype=torch.int32)
        excess = torch.empty(1, device=device)
        counts = torch.empty(grid, device=device, dtype=torch.int32)
        _count[grid](found, counts, count, BLOCK=_NODES_PER_BLOCK, num_warps=4)
        behind = counts.cumsum(0, dtype=torch.int32)
    _number[grid](found, behind, place, nodes, excess, count, capacity, BLOCK=_NODES_PER_BLOCK, num_warps=4)
    return Places(place, nodes, excess)


@kernel("count")
def _count(found, counts, count, BLOCK: tl.constexpr):
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = tl.load(found + node, mask=node < count, other=0).to(tl.int32)
    tl.store(counts + tl.program_id(0), tl.sum(there))


@kernel("count", "capacity")
def _number(found, behind, place, nodes, excess, count, capacity, BLOCK: tl.constexpr):
    """``behind`` is the number of nodes up to the end of each block."""
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = node < count
    there = tl.load(found + node, mask=inside, other=0).to(tl.int32)
    fits = there > 0
    to = node
    if behind is not None:
        last = tl.load(behind + tl.program_id(0))
        to = last - tl.sum(there) + tl.cumsum(there) - 1
        tl.store(excess + node * 0, tl.where(last > capacity, float("nan"), 0.0), mask=node == count - 1)
        fits = fits & (to < capacity)
        tl.store(nodes + to, node, mask=fits)
    tl.store(place + node, tl.where(fits, to, -1), mask=inside)


def inverse_roots(sums: Tensor, places: Places) -> Tensor:
    """One over the root of the sum at each place; zero where that is zero, and NaN where places were too few."""
    out = torch.empty_like(sums)
    _inverse_roots[(blocks(len(sums), _ITEMS_PER_BLOCK),)](
        sums, out, places.excess, len(sums), BLOCK=_ITEMS_PER_BLOCK, num_warps=4
    )
    return out


@kernel("count")
def _inverse_roots(sums, out, excess, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sums + place, mask=place < count, other=0)
    root = tl.where(total == 0, 0.0, 1.0 / tl.sqrt(tl.where(total == 0, 1.0, total)))
    if excess is not None:
        root += tl.load(excess)
    tl.store(out + place, root, mask=place < count)
