from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.embedding.graph_sources import as_graph
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
    assert graph.incoming.indptr.tolist() == [0, 0, 2, 4, 4]
    assert graph.incoming.indices.tolist() == [0, 3, 0, 2]
    assert graph.outgoing.indptr.tolist() == [0, 2, 2, 3, 4]
    assert graph.outgoing.indices.tolist() == [1, 2, 2, 1]
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
    assert Graph.from_edges([0, 1], [1, 0], X, weight=[1, 2]).directed
    assert not Graph.from_edges([0, 1], [1, 0], X, weight=[2, 2]).directed


def test_nothing_can_be_changed():
    graph = tiny(sparse=True, weighted=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.name = "other"
    for array in (graph.features.data, graph.incoming.indices, graph.outgoing.weight, graph.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_callers_arrays_stay_theirs():
    x, labels = X.copy(), np.arange(4)
    graph = Graph.from_edges([0], [1], x, labels=labels)
    x[0, 0] = 9
    labels[0] = 9
    assert graph.features[0, 0] == 1
    assert graph.labels[0] == 0


@pytest.mark.parametrize("form", FORMS)
def test_scipy_pyg_and_networkx_there_and_back(form):
    pytest.importorskip("torch_geometric")
    names, split = [f"node-{i}" for i in range(40)], Split(np.arange(5), np.arange(5, 9), np.arange(9, 30))
    graph = dataclasses.replace(tiny(**form), split=split, ids=np.array(names, dtype=object))
    adjacency, data, network = graph.to_scipy(), graph.to_pyg(), graph.to_networkx()
    for source, target, weight in edge_set(graph):
        assert adjacency[source, target] == pytest.approx(weight)
    assert (data.num_nodes, data.train_mask.sum()) == (40, 5)
    assert (network.is_directed(), list(network.nodes)) == (graph.directed, names)
    same(graph, Graph.from_scipy(adjacency, graph.features))
    of_pyg, of_networkx = Graph.from_pyg(data), Graph.from_networkx(network, labels="label")
    for back in (of_pyg, of_networkx):
        same(graph, back)
        assert list(back.ids) == names
        np.testing.assert_array_equal(graph.labels, back.labels)
    assert of_pyg.sparse == graph.sparse
    for one, other in zip(graph.split, of_pyg.split, strict=True):
        np.testing.assert_array_equal(one, other)


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
        before, after = dense(graph.features), dense(graph.row_normalize().features)
        total = before.sum(1, keepdims=True)
        np.testing.assert_allclose(after, before / np.where(total == 0, 1, total), rtol=1e-6)


# -- what PyG, networkx and SciPy have that is not used, or is not in order ------------------------------------------------


def data(**more):
    Data = pytest.importorskip("torch_geometric.data").Data
    return Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), **more)


def test_only_edge_weight_is_a_weight_and_what_is_left_out_is_said():
    with pytest.warns(UserWarning, match="not used of this PyG graph: edge_attr"):
        graph = Graph.from_pyg(data(edge_attr=torch.tensor([0, 1, 2])))
    assert edge_set(graph) == {(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)}
    weight = torch.tensor([2.0, 3.0, 4.0])
    with pytest.warns(UserWarning, match="edge_attr, edge_type$"):
        graph = Graph.from_pyg(data(edge_weight=weight, edge_attr=torch.ones(3, 5), edge_type=torch.arange(3)))
    assert edge_set(graph) == {(0, 1, 2.0), (1, 2, 3.0), (2, 3, 4.0)}


@pytest.mark.parametrize(
    "masks",
    [
        dict.fromkeys(("train_mask", "val_mask", "test_mask"), torch.ones(4, 10, dtype=torch.bool)),
        {"val_mask": torch.ones(4) > 0},
    ],
)
def test_masks_that_make_no_one_split_are_left_out_and_said(masks):
    with pytest.warns(UserWarning, match=f"not used of this PyG graph: {', '.join(masks)}"):
        assert Graph.from_pyg(data(**masks)).split is None


def network(**about):
    import networkx

    made = networkx.Graph()
    made.add_nodes_from([(0, {"x": [1.0], "label": 0, **about}), (1, {"x": [2.0], "label": 1})])
    made.add_edge(0, 1)
    return made


def kinds():
    mixed = pytest.importorskip("torch_geometric.data").HeteroData()
    mixed["a"].x = torch.eye(3)
    return mixed


def edges(**changed):
    return Graph.from_edges(**{"source": [0, 1], "target": [1, 2], "features": X, **changed})


LARGE = np.uint64(2**64 - 1)
WRONG_EDGES = {
    "features": [None, 5, "x", np.array([[object()]]), np.zeros((2, 2, 2)), [[1], [1, 2]], np.eye(4) * 1j, {}, [[2**2000]] * 4],
    "source": [None, 5, "x", [2**200, 0], [0.5, 1], ["a", "b"], [[0, 1]], [True, False], np.array([LARGE, 0], np.uint64), {}],
    "target": [[None, 1], [np.nan, 1], [2**63, 0], [10**30, 0], [1e300, 0]],
    "weight": ["x", ["a", "b"], [2**2000, 1], [1e300, 1], [1j, 1], object()],
    "undirected": ["yes", 1, None, np.ones(3)],
    "labels": [5, "x", ["a"] * 4, [0, 1, 2, 2**62], [0, 1, 2, -5], [0, 1, 2, 2**200], [0.5] * 4, np.full(4, LARGE)],
    "ids": [5, "abc", [[1], [2], [3], [4]], [{}, 1, 2, 3], [1, 1, 2, 3], np.zeros((4, 2)), ["a", "b", "c"]],
    "split": [5, "x", [[0]], [[0], [1], [2], [3]], [[0], [1], [9]], [[True] * 4] * 3, [["a"], [1], [2]], [5, 6, 7]],
    "name": [5, None, b"x", ["a"]],
}


@pytest.mark.parametrize("argument", WRONG_EDGES)
def test_a_wrong_argument_of_from_edges_is_named(argument):
    for value in WRONG_EDGES[argument]:
        with pytest.raises(DataError) as caught:
            edges(**{argument: value})
        assert argument in str(caught.value) or argument[:-1] in str(caught.value), value
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: edges(source=[0, 9]), "node 9, but nodes go from 0 to 3"),
        (lambda: edges(source=[0]), "1 sources but 2 targets"),
        (lambda: edges(weight=[1]), "2 edges but 1 weights"),
        (lambda: edges(target=[1, 1], source=[0, 0], weight=[3e38, 3e38]), "added up"),
        (lambda: edges(features=[[1.0], [np.inf], [0.0], [0.0]]), "row 1, column 0"),
        (lambda: edges(features=sp.csr_array([[0, 1.0], [0, np.nan], [0, 0], [0, 0]])), "row 1, column 1"),
        (lambda: edges(split=Split(np.array([0]), np.array([0]), np.array([1]))), "twice"),
        (lambda: Graph.from_scipy(None, X), "adjacency"),
        (lambda: Graph.from_scipy(np.zeros((4, 3)), X), "square"),
        (lambda: Graph.from_scipy(sp.eye_array(3).tocsr(), X), "3 x 3, but there are 4 rows"),
        (lambda: Graph.from_scipy(sp.eye_array(4).tocsr() * -1, X), "weights"),
        (lambda: Graph.from_pyg(None), "PyG"),
        (lambda: Graph.from_pyg(kinds()), "to_homogeneous"),
        (lambda: as_graph(kinds()), "to_homogeneous"),
        (lambda: Graph.from_pyg(type(data())()), "needs both x and edge_index"),
        (lambda: Graph.from_pyg(data(y="x")), "labels"),
        (lambda: Graph.from_networkx(None), "networkx"),
        (lambda: Graph.from_networkx(network(), features=5), "features"),
        (lambda: Graph.from_networkx(network(), features="y"), "no attribute 'y'"),
        (lambda: Graph.from_networkx(network(x="word")), "features"),
        (lambda: Graph.from_networkx(network(label="a"), labels="label"), "labels"),
    ],
)
def test_what_is_wrong_is_named(make, words):
    with pytest.raises(DataError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_ids_stay_what_they_were():
    for ids in ([(0, 0), (0, 1), (1, 0), (1, 1)], [1, "1", 2.5, None], list("abcd"), [4, 3, 2, 1], [(0,), (), "x", (1, 2)]):
        assert Graph.from_edges([0], [1], X, ids=ids).node_ids.tolist() == ids
