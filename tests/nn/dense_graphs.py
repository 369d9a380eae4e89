"""Graphs of many kinds, and their matrices as dense NumPy arrays, edge by edge."""

import numpy as np

from clnr.graph import Graph
from tests.conftest import tiny


def looped():
    """A weighted, directed graph with self-loops, edges in both directions, and a node without any edge."""
    random = np.random.default_rng(3)
    source, target = random.integers(0, 14, (2, 45))
    pairs = sorted(set(zip(source.tolist(), target.tolist(), strict=True)) | {(2, 2), (5, 5), (0, 1), (1, 0)})
    source, target = zip(*pairs, strict=True)
    return Graph.from_edges(source, target, random.random((15, 6)), weight=random.random(len(pairs)) + 0.1, name="looped")


GRAPHS = {
    "undirected": tiny(),
    "directed": tiny(undirected=False),
    "weighted": tiny(weighted=True),
    "weighted and directed": tiny(weighted=True, undirected=False),
    "self-loops": looped(),
    "sparse features": tiny(sparse=True),
    "no edges": Graph.from_edges([], [], np.random.default_rng(0).random((9, 4))),
    "one node": Graph.from_edges([], [], np.ones((1, 3))),
    "one edge": Graph.from_edges([0], [1], np.eye(3), undirected=True),
    "no nodes": Graph.from_edges([], [], np.zeros((0, 4))),
}


def neighbours(graph):
    """Weights between different nodes, the larger of both directions."""
    a = np.zeros((graph.num_nodes, graph.num_nodes))
    source, target, weight = graph.edges()
    for index, (i, j) in enumerate(zip(source, target, strict=True)):
        if i != j:
            w = 1.0 if weight is None else float(weight[index])
            a[i, j] = a[j, i] = max(a[i, j], w)
    return a


def power(degree, exponent):
    return np.array([float(each) ** exponent if each else 0.0 for each in degree])


def transition(graph):
    """Each row of the neighbours divided by its sum; a node without neighbours has zeros."""
    a = neighbours(graph)
    return power(a.sum(1), -1.0)[:, None] * a


def unit(rows):
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
