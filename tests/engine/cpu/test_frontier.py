"""Sampled steps: the rows of some nodes, against dense float64 matrices of all nodes or of those that boolean powers reach."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.engine import Drop, Dropout, Neighbors, View, cpu_engine, to_sparse_matrix
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.engine.cpu.kept_rows import MatrixKeptRows
from clnr.nn.encoders import GCN, MLP, BatchGCN, GaussianGCN, GCNAndMLP, MomentumEncoder, MultiViewEncoder, PReLUGCN
from tests import oracles
from tests.cases import pairs
from tests.conftest import tiny
from tests.engine.conftest import DROPS, EVERY, FUSED, GRAPHS, KEY, MASKS, random
from tests.engine.dense_views import DenseOperators, kept, propagation, reached

CHOICE = rng.key(1, "train", 0, "neighbors", 0)
WAYS = [*DROPS, "rates", "links", "some links"]


@pytest.fixture(autouse=True)
def sparse(monkeypatch):
    """Sparse features stay sparse, though they are few."""
    monkeypatch.setattr(CompiledEngine, "dense_above", 1.0)


def wanted(graph, count=4):
    """Some nodes in no order: the last, which is often isolated, the first, often a hub, and others."""
    others = np.random.default_rng(0).permutation(graph.num_nodes)
    return np.array(list(dict.fromkeys([graph.num_nodes - 1, 0, *others.tolist()]))[:count])


def view_of(engine, graph, way="half", mask="all", permuted=False, **more):
    """A view with edges dropped in one of the ways, or propagated by a matrix that is no graph's."""
    device_graph = engine.to_device(graph)
    nodes, drop, links = graph.num_nodes, DROPS.get(way), None
    if way == "rates":
        drop = Drop(KEY, torch.arange(len(device_graph.edges.rows), device=engine.device).double() * 3 % 10 / 10)
    if "links" in way:
        links = to_sparse_matrix(sp.csr_array(random(nodes, nodes) * (random(nodes, nodes, seed=3) > 0.8)), engine.device)
        drop = Drop(KEY, 0.5) if way == "some links" else None
    permutation = torch.arange(nodes, device=engine.device).roll(1) if permuted else None
    return View(device_graph, drop, MASKS[mask], permutation, links, **more)


def close(got, expected, rtol=2e-5, atol=2e-6):
    got, expected = (each.detach().cpu().double().numpy() for each in (got, expected))
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol * max(1, np.abs(expected).max(initial=0)))


# -- the frontier ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", GRAPHS)
def test_its_nodes_and_matrices_are_those_of_boolean_powers(name, way):
    graph = GRAPHS[name]
    view, nodes = view_of(cpu_engine(), graph, way), wanted(graph)
    frontier, a = view.device_graph.frontier(view, nodes), propagation(view)
    for hops in (2, 0, 1, 3):
        found = frontier.nodes(hops)
        assert len(set(found.tolist())) == len(found)
        assert set(found.tolist()) == reached(a, nodes, hops)
        np.testing.assert_array_equal(found[: len(nodes)], nodes)
        if hops:
            before, matrix = frontier.nodes(hops - 1), frontier.matrix(hops)
            np.testing.assert_array_equal(found[: len(before)], before)
            assert len(matrix.columns) == (kept(view)[before] != 0).sum()
            shape = len(before), len(found)
            dense = sp.csr_array((matrix.values, matrix.columns, matrix.indptr), shape=shape).toarray()
            np.testing.assert_allclose(dense, a[before][:, found], rtol=1e-5)


@pytest.mark.parametrize(
    ("encoder", "far"),
    [
        (MLP(2, 6, 5), 0),
        (GCN(1, 6, 5), 1),
        (GCN(2, 6, 5), 2),
        (GCNAndMLP(6), 1),
        (PReLUGCN(1, 6, 5), 1),
        (MomentumEncoder(2, 6, 5), 2),
        (MultiViewEncoder(2, 6, 5), 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("permuted", [False, True], ids=["plain", "permuted"])
def test_a_step_looks_only_at_edges_of_nodes_that_it_needs(monkeypatch, encoder, far, permuted):
    """Of nodes one hop nearer than the inputs entries are read, of the inputs themselves they are counted, for degrees."""
    graph, seen = tiny(200, 300), {"count": set(), "fill": set()}
    for name, rows in seen.items():
        whole = getattr(MatrixKeptRows, name)

        def spy(rule, nodes, *more, whole=whole, rows=rows):
            rows |= set(nodes.tolist())
            return whole(rule, nodes, *more)

        monkeypatch.setattr(MatrixKeptRows, name, spy)
    view, nodes = view_of(cpu_engine(), graph, permuted=permuted), wanted(graph, 5)
    operators = cpu_engine().sampled_operators(view, torch.tensor(nodes))
    rows = encoder.rows(encoder.init(graph.num_features, rng.key(0)), operators, 0)
    assert [len(each.materialize()) for each in rows] == [5] * len(rows)
    expected = [reached(propagation(view), nodes, hops) for hops in range(far + 1)]
    assert len(expected[-1]) < 100
    assert seen == {"count": expected[far] if far else set(), "fill": expected[far - 1] if far else set()}
    assert len(operators.within(far).features) == len(expected[far])


# -- rows and gradients ----------------------------------------------------------------------------------------------------


def outcome(operators, count, dtype, device="cpu", select=None):
    """Rows of the wanted nodes by every map, and the gradients of weights."""
    shapes = (count, 9), (9, 4), (4, 9), (9,), (4,)
    leaves = [
        torch.tensor(random(*shape, seed=i), dtype=dtype, device=device, requires_grad=True) for i, shape in enumerate(shapes)
    ]
    w, v, u, shift, bias = leaves
    near, nearer, at = (operators.within(hops) for hops in (2, 1, 0))
    hidden = near.convolve(w, shift)
    rows = [
        nearer.convolve(v, bias, hidden, relu=True),
        nearer.convolve(u, shift, near.propagate(near.project(w)) @ v),
        nearer.propagate(hidden, relu=True),
        nearer.convolve(w, shift),
        at.project(w, shift),
        at.project(w),
        at.features,
    ]
    rows = [each if select is None else each[select] for each in rows]
    targets = [torch.tensor(random(*each.shape, seed=9), dtype=dtype, device=device) for each in rows]
    sum((each * target).sum() for each, target in zip(rows, targets, strict=True)).backward()
    return [*rows, *(leaf.grad for leaf in leaves)]


def assert_like_the_whole(engine, graph, *how, neighbors=None):
    """Like all rows, of which some are selected."""
    nodes, view = wanted(graph), view_of(engine, graph, *how, neighbors=neighbors)
    operators = engine.sampled_operators(view, torch.tensor(nodes, device=engine.device))
    got = outcome(operators, graph.num_features, torch.float32, engine.device)
    expected = outcome(DenseOperators(view.bounded()), graph.num_features, torch.float64, select=nodes)
    for one, other in zip(got, expected, strict=True):
        close(one, other)


@pytest.mark.parametrize(("name", "way", "mask"), pairs(GRAPHS, WAYS, MASKS))
def test_a_frontiers_rows_and_gradients_are_those_of_the_whole(name, way, mask):
    for permuted in (False, True):
        assert_like_the_whole(cpu_engine(), GRAPHS[name], way, mask, permuted)


@pytest.mark.parametrize(
    ("name", "way", "neighbors"),
    pairs(
        ["usual", "directed, weighted, sparse", "loops of its own"],
        ["half", "rates", "some links"],
        [None, Neighbors(CHOICE, 2)],
    ),
)
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_every_engines_sampled_rows_are_those_of_the_whole(engine, name, way, neighbors):
    assert_like_the_whole(engine, GRAPHS[name], way, "columns", neighbors=neighbors)


@pytest.mark.full
@pytest.mark.parametrize("neighbors", [None, Neighbors(CHOICE, 1)], ids=["all", "one"])
@pytest.mark.parametrize("way", ["half", "some links"])
@pytest.mark.parametrize("engine", FUSED, indirect=True)
def test_kernels_sampled_rows_are_those_of_the_whole(engine, way, neighbors):
    assert_like_the_whole(engine, GRAPHS["loops of its own"], way, "columns", neighbors=neighbors)


@pytest.mark.parametrize("engine", FUSED, indirect=True)
def test_a_bound_on_neighbours_needs_no_new_layout(engine, monkeypatch):
    """To lay a matrix out waits for a GPU, in every step."""
    view = view_of(engine, GRAPHS["usual"], neighbors=Neighbors(CHOICE, 2))
    engine.prepare(view)
    monkeypatch.setattr(engine.kernels, "prepare", None)
    h = torch.tensor(random(view.device_graph.graph.num_nodes, 3), dtype=torch.float32, device=engine.device)
    close(engine.operators(view.bounded()).propagate(h), DenseOperators(view.bounded()).propagate(h.cpu().double()))


ENCODERS = [GCN(1, 6, 5), GCN(2, 6, 5), GCN(2, 6, 8), GCN(3, 7, 5), PReLUGCN(2, 6, 5), GaussianGCN(2, 6, 3)]
ENCODERS += [MultiViewEncoder(2, 6, 5)]
BATCHED = [MLP(1, 6, 5), MLP(3, 6, 5), GCNAndMLP(6), BatchGCN(1, 6, 5), BatchGCN(2, 6, 5), MomentumEncoder(2, 6, 5)]
USUAL = ["usual", "weighted", "directed, weighted, sparse", "no edges", "star", "loops of its own"]


def encoded(encoder, operators, count, dtype, select=None):
    """An encoder's rows, and the gradients of its parameters."""
    parameters = {name: value.to(dtype) for name, value in encoder.init(count, rng.key(3)).items()}
    # Biases, scales and shifts of their own, too.
    parameters = {
        name: (value + 0.1 * torch.arange(value.numel()).reshape(value.shape).cos()) for name, value in parameters.items()
    }
    parameters = {name: value.to(dtype).requires_grad_() for name, value in parameters.items()}
    rows = [each.materialize() for each in encoder.rows(parameters, operators, 0)]
    rows = [each if select is None else each[select] for each in rows]
    loss = sum((each * torch.tensor(random(*each.shape), dtype=dtype)).sum() for each in rows)
    # Of two encoders one view has maybe one, and of what follows another there are no gradients.
    return [*rows, *torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)]


@pytest.mark.parametrize(("encoder", "name", "dropped"), pairs(ENCODERS, USUAL, [False, True]), ids=str)
def test_encoders_compute_the_same_rows_of_some_nodes(encoder, name, dropped):
    graph = GRAPHS[name]
    view, nodes = (
        view_of(cpu_engine(), graph, "half", "columns", dropout=Dropout(KEY, 0.4) if dropped else None),
        wanted(graph, 12),
    )
    got = encoded(encoder, cpu_engine().sampled_operators(view, torch.tensor(nodes)), graph.num_features, torch.float32)
    whole = encoded(encoder, DenseOperators(view), graph.num_features, torch.float64, select=nodes)
    for one, other in zip(got, whole, strict=True):
        close(one, other)


@pytest.mark.parametrize(("encoder", "name", "way"), pairs(BATCHED, USUAL, ["half", "pairs", "rates", "all"]), ids=str)
def test_a_batch_is_the_nodes_that_a_layer_computes(encoder, name, way):
    graph = GRAPHS[name]
    view, nodes = view_of(cpu_engine(), graph, way, "elements"), wanted(graph, 12)
    got = encoded(encoder, cpu_engine().sampled_operators(view, torch.tensor(nodes)), graph.num_features, torch.float32)
    own = encoded(encoder, DenseOperators(view, nodes), graph.num_features, torch.float64)
    for one, other in zip(got, own, strict=True):
        # A column that hardly varies within the batch is scaled up, and its rounding with it.
        close(one, other, rtol=1e-3, atol=1e-4)


def test_the_same_bits_with_any_number_of_threads():
    graph = tiny(500, 4000, weighted=True)
    nodes, results = torch.tensor(wanted(graph, 50)), []
    for threads in (1, 2, 2, 1):
        torch.set_num_threads(threads)
        view = view_of(cpu_engine(), graph, neighbors=Neighbors(CHOICE, 5))
        operators = cpu_engine().sampled_operators(view, nodes)
        near = operators.within(2)
        h = torch.tensor(random(len(near.nodes), 6), dtype=torch.float32, requires_grad=True)
        rows = operators.within(1).propagate(near.propagate(h), relu=True)
        results.append((near.nodes, rows, *torch.autograd.grad(rows.square().sum(), h)))
    torch.set_num_threads(1)
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))


# -- a bound on neighbours -------------------------------------------------------------------------------------------------


def bounded(a, key, most):
    """Row by row: of too many neighbours those that are taken, with more weight."""
    a = a.copy()
    for i, row in enumerate(a):
        others = [j for j in np.flatnonzero(row).tolist() if j != i]
        n = len(others)
        for p, j in enumerate(others if n > most else []):
            at = oracles.draw(key, i) % n + p * most
            # The counter passes a multiple of n.
            row[j] *= n / most if (at + most) // n > at // n else 0
    return a


@pytest.mark.parametrize(("name", "way", "most"), pairs(GRAPHS, WAYS, [1, 3]))
def test_of_too_many_neighbours_so_many_are_taken_with_more_weight(name, way, most):
    graph, neighbors = GRAPHS[name], Neighbors(CHOICE, most)
    view, nodes = view_of(cpu_engine(), graph, way, neighbors=neighbors), np.arange(graph.num_nodes)
    a, matrix = propagation(view), view.device_graph.frontier(view, nodes).matrix(1)
    got = sp.csr_array((matrix.values, matrix.columns, matrix.indptr), shape=a.shape).toarray()
    np.testing.assert_allclose(got, bounded(a, CHOICE[:2], most), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(kept(view.bounded()), got, rtol=1e-5, atol=1e-7)
    apart = ~np.eye(len(a), dtype=bool)
    np.testing.assert_array_equal((got * apart != 0).sum(1), np.minimum((a * apart != 0).sum(1), most))
    np.testing.assert_allclose(got.diagonal(), a.diagonal(), rtol=1e-5)
    assert len(matrix.columns) == (got != 0).sum()


@pytest.mark.full
def test_a_bound_takes_each_neighbour_as_often_and_keeps_the_mean():
    graph = GRAPHS["star"]
    nodes, h = torch.tensor([0]), torch.tensor(random(31, 2), dtype=torch.float32)
    view = view_of(cpu_engine(), graph)
    exact = cpu_engine().sampled_operators(view, nodes)
    rows, near = [], exact.within(1).nodes
    taken, most, count = np.zeros(31), 4, 1000
    for epoch in range(count):
        drawn = view._replace(neighbors=Neighbors(rng.key(0, "train", 0, "neighbors", epoch), most))
        maps = cpu_engine().sampled_operators(drawn, nodes).within(1)
        rows.append(maps.propagate(h[maps.nodes]).numpy()[0])
        taken[maps.nodes.numpy()] += 1
    chance = most / (len(near) - 1)
    error = np.sqrt(count * chance * (1 - chance))
    others = near.numpy()[1:]
    assert taken[0] == count
    assert taken.sum() == count * (most + 1)
    assert np.abs(taken[others] - count * chance).max() < 4 * error
    expected = exact.within(1).propagate(h[near]).numpy()[0]
    spread = np.std(rows, 0) / np.sqrt(count)
    assert (spread > 0).all()
    assert (np.abs(np.mean(rows, 0) - expected) < 4 * spread).all()


def test_a_bound_that_no_node_reaches_changes_no_bit():
    graph = tiny(300, 2000, weighted=True)
    nodes = torch.tensor(wanted(graph, 40))
    free, far = (
        outcome(
            cpu_engine().sampled_operators(view_of(cpu_engine(), graph, neighbors=each), nodes),
            graph.num_features,
            torch.float32,
        )
        for each in (None, Neighbors(CHOICE, 1000))
    )
    assert all(torch.equal(one, other) for one, other in zip(free, far, strict=True))


def test_all_nodes_know_no_bound():
    graph = GRAPHS["star"]
    h = torch.tensor(random(31, 2), dtype=torch.float32)
    one, other = (
        cpu_engine().operators(view_of(cpu_engine(), graph, neighbors=each)).propagate(h)
        for each in (None, Neighbors(CHOICE, 1))
    )
    assert torch.equal(one, other)
