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
    """How often a node is more like its own neighbours than like another's: 0.5 where edges are random, at most 1.

    Like by rows of its own, or by where edges lead: the largest counts, or the first that is enough. None without neighbours.
    """
    nodes = some_nodes(count)
    measures = [*(functools.partial(by_rows, draw, read) for read in own), functools.partial(by_edges, draw)]
    largest: float | None = None
    for measure in measures:
        found = measure(nodes)
        if found is not None and (largest is None or found > largest):
            largest = found
        if largest is not None and largest >= _ENOUGH:
            break
    return largest


def some_nodes(count: int) -> Array:
    """The nodes that stand for all, in random order: the same at every call."""
    return rng.permute(rng.key(0, "edge information"), torch.arange(min(count, _NODES), device="cpu"), count).numpy()


def by_rows(draw: DrawNeighbours, read: ReadRows, nodes: Array) -> float | None:
    """How often a node's row is more like the mean of its neighbours' rows than like that of another's; in random order."""
    place, neighbour = draw(nodes, _AROUND)
    if not len(place):
        return None
    rows = read(nodes).numpy(force=True)
    middle, around = rows.mean(0), np.zeros_like(rows)
    sizes = np.bincount(place, minlength=len(nodes))
    for start in range(0, len(nodes), _PART):
        some = slice(*np.searchsorted(place, [start, start + _PART]))
        known, column = np.unique(neighbour[some], return_inverse=True)
        if len(known):
            share = sp.csr_array((1 / sizes[place[some]], (place[some] - start, column)), shape=(_PART, len(known)))
            unit = normalize(read(known).numpy(force=True) - middle)
            around[start : start + _PART] = (share @ unit)[: len(nodes) - start]
    linked = sizes > 0
    around = around[linked]
    return _auc(rows[linked] - middle, around - around.mean(0))


def by_edges(draw: DrawNeighbours, nodes: Array) -> float | None:
    """The same by where edges lead: from one half of a node's neighbours to where the other half leads, or that of another."""
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
