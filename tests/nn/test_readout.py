import weakref

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from clnr.engine import Reference, View, cpu_engine
from clnr.errors import RecipeError
from clnr.graph import Graph
from clnr.nn.edge_blocks import MIXES, EdgeWeight, Mix, Walks
from clnr.nn.inputs import STEPS
from clnr.nn.readout import Readout
from clnr.nn.readout_blocks import (
    Family,
    FeatureHops,
    Hops,
    OwnFeatures,
    PropagatedFeatures,
    fitted_nodes,
)
from clnr.nn.structure import walks
from clnr.nn.whole_rows import WholeRows
from tests import oracles
from tests.conftest import tiny
from tests.nn.dense_graphs import GRAPHS, unit

REFERENCE = Reference(torch.device("cpu"))
ENGINES = pytest.mark.parametrize("engine", [REFERENCE, cpu_engine()], ids=["reference", "cpu"])


def context(graph, *encoded, engine=REFERENCE, own=(), nodes=None):
    rows = [torch.tensor(each, dtype=torch.float32) for each in encoded]
    return WholeRows(engine, View(engine.to_device(graph)), rows, own, nodes)


def blocks(part, graph, *encoded, engine=REFERENCE, other=None):
    """The matrices of a block, fitted on a graph, of this graph or another."""
    parameters = part.fit(context(graph, *encoded, engine=engine))
    of = other or graph
    rows = context(of, *encoded, engine=engine, nodes=np.arange(of.num_nodes))
    return [each.numpy() for each in rows.matrices(part.products(parameters, len(encoded)))]


def gram(rows):
    return rows @ rows.T


def centred(rows):
    return rows - rows.mean(0)


@ENGINES
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("hops", [0, 1, 3])
def test_hops_propagate_each_encoders_output(name, hops, engine):
    graph = GRAPHS[name]
    z = np.random.default_rng(0).standard_normal((2, graph.num_nodes, 4))
    a = oracles.propagation(graph)
    expected = [np.linalg.matrix_power(a, k) @ each for each in z for k in range(hops + 1)]
    found = blocks(Hops(hops), graph, *z, engine=engine)
    assert len(found) == len(expected) == 2 * (hops + 1)
    for each, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(each, right, atol=1e-5)


@ENGINES
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("part", "steps"), [(OwnFeatures, [0]), (PropagatedFeatures, [2]), (FeatureHops, [0, 1, 2])])
def test_as_many_directions_as_features_lose_nothing(name, part, steps, engine):
    graph = GRAPHS[name]
    x, a = oracles.dense(graph.features), oracles.propagation(graph)
    found = blocks(part(99), graph, engine=engine)
    assert len(found) == len(steps)
    for each, step in zip(found, steps, strict=True):
        np.testing.assert_allclose(gram(each), gram(np.linalg.matrix_power(a, step) @ x), atol=1e-4)


def planted(nodes=50, features=30, rank=4, seed=0):
    """Features whose first singular values stand out."""
    random = np.random.default_rng(seed)
    graph = tiny(nodes, 120, seed=seed)
    x = random.standard_normal((nodes, rank)) * [9, 7, 5, 4] @ random.standard_normal((rank, features))
    x += 0.3 * random.standard_normal((nodes, features))
    source, target, _ = graph.edges()
    return Graph.from_edges(source, target, x)


@ENGINES
@pytest.mark.parametrize("most", [30, 29], ids=["inner products", "iteration"])
@pytest.mark.parametrize(("part", "steps"), [(OwnFeatures, [0]), (PropagatedFeatures, [2]), (FeatureHops, [0, 1, 2])])
def test_features_are_reduced_by_numpys_svd(part, steps, most, engine, monkeypatch):
    monkeypatch.setattr("clnr.nn.readout_blocks.MOST_INNER_PRODUCTS", most)
    graph = planted()
    x, a = oracles.dense(graph.features), oracles.propagation(graph)
    base = a @ a @ x if part is PropagatedFeatures else x
    _, _, v = np.linalg.svd(base)
    reduced = x @ v[:4].T @ v[:4]
    for each, step in zip(blocks(part(4, 4), graph, engine=engine), steps, strict=True):
        right = gram(np.linalg.matrix_power(a, step) @ reduced)
        np.testing.assert_allclose(gram(each), right, atol=2e-3 * np.abs(right).max())


@ENGINES
@pytest.mark.parametrize("part", [OwnFeatures, PropagatedFeatures])
def test_many_features_of_many_nodes_are_reduced_by_a_sample(part, engine, monkeypatch):
    sizes = {"MOST_INNER_PRODUCTS": 9, "FITTED_NODES": 45, "ITERATED_NODES": 42, "ITERATED_NEIGHBORS": 50}
    for name, size in sizes.items():
        monkeypatch.setattr(f"clnr.nn.readout_blocks.{name}", size)
    graph = planted()
    x, a = oracles.dense(graph.features), oracles.propagation(graph)
    some, all_rows = (x[fitted_nodes(50)], x) if part is OwnFeatures else ((a @ x)[fitted_nodes(50, 42)], a @ a @ x)
    spaces = [v[:2].T @ v[:2] for _, _, v in map(np.linalg.svd, (some, all_rows))]
    found = part(2, 2).fit(context(graph, engine=engine))["directions"].numpy()
    np.testing.assert_allclose(found @ found.T, spaces[0], atol=1e-3)
    assert np.abs(found @ found.T - spaces[1]).max() > 0.01
    # Of neighbours that are left out nothing is known.
    monkeypatch.setattr("clnr.nn.readout_blocks.ITERATED_NEIGHBORS", 1)
    fewer = part(2, 2).fit(context(graph, engine=engine))["directions"].numpy()
    assert (np.abs(fewer @ fewer.T - spaces[0]).max() > 0.01) == (part is PropagatedFeatures)


@pytest.mark.parametrize("part", [OwnFeatures, PropagatedFeatures])
def test_another_graph_is_reduced_along_the_same_directions(part):
    graph, other = planted(), planted(seed=1)
    parameters = part(4, 4).fit(context(graph))
    (found,) = context(other).matrices(part(4, 4).products(parameters, 0))
    x, a = oracles.dense(other.features), oracles.propagation(other)
    base = a @ a @ x if part is PropagatedFeatures else x
    np.testing.assert_allclose(found.numpy(), base @ parameters["directions"].numpy(), rtol=1e-3, atol=1e-3)


def test_walks_are_side_by_side():
    graph = tiny()
    (block,) = blocks(Walks(5), graph)
    np.testing.assert_array_equal(block, torch.cat(walks(REFERENCE, REFERENCE.to_device(graph), 5, STEPS), 1).numpy())


def embedded(readout, graph, *encoded, engine=REFERENCE):
    seen = context(graph, *encoded, engine=engine)
    parameters = readout.fit(seen)
    return parameters, readout(parameters, seen).numpy()


def standing(*sized):
    """Blocks centred, their rows scaled to a root mean square length, side by side."""
    return np.concatenate([size * centred(rows) / np.sqrt((centred(rows) ** 2).sum() / len(rows)) for size, rows in sized], 1)


def resized(rows, dimension):
    """All rows times one factor, so that their root mean square length is the root of the dimension."""
    return rows * np.sqrt(dimension * len(rows) / (rows**2).sum())


@ENGINES
@pytest.mark.parametrize("outputs", [0, 2])
@pytest.mark.parametrize("dimension", [3, 40])
@pytest.mark.parametrize("name", ["directed", "sparse features", "weighted"])
def test_rows_are_all_matrices_times_their_weights(name, dimension, outputs, engine, monkeypatch):
    """In whatever order they are multiplied and propagated: features may be more than the dimension, or fewer."""
    graph = GRAPHS[name]
    monkeypatch.setattr("clnr.nn.readout_blocks.FITTED_NODES", graph.num_nodes // 2)
    monkeypatch.setattr("clnr.nn.whole_rows._COLUMNS", 5)
    encoded = np.random.default_rng(9).standard_normal((outputs, graph.num_nodes, 4))
    parts = Hops(2), OwnFeatures(5), PropagatedFeatures(5), FeatureHops(4), Walks(3)
    parameters, found = embedded(Readout(parts[not outputs :], dimension), graph, *encoded, engine=engine)
    a, x, (paths,) = oracles.propagation(graph), oracles.dense(graph.features), blocks(Walks(3), graph)
    own, far, hops = (x @ value.numpy() for name, value in parameters.items() if name.endswith("directions"))
    matrices = [np.linalg.matrix_power(a, hop) @ z for z in encoded for hop in range(3)]
    matrices += [own, a @ a @ far, hops, a @ hops, a @ a @ hops, paths]
    expected = np.concatenate(matrices, 1) @ parameters["weight"].numpy() + parameters["bias"].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    # It is centred and scaled by the rows of some nodes alone.
    some = found[fitted_nodes(graph.num_nodes).numpy()]
    assert len(some) == graph.num_nodes // 2
    np.testing.assert_allclose(some.mean(0), 0, atol=1e-4)
    assert (some**2).sum(1).mean() == pytest.approx(dimension, rel=1e-3)


def test_hops_of_a_read_out_are_not_all_in_memory(monkeypatch):
    """At each moment rows, and what they become: more would be as many as there are hops."""
    made, most = [], 0

    def empty(rows, columns, device):
        nonlocal most
        array = np.empty((rows, columns), np.float32)
        made.extend([weakref.ref(array)] if rows == 40 else [])
        most = max(most, sum(each() is not None for each in made))
        return torch.from_numpy(array)

    monkeypatch.setattr("clnr.engine.cpu.csr_arrays.empty_rows", empty)
    monkeypatch.setattr("clnr.nn.readout_blocks.FITTED_NODES", 10)
    z = np.random.default_rng(0).standard_normal((3, 40, 4))
    embedded(Readout((Hops(8), OwnFeatures(5), PropagatedFeatures(5)), 4), tiny(), *z, engine=cpu_engine())
    assert len(made) > 3 * 8
    assert most == 2


def test_reduced_as_by_scikit_learns_pca():
    graph = tiny(200, 500)
    random = np.random.default_rng(0)
    z = random.standard_normal((200, 10)) * 0.7 ** np.arange(10) @ random.standard_normal((10, 10)) + 5
    _, found = embedded(Readout((Hops(1),), 4), graph, z)
    a = oracles.propagation(graph)
    whole = standing((1.0, z), (1.0, a @ z))
    pca = PCA(4).fit(whole)
    assert found.shape == (200, 4)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-4)
    variance = np.linalg.eigvalsh(np.cov(found.T))[::-1]
    explained = pca.explained_variance_ / pca.explained_variance_.sum()
    np.testing.assert_allclose(variance / variance.sum(), explained, rtol=2e-3)
    np.testing.assert_allclose(gram(found), gram(resized(pca.transform(whole), 4)), atol=1e-2)


def test_columns_have_about_the_same_variance():
    random = np.random.default_rng(0)
    z = random.standard_normal((500, 64)) * 0.9 ** np.arange(64)
    _, found = embedded(Readout((Hops(0),), 64), tiny(500, 900), z)
    components = PCA(64).fit(z).explained_variance_
    assert components.max() / components.min() > 1e4
    assert found.var(0).max() / found.var(0).min() < 12


def test_each_block_has_its_size():
    graph = tiny()
    random = np.random.default_rng(2)
    small, large = random.standard_normal((40, 3)) * 1e-3, random.standard_normal((40, 5)) * 1e4 + 1e4
    (paths,) = blocks(Walks(4), graph)
    _, found = embedded(Readout((Hops(0),), 99), graph, small, large)
    # One for each encoder's output, whatever its scale.
    np.testing.assert_allclose(gram(found), gram(resized(standing((1.0, small), (1.0, large)), 99)), rtol=1e-3, atol=1e-2)
    _, both = embedded(Readout((Hops(0), Walks(4)), 99), graph, small)
    np.testing.assert_allclose(gram(both), gram(resized(standing((1.0, small), (0.7, paths)), 99)), rtol=1e-3, atol=1e-2)


@ENGINES
def test_unit_rows_are_scaled_before_they_are_propagated(engine):
    graph = tiny()
    z = np.random.default_rng(7).standard_normal((40, 3))
    z[3] = 0
    own, further = blocks(Hops(1, "unit"), graph, z, engine=engine)
    np.testing.assert_allclose(own, unit(z), atol=1e-6)
    np.testing.assert_allclose(further, oracles.propagation(graph) @ unit(z), atol=1e-5)


def test_another_graph_is_centred_and_scaled_as_the_first():
    graph, other = tiny(), tiny(seed=5)
    random = np.random.default_rng(3)
    z, y = random.standard_normal((2, 40, 3)) + 2
    readout = Readout((Hops(0),), 3)
    parameters, _ = embedded(readout, graph, z)
    found = readout(parameters, context(other, y)).numpy()
    scale = np.sqrt((centred(z) ** 2).sum() / 40)
    np.testing.assert_allclose(gram(found), 3 * gram((y - z.mean(0)) / scale), atol=3e-4)


@pytest.mark.parametrize("value", [0.0, 1.0, 1234.5])
def test_a_block_without_differences_is_left_out(value):
    graph = tiny()
    z = np.random.default_rng(4).standard_normal((40, 3))
    _, found = embedded(Readout((Hops(0),), 9), graph, z, np.full((40, 2), value))
    _, alone = embedded(Readout((Hops(0),), 9), graph, z)
    np.testing.assert_allclose(gram(found), gram(alone), atol=1e-4)
    _, nothing = embedded(Readout((Hops(0),), 9), graph, np.full((40, 2), value))
    assert nothing.shape == (40, 2)
    np.testing.assert_allclose(nothing, 0, atol=1e-5)


@ENGINES
@pytest.mark.parametrize("name", GRAPHS)
def test_any_graph_has_a_read_out(name, engine):
    graph = GRAPHS[name]
    z = np.random.default_rng(5).standard_normal((graph.num_nodes, 4))
    readout = Readout((Hops(1), OwnFeatures(5), PropagatedFeatures(5), FeatureHops(2), Walks(3), EdgeWeight("measured")), 7)
    parameters, found = embedded(readout, graph, z, engine=engine)
    assert found.shape == (graph.num_nodes, 7)
    assert sum(readout.widths(graph.num_features, [4])) == len(parameters["weight"])
    assert np.isfinite(found).all()
    assert all(value.isfinite().all() for value in parameters.values())


def test_many_rows_are_summed_in_parts(monkeypatch):
    graph = tiny(200, 500)
    z = np.random.default_rng(6).standard_normal((200, 6))
    _, whole = embedded(Readout((Hops(1),), 12), graph, z)
    monkeypatch.setattr("clnr.nn.readout.ROWS", 7)
    _, parts = embedded(Readout((Hops(1),), 12), graph, z)
    np.testing.assert_allclose(gram(parts), gram(whole), atol=1e-4)


def test_blocks_of_no_columns_are_left_out():
    graph = tiny()
    z = np.random.default_rng(6).standard_normal((graph.num_nodes, 6))
    parameters, found = embedded(
        Readout((Hops(1), OwnFeatures(0), PropagatedFeatures(0), FeatureHops(0), Walks(0)), 5), graph, z
    )
    assert set(parameters) == {"weight", "bias"}
    assert (found == embedded(Readout((Hops(1),), 5), graph, z)[1]).all()
    with pytest.raises(RecipeError, match="reduced must be above 0"):
        embedded(Readout((OwnFeatures(0),), 5), graph)


@pytest.fixture
def weighed(monkeypatch):
    """Edges weigh 0.3; which rows that was measured by."""
    asked = []

    def measured(draw, own, count):
        asked.append([read(np.arange(count)).numpy() for read in own])
        return 0.3

    monkeypatch.setattr("clnr.nn.edge_information.edge_weight", measured)
    return asked


def test_matrices_from_edges_have_the_weight_that_is_measured(weighed):
    graph = tiny()
    z, y = np.random.default_rng(8).standard_normal((2, 40, 3))
    readout = Readout((Hops(1), OwnFeatures(99), PropagatedFeatures(99), Walks(4), EdgeWeight("measured")), 99)
    seen = context(graph, z, y, own=(1,))
    parameters = readout.fit(seen)
    found = readout(parameters, seen).numpy()
    a, x, (paths,) = oracles.propagation(graph), oracles.dense(graph.features), blocks(Walks(4), graph)
    from_edges = [(0.3, z), (0.3, a @ z), (0.3, a @ y), (0.3, a @ a @ x), (0.21, paths)]
    whole = standing((1.0, y), (1.0, x), *from_edges)
    np.testing.assert_allclose(gram(found), gram(resized(whole, 99)), atol=1e-2)
    ((rows, features),) = weighed
    np.testing.assert_allclose(rows, y, atol=1e-6)
    np.testing.assert_allclose(gram(features), gram(x), atol=1e-4)
    assert parameters["block.4.weight"] == pytest.approx(0.3)


def test_rows_of_many_nodes_are_measured_as_they_are_read(weighed, monkeypatch):
    readout, graph = Readout((OwnFeatures(5), Walks(4), EdgeWeight("measured")), 9), tiny()
    _, whole = embedded(readout, graph)
    monkeypatch.setattr("clnr.nn.edge_information.MOST_COMPARED", 39)
    _, read = embedded(readout, graph)
    (first,), (second,) = weighed
    np.testing.assert_allclose(second, first, atol=1e-6)
    np.testing.assert_allclose(read, whole, atol=1e-5)


def test_equal_blocks_are_not_measured(weighed):
    graph = tiny()
    plain, without = embedded(Readout((OwnFeatures(8), Walks(3), EdgeWeight()), 9), graph)
    assert (without == embedded(Readout((OwnFeatures(8), Walks(3)), 9), graph)[1]).all()
    assert not weighed
    assert "block.2.weight" not in plain


@pytest.mark.parametrize(
    "others",
    [(), (Walks(3), Hops(1)), (OwnFeatures(4),)],
    ids=["none", "of edges", "of nodes"],
)
def test_where_nothing_can_be_weighed_all_keep_their_sizes(others, weighed):
    graph = tiny()
    z = np.random.default_rng(8).standard_normal((40, 3))
    given = () if others == (OwnFeatures(4),) else (z,)
    some = others or (Hops(0),)
    parameters, found = embedded(Readout((*some, EdgeWeight("measured")), 9), graph, *given)
    assert not weighed
    assert parameters[f"block.{len(some)}.weight"] == 1
    assert (found == embedded(Readout(some, 9), graph, *given)[1]).all()


def test_a_weight_below_1_is_told(weighed):
    readout = Readout((OwnFeatures(8), Walks(3), EdgeWeight("measured")), 9)
    parameters, _ = embedded(readout, tiny())
    (line,) = readout.remarks(parameters)
    assert line.startswith("edges are weakly informative here: they weigh 0.30 in the vectors")
    for equal in (1.0, 0.97):
        assert readout.remarks({**parameters, "block.2.weight": torch.tensor(equal)}) == []
    assert Readout((OwnFeatures(8), EdgeWeight()), 9).remarks({}) == []


@ENGINES
def test_a_mix_leaves_out_all_other_matrices(engine):
    graph = planted()
    a, x, (paths,) = oracles.propagation(graph), oracles.dense(graph.features), blocks(Walks(4), graph)
    z = np.random.default_rng(3).standard_normal((graph.num_nodes, 6))
    matrices = {"NEIGHBORS": [z, a @ z], "FEATURES": [x], "PROPAGATED": [a @ a @ x], "WALKS": [paths]}
    parts = Hops(1), OwnFeatures(99), PropagatedFeatures(99), Walks(4)
    for mix in ("features", "propagated+walks", "neighbors", "no-walks"):
        _, found = embedded(Readout((*parts, Mix(mix)), 99), graph, z, engine=engine)
        named = [name for name in matrices if Family[name] in MIXES[mix]]
        kept = [(0.7 if name == "WALKS" else 1, rows) for name in named for rows in matrices[name]]
        # All of the columns are kept, and all of their inner products.
        np.testing.assert_allclose(gram(found), gram(resized(standing(*kept), 99)), atol=1e-2)
    with pytest.raises(RecipeError, match="none of the columns that mix asks for"):
        embedded(Readout((Walks(4), Mix("features")), 9), graph, engine=engine)


@pytest.mark.parametrize("some", [False, True])
def test_trials_are_what_other_read_outs_would_make(some, monkeypatch):
    graph = planted()
    if some:
        monkeypatch.setattr("clnr.nn.readout_blocks.FITTED_NODES", graph.num_nodes // 2)
    z = np.random.default_rng(3).standard_normal((graph.num_nodes, 6))
    parts = Hops(1), OwnFeatures(9), PropagatedFeatures(9), Walks(4), EdgeWeight("measured")
    usual = Readout((*parts, Mix("all")), 12)
    others = [Readout((*parts, Mix(mix)), 12) for mix in MIXES]
    nodes = np.array([0, 3, 17, 40])
    seen = context(graph, z, nodes=np.union1d(nodes, fitted_nodes(graph.num_nodes)))
    sampled = usual.fit_blocks(seen)[1]
    tried = list(usual.try_others(sampled, others, seen.places(nodes)))
    for other, found in zip(others, tried, strict=True):
        _, expected = embedded(other, graph, z)
        expected = expected[nodes]
        # Directions of nearly equal variance may be turned; distances and angles stay.
        np.testing.assert_allclose(gram(found.numpy()), gram(expected), atol=2e-2 * np.abs(gram(expected)).max())


def test_a_read_out_without_columns_is_not_tried():
    graph = planted()
    usual, empty = (Readout((OwnFeatures(9), Mix(mix)), 5) for mix in ("all", "walks"))
    seen = context(graph)
    first, second = usual.try_others(usual.fit_blocks(seen)[1], [empty, usual], torch.arange(5))
    assert first is None
    assert second.shape == (5, 5)
