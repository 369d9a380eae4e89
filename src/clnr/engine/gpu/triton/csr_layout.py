"""A fixed sparse matrix, laid out once for the kernels that multiply by it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Rows of at most this length share a program; longer ones are cut into segments, one to a program. A segment of 256 is
# eight rounds of 32 entries: long enough that its partial sum is a small part of its traffic, and short enough that the
# largest hub's last segment, started first, ends before the rest does.
SHORT_ROW_ENTRIES, SEGMENT_ENTRIES = 32, 256
CHUNK = 4


@dataclass(frozen=True, eq=False)
class Structure:
    """A sparse matrix in CSR form, and its work items: each a run of entries of one row.

    Items come in three groups: segments of rows that are ``split``, which give partial sums; other ``long`` rows; and short
    rows, sorted by how many rounds they take, and among equals in the order of rows, for the sake of the cache.

    Attributes:
        columns: The column of each entry, int32.
        values: The value of each entry, float32; None where all are 1.
        shape: Rows and columns.
        row: The row of each item, int32.
        begin: The first entry of each item.
        end: The entry after the last of each item.
        split: How many items are segments of split rows.
        long: How many items have a program of their own, split ones included.
        hubs: The rows that are split.
        hub_items: The first item of each hub, and ``split`` at the end.
        first_item: The item of each row of the whole matrix, or its first one where the row is split.
        to: Where the entries of each item go when some are dropped; None if to its beginning.
        room: For how many entries there is room then.
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
    first_item: Tensor
    to: Tensor | None = None
    room: int = 0


def prepare(indptr: Tensor, columns: Tensor, values: Tensor | None, shape: tuple[int, int]) -> Structure:
    """Lay out a CSR matrix of int64, on the device of ``columns``; ``values`` are float32, None where all are 1."""
    if max(columns.numel(), *shape) >= 2**31 - SEGMENT_ENTRIES:
        raise ValueError(f"a matrix of {shape[0]} x {shape[1]} with {columns.numel()} entries is too large for 32-bit indices")
    begin = indptr.cpu()
    length = begin.diff()
    hubs = (length > SEGMENT_ENTRIES).nonzero()[:, 0]
    hubs = hubs[length[hubs].argsort(descending=True, stable=True)]
    long = ((length > SHORT_ROW_ENTRIES) & (length <= SEGMENT_ENTRIES)).nonzero()[:, 0]
    long = long[length[long].argsort(descending=True, stable=True)]
    short = (length <= SHORT_ROW_ENTRIES).nonzero()[:, 0]
    short = short[((length[short] + CHUNK - 1) // CHUNK).argsort(descending=True, stable=True)]

    segments = (length[hubs] + SEGMENT_ENTRIES - 1) // SEGMENT_ENTRIES
    hub_items = torch.cat([segments.new_zeros(1), segments.cumsum(0)])
    split = int(hub_items[-1])
    nth = torch.arange(split) - hub_items[:-1].repeat_interleave(segments)
    row = torch.cat([hubs.repeat_interleave(segments), long, short])
    first = begin[:-1][row]
    first[:split] += nth * SEGMENT_ENTRIES
    last = begin[1:][row]
    last[:split] = torch.minimum(last[:split], first[:split] + SEGMENT_ENTRIES)

    first_item = torch.empty_like(length)
    first_item[row[split:]] = torch.arange(split, len(row))
    first_item[hubs] = hub_items[:-1]

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
        first_item=move(first_item),
    )
