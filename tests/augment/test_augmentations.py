import math

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.augment import diffusion
from clnr.augment.augmentations import (
    AdaptiveDropEdges,
    AdaptiveMaskFeatures,
    Diffuse,
    DropEdges,
    EncoderDropout,
    ShuffleNodes,
)
from clnr.augment.centrality import CENTRALITIES
from clnr.engine import View, cpu_engine
from clnr.graph import Graph
from clnr.methods import CLNR, DGI, GCA, MVGRL, SUPERVISED_GCN
from clnr.methods.recipe import Recipe
from tests import oracles
from tests.conftest import tiny

ENGINE = cpu_engine()
PLACED = ENGINE.to_device(tiny(200, 900, 50))
KEY = rng.key(0, "x")


def device_graph(source, target, features, **more):
    return ENGINE.to_device(Graph.from_edges(source, target, features, **more))


def edge_rates(device_graph, rate, centrality="degree"):
    """By (source, target)."""
    drop = AdaptiveDropEdges(rate, centrality)(View(device_graph), KEY).drop
    ends = zip(device_graph.edges.columns.tolist(), device_graph.edges.rows.tolist(), strict=True)
    return dict(zip(ends, drop.rate.tolist(), strict=True))


def test_pairs_keep_a_view_symmetric_and_directions_do_not():
    for drop, symmetric in (("pairs", True), ("directions", False)):
        kept = DropEdges(0.5, drop)(View(PLACED), KEY).drop.keep(PLACED.edges)
        edges = {(i, j) for i, j in zip(PLACED.edges.columns[kept].tolist(), PLACED.edges.rows[kept].tolist(), strict=True)}
        assert (edges == {(j, i) for i, j in edges}) is symmetric
        assert all((i, i) in edges for i in range(200))


def test_a_view_is_a_function_of_seed_epoch_and_view():
    model = CLNR.build(Recipe())

    def kept(seed, epoch, view, stream="train"):
        looked = model.augment(PLACED, seed, stream, epoch)[view]
        return torch.cat([looked.drop.keep(PLACED.edges), looked.mask.of_columns(50, torch.device("cpu"))])

    base = kept(0, 0, 0)
    kept(9, 9, 1)
    assert torch.equal(base, kept(0, 0, 0))
    for other in (kept(1, 0, 0), kept(0, 1, 0), kept(0, 0, 1), kept(0, 0, 0, "measure")):
        assert not torch.equal(base, other)


@pytest.mark.parametrize("method", [CLNR, GCA, DGI, MVGRL, SUPERVISED_GCN])
def test_an_epoch_may_be_a_counter(method):
    model, here = method.build(Recipe(dropout=0.5)), ENGINE.to_device(tiny())

    def seen(epoch):
        weight, h = torch.ones(12, 3), torch.ones(40, 2)
        operators = [ENGINE.operators(view) for view in model.augment(here, 3, "train", epoch)]
        return torch.cat(
            [
                part.ravel()
                for o in operators
                for part in (o.features, o.within(1).convolve(weight, weight[0]), o.dropout(h, "x"))
            ]
        )

    assert torch.equal(seen(torch.tensor(7)), seen(7))
    assert not torch.equal(seen(7), seen(8))


def test_the_target_of_an_edge_decides_and_a_loop_of_the_graphs_own_has_no_say():
    """Degrees 0, 1 + 3, 2: the edges lead to nodes of importance 4, 2 and 2."""
    graph = device_graph([0, 0, 1, 1], [1, 2, 2, 1], np.ones((3, 1)), weight=[1.0, 1.0, 1.0, 3.0])
    got = edge_rates(graph, 0.3)
    expected = oracles.rates([4, 2, 2], 0.3)
    assert [got[0, 1], got[0, 2], got[1, 2]] == pytest.approx(expected)
    assert got[1, 1] == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_column_rates_equal_the_loop(sparse):
    graph = tiny(sparse=sparse)
    x = oracles.dense(graph.features)
    degree = np.bincount(graph.edges()[1], minlength=40)
    importance = [sum(abs(x[i, k]) * degree[i] for i in range(40)) for k in range(x.shape[1])]
    mask = AdaptiveMaskFeatures(0.3, "degree")(View(ENGINE.to_device(graph)), KEY).mask
    np.testing.assert_allclose(mask.rate.numpy(), oracles.rates(importance, 0.3), rtol=1e-6, atol=1e-7)
    assert not mask.elements


def test_a_graph_without_edges_has_none_to_drop():
    bare = device_graph([], [], np.eye(3))
    assert AdaptiveDropEdges(0.3, "degree")(View(bare), KEY).drop.keep(bare.edges).all()
    assert AdaptiveMaskFeatures(0.3, "degree")(View(bare), KEY).mask.rate.tolist() == [0.3] * 3


def test_rates_are_computed_once_per_placed_graph(monkeypatch):
    here, calls = ENGINE.to_device(tiny()), []

    def count(graph):
        calls.append(graph)
        return np.arange(1.0, graph.num_nodes + 1)

    monkeypatch.setitem(CENTRALITIES, "degree", count)
    drop = AdaptiveDropEdges(0.3, "degree")
    first = drop(View(here), KEY).drop.rate
    assert drop(View(here), rng.key(1)).drop.rate is first
    assert not torch.equal(AdaptiveDropEdges(0.4, "degree")(View(here), KEY).drop.rate, first)
    assert len(AdaptiveMaskFeatures(0.3, "degree")(View(here), KEY).mask.rate) == 12
    assert calls == [here.graph]
    drop(View(ENGINE.to_device(tiny())), KEY)
    assert len(calls) == 2


def test_shuffled_nodes_have_one_anothers_features():
    view = ShuffleNodes()(View(PLACED), KEY)
    assert sorted(view.node_permutation.tolist()) == list(range(200))
    assert (view.drop, view.mask, view.propagation_matrix, view.dropout) == (None,) * 4
    x = PLACED.graph.features
    np.testing.assert_array_equal(ENGINE.operators(view).features.numpy(), x[view.node_permutation.numpy()])
    assert not torch.equal(view.node_permutation, ShuffleNodes()(View(PLACED), rng.key(1)).node_permutation)


def test_diffusion_is_the_same_for_every_key_and_made_once(monkeypatch):
    graph = tiny()
    here = ENGINE.to_device(graph)
    links = Diffuse(0.2, 1e-6, "none")(View(here), KEY).propagation_matrix
    exact, _ = oracles.diffusion(graph, 0.2)
    got = np.zeros((40, 40))
    got[links.rows.numpy(), links.columns.numpy()] = links.values.numpy()
    np.testing.assert_allclose(got, exact, atol=1e-4)
    with monkeypatch.context() as patch:
        patch.setattr(diffusion, "personalised_pagerank", None)
        assert Diffuse(0.2, 1e-6, "none")(View(here), rng.key(1)).propagation_matrix is links
    assert Diffuse(0.3, 1e-6, "none")(View(here), KEY).propagation_matrix is not links
    scaled = Diffuse(0.2, 1e-6, "columns")(View(here), KEY).propagation_matrix
    got[scaled.rows.numpy(), scaled.columns.numpy()] = scaled.values.numpy()
    np.testing.assert_allclose(got, exact / exact.max(0), atol=1e-3)


def test_the_embedding_sees_what_is_steady_and_no_more():
    here = ENGINE.to_device(tiny())
    still = MVGRL.build(Recipe()).eval_views(View(here))
    assert [view.propagation_matrix is None for view in still] == [True, False]
    assert [view.node_permutation for view in still] == [None, None]


def test_dropout_keeps_the_mean_of_the_features():
    graph = Graph.from_edges([], [], np.ones((300, 100)))
    view = EncoderDropout(0.6)(View(ENGINE.to_device(graph)), KEY)
    x = ENGINE.operators(view).features
    assert sorted(set(x.ravel().tolist())) == pytest.approx([0, 2.5])
    assert abs(float(x.mean()) - 1) < 5 * math.sqrt(0.6 / 0.4 / x.numel())
    assert view.dropout == (KEY, 0.6)
