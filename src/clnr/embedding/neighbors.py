"""The nodes nearest to a node: exact, in blocks; or approximate, by an index, where there are very many."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from clnr.errors import ClnrError
from clnr.graph.csr import Array

_BLOCK = 1 << 25


class Near(NamedTuple):
    """For each node asked for: the nearest others, nearest first, and the cosine of each; [n, k]."""

    nodes: Array
    cosine: Array


class Neighbours:
    """Rows among which to search; what every search needs is made at the first."""

    def __init__(self, z: Array):
        self._z = z

    def nearest(self, asked: Array | list[int], k: int, approximate: bool = False) -> Near:
        """The ``k`` rows of largest cosine with each of some rows, themselves left out.

        Args:
            asked: Whose neighbours.
            k: How many; fewer where there are not so many nodes.
            approximate: By an index of usearch, which is built first; now and then it misses one.
        """
        k = max(0, min(k, len(self._z) - 1))
        asked = np.asarray(asked, np.int64)
        if not k or not len(asked):
            return Near(np.zeros((len(asked), k), np.int64), np.zeros((len(asked), k), np.float32))
        return self._by_index(asked, k) if approximate else self._exact(asked, k)

    @cached_property
    def _rows(self) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(self._z, dtype=np.float32))

    @cached_property
    def _scale(self) -> torch.Tensor:
        """What makes each row's length 1; 0 for a row of zeros. Rows scaled once and for all would take their room again."""
        length = torch.linalg.vector_norm(self._rows, dim=1)
        return torch.where(length > 0, 1 / length, 0)

    def _exact(self, asked: Array, k: int) -> Near:
        rows, scale = self._rows, self._scale
        nodes, cosines = [], []
        for some in torch.from_numpy(asked).split(max(1, _BLOCK // len(rows))):
            cosine = ((rows[some] * scale[some, None]) @ rows.T).mul_(scale)
            cosine[torch.arange(len(some)), some] = -torch.inf
            best = cosine.topk(k, 1)
            nodes.append(best.indices)
            cosines.append(best.values)
        return Near(torch.cat(nodes).numpy(), torch.cat(cosines).numpy())

    @cached_property
    def _index(self) -> Any:
        try:
            from usearch.index import Index
        except ImportError:
            raise ClnrError(
                "approximate search needs usearch: pip install 'clnr[approximate]'; without it, search is exact"
            ) from None
        index = Index(ndim=self._rows.shape[1], metric="cos", dtype="f32")
        index.add(np.arange(len(self._rows)), self._rows.numpy())
        return index

    def _by_index(self, asked: Array, k: int) -> Near:
        rows, scale = self._rows, self._scale
        keys = self._index.search(rows.numpy()[asked], k + 1).keys
        found = torch.from_numpy(np.atleast_2d(np.asarray(keys)).astype(np.int64))
        own = torch.from_numpy(asked)[:, None]
        # An index may compute at less precision: cosines, and the order, are made anew.
        cosine = torch.einsum("nd,nkd->nk", rows[own[:, 0]], rows[found]) * scale[own] * scale[found]
        best = cosine.masked_fill_(found == own, -torch.inf).topk(k, 1)
        return Near(found.gather(1, best.indices).numpy(), best.values.numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._z,)
