"""Edges of a graph folder that are held out of training, and non-edges to compare them with: a sample, found without a scan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from clnr import rng
from clnr.datasets import pair_keys
from clnr.embedding.store.stored_columns import first_of_kinds
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder

MOST_PAIRS = 5_000
"""The most edges that are held out of a graph in files: each costs the rows that its two nodes reach."""
MOST_PAIRS_OF_KINDS = 1_000
"""The most where nodes are of several kinds: each also costs the rows of some neighbours."""
_NEIGHBOURS = 10
_ROUNDS = 64


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


def hold_out_links(folder: GraphFolder, share: float, seed: int) -> HeldLinks | None:
    """Connected pairs to hold out, and as many pairs without an edge, of the same kinds; None if the graph is too small.

    Edges are drawn by their place in the file, so that nothing else is read: in a directed graph, a pair with edges both ways
    is drawn as often as two others.

    Args:
        folder: The graph.
        share: Of the pairs, at most ``MOST_PAIRS``, of kinds ``MOST_PAIRS_OF_KINDS``.
        seed: Draws them.
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


def _held_of_kinds(folder: GraphFolder, connected: Array, key: rng.Key, first_nodes: Array) -> HeldLinks | None:
    """Pairs, non-edges between the same kinds, and some neighbours of their ends."""
    count, bounds = folder.num_nodes, np.append(first_nodes, folder.num_nodes)
    ends = _ends(connected, count)
    of = _numbers(first_nodes, ends)
    held, apart = [np.empty((2, 0), np.int64)], [np.empty((2, 0), np.int64)]
    for a, b in np.unique(of, axis=1).T.tolist():
        some = ends[:, (of == [[a], [b]]).all(0)]
        ranges = [(int(bounds[kind]), int(bounds[kind + 1])) for kind in (a, b)]
        found = _ends(_non_edges(folder, some.shape[1], rng.branch(key, a, b), *ranges), count)
        held.append(some[:, : found.shape[1]])
        apart.append(found)
    positives, negatives = np.concatenate(held, axis=1), np.concatenate(apart, axis=1)
    if not positives.size:
        return None
    made = HeldLinks(positives, negatives, first_nodes)
    return made._replace(linked=_some_neighbours(folder, made))


def _some_neighbours(folder: GraphFolder, links: HeldLinks) -> Array:
    """Of each end of a pair of two kinds, some neighbours of the other end's kind; held-out edges are none."""
    gone = set(zip(*links.positives.tolist(), strict=True))
    gone |= {(b, a) for a, b in gone}
    a, b = np.concatenate([links.positives, links.negatives], axis=1)
    found: set[tuple[int, int]] = set()
    for node, other in (*zip(a.tolist(), b.tolist(), strict=True), *zip(b.tolist(), a.tolist(), strict=True)):
        all_of = np.array(sorted(folder.neighbours(node)), np.int64)
        own, wanted = _numbers(links.first_nodes, np.array([node, other]))
        if own != wanted:
            of_kind = all_of[_numbers(links.first_nodes, all_of) == wanted]
            near = [each for each in of_kind.tolist() if (node, each) not in gone]
            found |= {(node, each) for each in near[:: -(-len(near) // _NEIGHBOURS) or 1]}
    return np.array(sorted(found), np.int64).reshape(-1, 2).T


def _numbers(first_nodes: Array, nodes: Array) -> Array:
    """The kinds of nodes, as numbers, by the first node of each kind."""
    return np.searchsorted(first_nodes, nodes, "right") - 1


def _ends(keys: Array, count: int) -> Array:
    keys = np.sort(keys)
    return np.stack([keys // count, keys % count])


def _edges(folder: GraphFolder, wanted: int, key: rng.Key) -> Array:
    """Distinct connected pairs, as ``pair_keys``: fewer where edges repeat each other."""
    drawn = min(folder.num_edges, 2 * wanted + 64)
    places = np.sort(rng.permute(key, torch.arange(drawn), folder.num_edges).numpy())
    target, source = folder.rows("incoming").entries(places)
    found = np.unique(pair_keys(source.astype(np.int64), target, folder.num_nodes))
    chosen = rng.permute(rng.branch(key, "pairs"), torch.arange(min(wanted, len(found))), max(1, len(found)))
    return found[chosen.numpy()]


def _non_edges(folder: GraphFolder, wanted: int, key: rng.Key, one: tuple[int, int], other: tuple[int, int]) -> Array:
    """Distinct pairs without an edge, drawn uniformly, as ``pair_keys``, from two ranges of nodes."""
    indptr, indices = (folder.map(f"incoming.{part}").values for part in ("indptr", "indices"))
    count, found = folder.num_nodes, np.empty(0, np.int64)

    def linked(target: int, source: int) -> bool:
        row = indices[indptr[target] : indptr[target + 1]]
        at = np.searchsorted(row, source)
        return bool(at < len(row) and row[at] == source)

    for step in range(_ROUNDS):
        draws = rng.draw(rng.branch(key, step), torch.arange(2 * wanted + 64)).numpy()
        first, second = (low + (each * (high - low) >> 32) for each, (low, high) in ((draws[::2], one), (draws[1::2], other)))
        drawn = pair_keys(first, second, count)
        # In the order of drawing: the first of them in any other would not be a fair sample.
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        drawn = drawn[~np.isin(drawn, found)]
        low, high = drawn // count, drawn % count
        apart = [not (linked(a, b) or linked(b, a)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        found = np.concatenate([found, drawn[np.array(apart, np.bool_)]])
        if len(found) >= wanted:
            break
    return found[:wanted]
