import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler

from clnr.engine import Reference, cpu_engine
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.nn.inputs import STEPS, AddStructure, Cleora, FastRP, Spectral, WeightFeatures
from clnr.nn.structure import random_rows, walks
from tests import oracles
from tests.conftest import tiny
from tests.nn.dense_graphs import GRAPHS, neighbours, power, transition, unit

REFERENCE = Reference(torch.device("cpu"))
ENGINES = pytest.mark.parametrize("engine", [REFERENCE, cpu_engine()], ids=["reference", "cpu"])


def with_features(x, **more):
    return Graph.from_edges([0], [1], x, undirected=True, **more)


def given(part, parameters, graph, engine=REFERENCE):
    """The graph with the features that a part gives it."""
    return part(parameters, engine.to_device(graph), engine).graph


def fitted(part, graph, other=None, engine=REFERENCE):
    """The features that a part gives a graph, or another one, after it was fitted on the graph."""
    parameters = part.fit(engine.to_device(graph), engine)
    return oracles.dense(given(part, parameters, graph if other is None else other, engine).features)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_bag_is_weighted_as_scikit_learns_tfidf(kind):
    random = np.random.default_rng(0)
    bags = [random.poisson(0.3, (n, 50)).astype(np.float32) for n in (30, 9)]
    bags[0][3] = 0
    bags[0][:, 7] = 0  # a word that only the other graph has
    bags[1][:, 7] = 2
    graph, other = (with_features(sp.csr_array(x) if kind == "sparse" else x) for x in bags)
    oracle = TfidfTransformer(smooth_idf=True, norm="l2").fit(bags[0])
    for each, x in ((graph, bags[0]), (other, bags[1])):
        expected = oracle.transform(np.sqrt(x)).toarray()
        np.testing.assert_allclose(fitted(WeightFeatures(), graph, each), expected, atol=1e-6)


def test_dense_features_are_standardised_as_by_scikit_learn():
    random = np.random.default_rng(1)
    x, y = (random.normal([3, -2, 1000, 0], [1, 5, 0.1, 1e-3], (n, 4)).astype(np.float32) for n in (40, 7))
    x[:, 1] = y[:, 1] = 4.5
    scaler = StandardScaler().fit(x.astype(np.float64))
    graph, other = with_features(x), with_features(y)
    np.testing.assert_allclose(fitted(WeightFeatures(), graph), scaler.transform(x), atol=2e-3)
    np.testing.assert_allclose(fitted(WeightFeatures(), graph, other), scaler.transform(y), atol=2e-3)
    assert not fitted(WeightFeatures(), graph)[:, 1].any()


def test_dense_and_sparse_forms_of_the_same_graph_are_weighted_alike():
    """Whichever of the two it was fitted on."""
    random = np.random.default_rng(2)
    for x in (random.normal(5, 1, (20, 3)), random.random((20, 3)) * (random.random((20, 3)) < 0.2)):
        dense, sparse = with_features(x), with_features(sp.csr_array(x))
        np.testing.assert_allclose(fitted(WeightFeatures(), dense, sparse), fitted(WeightFeatures(), dense), atol=1e-5)
        np.testing.assert_allclose(fitted(WeightFeatures(), sparse, dense), fitted(WeightFeatures(), sparse), atol=1e-5)


def test_without_weights_features_stay_as_they_are_and_so_do_sparse_ones_with_negative_numbers():
    random = np.random.default_rng(3)
    negative = random.normal(size=(30, 20)) * (random.random((30, 20)) < 0.1)
    kept = [(WeightFeatures("none"), kind, x) for kind in (np.asarray, sp.csr_array) for x in (np.eye(8, 6) * 3, negative)]
    for part, kind, x in [*kept, (WeightFeatures(), sp.csr_array, negative)]:
        np.testing.assert_allclose(fitted(part, with_features(kind(x))), x, atol=1e-6)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((5, 3)),
        np.ones((5, 3)),
        np.full((5, 1), 1e-30),
        np.full((5, 2), 1e30),
        np.zeros((2, 0)),
        sp.csr_array((5, 3)),
        np.eye(5),
        np.arange(2.0)[:, None],
    ],
    ids=["zeros", "ones", "tiny", "huge", "none", "sparse zeros", "identity", "one column"],
)
def test_odd_features_have_finite_weights(x):
    found = fitted(WeightFeatures(), with_features(x))
    assert found.shape == x.shape
    assert np.isfinite(found).all()
    assert (np.linalg.norm(found, axis=1) <= np.sqrt(max(1, x.shape[1])) * 2.5).all()


@pytest.mark.parametrize("part", [WeightFeatures(), Spectral(4), Cleora(4), FastRP(4), AddStructure(2)])
@pytest.mark.parametrize("name", ["undirected", "sparse features", "no nodes"])
def test_declared_shapes_are_those_of_what_is_learned(part, name):
    graph = GRAPHS[name]
    learned, empty = part.fit(REFERENCE.to_device(graph), REFERENCE), part.empty(graph.num_features, graph.num_nodes)
    assert {key: (value.shape, value.dtype) for key, value in learned.items()} == {
        key: (value.shape, value.dtype) for key, value in empty.items()
    }
    assert given(part, learned, graph).num_features == part.width(graph.num_features)


@pytest.mark.parametrize("sparse", [False, True])
def test_walks_stand_beside_features(sparse):
    graph = tiny(sparse=sparse)
    part = AddStructure(5)
    found = fitted(part, graph)
    own = oracles.dense(graph.features).astype(np.float64)
    own /= np.sqrt((own**2).sum(1).mean())
    np.testing.assert_allclose(found[:, :12], own, atol=1e-6)
    beside = torch.cat(walks(REFERENCE, REFERENCE.to_device(graph), 5, STEPS), 1).numpy()
    np.testing.assert_allclose(found[:, 12:] * 3**0.5, beside, atol=1e-6)
    linked = neighbours(graph).any(1)
    np.testing.assert_allclose((found[linked, 12:] ** 2).sum(1), 1, rtol=1e-5)
    assert part.width(12) == 27


def test_cleora_is_one_walk():
    graph = tiny()
    (rows,) = walks(REFERENCE, REFERENCE.to_device(graph), 6, (5,))
    np.testing.assert_array_equal(fitted(Cleora(6, 5), graph), rows.numpy())


@ENGINES
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("highest", "exponent"), [(2, 0.0), (4, -0.5), (5, 0.7)])
def test_fastrp_is_the_sum_of_powers(name, engine, highest, exponent):
    graph = GRAPHS[name]
    degree = neighbours(graph).sum(1)
    rows = random_rows(REFERENCE.to_device(graph), 6).double().numpy() * np.maximum(degree, 1)[:, None] ** exponent
    expected = sum(unit(np.linalg.matrix_power(transition(graph), k) @ rows) for k in range(2, highest + 1))
    np.testing.assert_allclose(fitted(FastRP(6, highest, exponent), graph, engine=engine), expected, atol=5e-5)


def normalised(graph):
    a = neighbours(graph)
    scale = power(a.sum(1), -0.5)
    return scale[:, None] * a * scale


@ENGINES
@pytest.mark.parametrize("name", GRAPHS)
def test_spectral_is_numpys_svd_of_the_normalised_adjacency(name, engine):
    graph = GRAPHS[name]
    found = fitted(Spectral(graph.num_nodes + 3), graph, engine=engine)
    assert found.shape == (graph.num_nodes, graph.num_nodes + 3)
    whole = normalised(graph)
    np.testing.assert_allclose(found @ found.T, whole @ whole.T, atol=1e-4)


def test_spectral_keeps_the_largest_singular_values():
    random = np.random.default_rng(0)
    group = np.arange(60) % 5
    source, target = np.nonzero(np.triu(random.random((60, 60)) < np.where(group[:, None] == group, 0.6, 0.02), 1))
    graph = Graph.from_edges(source, target, np.ones((60, 1)), weight=random.random(len(source)) + 1, undirected=True)
    u, values, _ = np.linalg.svd(normalised(graph))
    assert values[4] > 1.3 * values[5]
    found = fitted(Spectral(5), graph)
    np.testing.assert_allclose(np.linalg.norm(found), np.linalg.norm(values[:5]), rtol=1e-4)
    np.testing.assert_allclose(found @ found.T, u[:, :5] * values[:5] ** 2 @ u[:, :5].T, atol=1e-3)


def test_spectral_finds_known_nodes_by_id_and_sums_them_for_others():
    graph = dataclasses.replace(tiny(60, 150), ids=np.array([f"n{i}" for i in range(60)]))
    part = Spectral(6)
    parameters = part.fit(REFERENCE.to_device(graph), REFERENCE)
    before = given(part, parameters, graph).features
    order = np.random.default_rng(0).permutation(60)
    place = np.empty(60, np.int64)
    place[order] = np.arange(60)
    source, target, _ = graph.edges()
    # Shuffled, with a node that knows two others: it changes their degrees, and so only their neighbours' rows.
    new = Graph.from_edges(
        [*place[source], 60, place[3], 60, place[8]],
        [*place[target], place[3], 60, place[8], 60],
        np.ones((61, 1)),
        ids=np.array([*(f"n{i}" for i in order), "new"]),
    )
    after = given(part, parameters, new).features
    a = neighbours(new)
    far = [i for i in range(60) if i not in (3, 8) and not a[place[i], [place[3], place[8], 60]].any()]
    assert len(far) > 30
    np.testing.assert_allclose(after[place[far]], before[far], atol=1e-5)
    kept, degree = parameters["rows"].numpy(), a.sum(1)
    expected = sum(kept[i] / np.sqrt(degree[60] * degree[place[i]]) for i in (3, 8))
    np.testing.assert_allclose(after[60], expected, atol=1e-5)


def test_spectral_knows_no_other_graph():
    part = Spectral(4)
    parameters = part.fit(REFERENCE.to_device(tiny()), REFERENCE)
    stranger = dataclasses.replace(tiny(), ids=np.array([f"n{i}" for i in range(40)]), name="stranger")
    with pytest.raises(DataError, match="stranger has none of the nodes that this model knows; it was fitted on their edges"):
        given(part, parameters, stranger)
    assert given(part, parameters, Graph.from_edges([], [], np.zeros((0, 2)))).features.shape == (0, 4)
