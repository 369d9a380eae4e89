"""Sampled steps: the rows of some nodes, against dense float64 matrices of all nodes or of those that boolean powers reach."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.engine import Drop, Dropout, Neighbors, View, cpu_engine, to_sparse_matrix
from clnr.engine.blocks import frontier_of
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.engine.cpu.csr_arrays import GraphRows
from clnr.nn.encoders.gcn import GCN, BatchGCN, GaussianGCN, PReLUGCN
from clnr.nn.encoders.mlp import MLP
from clnr.nn.encoders.paired_encoders import GCNAndMLP, MomentumEncoder, MultiViewEncoder
from tests import oracles
from tests.cases import pairs
from tests.conftest import tiny
from tests.engine.conftest import DROPS, EVERY, FUSED, GRAPHS, KEY, MASKS, random
from tests.engine.dense_views import DenseOperators, assert_rows_of_the_whole, close, kept, propagation, reached

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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", GRAPHS)
def test_its_nodes_and_matrices_are_those_of_boolean_powers(name, way):
    graph = GRAPHS[name]
    view, nodes = view_of(cpu_engine(), graph, way), wanted(graph)
    frontier, a = frontier_of(view, nodes), propagation(view)
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
        whole = getattr(GraphRows, name)

        def spy(rule, nodes, *more, whole=whole, rows=rows):
            rows |= set(nodes.tolist())
            return whole(rule, nodes, *more)

        monkeypatch.setattr(GraphRows, name, spy)
    view, nodes = view_of(cpu_engine(), graph, permuted=permuted), wanted(graph, 5)
    operators = cpu_engine().sampled_operators(view, torch.tensor(nodes))
    rows = encoder.rows(encoder.init(graph.num_features, rng.key(0)), operators, 0)
    assert [len(each.materialize()) for each in rows] == [5] * len(rows)
    expected = [reached(propagation(view), nodes, hops) for hops in range(far + 1)]
    assert len(expected[-1]) < 100
    assert seen == {"count": expected[far] if far else set(), "fill": expected[far - 1] if far else set()}
    assert len(operators.within(far).features) == len(expected[far])


@pytest.mark.parametrize(("name", "way", "mask"), pairs(GRAPHS, WAYS, MASKS))
def test_a_frontiers_rows_and_gradients_are_those_of_the_whole(name, way, mask):
    for permuted in (False, True):
        assert_rows_of_the_whole(cpu_engine(), view_of(cpu_engine(), GRAPHS[name], way, mask, permuted), wanted(GRAPHS[name]))


@pytest.mark.parametrize(
    ("name", "way", "neighbors"),
    pairs(["small", "loops of its own"], ["half", "rates", "some links"], [None, Neighbors(CHOICE, 2)]),
)
@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_every_engines_sampled_rows_are_those_of_the_whole(engine, name, way, neighbors):
    graph = GRAPHS.get(name) or tiny(12, 24, 6, undirected=False, weighted=True, sparse=True)
    assert_rows_of_the_whole(engine, view_of(engine, graph, way, "columns", neighbors=neighbors), wanted(graph))


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
    a, matrix = propagation(view), frontier_of(view, nodes).matrix(1)
    got = sp.csr_array((matrix.values, matrix.columns, matrix.indptr), shape=a.shape).toarray()
    np.testing.assert_allclose(got, bounded(a, CHOICE[:2], most), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(kept(view.bounded()), got, rtol=1e-5, atol=1e-7)
    apart = ~np.eye(len(a), dtype=bool)
    np.testing.assert_array_equal((got * apart != 0).sum(1), np.minimum((a * apart != 0).sum(1), most))
    np.testing.assert_allclose(got.diagonal(), a.diagonal(), rtol=1e-5)
    assert len(matrix.columns) == (got != 0).sum()


def test_all_nodes_know_no_bound():
    graph = GRAPHS["star"]
    h = torch.tensor(random(31, 2), dtype=torch.float32)
    one, other = (
        cpu_engine().operators(view_of(cpu_engine(), graph, neighbors=each)).propagate(h)
        for each in (None, Neighbors(CHOICE, 1))
    )
    assert torch.equal(one, other)
