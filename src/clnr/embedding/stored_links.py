"""Edges of a graph folder that are held out of training, and non-edges to compare them with: a sample, found without a scan."""

from __future__ import annotations

import numpy as np
import torch

from clnr import rng
from clnr.datasets import pair_keys
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder

MOST_PAIRS = 5_000
"""The most edges that are held out of a graph in files: each costs the rows that its two nodes reach."""
_ROUNDS = 64


def hold_out_links(folder: GraphFolder, share: float, seed: int) -> tuple[Array, Array] | None:
    """Connected pairs to hold out, and as many pairs without an edge, both [2, n]; None if the graph is too small.

    Edges are drawn by their place in the file, so that nothing else is read: in a directed graph, a pair with edges both ways
    is drawn as often as two others.

    Args:
        folder: The graph.
        share: Of the pairs, at most ``MOST_PAIRS``.
        seed: Draws them.
    """
    count = folder.num_nodes
    pairs = folder.num_edges if folder.directed else folder.num_edges // 2
    wanted = min(int(share * pairs), MOST_PAIRS, pairs - 1, count * (count - 1) // 2 - pairs)
    if wanted < 1:
        return None
    connected = _edges(folder, wanted, rng.key(seed, "held"))
    apart = _non_edges(folder, len(connected), rng.key(seed, "apart"))
    size = min(len(connected), len(apart))
    return None if not size else (_ends(connected[:size], count), _ends(apart[:size], count))


def _ends(keys: Array, count: int) -> Array:
    keys = np.sort(keys)
    return np.stack([keys // count, keys % count])


def _edges(folder: GraphFolder, wanted: int, key: rng.Key) -> Array:
    """Distinct connected pairs, as ``pair_keys``: fewer where edges repeat each other."""
    indptr, indices = (folder.map(f"incoming.{part}") for part in ("indptr", "indices"))
    total = len(indices.values)
    drawn = min(total, 2 * wanted + 64)
    places = np.sort(rng.permute(key, torch.arange(drawn), total).numpy())
    target = np.searchsorted(indptr.values, places, "right") - 1
    found = np.unique(pair_keys(indices.values[places].astype(np.int64), target, folder.num_nodes))
    chosen = rng.permute(rng.branch(key, "pairs"), torch.arange(min(wanted, len(found))), max(1, len(found)))
    return found[chosen.numpy()]


def _non_edges(folder: GraphFolder, wanted: int, key: rng.Key) -> Array:
    """Distinct pairs without an edge, drawn uniformly, as ``pair_keys``."""
    indptr, indices = (folder.map(f"incoming.{part}").values for part in ("indptr", "indices"))
    count, found = folder.num_nodes, np.empty(0, np.int64)

    def linked(target: int, source: int) -> bool:
        row = indices[indptr[target] : indptr[target + 1]]
        at = np.searchsorted(row, source)
        return bool(at < len(row) and row[at] == source)

    for step in range(_ROUNDS):
        ends = rng.draw(rng.branch(key, step), torch.arange(2 * wanted + 64)).numpy() * count >> 32
        drawn = np.setdiff1d(pair_keys(ends[::2], ends[1::2], count), found)
        low, high = drawn // count, drawn % count
        apart = [not (linked(a, b) or linked(b, a)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        found = np.concatenate([found, drawn[np.array(apart, np.bool_)]])
        if len(found) >= wanted:
            break
    return found[:wanted]
