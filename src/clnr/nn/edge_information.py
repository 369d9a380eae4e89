"""How much the edges of a graph tell about its nodes: measured on some of them, without labels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize
from torch import Tensor

from clnr import rng
from clnr.graph.csr import Array

LEAST = 0.2
"""What columns that come from edges weigh where these tell nothing."""
_NOTHING, _ENOUGH = 0.51, 0.63
_NODES, _PART = 4096, 128
_AROUND, _NEAR = 32, 8
_AXES = 32

DrawNeighbours = Callable[[Array, int], tuple[Array, Array]]
"""At most so many neighbours of some nodes: for each the place of its node, in order, and the neighbour itself."""
ReadRows = Callable[[Array], Tensor]
"""The rows of some nodes."""


def edge_weight(draw: DrawNeighbours, own: Sequence[ReadRows], count: int) -> float:
    """What columns that come from edges should weigh beside those of a node itself, which weigh 1.

    From ``LEAST``, where edges are as good as random, it rises evenly with ``edge_information`` to 1: docs/choosing.md.

    Args:
        draw: Draws neighbours.
        own: Each reads rows that come from nodes' own features alone.
        count: Number of nodes.
    """
    told = edge_information(draw, own, count)
    share = 1.0 if told is None else (told - _NOTHING) / (_ENOUGH - _NOTHING)
    return LEAST + (1 - LEAST) * min(max(share, 0.0), 1.0)


def edge_information(draw: DrawNeighbours, own: Sequence[ReadRows], count: int) -> float | None:
    """How often a node is told from another by its neighbours: 0.5 where edges are random, at most 1.

    Told by rows of its own, or by where edges lead: the largest counts, or the first that is enough. None without neighbours.
    """
    nodes = some_nodes(count)
    measures = [*(functools.partial(by_rows, draw, read) for read in own), functools.partial(by_edges, draw)]
    found: list[float] = []
    for measure in measures:
        told = measure(nodes)
        if told is not None:
            found.append(told)
        if found and found[-1] >= _ENOUGH:
            break
    return max(found, default=None)


def some_nodes(count: int) -> Array:
    """The nodes that stand for all, in random order: the same at every call."""
    return rng.permute(rng.key(0, "edge information"), torch.arange(min(count, _NODES), device="cpu"), count).numpy()


def by_rows(draw: DrawNeighbours, read: ReadRows, nodes: Array) -> float | None:
    """How often what its neighbours predict is more like a node's row than what those of another node predict.

    A linear map predicts the row from the mean of the neighbours' rows: a ridge regression on the first principal directions of
    these, fitted to one half of the nodes for the other. So neighbours may tell by being unlike the node, as long as they are
    so alike everywhere. Nodes are in random order.
    """
    place, neighbour = draw(nodes, _AROUND)
    rows = read(nodes).double().numpy(force=True) if len(place) else np.empty((0, 0))
    if not rows.size:
        return None
    middle, around = rows.mean(0), np.zeros_like(rows)
    sizes = np.bincount(place, minlength=len(nodes))
    for start in range(0, len(nodes), _PART):
        some = slice(*np.searchsorted(place, [start, start + _PART]))
        known, column = np.unique(neighbour[some], return_inverse=True)
        if len(known):
            share = sp.csr_array((1 / sizes[place[some]], (place[some] - start, column)), shape=(_PART, len(known)))
            unit = normalize(read(known).double().numpy(force=True) - middle)
            around[start : start + _PART] = (share @ unit)[: len(nodes) - start]
    linked = sizes > 0
    own, around = normalize(rows[linked] - middle), around[linked] - around[linked].mean(0)
    axes = np.linalg.eigh(own.T @ own)[1][:, ::-1][:, :_AXES]
    own, around = own @ axes, around @ axes
    predicted = np.empty_like(own)
    half = np.arange(len(own)) % 2
    for side in (0, 1):
        x, y = around[half != side], own[half != side]
        inner = x.T @ x
        ridge = np.trace(inner) / len(inner) + np.finfo(float).tiny
        predicted[half == side] = around[half == side] @ np.linalg.solve(inner + ridge * np.eye(len(inner)), x.T @ y)
    return _auc(own, predicted)


def by_edges(draw: DrawNeighbours, nodes: Array) -> float | None:
    """How often one half of a node's neighbours lead more to where the other half lead than to where those of another do.

    Nodes are in random order.
    """
    place, near = draw(nodes, _NEAR)
    half = (np.arange(len(place)) - np.searchsorted(place, place)) % 2
    step, far = draw(near, _NEAR)
    reached = np.concatenate([near, far])
    place, half = (np.concatenate([each, each[step]]) for each in (place, half))
    known, column = np.unique(reached, return_inverse=True)
    shape = len(nodes), len(known)
    sides = [
        sp.csr_array((np.ones(len(some)), (place[some], column[some])), shape=shape)
        for some in (np.flatnonzero((half == side) & (reached != nodes[place])) for side in (0, 1))
    ]
    both = np.flatnonzero(np.diff(sides[0].indptr) * np.diff(sides[1].indptr))
    return _auc(*(side[both] for side in sides)) if len(both) else None


def _auc(rows: Array | sp.csr_array, partners: Array | sp.csr_array) -> float:
    """How often a row is more like its partner, by their cosine, than like the partner of another."""
    rows, partners = (normalize(sp.csr_array(each)) for each in (rows, partners))
    others = partners[np.roll(np.arange(rows.shape[0]), 1)]
    cosines = [np.asarray(rows.multiply(each).sum(1)).ravel() for each in (partners, others)]
    return float(roc_auc_score(np.repeat([1, 0], rows.shape[0]), np.concatenate(cosines)))
