import networkx as nx
import numpy as np
import pytest

from clnr.augment.centrality import degree, eigenvector, pagerank, rates
from clnr.graph import Graph
from tests import oracles
from tests.conftest import tiny


def graph(source, target, nodes, **more):
    return Graph.from_edges(source, target, np.ones((nodes, 1)), **more)


PATH = graph([0, 1, 2], [1, 2, 3], 4, undirected=True)
STAR = graph([0] * 5, [1, 2, 3, 4, 5], 6, undirected=True)
RING = graph(range(7), [1, 2, 3, 4, 5, 6, 0], 7, undirected=True)
DANGLING = graph([0, 1, 2, 2], [1, 2, 0, 3], 5)
APART = graph([0, 1, 3, 4, 5, 3], [1, 2, 4, 5, 3, 6], 8, undirected=True)
EMPTY = graph([], [], 4)
LOOP = graph([0, 0, 1], [0, 1, 2], 3, weight=[2.0, 1.0, 0.5], undirected=True)
GRAPHS = {
    "usual": tiny(),
    "weighted": tiny(weighted=True),
    "directed": tiny(undirected=False),
    "directed and weighted": tiny(undirected=False, weighted=True),
    "path": PATH,
    "star": STAR,
    "ring": RING,
    "dangling": DANGLING,
    "apart": APART,
    "no edges": EMPTY,
    "loop": LOOP,
    "one node": graph([], [], 1),
}


def directed(graph):
    """As networkx's DiGraph, made here edge by edge."""
    other = nx.DiGraph()
    other.add_nodes_from(range(graph.num_nodes))
    other.add_weighted_edges_from(zip(*oracles.edge_lists(graph), strict=True))
    return other


def listed(values, count):
    return np.array([values[i] for i in range(count)])


@pytest.mark.parametrize("name", GRAPHS)
def test_degree(name):
    graph = GRAPHS[name]
    expected = listed(dict(directed(graph).in_degree(weight="weight")), graph.num_nodes)
    np.testing.assert_allclose(degree(graph), expected, rtol=1e-12)


@pytest.mark.parametrize("damping", [0.5, 0.85, 0.95])
@pytest.mark.parametrize("name", GRAPHS)
def test_pagerank(name, damping):
    graph = GRAPHS[name]
    expected = nx.pagerank(directed(graph), alpha=damping, tol=1e-14, max_iter=10_000)
    got = pagerank(graph, damping)
    np.testing.assert_allclose(got, listed(expected, graph.num_nodes), atol=1e-7)
    assert got.sum() == pytest.approx(1)
    assert (got > 0).all()


@pytest.mark.parametrize("name", ["usual", "weighted", "path", "star", "ring", "apart", "no edges", "loop", "one node"])
def test_eigenvector(name):
    graph = GRAPHS[name]
    expected = listed(nx.eigenvector_centrality(directed(graph), max_iter=10_000, tol=1e-13, weight="weight"), graph.num_nodes)
    got = eigenvector(graph)
    np.testing.assert_allclose(got / np.linalg.norm(got), expected, atol=1e-7)
    assert (got >= 0).all()


def test_eigenvector_of_a_directed_graph_looks_at_what_a_node_receives():
    edges = graph([0, 1, 2, 0, 3, 3], [1, 2, 0, 3, 0, 2], 4)
    values, vectors = np.linalg.eig(oracles.with_loops(edges))
    leading = np.abs(vectors[:, np.argmax(values.real)].real)
    np.testing.assert_allclose(eigenvector(edges), leading / leading.sum(), atol=1e-8)


def test_rates_are_the_formula():
    importance = np.random.default_rng(0).random(50) + 0.01
    for rate in (0.0, 0.1, 0.4, 1.0):
        np.testing.assert_allclose(rates(importance, rate), oracles.rates(importance, rate))


@pytest.mark.parametrize("importance", [np.zeros(4), np.full(4, 3.7), np.full(1, 0.2), np.array([1.0, 1 + 1e-15])])
def test_equal_importance_gives_equal_rates(importance):
    np.testing.assert_array_equal(rates(importance, 0.3), 0.3)
    np.testing.assert_array_equal(rates(importance, 0.9), 0.7)


def test_what_has_no_importance_counts_as_a_hundred_millionth_of_the_largest():
    importance = np.array([0.0, 2.0, 1.0])
    np.testing.assert_allclose(rates(importance, 0.1), oracles.rates([2e-8, 2.0, 1.0], 0.1))
