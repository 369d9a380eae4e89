from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import _study_graphs as graphs
from benchmarks._study_scores import Facts, clustering_nmi, link_auc, neighbour_r2, purity
from benchmarks._study_tables import Results, correlations, tables
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import roc_auc_score

from clnr import datasets
from clnr.errors import UnknownName
from clnr.evaluation import hold_out
from clnr.graph import Graph
from tests.conftest import tiny


def degrees(graph):
    return np.diff(graph.outgoing.indptr)


@pytest.mark.parametrize(
    "change", ["", ":few", ":h=0.5", ":structure", ":directed", ":weighted", ":bipartite", ":shuffled", ":unlike"]
)
def test_graphs_have_no_recipe_and_no_split_and_are_the_same_each_time(change):
    graph = graphs.load(f"toy{change}")
    toy = datasets.load("toy")
    assert graph.dataset is None
    assert graph.split is None
    assert graph.name == f"toy{change}"
    assert np.array_equal(graph.labels, toy.labels)
    assert graph.digest == graphs.load(f"toy{change}").digest
    assert graph.directed == (change == ":directed")


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_rewired_edges_are_within_a_class_as_often_as_asked_and_keep_degrees(share):
    toy = datasets.load("toy")
    graph = graphs.load(f"toy:h={share}")
    by_chance = np.bincount(toy.labels, degrees(toy)) / degrees(toy).sum()
    source, target, _ = graph.edges()
    within = (graph.labels[source] == graph.labels[target]).mean()
    assert within == pytest.approx(share + (1 - share) * (by_chance**2).sum(), abs=0.02)
    lost = degrees(toy) - degrees(graph)
    assert (lost >= 0).all()
    assert lost.sum() < 0.1 * degrees(toy).sum()
    assert (source != target).all()


def test_directed_keeps_each_edge_once_bipartite_has_two_halves_and_few_columns_are_half_noise():
    a = graphs.load("toy:bipartite").to_scipy()
    doubled = sp.block_array([[None, a], [a, None]], format="csr")
    assert connected_components(doubled)[0] == 2 * connected_components(a)[0]
    a = graphs.load("toy:directed").to_scipy()
    assert a.multiply(a.T).nnz == 0
    assert ((a + a.T) != datasets.load("toy").to_scipy()).nnz == 0
    x = graphs.load("toy:few").features
    assert x.shape == (2400, 8)
    assert x.std(0) == pytest.approx(np.full(8, 2**0.5), rel=0.1)


def test_weights_tell_real_edges_from_random_ones():
    toy, graph = datasets.load("toy").to_scipy(), graphs.load("toy:weighted").to_scipy()
    assert abs(graph - graph.T).max() == 0
    real = graph.multiply(toy).tocsr()
    assert real.nnz == toy.nnz
    assert real.data.mean() == pytest.approx(1, abs=0.05)
    others = (graph - real).tocsr()
    others.eliminate_zeros()
    assert others.nnz == pytest.approx(toy.nnz, rel=0.02)
    assert others.data.mean() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("sparse", [False, True])
def test_purity_is_that_of_a_loop_and_clusters_that_are_the_classes_have_full_information(sparse):
    rows, labels = np.random.default_rng(0).random((60, 5)), np.arange(60) % 3
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    shares = []
    for node in range(60):
        order = sorted((other for other in range(60) if other != node), key=lambda other: -(unit[node] @ unit[other]))
        shares.append(np.mean([labels[other] == labels[node] for other in order[:10]]))
    given = sp.csr_array(unit) if sparse else unit
    assert purity(given, labels, np.random.default_rng(0)) == pytest.approx(np.mean(shares))
    classes = np.eye(3)[labels] + 0.01 * rows[:, :3]
    assert clustering_nmi(sp.csr_array(classes) if sparse else classes, labels, 0) == pytest.approx(1)


def test_features_are_predicted_from_neighbours_only_where_these_know_them():
    ring = np.arange(400)
    angle = 2 * np.pi * ring / 400
    smooth = np.stack([np.cos(angle), np.sin(angle)], 1)
    noise = np.random.default_rng(0).standard_normal((400, 2))
    for features, low, high in ((smooth, 0.99, 1.0), (noise, -0.2, 0.1)):
        graph = Graph.from_edges(ring, (ring + 1) % 400, features, undirected=True, labels=ring % 2)
        facts = Facts.of(graph)
        assert low <= neighbour_r2(facts, facts.reduced, np.random.default_rng(0)) <= high


@pytest.mark.parametrize("sparse", [False, True])
def test_link_auc_is_that_of_cosines(sparse):
    graph = tiny(sparse=sparse)
    held = hold_out(graph, 0.2, 0)
    x = tiny().features.astype(np.float64)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True).clip(1e-9)
    pairs = np.concatenate([held.positives, held.negatives], 1)
    truth = np.repeat([1, 0], held.positives.shape[1])
    assert link_auc(graph.features, held) == pytest.approx(roc_auc_score(truth, (unit[pairs[0]] * unit[pairs[1]]).sum(1)))


def result(graph, method, test, seed=0, dimension=256, **more):
    return {"graph": graph, "method": method, "set": {}, "dimension": dimension, "seed": seed, "test": test} | more


RESULTS = [
    *(result("a", method, test) for method, test in (("SVD", 70.0), ("Cleora", 60.0), ("CLNR-mix", 74.0))),
    result("a", "SVD", 72.0, seed=1),
    *(result("b:structure", method, test) for method, test in (("SVD", 50.0), ("Cleora", 58.0), ("CLNR-mix", 57.0))),
    result("b:structure", "Raw", 99.0, dimension=None),
    *(result("a", method, test, dimension=128) for method, test in (("SVD", 1.0), ("CLNR-mix", 4.0))),
]


def test_differences_are_from_the_best_baseline_of_each_graph_and_width():
    text = tables(RESULTS, "CLNR-mix")
    assert "| a | SVD | 71.0 | 74.0 | +3.0 |" in text
    assert "| b:structure | Cleora | 58.0 | 57.0 | -1.0 |" in text
    assert "| mean |  |  |  | +1.0 |\n| worst |  |  |  | -1.0 |" in text
    assert "| a | 4.0 | +3.0 | 74.0 | +3.0 |\n| b:structure |  |  | 57.0 | -1.0 |\n| mean |  | +3.0 |  | +3.0 |" in text
    assert "| SVD | 71.0±1.0 |" in text
    with pytest.raises(UnknownName, match="unknown method among the results 'CLNR'"):
        tables(RESULTS, "CLNR")


def test_measures_are_ranked_against_accuracy():
    made = [
        result("a", method, test, link_auc=auc, alignment=distance)
        for method, test, auc, distance in (("SVD", 1.0, 0.6, 3.0), ("Cleora", 2.0, 0.9, 2.0), ("CLNR-mix", 4.0, 0.8, 1.0))
    ]
    lines = correlations(Results(made, 256), "CLNR-mix").splitlines()
    assert "| AUC of held-out edges | +0.50 | +0.50 |  |  | +0.50 | +0.50 | 2.0 |" in lines
    assert "| alignment of linked nodes | -1.00 | -1.00 |  |  | -1.00 | -1.00 | 0.0 |" in lines
    assert "| always CLNR-mix |  |  |  |  |  |  | 0.0 |" in lines
