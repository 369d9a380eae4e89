"""A sparse matrix times dense rows, thinned out by draws before."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from clnr.engine.triton.counter_rng import Dropped, rule
from clnr.engine.triton.csr_layout import CHUNK, Structure
from clnr.engine.triton.jit import blocks, power
from clnr.engine.triton.spmm_kernels import add, multiply_by, thin_out

# A program is one warp. It takes 16 entries a round and reads 256 bytes of each one's row, 16 to a lane: 4 KiB are asked for
# before the first of them is waited for. Wide rows go in slices one after another: a slice of all rows, unlike the whole, often
# fits into the cache.
_SLICE, _ROUND, _MOST = 256, 4 << 10, 128


def multiply(
    structure: Structure,
    h: Tensor,
    left: Tensor | None = None,
    right: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Row r becomes :math:`[l_r \sum_c v_{rc} r_c f(h_c) + b] \cdot (m_r > 0)`, summed in float32.

    Args:
        structure: The matrix, R x C.
        h: Rows to add up, [C, F].
        left: What each sum is multiplied by, float32 [R].
        right: What each row of ``h`` is multiplied by, float32 [C].
        relu: Whether f is relu or nothing.
        mask: Where the result is left, [R, F]: where this is above zero.
        bias: float32 [F].
        dtype: Of the result; that of ``h`` where None.
    """
    width = h.shape[1]
    h = h.contiguous()
    mask = None if mask is None else mask.contiguous()
    out = torch.empty(structure.shape[0], width, device=h.device, dtype=dtype or h.dtype)
    if not out.numel():
        return out
    block = min(power(width), _SLICE // h.element_size())
    rows = min(_ROUND // (block * h.element_size()), _MOST) // CHUNK
    items = len(structure.row)
    partial = torch.empty(structure.split, width, device=h.device, dtype=torch.float32)
    grid = (structure.long + blocks(items - structure.long, rows), blocks(width, block))
    multiply_by[grid](
        h,
        out,
        partial,
        structure.columns,
        structure.values,
        structure.row,
        structure.begin,
        structure.end,
        left,
        right,
        mask,
        bias,
        structure.split,
        structure.long,
        items,
        RELU=relu,
        F=width,
        BLOCK=block,
        ROWS=rows,
        CHUNK=CHUNK,
        num_warps=1,
    )
    if structure.split:
        # Few sums of few segments each: narrow blocks, so that they are many programs.
        block = min(power(width), 128)
        add[(len(structure.hubs), blocks(width, block))](
            partial, out, structure.hubs, structure.hub_items, left, mask, bias, F=width, BLOCK=block, ITEMS=16, num_warps=4
        )
    return out


def drop_entries(structure: Structure, drop: Dropped, transposed: bool = False) -> tuple[Structure, Tensor]:
    """The structure without what is dropped, and of each row the sum of the values that are left, float32 [R].

    Entries on the diagonal never are. What is kept of a row, or of a segment of it, moves to its beginning, so that products
    touch nothing else and no draw is made twice.

    Args:
        structure: The matrix.
        drop: Which entries are left out.
        transposed: Whether the structure is the transpose of that which entries are dropped from.
    """
    device = structure.columns.device
    sums = torch.empty(structure.shape[0], device=device, dtype=torch.float32)
    how = rule(drop.key, drop.threshold)
    rows, items = _MOST // CHUNK, len(structure.row)
    columns, end = torch.empty_like(structure.columns), torch.empty_like(structure.end)
    values = None if structure.values is None else torch.empty_like(structure.values)
    partial = torch.empty(structure.split, device=device, dtype=torch.float32)
    if items:
        thin_out[(structure.long + blocks(items - structure.long, rows),)](
            structure.columns,
            structure.values,
            columns,
            values,
            end,
            sums,
            partial,
            structure.row,
            structure.begin,
            structure.end,
            how.word,
            how.thresholds,
            how.a,
            how.b,
            how.last,
            structure.split,
            structure.long,
            items,
            DROP=how.drops,
            PAIRS=drop.pairs,
            TRANSPOSED=transposed,
            ROWS=rows,
            CHUNK=CHUNK,
            num_warps=1,
        )
    if structure.split:
        hubs = len(structure.hubs)
        add[(hubs, 1)](
            partial, sums, structure.hubs, structure.hub_items, None, None, None, F=1, BLOCK=16, ITEMS=16, num_warps=1
        )
    return dataclasses.replace(structure, columns=columns, values=values, end=end), sums
