"""Edges that mean nothing, to see what a method makes of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from clnr import rng
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array, compress, transpose


def with_noise(graph: Graph, rate: float, seed: int) -> Graph:
    """The graph with random edges added: ``rate`` of them for each pair of nodes that an edge joins.

    Pairs are drawn evenly among those that no edge joins yet, each once, and get an edge both ways, of weight 1 where
    others have weights. Another seed adds others.
    """
    source, target, weight = graph.edges()
    count = graph.num_nodes
    there = np.unique(pairs_of(source, target, count))
    wanted = round(rate * len(there))
    if wanted > (free := count * (count - 1) // 2 - len(there)):
        raise DataError(f"{graph.name} has room for {free:,} more edges, not for the {wanted:,} of edge_noise={rate:g}")
    new = unjoined(there, count, wanted, rng.key(seed, "noise"))
    low, high = new // count, new % count
    weights = None if weight is None else np.concatenate([weight, np.ones(2 * wanted, np.float32)])
    incoming = compress(np.concatenate([target, low, high]), np.concatenate([source, high, low]), weights, count)
    return dataclasses.replace(graph, incoming=incoming, outgoing=transpose(incoming))


def unjoined(there: Array, count: int, wanted: int, key: rng.Key) -> Array:
    """Pairs of different nodes, drawn evenly, each once, among those that are not ``there``; so many must be left."""
    new = np.empty(0, np.int64)
    begin = 0
    while len(new) < wanted:
        more = 2 * (wanted - len(new)) + 64
        ends = rng.draw(key, torch.arange(2 * begin, 2 * (begin + more))).numpy() * count >> 32
        new = np.concatenate([new, pairs_of(ends[::2], ends[1::2], count)])
        new = new[np.sort(np.unique(new, return_index=True)[1])]
        new = new[~np.isin(new, there)]
        begin += more
    return new[:wanted]


def pairs_of(a: Array, b: Array, count: int) -> Array:
    """Each pair of different nodes as one number, whichever way round."""
    return (np.minimum(a, b) * count + np.maximum(a, b))[a != b]
