"""Three centralities of nodes, in float64 on the CPU, computed once per graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine import DeviceGraph
from clnr.graph import Graph
from clnr.graph.csr import Array

_MOST_ROUNDS = 1000
_TOLERANCE = 1e-10
_LARGEST_RATE = 0.7


def degree(graph: Graph) -> Array:
    """The weighted in-degree."""
    return np.asarray(_in_neighbours(graph).sum(1), dtype=np.float64).reshape(-1)


def pagerank(graph: Graph, damping: float = 0.85) -> Array:
    """PageRank (Page et al., 1999): the stationary distribution of a walk that restarts anywhere with probability 1 - damping.

    At a node without outgoing edges the walk restarts, too.
    """
    count = graph.num_nodes
    to = _in_neighbours(graph)
    leaving = np.asarray(to.sum(0)).reshape(-1)
    share = np.divide(1.0, leaving, out=np.zeros(count), where=leaving > 0)

    def step(x: Array) -> Array:
        moved = to @ (x * share)
        return damping * (moved + x[leaving == 0].sum() / count) + (1 - damping) / count

    return _iterate(step, count)


def eigenvector(graph: Graph) -> Array:
    """The leading eigenvector of the adjacency matrix with self-loops (Bonacich, 1972).

    At most 1,000 power iterations, in which a long, thin graph does not converge; the result is then smoother.
    """
    to = _in_neighbours(graph) + sp.eye_array(graph.num_nodes, format="csr")

    def step(x: Array) -> Array:
        y = to @ x
        return y / y.sum()

    return _iterate(step, graph.num_nodes)


def _in_neighbours(graph: Graph) -> sp.csr_array:
    return graph.to_scipy().T.tocsr().astype(np.float64)


def _iterate(step: Callable[[Array], Array], count: int) -> Array:
    x = np.full(count, 1 / max(count, 1))
    for _ in range(_MOST_ROUNDS):
        y = step(x)
        if np.abs(y - x).sum() < _TOLERANCE:
            return y
        x = y
    return x


CENTRALITIES = {"degree": degree, "pagerank": pagerank, "eigenvector": eigenvector}


def rates(importance: Array, rate: float) -> Array:
    r"""Probabilities of being dropped, higher for less importance, with mean ``rate`` before the ceiling.

    .. math:: \min\left(\frac{s_{max} - s}{s_{max} - \mu_s} \, p, \; p_\tau\right), \quad s = \log \mathrm{importance}

    Zhu et al., "Graph contrastive learning with adaptive augmentation" (2021), with their ceiling of 0.7. An
    importance of zero counts as 1e-8 of the largest.
    """
    if not len(importance):
        return importance
    top = importance.max()
    s = np.log(np.maximum(importance, 1e-8 * top) if top > 0 else np.ones_like(importance))
    spread = s.max() - s.mean()
    factor = (s.max() - s) / spread if spread > 1e-12 else np.ones_like(s)
    return np.minimum(factor * rate, _LARGEST_RATE)


def edge_rates(device_graph: DeviceGraph, centrality: str, rate: float) -> Tensor:
    """``rates`` of the edges, by the centrality of their targets; 0 for self-loops."""
    rows, columns = device_graph.edges.rows.cpu().numpy(), device_graph.edges.columns.cpu().numpy()
    between = rows != columns
    each = np.zeros(len(rows))
    each[between] = rates(_measured(device_graph, centrality)[rows[between]], rate)
    return torch.tensor(each, device=device_graph.device)


def feature_rates(device_graph: DeviceGraph, centrality: str, rate: float) -> Tensor:
    """``rates`` of the features, by the sum of their absolute values, weighted by the nodes' centrality."""
    importance = abs(device_graph.graph.features).T @ _measured(device_graph, centrality)
    return torch.tensor(rates(importance, rate), device=device_graph.device)


def _measured(device_graph: DeviceGraph, centrality: str) -> Array:
    measure = CENTRALITIES[centrality]
    return device_graph.once(measure, lambda: measure(device_graph.graph))
