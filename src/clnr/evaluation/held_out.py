"""Pairs of nodes whose edges are held out of training to score by, and as many pairs without an edge.

The same are drawn of a graph in memory and of one in files: arrays may be mapped, and are read in blocks of nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clnr import rng
from clnr.datasets.noise import sample_non_edges
from clnr.graph import Graph
from clnr.graph.csr import CSR, Array, are_among, distinct, draw_neighbours, edge_keys, find_edges

MOST_PAIRS = 10_000
"""The most pairs that are held out: from files, each costs the rows that its two nodes reach."""
MOST_PAIRS_OF_KINDS = 2_000
"""The most where nodes are of several kinds: each also costs the rows of some neighbours."""
MOST_NEIGHBOURS = 10
"""The most neighbours by which a node is compared with nodes of another kind."""
_BLOCK_ENTRIES = 1 << 18
_NO_PAIRS = np.empty((2, 0), np.int64)
_Group = tuple[Array, rng.Key, tuple[Array, Array] | None]


class HeldOutPairs(NamedTuple):
    """Connected pairs of nodes that are held out, and as many without an edge; sorted, the smaller node first.

    Attributes:
        positives: The connected pairs, [2, n].
        negatives: The pairs without an edge, [2, n].
        kinds: The kind of each node, as a number, where nodes are of several kinds.
        linked: Nodes of pairs of two kinds, and some neighbours by edges that are not held out, [2, m].
    """

    positives: Array
    negatives: Array
    kinds: Array | None = None
    linked: Array = _NO_PAIRS


def hold_out(graph: Graph, share: float, seed: int, kinds: Array | None = None) -> HeldOutPairs | None:
    """Hold out a share of the connected pairs, at most 10,000: those with the smallest hashes.

    A pair is connected by an edge in either direction. The result is None if there is not one pair to hold out and one
    to keep, or no pair without an edge.

    Args:
        graph: The graph, in memory or in files.
        share: Of all connected pairs.
        seed: Draws them, and the pairs without an edge.
        kinds: The kind of each node, as a number, where nodes are of several kinds: then at most 2,000 pairs are held
            out, and those without an edge are of the same kinds; where too few are, fewer pairs are held out.
    """
    with graph.naming_rows():
        return _held_out(graph.edges_by_end, share, seed, kinds)


def _held_out(edges: Sequence[CSR], share: float, seed: int, kinds: Array | None) -> HeldOutPairs | None:
    count, most = len(edges[0].indptr) - 1, MOST_PAIRS if kinds is None else MOST_PAIRS_OF_KINDS
    pairs, total = _with_smallest_hashes(edges, most, rng.key(seed, "held"))
    wanted = min(int(share * total), most, total - 1, count * (count - 1) // 2 - total)
    if wanted < 1:
        return None
    chosen, key = pairs[:wanted], rng.key(seed, "apart")
    groups: Iterable[_Group] = [(chosen, key, None)] if kinds is None else _by_kinds(chosen, key, kinds)
    positives, negatives = [], []
    for group, key_of_group, ends in groups:
        non_edges = sample_non_edges(edges, len(group), key_of_group, ends)
        positives.append(group[: len(non_edges)])
        negatives.append(non_edges)
    held = HeldOutPairs(_ends(positives, count), _ends(negatives, count), kinds)
    if not held.positives.size:
        return None
    return held if kinds is None else held._replace(linked=_compared_neighbours(edges, held, kinds))


def without_pairs(graph: Graph, pairs: Array) -> Graph:
    """A graph without the edges between some pairs of nodes, [2, n], in either direction."""
    row, column = np.divmod(edge_keys(pairs, graph.num_nodes), graph.num_nodes)
    incoming, outgoing = (_without_entries(way, row, column) for way in (graph.incoming, graph.outgoing))
    return dataclasses.replace(graph, incoming=incoming, outgoing=outgoing)


def link_ends(held: HeldOutPairs | None) -> Array:
    """The nodes of held-out pairs and non-edges, and the neighbours by which they are compared, sorted."""
    pairs = [_NO_PAIRS] if held is None else [held.positives, held.negatives, held.linked]
    return np.unique(np.concatenate(pairs, axis=1))


def renumbered(held: HeldOutPairs, ends: Array) -> HeldOutPairs:
    """Held-out pairs and non-edges by the places of their nodes among ``ends``, which are sorted."""
    positives, negatives, linked = (np.searchsorted(ends, pairs) for pairs in (held.positives, held.negatives, held.linked))
    return HeldOutPairs(positives, negatives, None if held.kinds is None else held.kinds[ends], linked)


def _with_smallest_hashes(edges: Sequence[CSR], most: int, key: rng.Key) -> tuple[Array, int]:
    """The connected pairs with the smallest hashes, at most so many, in their order; and the number of all."""
    count, total = len(edges[0].indptr) - 1, 0
    hashes, smallest, limit = np.empty(0, np.int64), np.empty(0, np.int64), np.iinfo(np.int64).max
    for pairs in _connected_pairs(edges, count):
        of_pairs = rng.draw(key, *np.divmod(pairs, count))
        near = of_pairs <= limit
        hashes, smallest = np.append(hashes, of_pairs[near]), np.append(smallest, pairs[near])
        order = np.lexsort((smallest, hashes))[:most]
        hashes, smallest = hashes[order], smallest[order]
        limit = hashes[-1] if len(hashes) == most else limit
        total += len(pairs)
    return smallest, total


def _connected_pairs(edges: Sequence[CSR], count: int) -> Iterator[Array]:
    """The connected pairs, each once, as ``pair_keys``: for a block of nodes at a time, those with nodes after them."""
    start = 0
    while start < count:
        full = [np.searchsorted(indptr, indptr[start] + _BLOCK_ENTRIES, "right") - 1 for indptr, _, _ in edges]
        stop = max(start + 1, min(start + _BLOCK_ENTRIES, count, *map(int, full)))
        keys = [_keys_of_rows(indptr[start : stop + 1], indices, start, count) for indptr, indices, _ in edges]
        yield keys[0] if len(keys) == 1 else distinct(np.concatenate(keys))
        start = stop


def _keys_of_rows(bounds: Array, indices: Array, start: int, count: int) -> Array:
    columns = indices[bounds[0] : bounds[-1]].astype(np.int64)
    if len(columns) and not 0 <= columns.min() <= columns.max() < count:
        raise IndexError("an edge points outside of the graph")
    rows = np.repeat(np.arange(start, start + len(bounds) - 1), np.diff(bounds))
    after = columns > rows
    return rows[after] * count + columns[after]


def _by_kinds(pairs: Array, key: rng.Key, kinds: Array) -> Iterator[_Group]:
    """The pairs of each two kinds, the key of their non-edges, and all nodes of the one kind and of the other."""
    of_pairs = np.sort(kinds[np.stack(np.divmod(pairs, len(kinds)))], axis=0)
    for one, other in np.unique(of_pairs, axis=1).T.tolist():
        ends = np.flatnonzero(kinds == one), np.flatnonzero(kinds == other)
        yield pairs[(of_pairs == [[one], [other]]).all(0)], rng.branch(key, one, other), ends


def _compared_neighbours(edges: Sequence[CSR], held: HeldOutPairs, kinds: Array) -> Array:
    """Each end of a pair of two kinds with some neighbours of the other end's kind, by edges that are not held out."""
    count, number = len(kinds), int(kinds.max()) + 1
    pairs = np.concatenate([held.positives, held.negatives], axis=1)
    node, other = np.concatenate([pairs, pairs[::-1]], axis=1)
    mixed = kinds[node] != kinds[other]
    wanted = np.unique(node[mixed] * number + kinds[other[mixed]])
    nodes = np.unique(node[mixed])
    place, neighbour = draw_neighbours(edges, nodes, count, edge_keys(held.positives, count))
    # Neighbours of a node are in the order of their hashes, which stays within each kind.
    of_kind = nodes[place] * number + kinds[neighbour]
    order = np.argsort(of_kind, kind="stable")
    order = order[are_among(of_kind[order], wanted)]
    rank = np.arange(len(order)) - np.searchsorted(of_kind[order], of_kind[order])
    order = order[rank < MOST_NEIGHBOURS]
    return np.stack([nodes[place[order]], neighbour[order]])


def _ends(keys: list[Array], count: int) -> Array:
    return np.stack(np.divmod(np.sort(np.concatenate(keys)), count))


def _without_entries(edges: CSR, row: Array, column: Array) -> CSR:
    """Edges without those at some rows and columns, which are sorted."""
    indptr, indices, weight = edges
    places = find_edges(indptr, indices, row, column)
    places = places[places >= 0]
    weight = None if weight is None else np.delete(weight, places)
    return CSR(indptr - np.searchsorted(places, indptr), np.delete(indices, places), weight)
