"""Nearest neighbours by cosine similarity: exact, or by an approximate index for millions of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from clnr.errors import ClnrError
from clnr.graph.kind_rows import KindScale, unit
from clnr.support.arguments import check_choice
from clnr.tables.kinds.table_kinds import kind_of, node_id

if TYPE_CHECKING:
    from clnr.graph.csr import Array

_BLOCK = 1 << 25
# Of more neighbours of a kind, so many stand for all.
_MOST_LINKED = 1000


def new_index(width: int, dtype: str = "f32") -> Any:
    """An empty index of cosines (usearch), for rows of so many numbers, which it keeps in a type of its own."""
    return _usearch().Index(ndim=width, metric="cos", dtype=dtype)


def usearch_version() -> str:
    """The version of usearch: another one may write other files."""
    _usearch()
    import usearch

    return str(usearch.__version__)


def load_index(path: Path, shape: tuple[int, int]) -> Any:
    """An index in a file, which is mapped and not read as a whole; None if it is none of so many rows and numbers.

    usearch does not check what it maps: the file must be one that was written by ``save`` and has not changed since.
    """
    try:
        index = _usearch().Index.restore(str(path), view=True)
    except (RuntimeError, ValueError):
        return None
    return index if index is not None and (len(index), index.ndim) == shape else None


def _usearch() -> Any:
    try:
        import usearch.index
    except ImportError:
        raise ClnrError(
            "approximate search needs usearch: pip install 'clnr[approximate]'; without it, search is exact"
        ) from None
    return usearch.index


class NeighborList(NamedTuple):
    """For each query node: its nearest neighbours, nearest first, and their cosine similarities; both [n, k]."""

    nodes: Array
    cosine: Array


class Vectors(Protocol):
    """Rows in parts, of which one is in memory at a time: ``NeighborSearch`` or shards."""

    def rows(self, nodes: Array) -> Array: ...

    def parts(self) -> Iterator[tuple[int, Array]]: ...

    def nearest(self, queries: Array | list[int], k: int, approximate: bool = False) -> NeighborList: ...


def most_similar(
    vectors: Vectors,
    ids: Callable[[], Iterable[Any]],
    node: tuple[int, str],
    k: int,
    linked: Callable[[], Iterable[int]],
    *,
    kind: str | None = None,
    unlinked: bool = False,
    approximate: bool = False,
) -> NeighborList:
    """The ``k`` nodes that are most similar to a node, without this node itself.

    Args:
        vectors: The rows of all nodes.
        ids: Gives their ids as Arrow text, in the same parts.
        node: The row of the node, and its id.
        k: How many; fewer if there are not so many.
        linked: Gives the rows of its neighbours.
        kind: Only nodes of this kind, as ``nearest_of_kind``; None for all.
        unlinked: Whether to leave out its neighbours.
        approximate: Search an index; not for one kind.
    """
    neighbours = set(linked()) if unlinked or kind is not None else set()
    count = k + len(neighbours) if unlinked else k
    if kind is None:
        near = vectors.nearest([node[0]], count, approximate)
    else:
        near = nearest_of_kind(vectors, ids, kind, node, count, neighbours)
    if not unlinked:
        return near
    kept = np.flatnonzero(~np.isin(near.nodes[0], list(neighbours)))[:k]
    return NeighborList(near.nodes[:, kept], near.cosine[:, kept])


def nearest_of_kind(
    vectors: Vectors, ids: Callable[[], Iterable[Any]], kind: str, node: tuple[int, str], k: int, linked: Iterable[int]
) -> NeighborList:
    """The ``k`` nodes of one kind that are most similar to a node, without this node itself; exact.

    To a node of the same kind: by cosine similarity. To one of another kind: by that of standardised rows to its neighbours of
    the kind that is wanted, as ``kind_cosines``; if it has none, to its own.

    Args:
        vectors: The rows of all nodes.
        ids: Gives their ids as Arrow text, in the same parts.
        kind: The kind that is wanted.
        node: The row of the node, and its id.
        k: How many; fewer if there are not so many.
        linked: The rows of its neighbours.
    """
    row, own = node[0], kind_of(node[1])
    (query,) = unit(vectors.rows(np.array([row])))
    scaled: Callable[[Array], Array] = unit
    if own != kind:
        query, scaled = _query_for_kind(vectors, ids, kind, row, own, linked)
    nodes, best = np.empty(0, np.int64), np.empty(0, np.float32)
    for first, z, of_kind in _rows_of_kind(vectors, ids, kind):
        of_kind = of_kind[of_kind != row - first]
        nodes, best = np.concatenate([nodes, first + of_kind]), np.concatenate([best, scaled(z[of_kind]) @ query])
        # Stable: of equally similar nodes the first come first.
        order = np.argsort(-best, kind="stable")[: max(0, k)]
        nodes, best = nodes[order], best[order]
    return NeighborList(nodes[None], best[None])


def _query_for_kind(
    vectors: Vectors, ids: Callable[[], Iterable[Any]], kind: str, row: int, own: str, linked: Iterable[int]
) -> tuple[Array, Callable[[Array], Array]]:
    """What nodes of a kind are compared with, on behalf of a node of another, and how their rows are scaled."""
    scale, neighbours = _scale_of(vectors, ids, kind, np.array(sorted(linked), np.int64))
    if len(neighbours):
        some = vectors.rows(neighbours[:: -(-len(neighbours) // _MOST_LINKED)])
        rows = scale.standardise(some)
    else:
        rows = _scale_of(vectors, ids, own, neighbours)[0].standardise(vectors.rows(np.array([row])))
    return unit(rows.sum(0, keepdims=True))[0], scale.standardise


def _scale_of(vectors: Vectors, ids: Callable[[], Iterable[Any]], kind: str, nodes: Array) -> tuple[KindScale, Array]:
    """What the rows of a kind have in common, and which of some nodes are of this kind."""
    scale, found = KindScale(vectors.rows(np.arange(1)).shape[1]), [np.empty(0, np.int64)]
    for first, z, of_kind in _rows_of_kind(vectors, ids, kind):
        scale.add(z[of_kind])
        found.append(np.intersect1d(nodes, first + of_kind))
    return scale, np.concatenate(found)


def _rows_of_kind(vectors: Vectors, ids: Callable[[], Iterable[Any]], kind: str) -> Iterator[tuple[int, Array, Array]]:
    """Of each part: the number of its first row, its rows, and the places of those of one kind among them."""
    import pyarrow.compute as pc

    for (first, z), texts in zip(vectors.parts(), ids(), strict=True):
        yield first, z, np.flatnonzero(np.asarray(pc.starts_with(texts, node_id(kind, ""))))


def check_kind(kind: str, kinds: Sequence[str], approximate: bool) -> None:
    """Raise unless similar nodes can be of this kind, given all kinds of nodes of the graph."""
    if not kinds:
        raise ClnrError("nodes of this graph have no kinds: leave out kind (--kind)")
    check_choice("kind of nodes", kind, kinds)
    if approximate:
        raise ClnrError("nodes of one kind are searched exactly: leave out approximate (--approximate)")


class NeighborSearch:
    """Rows to search among; what all searches share is computed once, by the first.

    A single query is answered by NumPy alone, so that it does not have to import torch.

    Args:
        z: The rows.
        make_index: Gives the index of approximate search; None for one that is built in memory.
    """

    def __init__(self, z: Array, make_index: Callable[[], Any] | None = None):
        self._z, self._make_index = z, make_index

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

    def rows(self, nodes: Array) -> Array:
        """Some rows."""
        return self._z[nodes]

    def parts(self) -> Iterator[tuple[int, Array]]:
        """All rows as one part: the number of its first one, and its rows."""
        yield 0, self._rows

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
        if self._make_index is not None:
            return self._make_index()
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
