"""Random edges as noise, and sampling of non-edges."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from clnr import rng
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array, are_among, distinct, to_csr, transpose

# Rounds of drawing until the rest is listed: enough where at least a fifth of all pairs are left to draw.
_DRAW_ROUNDS = 16


def with_noise(graph: Graph, rate: float, seed: int) -> Graph:
    """The graph with random edges added: ``rate`` times as many as it has node pairs with an edge.

    They are drawn uniformly among the non-edges, without replacement. Each goes both ways, with weight 1 if the graph has
    weights.
    """
    source, target, weight = graph.edges()
    count = graph.num_nodes
    edges = distinct(pair_keys(source, target, count))
    wanted = round(rate * len(edges))
    if wanted > (free := count * (count - 1) // 2 - len(edges)):
        raise DataError(f"{graph.name} has room for {free:,} more edges, not for the {wanted:,} of edge_noise={rate:g}")
    drawn = sample_non_edges(edges, count, wanted, rng.key(seed, "noise"))
    low, high = drawn // count, drawn % count
    weights = None if weight is None else np.concatenate([weight, np.ones(2 * wanted, np.float32)])
    incoming = to_csr(np.concatenate([target, low, high]), np.concatenate([source, high, low]), weights, count)
    return dataclasses.replace(graph, incoming=incoming, outgoing=transpose(incoming))


def sample_non_edges(edges: Array, count: int, wanted: int, key: rng.Key, ends: tuple[Array, Array] | None = None) -> Array:
    """Distinct pairs of ``count`` nodes without an edge, drawn uniformly; edges and pairs are ``pair_keys``, edges sorted.

    There must be as many as ``wanted``. Where few pairs are without an edge, or few of them are not wanted, the last ones are
    drawn from a list of them all. ``ends`` are the nodes that the first and the second of each pair are drawn from.
    """
    first, second = ends or (np.arange(count), np.arange(count))
    drawn = np.empty(0, np.int64)
    begin = 0
    for _ in range(_DRAW_ROUNDS):
        if len(drawn) >= wanted:
            return drawn[:wanted]
        more = 2 * (wanted - len(drawn)) + 64
        draws = rng.draw(key, torch.arange(2 * begin, 2 * (begin + more))).numpy()
        one, other = first[draws[::2] * len(first) >> 32], second[draws[1::2] * len(second) >> 32]
        drawn = np.concatenate([drawn, pair_keys(one, other, count)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        drawn = drawn[~are_among(drawn, edges)]
        begin += more
    rest = np.setdiff1d(_non_edges(edges, count, first, second), drawn)
    last = torch.arange(max(0, wanted - len(drawn)))
    return np.concatenate([drawn[:wanted], rest[rng.permute(rng.branch(key, "rest"), last, len(rest)).numpy()]])


def _non_edges(edges: Array, count: int, first: Array, second: Array) -> Array:
    """All pairs without an edge between two sets of nodes, maybe twice; found node by node, without a list of all pairs."""
    keys = [np.empty(0, np.int64)]
    for lower, upper in ((first, second), (second, first)):
        for node in lower.tolist():
            start, stop = np.searchsorted(edges, [node * count, (node + 1) * count])
            others = np.setdiff1d(upper[upper > node], edges[start:stop] - node * count, assume_unique=True)
            keys.append(node * count + others)
    return np.concatenate(keys)


def pair_keys(a: Array, b: Array, count: int) -> Array:
    """Each node pair as one number, the same in either order; loops are left out."""
    return (np.minimum(a, b) * count + np.maximum(a, b))[a != b]
