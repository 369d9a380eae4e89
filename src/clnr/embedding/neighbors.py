"""Nearest neighbours by cosine similarity: exact, or by an approximate index for millions of nodes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.errors import ClnrError

if TYPE_CHECKING:
    from clnr.graph.csr import Array

_BLOCK = 1 << 25


def new_index(width: int, dtype: str = "f32") -> Any:
    """An empty index of cosines (usearch), for rows of so many numbers, which it keeps in a type of its own."""
    try:
        from usearch.index import Index
    except ImportError:
        raise ClnrError(
            "approximate search needs usearch: pip install 'clnr[approximate]'; without it, search is exact"
        ) from None
    return Index(ndim=width, metric="cos", dtype=dtype)


class NeighborList(NamedTuple):
    """For each query node: its nearest neighbours, nearest first, and their cosine similarities; both [n, k]."""

    nodes: Array
    cosine: Array


class NeighborSearch:
    """Rows to search among; what all searches share is computed once, by the first.

    A single query is answered by NumPy alone, so that it does not have to import torch.
    """

    def __init__(self, z: Array):
        self._z = z

    def nearest(self, queries: Array | list[int], k: int, approximate: bool = False) -> NeighborList:
        """The ``k`` rows of largest cosine similarity to each query row, without the query itself.

        Args:
            queries: Row indices.
            k: How many neighbours; fewer if there are not so many rows.
            approximate: Search a usearch index, which is built first; it may miss a neighbour now and then.
        """
        k = max(0, min(k, len(self._z) - 1))
        queries = np.asarray(queries, np.int64)
        if not k or not len(queries):
            return NeighborList(np.zeros((len(queries), k), np.int64), np.zeros((len(queries), k), np.float32))
        if approximate:
            return self._by_index(queries, k)
        return self._single(int(queries[0]), k) if len(queries) == 1 else self._in_blocks(queries, k)

    @cached_property
    def _rows(self) -> Array:
        return np.ascontiguousarray(self._z, dtype=np.float32)

    @cached_property
    def _scale(self) -> Array:
        """One over each row's norm, 0 for a row of zeros. Scaled rows would take the memory of all rows again."""
        norm = np.sqrt(np.einsum("nd,nd->n", self._rows, self._rows))
        return np.divide(1, norm, out=np.zeros_like(norm), where=norm > 0)

    def _single(self, query: int, k: int) -> NeighborList:
        rows, scale = self._rows, self._scale
        cosine = (rows @ (rows[query] * scale[query])) * scale
        cosine[query] = -np.inf
        # All that are tied for the last place are candidates, so that ties are broken by the order of rows.
        best = np.flatnonzero(cosine >= -np.partition(-cosine, k - 1)[k - 1])
        best = best[np.argsort(-cosine[best], kind="stable")][:k]
        return NeighborList(best[None], cosine[best][None])

    def _in_blocks(self, queries: Array, k: int) -> NeighborList:
        import torch

        rows = torch.from_numpy(self._rows)
        norm = torch.linalg.vector_norm(rows, dim=1)
        scale = torch.where(norm > 0, 1 / norm, 0)
        nodes, cosines = [], []
        for block in torch.from_numpy(queries).split(max(1, _BLOCK // len(rows))):
            cosine = ((rows[block] * scale[block, None]) @ rows.T).mul_(scale)
            cosine[torch.arange(len(block)), block] = -torch.inf
            best = cosine.topk(k, 1)
            nodes.append(best.indices)
            cosines.append(best.values)
        return NeighborList(torch.cat(nodes).numpy(), torch.cat(cosines).numpy())

    @cached_property
    def _index(self) -> Any:
        index = new_index(self._rows.shape[1])
        index.add(np.arange(len(self._rows)), self._rows)
        return index

    def _by_index(self, queries: Array, k: int) -> NeighborList:
        rows, scale = self._rows, self._scale
        found = np.atleast_2d(np.asarray(self._index.search(rows[queries], k + 1).keys)).astype(np.int64)
        # The index may compute at lower precision: cosines, and their order, are computed again.
        cosine = np.einsum("nd,nkd->nk", rows[queries], rows[found]) * scale[queries][:, None] * scale[found]
        cosine[found == queries[:, None]] = -np.inf
        best = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
        return NeighborList(np.take_along_axis(found, best, 1), np.take_along_axis(cosine, best, 1))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._z,)
