"""A sparse matrix times dense rows, and dropping entries of it at random."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from clnr import rng
from clnr.engine.gpu.triton.counter_rng import NOTHING_DROPPED, to_drop_rule
from clnr.engine.gpu.triton.csr_layout import CHUNK, Structure
from clnr.engine.gpu.triton.jit import blocks, power
from clnr.engine.gpu.triton.spmm_kernels import add, drop_and_compact, multiply_by
from clnr.engine.view import Drop

# A program is one warp. In a round it takes 16 entries and reads 256 bytes of the row of each, 16 per thread: 4 KiB are
# requested before it waits for the first of them. Wide rows are cut into slices, one after another: a slice of all rows often
# fits into the cache where whole rows do not.
_BYTES_PER_SLICE, _BYTES_PER_ROUND, _ENTRIES_PER_ROUND = 256, 4 << 10, 128


def multiply(
    structure: Structure,
    h: Tensor,
    left: Tensor | None = None,
    right: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    r"""Row r becomes :math:`[l_r \sum_c v_{rc} r_c f(h_c) + b] \cdot (m_r > 0)`, summed in float32.

    The matrix v is R x C, and f is ReLU or the identity; left, right and bias are float32 [R], [C] and [F], h is [C, F] and the
    mask [R, F].
    """
    width = h.shape[1]
    h = h.contiguous()
    mask = None if mask is None else mask.contiguous()
    out = torch.empty(structure.shape[0], width, device=h.device, dtype=h.dtype)
    if not out.numel():
        return out
    block = min(power(width), _BYTES_PER_SLICE // h.element_size())
    rows = min(_BYTES_PER_ROUND // (block * h.element_size()), _ENTRIES_PER_ROUND) // CHUNK
    items = len(structure.row)
    partial = torch.empty(structure.split, width, device=h.device, dtype=torch.float32)
    grid = (structure.long + blocks(items - structure.long, rows), blocks(width, block))
    multiply_by[grid](
        h, out, partial, structure.columns, structure.values, structure.row, structure.begin, structure.end, left,
        right, mask, bias, structure.split, structure.long, items,
        RELU=relu, F=width, BLOCK=block, ROWS=rows, CHUNK=CHUNK, num_warps=1,
    )  # fmt: skip
    if structure.split:
        # Few sums of few segments each: narrow blocks give enough programs.
        block = min(power(width), 128)
        add[(len(structure.hubs), blocks(width, block))](
            partial, out, structure.hubs, structure.hub_items, left, mask, bias, F=width, BLOCK=block, ITEMS=16, num_warps=4
        )
    return out


def drop_entries(
    structure: Structure,
    drop: Drop | None,
    transposed: bool = False,
    nodes: Tensor | None = None,
    place: Tensor | None = None,
    found: Tensor | None = None,
) -> tuple[Structure, Tensor]:
    """The matrix without the dropped entries, and the sum of the values kept in each row, float32 [R].

    Entries on the diagonal are never dropped. What is kept of a row, or of a segment of it, moves to its beginning, or where
    ``list_rows`` had room for it, so that products read nothing else and no draw is made twice.

    Args:
        structure: The matrix, or with ``transposed`` the transpose of the one that ``drop`` is about.
        drop: Which entries are dropped; None for none.
        transposed: See ``structure``.
        nodes: Which row of the whole matrix each row is, int32, where ``structure`` has been through ``list_rows``.
        place: The new number of each column, int32; where it is below zero, entries are dropped as well.
        found: int8 [C]; becomes 1 where a column, by its old number, has an entry that is kept.
    """
    device = structure.columns.device
    sums = torch.empty(structure.shape[0], device=device, dtype=torch.float32)
    drop_rule = NOTHING_DROPPED if drop is None else to_drop_rule(drop.key, rng.threshold(drop.rate))
    rows, items = _ENTRIES_PER_ROUND // CHUNK, len(structure.row)
    room = len(structure.columns) if structure.to is None else structure.room
    begin, end = structure.begin if structure.to is None else structure.to, torch.empty_like(structure.end)
    columns = structure.columns.new_empty(room)
    values = None if structure.values is None else structure.values.new_empty(room)
    partial = torch.empty(structure.split, device=device, dtype=torch.float32)
    if items:
        drop_and_compact[(structure.long + blocks(items - structure.long, rows),)](
            structure.columns, structure.values, columns, values, end, sums, partial, structure.row, structure.begin,
            structure.end, begin, nodes, place, found, drop_rule.word, drop_rule.thresholds, drop_rule.a, drop_rule.b,
            drop_rule.last, structure.split, structure.long, items,
            DROP=drop_rule.drops, PAIRS=drop is not None and drop.pairs, TRANSPOSED=transposed, ROWS=rows, CHUNK=CHUNK,
            num_warps=1,
        )  # fmt: skip
    if structure.split:
        hubs = len(structure.hubs)
        add[(hubs, 1)](
            partial, sums, structure.hubs, structure.hub_items, None, None, None, F=1, BLOCK=16, ITEMS=16, num_warps=1
        )
    return dataclasses.replace(structure, columns=columns, values=values, begin=begin, end=end, to=None), sums
