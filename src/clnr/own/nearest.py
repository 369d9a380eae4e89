"""The nodes nearest to a node: exact, in blocks; or approximate, by an index, where there are very many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from clnr.edges import Array
from clnr.engine import unit_rows
from clnr.errors import ClnrError

_BLOCK = 1 << 25


class Near(NamedTuple):
    """For each node asked for: the nearest others, nearest first, and the cosine of each; [n, k]."""

    nodes: Array
    cosine: Array


def nearest(z: Array, asked: Array | list[int], k: int, approximate: bool = False) -> Near:
    """The ``k`` rows of largest cosine with each of some rows, themselves left out.

    Args:
        z: One row a node.
        asked: Whose neighbours.
        k: How many; fewer where there are not so many nodes.
        approximate: By an index of usearch, which is built first; now and then it misses one.
    """
    rows = unit_rows(torch.from_numpy(np.ascontiguousarray(z, dtype=np.float32)))
    k = max(0, min(k, len(rows) - 1))
    asked = np.asarray(asked, np.int64)
    if not k or not len(asked):
        return Near(np.zeros((len(asked), k), np.int64), np.zeros((len(asked), k), np.float32))
    return _by_index(rows, asked, k) if approximate else _exact(rows, asked, k)


def _exact(rows: torch.Tensor, asked: Array, k: int) -> Near:
    nodes, cosines = [], []
    for some in torch.from_numpy(asked).split(max(1, _BLOCK // len(rows))):
        cosine = rows[some] @ rows.T
        cosine[torch.arange(len(some)), some] = -torch.inf
        best = cosine.topk(k, 1)
        nodes.append(best.indices)
        cosines.append(best.values)
    return Near(torch.cat(nodes).numpy(), torch.cat(cosines).numpy())


def _by_index(rows: torch.Tensor, asked: Array, k: int) -> Near:
    try:
        from usearch.index import Index
    except ImportError:
        raise ClnrError(
            "approximate search needs usearch: pip install 'clnr[approximate]'; without it, search is exact"
        ) from None
    index = Index(ndim=rows.shape[1], metric="cos", dtype="f32")
    numbers = rows.numpy()
    index.add(np.arange(len(numbers)), numbers)
    found = torch.from_numpy(np.atleast_2d(np.asarray(index.search(numbers[asked], k + 1).keys)).astype(np.int64))
    own = torch.from_numpy(asked)[:, None]
    # An index may compute at less precision: cosines, and the order, are made anew.
    cosine = torch.einsum("nd,nkd->nk", rows[own[:, 0]], rows[found]).masked_fill_(found == own, -torch.inf)
    best = cosine.topk(k, 1)
    return Near(found.gather(1, best.indices).numpy(), best.values.numpy())
