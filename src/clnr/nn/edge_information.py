"""How informative the edges of a graph are about its nodes, measured on a sample of nodes, without labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.graph.csr import Array
from clnr.graph.kind_rows import sparse_unit
from clnr.nn.ranking import roc_auc

LEAST_WEIGHT = 0.2
"""The weight of columns that come from edges if edges are uninformative."""
_USELESS_AUC, _SUFFICIENT_AUC = 0.51, 0.63
_MEASURED_NODES, _NODES_PER_PART = 4096, 128
_NEIGHBOURS_AROUND, _COMPARED_AXES = 32, 32
MOST_COMPARED = _MEASURED_NODES * (1 + _NEIGHBOURS_AROUND)
"""The most nodes whose rows are read."""
_WALKED_NODES, _NEIGHBOURS_PER_STEP = 1024, 8
_OTHER_PARTNERS, _FEWEST_NODES = 4, 30

DrawNeighbours = Callable[[Array, int], tuple[Array, Array]]
"""Draws neighbours of some nodes, up to a number of each: the place of the node, in order, and the neighbour itself."""
ReadRows = Callable[[Array], Tensor]
"""Rows of some nodes, in their order."""


def edge_weight(draw: DrawNeighbours, readers: Sequence[ReadRows], count: int) -> float:
    """What columns that come from edges should weigh beside those of a node itself, which weigh 1.

    From ``LEAST_WEIGHT``, where edges are as good as random, it rises evenly with ``edge_information`` to 1: docs/choosing.md.
    Each of ``readers`` reads rows that come from nodes' own features alone.
    """
    told = edge_information(draw, readers, count)
    share = 1.0 if told is None else (told - _USELESS_AUC) / (_SUFFICIENT_AUC - _USELESS_AUC)
    return LEAST_WEIGHT + (1 - LEAST_WEIGHT) * min(max(share, 0.0), 1.0)


def edge_information(draw: DrawNeighbours, readers: Sequence[ReadRows], count: int) -> float | None:
    """How often neighbours identify a node among others, as an AUC: 0.5 if edges are random, at most 1.

    Measured by the nodes' own rows, then by where edges lead: the first AUC that is high enough counts, else the largest.
    None if one of them cannot be measured, as with few nodes or in a tree.
    """
    nodes, scores = some_nodes(count), list[float]()
    for read in (*readers, None):
        told = by_edges(draw, nodes, count) if read is None else by_rows(draw, read, nodes)
        if told is None:
            return None
        scores.append(told)
        if told >= _SUFFICIENT_AUC:
            break
    return max(scores)


def some_nodes(count: int) -> Array:
    """The nodes that stand for all, in random order: the same at every call."""
    return rng.permute(rng.key(0, "edge information"), torch.arange(min(count, _MEASURED_NODES), device="cpu"), count).numpy()


def by_rows(draw: DrawNeighbours, read: ReadRows, nodes: Array) -> float | None:
    """How often a node's row is closer to the prediction from its own neighbours than to that from another node's.

    A linear map predicts the row from the mean of the neighbours' rows: a ridge regression on the first principal directions of
    these, fitted to one half of the nodes for the other. So neighbours may also be informative by differing from the
    node, if they differ in a consistent way. Nodes are in random order.
    """
    place, neighbour = draw(nodes, _NEIGHBOURS_AROUND)
    rows = read(nodes).double().numpy(force=True) if len(place) else np.empty((0, 0))
    if not (rows.size and np.isfinite(rows).all()):
        return None
    middle, around = rows.mean(0), np.zeros_like(rows)
    sizes = np.bincount(place, minlength=len(nodes))
    for start in range(0, len(nodes), _NODES_PER_PART):
        some = slice(*np.searchsorted(place, [start, start + _NODES_PER_PART]))
        known, column = np.unique(neighbour[some], return_inverse=True)
        if len(known):
            share = sp.csr_array((1 / sizes[place[some]], (place[some] - start, column)), shape=(_NODES_PER_PART, len(known)))
            unit = _unit(read(known).double().numpy(force=True) - middle)
            around[start : start + _NODES_PER_PART] = (share @ unit)[: len(nodes) - start]
    linked = sizes > 0
    centred, around = _unit(rows[linked] - middle), around[linked] - around[linked].mean(0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :_COMPARED_AXES]
    centred, around = centred @ axes, around @ axes
    predicted = np.empty_like(centred)
    half = np.arange(len(centred)) % 2
    for side in (0, 1):
        x, y = around[half != side], centred[half != side]
        inner = x.T @ x
        ridge = np.trace(inner) / len(inner) + np.finfo(float).tiny
        predicted[half == side] = around[half == side] @ np.linalg.solve(inner + ridge * np.eye(len(inner)), x.T @ y)
    return _auc(centred, predicted)


def by_edges(draw: DrawNeighbours, nodes: Array, count: int) -> float | None:
    """How often the two halves of a node's neighbours lead to more similar places than halves of different nodes do.

    Where they lead: these neighbours and the nodes within two more steps that do not pass the node itself. None where too few
    lead to the same place to tell, as in a tree. Nodes are in random order, and the first of them are enough.
    """
    nodes = nodes[:_WALKED_NODES]
    place, near = draw(nodes, _NEIGHBOURS_PER_STEP)
    half = (np.arange(len(place)) - np.searchsorted(place, place)) % 2
    sides = [_led_to(draw, nodes, place[half == side], near[half == side], count) for side in (0, 1)]
    both = np.flatnonzero(np.diff(sides[0].indptr) * np.diff(sides[1].indptr))
    return _auc(*(side[both] for side in sides))


def _led_to(draw: DrawNeighbours, nodes: Array, place: Array, near: Array, count: int) -> sp.csr_array:
    """How often some neighbours of nodes, at most two steps on, lead to each of all nodes but the node itself."""
    reached = total = sp.csr_array((np.ones(len(near)), (place, near)), shape=(len(nodes), count))
    for _ in range(2):
        known, column = np.unique(reached.indices, return_inverse=True)
        start, following = draw(known, _NEIGHBOURS_PER_STEP)
        steps = sp.csr_array((np.ones(len(start)), (start, following)), shape=(len(known), count))
        reached = sp.csr_array((reached.data, column, reached.indptr), shape=(len(nodes), len(known))) @ steps
        returned = np.repeat(nodes, np.diff(reached.indptr)) == reached.indices
        reached.data[returned] = 0
        reached.eliminate_zeros()
        total = total + reached
    return total


def _auc(rows: Array | sp.csr_array, partners: Array | sp.csr_array) -> float | None:
    """How often a row is more like its partner, by their cosine, than like those of others; None if too few are alike."""
    count = rows.shape[0]
    rows, partners = (sparse_unit(sp.csr_array(each)) for each in (rows, partners))
    shifted = [partners[np.roll(np.arange(count), shift)] for shift in range(_OTHER_PARTNERS + 1)]
    cosines = np.stack([np.asarray(rows.multiply(each).sum(1)).ravel() for each in shifted])
    if np.count_nonzero(cosines[0]) < _FEWEST_NODES:
        return None
    return roc_auc(np.arange(cosines.size) < count, cosines.ravel())


def _unit(rows: Array) -> Array:
    """Rows of length 1; those that are zero but for rounding stay."""
    length = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    return rows / np.where(length < 10 * np.finfo(rows.dtype).eps, 1, length)[:, None]
