"""A fixed sparse matrix times dense rows, some entries dropped by a draw that no memory holds."""

from __future__ import annotations

import torch
from torch import Tensor

from clnr.engine.kernels.entries import add, degrees_of, multiply_by
from clnr.engine.kernels.jit import blocks, power
from clnr.engine.kernels.stream import Dropped, rule
from clnr.engine.kernels.structure import CHUNK, Structure

# A program is one warp. It takes 32 entries a round, one to a lane, so that no column is loaded and no draw made twice, and
# reads 256 bytes of each one's row, 16 to a lane: 8 KiB are asked for before the first of them is waited for. With the 16
# warps that their registers leave room for, a processor asks for four times what hides the memory's latency, which leaves it
# hidden where half of the entries are dropped. Wide rows go in slices one after another: a slice of all rows, unlike the
# whole, often fits into the cache.
_SLICE, _ROUND, _MOST = 256, 8 << 10, 128


def multiply(
    structure: Structure,
    h: Tensor,
    drop: Dropped | None = None,
    left: Tensor | None = None,
    right: Tensor | None = None,
    relu: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    transposed: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Row r becomes :math:`[l_r \sum_c k_{rc} v_{rc} r_c f(h_c) + b] \cdot (m_r > 0)`, summed in float32.

    Args:
        structure: The matrix, R x C.
        h: Rows to add up, [C, F].
        drop: Which entries are left out; those on the diagonal never are.
        left: What each sum is multiplied by, float32 [R].
        right: What each row of ``h`` is multiplied by, float32 [C].
        relu: Whether f is relu or nothing.
        mask: Where the result is left, [R, F]: where this is above zero.
        bias: float32 [F].
        transposed: Whether the structure is the transpose of that which entries are dropped from.
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
    how = rule(None, 0) if drop is None else rule(drop.key, drop.threshold)
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
        how.word,
        how.thresholds,
        how.a,
        how.b,
        how.last,
        structure.split,
        structure.long,
        items,
        DROP=how.drops,
        PAIRS=drop is not None and drop.pairs,
        TRANSPOSED=transposed,
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


def degrees(structure: Structure, drop: Dropped | None = None, transposed: bool = False) -> Tensor:
    """Of each row, the sum of the values that are kept; float32 [R]."""
    out = torch.empty(structure.shape[0], device=structure.columns.device, dtype=torch.float32)
    if not out.numel():
        return out
    rows = _MOST // CHUNK
    items = len(structure.row)
    partial = torch.empty(structure.split, device=out.device, dtype=torch.float32)
    how = rule(None, 0) if drop is None else rule(drop.key, drop.threshold)
    degrees_of[(structure.long + blocks(items - structure.long, rows),)](
        out,
        partial,
        structure.columns,
        structure.values,
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
        PAIRS=drop is not None and drop.pairs,
        TRANSPOSED=transposed,
        ROWS=rows,
        CHUNK=CHUNK,
        num_warps=1,
    )
    if structure.split:
        hubs = len(structure.hubs)
        add[(hubs, 1)](
            partial, out, structure.hubs, structure.hub_items, None, None, None, F=1, BLOCK=16, ITEMS=16, num_warps=1
        )
    return out
