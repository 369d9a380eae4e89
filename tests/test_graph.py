from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.errors import DataError
from clnr.graph import Graph, Split
from tests.conftest import tiny
from tests.oracles import dense

X = np.eye(4, dtype=np.float32)
FORMS = [{"sparse": False}, {"sparse": True}, {"weighted": True}, {"undirected": False, "weighted": True}]


def edge_set(graph):
    source, target, weight = graph.edges()
    return set(zip(source.tolist(), target.tolist(), [1.0] * len(source) if weight is None else weight.tolist(), strict=True))


def same(a, b):
    assert edge_set(a) == edge_set(b)
    np.testing.assert_array_equal(dense(a.features), dense(b.features))
    assert a.directed == b.directed


def test_edges_both_ways():
    graph = Graph.from_edges([0, 0, 3, 2], [1, 2, 1, 2], X)
    assert graph.incoming.start.tolist() == [0, 0, 2, 4, 4]
    assert graph.incoming.nodes.tolist() == [0, 3, 0, 2]
    assert graph.outgoing.start.tolist() == [0, 2, 2, 3, 4]
    assert graph.outgoing.nodes.tolist() == [1, 2, 2, 1]
    assert graph.directed
    assert graph.num_edges == 4


def test_duplicates_become_one_edge_and_weights_add_up():
    assert edge_set(Graph.from_edges([0, 0, 1], [1, 1, 0], X)) == {(0, 1, 1.0), (1, 0, 1.0)}
    weighted = Graph.from_edges([0, 0, 1, 2], [1, 1, 0, 3], X, weight=[1, 2, 5, 0])
    assert edge_set(weighted) == {(0, 1, 3.0), (1, 0, 5.0)}
    np.testing.assert_array_equal(weighted.outgoing.weight, [3, 5])
    np.testing.assert_array_equal(weighted.incoming.weight, [5, 3])


def test_undirected_adds_reverses_once():
    graph = Graph.from_edges([0, 1, 2], [1, 0, 3], X, undirected=True)
    assert edge_set(graph) == {(0, 1, 1.0), (1, 0, 1.0), (2, 3, 1.0), (3, 2, 1.0)}
    assert not graph.directed


def test_one_way_weights_make_a_graph_directed():
    assert Graph.from_edges([0, 1], [1, 0], X, weight=[1, 2]).directed
    assert not Graph.from_edges([0, 1], [1, 0], X, weight=[2, 2]).directed


def test_nothing_can_be_changed():
    graph = tiny(sparse=True, weighted=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.name = "other"
    for array in (graph.features.data, graph.incoming.nodes, graph.outgoing.weight, graph.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_callers_arrays_stay_theirs():
    x, labels = X.copy(), np.arange(4)
    graph = Graph.from_edges([0], [1], x, labels=labels)
    x[0, 0] = 9
    labels[0] = 9
    assert graph.features[0, 0] == 1
    assert graph.labels[0] == 0


def test_digest_follows_content_and_nothing_else():
    graph = tiny()
    assert graph.digest == tiny().named("other").digest
    assert graph.digest != tiny(seed=1).digest
    changes = [
        {"labels": np.roll(graph.labels, 1)},
        {"features": graph.features * 2},
        {"split": Split(np.arange(3), np.arange(3, 6), np.arange(6, 9))},
    ]
    digests = {dataclasses.replace(graph, **change).digest for change in changes}
    assert len(digests | {graph.digest}) == 4
    assert dataclasses.replace(graph, ids=np.arange(40)).digest == graph.digest


@pytest.mark.parametrize("form", FORMS)
def test_scipy_there_and_back(form):
    graph = tiny(**form)
    adjacency = graph.to_scipy()
    for source, target, weight in edge_set(graph):
        assert adjacency[source, target] == pytest.approx(weight)
    same(graph, Graph.from_scipy(adjacency, graph.features))


@pytest.mark.parametrize("form", FORMS)
def test_pyg_there_and_back(form):
    graph = dataclasses.replace(tiny(**form), split=Split(np.arange(5), np.arange(5, 9), np.arange(9, 30)))
    data = graph.to_pyg()
    assert data.num_nodes == 40
    assert data.train_mask.sum() == 5
    back = Graph.from_pyg(data)
    same(graph, back)
    assert back.sparse == graph.sparse
    np.testing.assert_array_equal(graph.labels, back.labels)
    for one, other in zip(graph.split, back.split, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("form", FORMS)
def test_networkx_there_and_back(form):
    graph = dataclasses.replace(tiny(**form), ids=np.array([f"node-{i}" for i in range(40)], dtype=object))
    network = graph.to_networkx()
    assert network.is_directed() == graph.directed
    assert list(network.nodes)[:2] == ["node-0", "node-1"]
    back = Graph.from_networkx(network, labels="label")
    same(graph, back)
    assert back.ids.tolist() == graph.ids.tolist()
    np.testing.assert_array_equal(graph.labels, back.labels)


def test_networkx_loops_and_tuples_for_names():
    import networkx

    network = networkx.Graph()
    network.add_node((0, 1), x=[1.0])
    network.add_node((0, 2), x=[2.0])
    network.add_edges_from([((0, 1), (0, 1)), ((0, 1), (0, 2))])
    graph = Graph.from_networkx(network)
    assert edge_set(graph) == {(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)}
    assert graph.ids[1] == (0, 2)


def test_rows_summing_to_one():
    for form in FORMS[:2]:
        graph = tiny(**form)
        before, after = dense(graph.features), dense(graph.with_rows_summing_to_one().features)
        total = before.sum(1, keepdims=True)
        np.testing.assert_allclose(after, before / np.where(total == 0, 1, total), rtol=1e-6)


def test_a_torch_tensor_is_as_good_as_an_array():
    graph = Graph.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]), torch.eye(3))
    assert edge_set(graph) == {(0, 1, 1.0), (1, 2, 1.0)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": [0, 9]}, "node 9, but nodes go from 0 to 3"),
        ({"target": [0, -1]}, "node -1"),
        ({"source": [0]}, "1 sources but 2 targets"),
        ({"weight": [1]}, "2 edges but 1 weights"),
        ({"weight": [1, -1]}, "finite and not negative"),
        ({"weight": [1, np.nan]}, "finite and not negative"),
        ({"features": [[1.0], [np.inf], [0.0], [0.0]]}, "row 1, column 0"),
        ({"features": sp.csr_array(np.array([[0, 1.0], [0, np.nan], [0, 0], [0, 0]]))}, "row 1, column 1"),
        ({"features": [1.0, 2.0]}, "one row per node"),
        ({"labels": [0, 1]}, "4 nodes but labels of shape"),
        ({"split": Split(np.array([0]), np.array([0]), np.array([1]))}, "twice"),
    ],
)
def test_bad_input_says_what_is_wrong(change, words):
    with pytest.raises(DataError, match=words):
        Graph.from_edges(**{"source": [0, 1], "target": [1, 2], "features": X, **change})


def test_repr_tells_the_sizes():
    assert repr(tiny()) == f"Graph(tiny: 40 nodes, {tiny().num_edges} edges, 12 dense features, 3 classes)"
