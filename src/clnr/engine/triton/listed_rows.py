"""Some rows of a sparse matrix, listed on the device: their number is known only there, and nothing waits for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.triton.csr_layout import Structure
from clnr.engine.triton.hash_table import EMPTY, find, put, slots
from clnr.engine.triton.jit import blocks, kernel

_BLOCK = 256
_FEW = 2
_EMPTY = tl.constexpr(EMPTY)


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows of some nodes go.

    Attributes:
        place: The place of each node, int32 [N]; below zero where it has none. With ``keys``, the place of each slot.
        nodes: The node at each place, int32; below zero where there is none. None where each node's place is its own number.
        excess: 0, or NaN where places were too few, float32 [1]; None where there is one for every node.
        keys: The node in each slot of a hash table, int32.
    """

    place: Tensor
    nodes: Tensor | None
    excess: Tensor | None = None
    keys: Tensor | None = None

    def __len__(self) -> int:
        return len(self.place if self.nodes is None else self.nodes)

    @property
    def last_slot(self) -> int:
        """The last slot of the hash table, where there is one."""
        return 0 if self.keys is None else len(self.keys) - 1

    def of(self, nodes: Tensor) -> Tensor:
        """The place of each of some nodes."""
        if self.keys is None:
            return self.place.index_select(0, nodes)
        out = torch.empty_like(nodes)
        if len(out):
            grid = (blocks(len(out), _BLOCK),)
            _find[grid](nodes, out, self.place, self.keys, self.last_slot, len(out), BLOCK=_BLOCK, num_warps=4)
        return out


@dataclass(frozen=True, eq=False)
class Reached:
    """Nodes that were reached and have no places yet.

    Attributes:
        marks: 1 for these nodes, else 0, int32 [N]; or the slots of a hash table.
        excess: As of ``Places``; None for marks.
    """

    marks: Tensor
    excess: Tensor | None = None

    @classmethod
    def none(cls, count: int, capacity: int, hashed: bool, device: torch.device) -> Reached:
        """None of ``count`` nodes yet, and at most ``capacity``."""
        if hashed:
            return cls(slots(capacity, device), torch.zeros(1, device=device))
        return cls(torch.zeros(count, device=device, dtype=torch.int32))


def place_nodes(nodes: Tensor, count: int, hashed: bool) -> Places:
    """Give some of ``count`` nodes, all distinct, places in the order that they have here."""
    if not hashed:
        order = torch.arange(len(nodes), device=nodes.device, dtype=torch.int32)
        place = torch.full((count,), -1, device=nodes.device, dtype=torch.int32)
        return Places(place.index_copy_(0, nodes, order), nodes.int())
    nodes = nodes.int()
    keys, excess = slots(len(nodes), nodes.device), torch.zeros(1, device=nodes.device)
    place = torch.empty_like(keys)
    _put[(blocks(len(nodes), _BLOCK),)](nodes, place, keys, len(keys) - 1, excess, len(nodes), BLOCK=_BLOCK, num_warps=4)
    return Places(place, nodes, excess, keys)


@kernel("last", "count")
def _find(
    nodes: tl.tensor,
    out: tl.tensor,
    place: tl.tensor,
    keys: tl.tensor,
    last: tl.tensor,
    count: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    node = tl.load(nodes + at, mask=at < count, other=0)
    tl.store(out + at, find(node, at < count, place, keys, last), mask=at < count)


@kernel("last", "count")
def _put(
    nodes: tl.tensor,
    place: tl.tensor,
    keys: tl.tensor,
    last: tl.tensor,
    excess: tl.tensor,
    count: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    node = tl.load(nodes + at, mask=at < count, other=0)
    slot = put(node, at < count, keys, last, excess)
    tl.store(place + slot, at, mask=at < count)


def list_rows(structure: Structure, places: Places, room: int | None = None, alone: bool = False) -> Structure:
    """Some rows of a matrix at their places; other places are empty.

    Where there is ``room`` for so many entries, what is kept of these rows will move together; should it be too little,
    ``places.excess`` becomes NaN.

    Long rows, split or not, keep their items, which are empty where a row has no place. There is one more item for each place;
    that of a long row is nobody's. Where most rows are long, or few are listed, or all shall be ``alone``, only split ones
    keep theirs, and each place has a program of its own.
    """
    nodes, device = places.nodes, places.place.device
    alone = alone or len(places) <= _FEW * (structure.long - structure.split)
    kept = structure.split if alone else structure.long
    items = kept + len(places)
    row, begin, end = (torch.empty(items, device=device, dtype=torch.int32) for _ in range(3))
    size = None if room is None else torch.empty_like(row)
    if items:
        _list[(blocks(items, _BLOCK),)](
            structure.row,
            structure.begin,
            structure.end,
            structure.first_item,
            nodes,
            places.place,
            places.keys,
            places.last_slot,
            row,
            begin,
            end,
            size,
            kept,
            items,
            BLOCK=_BLOCK,
            num_warps=4,
        )
    hubs, shape, long = places.of(structure.hubs), (len(places), structure.shape[1]), items if alone else kept
    listed = dataclasses.replace(structure, shape=shape, row=row, begin=begin, end=end, long=long, hubs=hubs)
    if size is None or room is None or not items:
        return listed
    behind, to = size.cumsum(0, dtype=torch.int32), torch.empty_like(row)
    grid = (blocks(items, _BLOCK),)
    _move[grid](begin, end, behind, to, places.excess, room, items, BLOCK=_BLOCK, num_warps=4)
    return dataclasses.replace(listed, to=to, room=room)


@kernel("room", "items")
def _move(
    begins: tl.tensor,
    ends: tl.tensor,
    behind: tl.tensor,
    to: tl.tensor,
    excess: tl.tensor,
    room: tl.tensor,
    items: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Where the entries of each item go, given the number of entries up to its end; what has no room is cut off."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    begin = tl.load(begins + at, mask=at < items, other=0)
    end = tl.load(ends + at, mask=at < items, other=0)
    after = tl.load(behind + at, mask=at < items, other=0)
    over = after > room
    tl.store(excess + at * 0, float("nan"), mask=over)
    tl.store(ends + at, tl.where(over, begin, end), mask=at < items)
    tl.store(to + at, tl.where(over, 0, after - (end - begin)), mask=at < items)


@kernel("last", "kept", "items")
def _list(
    item_row: tl.tensor,
    item_begin: tl.tensor,
    item_end: tl.tensor,
    first_item: tl.tensor,
    nodes: tl.tensor,
    place: tl.tensor,
    keys: tl.tensor,
    last: tl.tensor,
    rows: tl.tensor,
    begins: tl.tensor,
    ends: tl.tensor,
    sizes: tl.tensor,
    kept: tl.tensor,
    items: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = at < kept
    to = find(tl.load(item_row + at, mask=own, other=0), own, place, keys, last)
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
    tl.store(begins + at, begin, mask=at < items)
    tl.store(ends + at, end, mask=at < items)
    if sizes is not None:
        tl.store(sizes + at, end - begin, mask=at < items)


def number_nodes(reached: Reached, capacity: int) -> Places:
    """Give nodes places in their order; where there is one for every node, each stays at its own.

    Args:
        reached: The nodes.
        capacity: How many places there are.
    """
    marks, device = reached.marks, reached.marks.device
    count, place, nodes, excess, rank = len(marks), torch.empty_like(marks), None, reached.excess, None
    grid = (blocks(count, _BLOCK),)
    if excess is not None:
        nodes = torch.empty(capacity, device=device, dtype=torch.int32)
        # Which slot a node got depends on who came first; its rank among all of them does not.
        ordered, slot = marks.sort()
        _number_slots[grid](ordered, slot, place, nodes, excess, count, capacity, BLOCK=_BLOCK, num_warps=4)
        return Places(place, nodes, excess, marks)
    if capacity < count:
        nodes = torch.full((capacity,), -1, device=device, dtype=torch.int32)
        excess = torch.empty(1, device=device)
        rank = marks.cumsum(0, dtype=torch.int32)
    _number[grid](marks, rank, place, nodes, excess, count, capacity, BLOCK=_BLOCK, num_warps=4)
    return Places(place, nodes, excess)


@kernel("count", "capacity")
def _number_slots(
    ordered: tl.tensor,
    slots: tl.tensor,
    place: tl.tensor,
    nodes: tl.tensor,
    excess: tl.tensor,
    count: tl.tensor,
    capacity: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    node = tl.load(ordered + at, mask=at < count, other=_EMPTY)
    there = node != _EMPTY
    fits = at < capacity
    tl.store(nodes + at, tl.where(there, node, -1), mask=fits)
    tl.store(place + tl.load(slots + at, mask=at < count, other=0), tl.where(fits, at, -1), mask=there)
    tl.store(excess + at * 0, float("nan"), mask=there & (at == capacity))


@kernel("count", "capacity")
def _number(
    found: tl.tensor,
    rank: tl.tensor,
    place: tl.tensor,
    nodes: tl.tensor,
    excess: tl.tensor,
    count: tl.tensor,
    capacity: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = node < count
    fits = tl.load(found + node, mask=inside, other=0) > 0
    to = node
    if rank is not None:
        to = tl.load(rank + node, mask=inside, other=0) - 1
        tl.store(excess + node * 0, tl.where(to >= capacity, float("nan"), 0.0), mask=node == count - 1)
        fits = fits & (to < capacity)
        tl.store(nodes + to, node, mask=fits)
    tl.store(place + node, tl.where(fits, to, -1), mask=inside)


def inverse_roots(sums: Tensor, places: Places) -> Tensor:
    """One over the root of the sum at each place; zero where that is zero, and NaN where places were too few."""
    out = torch.empty_like(sums)
    _inverse_roots[(blocks(len(sums), _BLOCK),)](sums, out, places.excess, len(sums), BLOCK=_BLOCK, num_warps=4)
    return out


@kernel("count")
def _inverse_roots(sums: tl.tensor, out: tl.tensor, excess: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr) -> None:
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sums + place, mask=place < count, other=0)
    root = tl.where(total == 0, 0.0, 1.0 / tl.sqrt(tl.where(total == 0, 1.0, total)))
    if excess is not None:
        root += tl.load(excess)
    tl.store(out + place, root, mask=place < count)
