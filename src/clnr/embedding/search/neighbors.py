"""Nearest neighbours by cosine similarity, in blocks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.embedding.search.node_ids import NodeIds
from clnr.graph.kind_rows import KindScale, unit
from clnr.tables.roles.column_names import kind_of, node_id

if TYPE_CHECKING:
    from clnr.graph.csr import Array

# Cosines that are in memory at a time where each node is compared with all.
_BLOCK_COSINES = 1 << 25
# The most neighbours of a kind that are averaged.
_MOST_LINKED_NODES = 1000


class NeighborList(NamedTuple):
    """The nearest neighbours of a node, nearest first, and their cosine similarities: both [k]; of n nodes, both [n, k]."""

    nodes: Array
    cosine: Array


class Rows(ABC):
    """The vectors of all nodes, in blocks of which one is in memory at a time."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @abstractmethod
    def __getitem__(self, nodes: Any) -> Array:
        """The vectors of some nodes."""

    @abstractmethod
    def blocks(self) -> Iterator[Array]:
        """All vectors in order, one block after the other."""

    def direction(self, node: int) -> Array:
        """The vector of a node, scaled to length 1."""
        return unit(self[np.array([node])])[0]

    def scaled_blocks(self) -> Iterator[tuple[Array, Any]]:
        """Blocks, and what their rows are still to be multiplied by to have length 1."""
        return ((unit(z), 1.0) for z in self.blocks())


class ArrayRows(Rows):
    """Vectors in memory, as one block; what all searches share is computed once, by the first."""

    def __init__(self, z: Array):
        self._z = np.ascontiguousarray(z, dtype=np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return self._z.shape[0], self._z.shape[1]

    def __getitem__(self, nodes: Any) -> Array:
        return self._z[nodes]

    def blocks(self) -> Iterator[Array]:
        yield self._z

    def direction(self, node: int) -> Array:
        return self._z[node] * self._scale[node]

    def scaled_blocks(self) -> Iterator[tuple[Array, Any]]:
        # Scaled rows would take the memory of all rows again.
        yield self._z, self._scale

    @cached_property
    def _scale(self) -> Array:
        """One over each row's norm, 0 for a row of zeros."""
        norm = np.sqrt(np.einsum("nd,nd->n", self._z, self._z))
        return np.divide(1, norm, out=np.zeros_like(norm), where=norm > 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._z,)


def nearest(rows: Rows, node: int, k: int) -> NeighborList:
    """The ``k`` nodes, or all, of largest cosine similarity to one, without this node itself; torch is not imported."""
    return _best(_cosines(rows, node, rows.direction(node)), max(0, min(k, rows.shape[0] - 1)))


def _cosines(rows: Rows, node: int, query: Array) -> Iterator[tuple[Array, Array]]:
    """The nodes of each block, and how similar each is to one; this one itself not at all."""
    first = 0
    for z, scale in rows.scaled_blocks():
        cosine = (z @ query) * scale
        if first <= node < first + len(z):
            cosine[node - first] = -np.inf
        yield np.arange(first, first + len(z)), cosine
        first += len(z)


def _best(parts: Iterable[tuple[Array, Array]], k: int) -> NeighborList:
    """The ``k`` nodes of largest cosine, of nodes and cosines in parts; of equally similar nodes the first come first."""
    nodes, cosines = np.empty(0, np.int64), np.empty(0, np.float32)
    for more_nodes, more_cosines in parts:
        nodes, cosines = np.concatenate([nodes, more_nodes]), np.concatenate([cosines, more_cosines])
        if 0 < k < len(nodes):
            # All that are tied for the last place are candidates, so that ties are broken by the order of nodes.
            candidates = np.flatnonzero(~(cosines < -np.partition(-cosines, k - 1)[k - 1]))
            nodes, cosines = nodes[candidates], cosines[candidates]
        order = np.argsort(-cosines, kind="stable")[: max(0, k)]
        nodes, cosines = nodes[order], cosines[order]
    return NeighborList(nodes, cosines)


def neighbor_lists(z: Array, k: int) -> NeighborList:
    """The ``k`` rows of largest cosine similarity to each row, without itself; fewer if there are fewer rows."""
    import torch

    rows, k = torch.from_numpy(np.ascontiguousarray(z, dtype=np.float32)), max(0, min(k, len(z) - 1))
    norm = torch.linalg.vector_norm(rows, dim=1)
    scale = torch.where(norm > 0, 1 / norm, 0)
    nodes, cosines = [torch.zeros(0, k, dtype=torch.int64)], [torch.zeros(0, k)]
    for block in torch.arange(len(rows)).split(max(1, _BLOCK_COSINES // max(1, len(rows)))):
        cosine = ((rows[block] * scale[block, None]) @ rows.T).mul_(scale)
        cosine[torch.arange(len(block)), block] = -torch.inf
        best = cosine.topk(k, 1)
        nodes.append(best.indices)
        cosines.append(best.values)
    return NeighborList(torch.cat(nodes).numpy(), torch.cat(cosines).numpy())


def nearest_of_kind(rows: Rows, ids: NodeIds, kind: str, node: tuple[int, str], k: int, linked: Iterable[int]) -> NeighborList:
    """The ``k`` nodes of one kind that are most similar to a node, without this node itself; exact.

    To a node of the same kind: by cosine similarity. To one of another kind: by that of standardised rows to its neighbours of
    the kind that is wanted, as ``kind_cosines``; if it has none, to its own.

    ``node`` is its number and its id.
    """
    number, kind_of_node = node[0], kind_of(node[1])
    (query,) = unit(rows[np.array([number])])
    scaled: Callable[[Array], Array] = unit
    if kind_of_node != kind:
        query, scaled = _query_for_kind(rows, ids, kind, number, kind_of_node, linked)

    def parts() -> Iterator[tuple[Array, Array]]:
        for first, z, of_kind in rows_of_kind(rows, ids, kind):
            others = of_kind[of_kind != number - first]
            yield first + others, scaled(z[others]) @ query

    return _best(parts(), k)


def _query_for_kind(
    rows: Rows, ids: NodeIds, kind: str, node: int, kind_of_node: str, linked: Iterable[int]
) -> tuple[Array, Callable[[Array], Array]]:
    """What nodes of a kind are compared with, on behalf of a node of another, and how their rows are scaled."""
    scale, neighbours = _scale_of(rows, ids, kind, np.array(sorted(linked), np.int64))
    if len(neighbours):
        some = rows[neighbours[:: -(-len(neighbours) // _MOST_LINKED_NODES)]]
        compared = scale.standardise(some)
    else:
        compared = _scale_of(rows, ids, kind_of_node, neighbours)[0].standardise(rows[np.array([node])])
    return unit(compared.sum(0, keepdims=True))[0], scale.standardise


def _scale_of(rows: Rows, ids: NodeIds, kind: str, nodes: Array) -> tuple[KindScale, Array]:
    """What the rows of a kind have in common, and which of some nodes are of this kind."""
    scale, of_this_kind = KindScale(rows.shape[1]), [np.empty(0, np.int64)]
    for first, z, of_kind in rows_of_kind(rows, ids, kind):
        scale.add(z[of_kind])
        of_this_kind.append(np.intersect1d(nodes, first + of_kind))
    return scale, np.concatenate(of_this_kind)


def rows_of_kind(rows: Rows, ids: NodeIds, kind: str) -> Iterator[tuple[int, Array, Array]]:
    """Of each block: the number of its first row, its rows, and the places of those of one kind among them."""
    import pyarrow.compute as pc

    first = 0
    for z in rows.blocks():
        of_kind = pc.starts_with(ids.part(first, first + len(z)), node_id(kind, ""))
        yield first, z, np.flatnonzero(np.asarray(of_kind))
        first += len(z)
