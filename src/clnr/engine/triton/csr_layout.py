"""A fixed sparse matrix, with the work of multiplying by it laid out once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Rows of at most SHORT entries share a program; longer ones are cut into segments, one to a program. A segment of 256 is
# eight rounds of 32 entries: long enough that its partial sum is a small part of its traffic, and short enough that the
# largest hub's last segment, started first, ends before the rest does.
SHORT, SEGMENT = 32, 256
CHUNK = 4


@dataclass(frozen=True, eq=False)
class Structure:
    """A sparse matrix in compressed rows, and its items of work: runs of entries of one row each.

    Items come in three parts: the segments of rows that are ``split``, which leave partial sums; the other ``long`` rows; and
    the short ones, those that take as many rounds side by side and in the order of rows, for the sake of the cache.

    Attributes:
        columns: Of each entry, int32.
        values: Of each entry, float32; None where all are 1.
        shape: Rows and columns.
        row: Of each item, int32.
        begin: Its first entry.
        end: The entry after its last.
        split: How many items are segments of rows with several.
        long: How many items take a program of their own; split ones included.
        hubs: The rows that are split.
        hub_items: The first item of each of them, and ``split`` at the end.
    """

    columns: Tensor
    values: Tensor | None
    shape: tuple[int, int]
    row: Tensor
    begin: Tensor
    end: Tensor
    split: int
    long: int
    hubs: Tensor
    hub_items: Tensor


def prepare(indptr: Tensor, columns: Tensor, values: Tensor | None, shape: tuple[int, int]) -> Structure:
    """Lay out the work of a matrix in compressed rows, on the device of ``columns``.

    Args:
        start: Where each row's entries begin, and their number at the end; int64.
        columns: Of each entry; int64.
        values: Of each entry; float32, or None where all are 1.
        shape: Rows and columns.
    """
    if max(columns.numel(), *shape) >= 2**31 - SEGMENT:
        raise ValueError(f"a matrix of {shape[0]} x {shape[1]} with {columns.numel()} entries: 32-bit numbers do not reach")
    begin = indptr.cpu()
    length = begin.diff()
    hubs = (length > SEGMENT).nonzero()[:, 0]
    hubs = hubs[length[hubs].argsort(descending=True, stable=True)]
    long = ((length > SHORT) & (length <= SEGMENT)).nonzero()[:, 0]
    long = long[length[long].argsort(descending=True, stable=True)]
    short = (length <= SHORT).nonzero()[:, 0]
    short = short[((length[short] + CHUNK - 1) // CHUNK).argsort(descending=True, stable=True)]

    segments = (length[hubs] + SEGMENT - 1) // SEGMENT
    hub_items = torch.cat([segments.new_zeros(1), segments.cumsum(0)])
    split = int(hub_items[-1])
    nth = torch.arange(split) - hub_items[:-1].repeat_interleave(segments)
    row = torch.cat([hubs.repeat_interleave(segments), long, short])
    first = begin[:-1][row]
    first[:split] += nth * SEGMENT
    last = begin[1:][row]
    last[:split] = torch.minimum(last[:split], first[:split] + SEGMENT)

    def move(t: Tensor) -> Tensor:
        return t.to(columns.device, torch.int32)

    return Structure(
        columns=columns.to(torch.int32).contiguous(),
        values=None if values is None else values.to(columns.device, torch.float32).contiguous(),
        shape=shape,
        row=move(row),
        begin=move(first),
        end=move(last),
        split=split,
        long=split + len(long),
        hubs=move(hubs),
        hub_items=move(hub_items),
    )
