"""Edges that are held out of training to score by, and the graph without them: all of one in memory, a sample of one in files.

Of a graph in files, edges and the non-edges that they are compared with are found without a scan.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import torch

from clnr import evaluation, rng
from clnr.datasets.noise import pair_keys
from clnr.embedding.fit_settings import Settings
from clnr.embedding.store.stored_columns import first_of_kinds
from clnr.engine import DeviceGraph
from clnr.engine.blocks import in_blocks, pair_keys_both_ways
from clnr.evaluation import LinkSplit
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.tables import TableGraph
from clnr.tables.columns.structural import degree_features

MOST_PAIRS = 5_000
"""The most edges that are held out of a graph in files: each costs the rows that its two nodes reach."""
MOST_PAIRS_OF_KINDS = 1_000
"""The most where nodes are of several kinds: each also costs the rows of some neighbours."""
_MOST_NEIGHBOURS = 10
_MOST_ROUNDS = 64


def held_out(table_graph: TableGraph, share: float, seed: int) -> tuple[LinkSplit | None, Graph]:
    """The edges that training does not see, if any, and the graph that it sees."""
    graph = table_graph.graph
    split = evaluation.hold_out(graph, share, seed, table_graph.kind_numbers) if share else None
    return split, graph if split is None else training_graph(table_graph, split.graph)


def training_graph(table_graph: TableGraph, seen: Graph) -> Graph:
    """A graph without its held-out edges; structural features are computed again, so that they do not leak those edges."""
    structure = None if table_graph.feature_encoder is None else table_graph.feature_encoder.structure
    if structure is None:
        return seen
    source, target, _ = seen.edges()
    degrees = degree_features(source, target, seen.num_nodes)
    return dataclasses.replace(seen, features=structure.features(degrees))


class HeldLinks(NamedTuple):
    """Edges of a graph folder that are held out.

    Attributes:
        positives: Connected pairs, [2, n].
        negatives: As many pairs without an edge, [2, n].
        first_nodes: The first node of each kind, where nodes are of several kinds; empty where they are not.
        linked: For pairs of two kinds, nodes and some of their neighbours by edges that are not held out, [2, m].
    """

    positives: Array
    negatives: Array
    first_nodes: Array = np.empty(0, np.int64)
    linked: Array = np.empty((2, 0), np.int64)

    def kinds_of(self, nodes: Array) -> Array | None:
        """The kinds of nodes, as numbers; None where they are of one."""
        return _numbers(self.first_nodes, nodes) if len(self.first_nodes) else None


def training_files(folder: Graph, settings: Settings, loop_weight: float) -> tuple[DeviceGraph, HeldLinks | None]:
    """A graph in files without the edges that are held out, and those pairs with as many non-edges; None if none are."""
    links = hold_out_links(folder, settings.hold_out, settings.seed) if settings.hold_out else None
    keys = None if links is None else pair_keys_both_ways(links.positives, folder.num_nodes)
    return in_blocks(folder, loop_weight, keys), links


def link_ends(links: HeldLinks | None) -> Array:
    """The nodes of held-out pairs and non-edges, and the neighbours by which they are compared, sorted."""
    if links is None:
        return np.empty(0, np.int64)
    return np.unique(np.concatenate([links.positives, links.negatives, links.linked], axis=1))


def hold_out_links(folder: Graph, share: float, seed: int) -> HeldLinks | None:
    """Connected pairs to hold out, and as many pairs without an edge, of the same kinds; None if the graph is too small.

    Edges are drawn by their place in the file, so that nothing else is read: in a directed graph, a pair with edges both ways
    is drawn as often as two others.
    """
    count, first_nodes = folder.num_nodes, first_of_kinds(folder)
    pairs = folder.num_edges if folder.directed else folder.num_edges // 2
    most = MOST_PAIRS_OF_KINDS if len(first_nodes) else MOST_PAIRS
    wanted = min(int(share * pairs), most, pairs - 1, count * (count - 1) // 2 - pairs)
    if wanted < 1:
        return None
    connected, key = _edges(folder, wanted, rng.key(seed, "held")), rng.key(seed, "apart")
    if len(first_nodes):
        return _held_of_kinds(folder, connected, key, first_nodes)
    apart = _non_edges(folder, len(connected), key, (0, count), (0, count))
    size = min(len(connected), len(apart))
    return None if not size else HeldLinks(_ends(connected[:size], count), _ends(apart[:size], count))


def _held_of_kinds(folder: Graph, connected: Array, key: rng.Key, first_nodes: Array) -> HeldLinks | None:
    """Pairs, non-edges between the same kinds, and some neighbours of their ends."""
    count, bounds = folder.num_nodes, np.append(first_nodes, folder.num_nodes)
    ends = _ends(connected, count)
    of = _numbers(first_nodes, ends)
    held, apart = [np.empty((2, 0), np.int64)], [np.empty((2, 0), np.int64)]
    for a, b in np.unique(of, axis=1).T.tolist():
        some = ends[:, (of == [[a], [b]]).all(0)]
        ranges = [(int(bounds[kind]), int(bounds[kind + 1])) for kind in (a, b)]
        non_edges = _ends(_non_edges(folder, some.shape[1], rng.branch(key, a, b), *ranges), count)
        held.append(some[:, : non_edges.shape[1]])
        apart.append(non_edges)
    positives, negatives = np.concatenate(held, axis=1), np.concatenate(apart, axis=1)
    if not positives.size:
        return None
    links = HeldLinks(positives, negatives, first_nodes)
    return links._replace(linked=_some_neighbours(folder, links))


def _some_neighbours(folder: Graph, links: HeldLinks) -> Array:
    """Of each end of a pair of two kinds, some neighbours of the other end's kind; held-out edges are none."""
    gone = set(zip(*links.positives.tolist(), strict=True))
    gone |= {(b, a) for a, b in gone}
    a, b = np.concatenate([links.positives, links.negatives], axis=1)
    linked: set[tuple[int, int]] = set()
    for node, other in (*zip(a.tolist(), b.tolist(), strict=True), *zip(b.tolist(), a.tolist(), strict=True)):
        all_of = np.array(sorted(folder.neighbours(node)), np.int64)
        kind, wanted = _numbers(links.first_nodes, np.array([node, other]))
        if kind != wanted:
            of_kind = all_of[_numbers(links.first_nodes, all_of) == wanted]
            near = [each for each in of_kind.tolist() if (node, each) not in gone]
            linked |= {(node, each) for each in near[:: -(-len(near) // _MOST_NEIGHBOURS) or 1]}
    return np.array(sorted(linked), np.int64).reshape(-1, 2).T


def _numbers(first_nodes: Array, nodes: Array) -> Array:
    """The kinds of nodes, as numbers, by the first node of each kind."""
    return np.searchsorted(first_nodes, nodes, "right") - 1


def _ends(keys: Array, count: int) -> Array:
    keys = np.sort(keys)
    return np.stack([keys // count, keys % count])


def _edges(folder: Graph, wanted: int, key: rng.Key) -> Array:
    """Distinct connected pairs, as ``pair_keys``: fewer where edges repeat each other."""
    drawn = min(folder.num_edges, 2 * wanted + 64)
    places = np.sort(rng.permute(key, torch.arange(drawn), folder.num_edges).numpy())
    target = np.searchsorted(folder.incoming.indptr, places, "right") - 1
    source = folder.incoming.indices[places]
    pairs = np.unique(pair_keys(source.astype(np.int64), target, folder.num_nodes))
    chosen = rng.permute(rng.branch(key, "pairs"), torch.arange(min(wanted, len(pairs))), max(1, len(pairs)))
    return pairs[chosen.numpy()]


def _non_edges(folder: Graph, wanted: int, key: rng.Key, one: tuple[int, int], other: tuple[int, int]) -> Array:
    """Distinct pairs without an edge, drawn uniformly, as ``pair_keys``, from two ranges of nodes."""
    indptr, indices, _ = folder.incoming
    count, non_edges = folder.num_nodes, np.empty(0, np.int64)

    def linked(target: int, source: int) -> bool:
        row = indices[indptr[target] : indptr[target + 1]]
        at = np.searchsorted(row, source)
        return bool(at < len(row) and row[at] == source)

    for step in range(_MOST_ROUNDS):
        draws = rng.draw(rng.branch(key, step), torch.arange(2 * wanted + 64)).numpy()
        first, second = (low + (each * (high - low) >> 32) for each, (low, high) in ((draws[::2], one), (draws[1::2], other)))
        drawn = pair_keys(first, second, count)
        # In the order of drawing: the first of them in any other would not be a fair sample.
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        drawn = drawn[~np.isin(drawn, non_edges)]
        low, high = drawn // count, drawn % count
        apart = [not (linked(a, b) or linked(b, a)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        non_edges = np.concatenate([non_edges, drawn[np.array(apart, np.bool_)]])
        if len(non_edges) >= wanted:
            break
    return non_edges[:wanted]
