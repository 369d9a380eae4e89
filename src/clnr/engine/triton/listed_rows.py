"""Some rows of a sparse matrix, listed on the device: their number is known only there, and nothing waits for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.triton.csr_layout import Structure
from clnr.engine.triton.jit import blocks, kernel

_BLOCK = 256
_FEW = 2


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


def list_rows(structure: Structure, places: Places) -> Structure:
    """Some rows of a matrix at their places; other places are empty.

    Long rows, split or not, keep their items, which are empty where a row has no place. There is one more item for each place;
    that of a long row is nobody's. Where most rows are long, or few are listed, only split ones keep theirs, and each place has
    a program of its own.
    """
    place, nodes = places.place, places.nodes
    alone = len(places) <= _FEW * (structure.long - structure.split)
    kept = structure.split if alone else structure.long
    items = kept + len(places)
    row, begin, end = (torch.empty(items, device=place.device, dtype=torch.int32) for _ in range(3))
    if items:
        _list[(blocks(items, _BLOCK),)](
            structure.row,
            structure.begin,
            structure.end,
            structure.first_item,
            nodes,
            place,
            row,
            begin,
            end,
            kept,
            items,
            BLOCK=_BLOCK,
            num_warps=4,
        )
    hubs, shape, long = place.index_select(0, structure.hubs), (len(places), structure.shape[1]), items if alone else kept
    return dataclasses.replace(structure, shape=shape, row=row, begin=begin, end=end, long=long, hubs=hubs)


@kernel("kept", "items")
def _list(
    item_row: tl.tensor,
    item_begin: tl.tensor,
    item_end: tl.tensor,
    first_item: tl.tensor,
    nodes: tl.tensor,
    place: tl.tensor,
    rows: tl.tensor,
    begins: tl.tensor,
    ends: tl.tensor,
    kept: tl.tensor,
    items: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
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
    tl.store(begins + at, tl.load(item_begin + source, mask=source >= 0, other=0), mask=at < items)
    tl.store(ends + at, tl.load(item_end + source, mask=source >= 0, other=0), mask=at < items)


def number_nodes(found: Tensor, capacity: int) -> Places:
    """Give nodes places in their order; where there is one for every node, each stays at its own.

    Args:
        found: 1 for these nodes, else 0, int32 [N].
        capacity: How many places there are.
    """
    count, device = len(found), found.device
    place, nodes, excess, rank = torch.empty_like(found), None, None, None
    if capacity < count:
        nodes = torch.full((capacity,), -1, device=device, dtype=torch.int32)
        excess = torch.empty(1, device=device)
        rank = found.cumsum(0, dtype=torch.int32)
    _number[(blocks(count, _BLOCK),)](found, rank, place, nodes, excess, count, capacity, BLOCK=_BLOCK, num_warps=4)
    return Places(place, nodes, excess)


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
