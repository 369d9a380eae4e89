"""Link prediction on held-out edges: an evaluation that needs no labels."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.datasets.noise import pair_keys, sample_non_edges
from clnr.graph import Graph
from clnr.graph.csr import Array, are_among, distinct, to_csr, transpose
from clnr.graph.kind_rows import kind_cosines
from clnr.nn.ranking import average_precision, roc_auc

_MOST_HELD_OUT = 100_000
_BLOCK_PAIRS = 1 << 16


class LinkSplit(NamedTuple):
    """A graph without some of its edges: those pairs, [2, n], and as many non-edges of the whole graph.

    ``kinds`` has the kind of each node, as a number, where nodes are of several kinds.
    """

    graph: Graph
    positives: Array
    negatives: Array
    kinds: Array | None = None


def hold_out(graph: Graph, share: float, seed: int, kinds: Array | None = None) -> LinkSplit | None:
    """Hold out a share of the connected pairs, at most 100,000, in both directions; None if the graph is too small.

    It is if there is not one pair to hold out and one to keep, or no non-edge to compare with. The seed draws pairs and
    non-edges. With the kind of each node, as a number from 0 on, non-edges join the same kinds as held-out pairs do.
    """
    source, target, weight = graph.edges()
    count = graph.num_nodes
    of_edges = np.where(source == target, -1, np.minimum(source, target) * count + np.maximum(source, target))
    connected = distinct(pair_keys(source, target, count))
    non_edges = count * (count - 1) // 2 - len(connected)
    wanted = min(int(share * len(connected)), _MOST_HELD_OUT, len(connected) - 1, non_edges)
    if wanted < 1:
        return None
    order = rng.permute(rng.key(seed, "held"), torch.arange(wanted), len(connected)).numpy()
    key, drawn = rng.key(seed, "apart"), connected[order]
    if kinds is None:
        out, none = np.sort(drawn), sample_non_edges(connected, count, wanted, key)
    else:
        out, none = _of_same_kinds(drawn, connected, kinds, key)
        if not len(out):
            return None
    left = ~are_among(of_edges, out)
    weights = None if weight is None else weight[left]
    incoming = to_csr(target[left], source[left], weights, count)
    seen = dataclasses.replace(graph, incoming=incoming, outgoing=transpose(incoming))
    return LinkSplit(seen, np.stack([out // count, out % count]), np.stack([none // count, none % count]), kinds)


def _of_same_kinds(drawn: Array, connected: Array, kinds: Array, key: rng.Key) -> tuple[Array, Array]:
    """Pairs, sorted, and as many non-edges between the same kinds; where these do not suffice, fewer pairs."""
    count = len(kinds)
    sizes, nodes = np.bincount(kinds), [np.flatnonzero(kinds == kind) for kind in range(int(kinds.max(initial=-1)) + 1)]
    held, none = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    of_pair, of_connected = (_kinds_of(pairs, kinds) for pairs in (drawn, connected))
    for number in np.unique(of_pair).tolist():
        a, b = divmod(number, len(sizes))
        room = int(sizes[a]) * (int(sizes[a]) - 1) // 2 if a == b else int(sizes[a] * sizes[b])
        some = drawn[of_pair == number][: room - int((of_connected == number).sum())]
        held.append(some)
        none.append(sample_non_edges(connected, count, len(some), rng.branch(key, number), (nodes[a], nodes[b])))
    return np.sort(np.concatenate(held)), np.sort(np.concatenate(none))


def _kinds_of(pairs: Array, kinds: Array) -> Array:
    """The two kinds of each of some ``pair_keys``, as one number."""
    ends = np.sort(np.stack([kinds[pairs // len(kinds)], kinds[pairs % len(kinds)]]), axis=0)
    return ends[0] * (int(kinds.max(initial=-1)) + 1) + ends[1]


def link_cosines(rows: Any, held: LinkSplit) -> Array:
    """The cosine similarity of each held-out pair, then of each non-edge, of unit rows: a tensor or a sparse matrix.

    Where nodes are of several kinds, it is that of ``kind_cosines``, and rows may be of any length.
    """
    if held.kinds is not None:
        known = rows if sp.issparse(rows) else rows.float().numpy(force=True)
        adjacency = held.graph.to_scipy()
        both = np.concatenate([held.positives, held.negatives], axis=1)
        return kind_cosines(known, both, held.kinds, (adjacency + adjacency.T).tocsr())
    return np.concatenate([_cosines(rows, pairs) for pairs in (held.positives, held.negatives)])


def score_cosines(cosines: Array) -> dict[str, float]:
    """How well what ``link_cosines`` returns separates held-out edges from non-edges.

    The area under the ROC curve and average precision; 0.5 is chance for both, since there are as many of each.
    """
    truth = np.repeat([True, False], len(cosines) // 2)
    return {"auc": roc_auc(truth, cosines), "average_precision": average_precision(truth, cosines)}


def _cosines(rows: Any, pairs: Array) -> Array:
    if sp.issparse(rows):
        blocks = np.array_split(pairs, -(-pairs.shape[1] // _BLOCK_PAIRS), axis=1)
        return np.concatenate([np.asarray(rows[a].multiply(rows[b]).sum(1), np.float64).ravel() for a, b in blocks])
    blocks = torch.tensor(pairs, device=rows.device).split(_BLOCK_PAIRS, 1)
    return torch.cat([(rows[a] * rows[b]).sum(1) for a, b in blocks]).double().cpu().numpy()
