"""Nodes in a hash table on the device: it is as large as what is reached, whatever the size of the graph."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from clnr.engine.triton.counter_rng import mix
from clnr.engine.triton.jit import kernel

EMPTY = 2**31 - 1
_EMPTY = tl.constexpr(EMPTY)
# In a table that is at most half full, a node is farther from where it belongs with a chance of about e^(-0.19 * 1024).
_FARTHEST = tl.constexpr(1024)


def slots(capacity: int, device: torch.device) -> Tensor:
    """Slots for nodes, all of them empty: a power of two, at least twice as many as there may be nodes."""
    return torch.full((1 << max(2 * capacity - 1, 1).bit_length(),), EMPTY, device=device, dtype=torch.int32)


@kernel()
def _slot(node: tl.tensor, last: tl.tensor) -> tl.tensor:
    return (mix(node.to(tl.uint32)) & last.to(tl.uint32)).to(tl.int32)


@kernel()
def find(node: tl.tensor, wanted: tl.tensor, place: tl.tensor, keys: tl.tensor, last: tl.tensor) -> tl.tensor:
    """The place of each wanted node; below zero where it has none.

    Args:
        node: The nodes.
        wanted: Which of them to find.
        place: The place of each slot; without ``keys``, that of each node.
        keys: The node in each slot.
        last: The last slot.
    """
    at = node
    if keys is not None:
        at = _slot(node, last)
        key = tl.load(keys + at, mask=wanted, other=_EMPTY)
        looking = (key != node) & (key != _EMPTY)
        tries = 0
        while (tl.max(looking.to(tl.int32)) > 0) & (tries < _FARTHEST):
            at = tl.where(looking, (at + 1) & last, at)
            key = tl.where(looking, tl.load(keys + at, mask=looking, other=_EMPTY), key)
            looking = (key != node) & (key != _EMPTY)
            tries += 1
        wanted = key == node
    return tl.load(place + at, mask=wanted, other=-1)


@kernel()
def put(node: tl.tensor, wanted: tl.tensor, keys: tl.tensor, last: tl.tensor, excess: tl.tensor) -> tl.tensor:
    """Put the wanted nodes into the table, each once, and return their slots; ``excess`` becomes NaN if there is no room."""
    at = _slot(node, last)
    looking = wanted
    tries = 0
    while (tl.max(looking.to(tl.int32)) > 0) & (tries < _FARTHEST):
        key = tl.load(keys + at, mask=looking, other=0, volatile=True)
        free = looking & (key == _EMPTY)
        # A swap cannot be masked: other lanes compare with what no slot holds.
        before = tl.atomic_cas(keys + at, tl.where(free, _EMPTY, -1), node)
        there = (key == node) | (free & ((before == _EMPTY) | (before == node)))
        looking = looking & (there == 0)
        at = tl.where(looking, (at + 1) & last, at)
        tries += 1
    tl.store(excess + at * 0, float("nan"), mask=looking)
    return at
