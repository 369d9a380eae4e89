"""Random edges as noise, and sampling of non-edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from clnr import rng
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import CSR, Array, distinct, find_edges, to_csr, transpose

# Rounds of drawing until the rest is listed: enough where at least a fifth of all pairs are left to draw.
_DRAW_ROUNDS = 16


def with_noise(graph: Graph, rate: float, seed: int) -> Graph:
    """The graph with random edges added: ``rate`` times as many as it has node pairs with an edge.

    They are drawn uniformly among the non-edges, without replacement. Each goes both ways, with weight 1 if the graph has
    weights.
    """
    source, target, weight = graph.edges()
    count = graph.num_nodes
    connected = len(distinct(pair_keys(source, target, count)))
    wanted = round(rate * connected)
    if wanted > (free := count * (count - 1) // 2 - connected):
        raise DataError(f"{graph.name} has room for {free:,} more edges, not for the {wanted:,} of edge_noise={rate:g}")
    drawn = sample_non_edges(graph.edges_by_end, wanted, rng.key(seed, "noise"))
    low, high = drawn // count, drawn % count
    weights = None if weight is None else np.concatenate([weight, np.ones(2 * wanted, np.float32)])
    incoming = to_csr(np.concatenate([target, low, high]), np.concatenate([source, high, low]), weights, count)
    return dataclasses.replace(graph, incoming=incoming, outgoing=transpose(incoming))


def sample_non_edges(edges: Sequence[CSR], wanted: int, key: rng.Key, ends: tuple[Array, Array] | None = None) -> Array:
    """Distinct pairs of nodes without an edge, drawn uniformly, as ``pair_keys``: fewer if there are no more.

    Where few pairs are without an edge, or few of them are not wanted, the last ones are drawn from a list of them
    all. ``ends`` are the nodes that the first and the second of each pair are drawn from; by default, all.
    """
    count, (first, second) = len(edges[0].indptr) - 1, ends or (None, None)
    drawn = np.empty(0, np.int64)
    begin = 0
    for _ in range(_DRAW_ROUNDS):
        if len(drawn) >= wanted:
            return drawn[:wanted]
        more = 2 * (wanted - len(drawn)) + 64
        draws = rng.draw(key, torch.arange(2 * begin, 2 * (begin + more))).numpy()
        one, other = _drawn_nodes(draws[::2], first, count), _drawn_nodes(draws[1::2], second, count)
        drawn = np.concatenate([drawn, pair_keys(one, other, count)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        a, b = np.divmod(drawn, count)
        linked = [find_edges(indptr, indices, a, b) >= 0 for indptr, indices, _ in edges]
        drawn = drawn[~np.logical_or.reduce(linked)]
        begin += more
    rest = np.setdiff1d(_non_edges(edges, *(ends or (np.arange(count),) * 2)), drawn)
    last = torch.arange(max(0, min(wanted - len(drawn), len(rest))))
    chosen = rng.permute(rng.branch(key, "rest"), last, max(1, len(rest))).numpy()
    return np.concatenate([drawn[:wanted], rest[chosen]])


def _drawn_nodes(draws: Array, nodes: Array | None, count: int) -> Array:
    return draws * count >> 32 if nodes is None else nodes[draws * len(nodes) >> 32]


def _non_edges(edges: Sequence[CSR], first: Array, second: Array) -> Array:
    """All pairs without an edge between two sets of nodes, maybe twice; found node by node, without a list of all pairs."""
    few, many = sorted((first, second), key=len)
    keys = [np.empty(0, np.int64)]
    for node in few:
        neighbours = np.concatenate([indices[indptr[node] : indptr[node + 1]] for indptr, indices, _ in edges])
        keys.append(pair_keys(node, np.setdiff1d(many, neighbours), len(edges[0].indptr) - 1))
    return np.concatenate(keys)


def pair_keys(a: Array, b: Array, count: int) -> Array:
    """Each node pair as one number, the same in either order; loops are left out."""
    return (np.minimum(a, b) * count + np.maximum(a, b))[a != b]
