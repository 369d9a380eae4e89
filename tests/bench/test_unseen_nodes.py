from __future__ import annotations

import numpy as np
import pytest
from benchmarks.unseen_nodes import before, beyond, change, hidden_nodes, run_seed

from clnr.datasets.splits import split_of
from clnr.engine import cpu_engine
from clnr.graph import Graph
from clnr.methods.recipe import Recipe
from tests.conftest import tiny

SMALL = Recipe(hidden=8, dimension=6, sampled_nodes=10, epochs=3, probe_steps=20)


def test_hidden_nodes_are_no_nodes_that_a_probe_learns_from():
    graph = tiny(200, 400)
    split = split_of(graph, 3)
    hidden = hidden_nodes(graph, split, 0.2, 3)
    assert len(set(hidden)) == len(hidden) == 40
    assert not set(hidden) & {*split.train, *split.validation}
    assert set(hidden) != set(hidden_nodes(graph, split, 0.2, 4))


@pytest.mark.parametrize("form", [{}, {"sparse": True, "weighted": True}, {"undirected": False}])
def test_hidden_nodes_and_their_edges_are_not_trained_on(form):
    graph = tiny(50, **form)
    hidden = hidden_nodes(graph, split_of(graph, 0), 0.1, 0)
    seen, left = before(graph, hidden)
    assert set(left) == set(range(50)) - set(hidden)
    assert seen.labels is seen.split is None
    assert np.array_equal(seen.to_scipy().toarray(), graph.to_scipy().toarray()[np.ix_(left, left)])
    x, own = (g.features.toarray() if g.sparse else g.features for g in (graph, seen))
    assert np.array_equal(own, x[left])


@pytest.mark.parametrize("undirected", [True, False])
def test_hops_are_counted_along_a_path(undirected):
    path = Graph.from_edges(range(5), range(1, 6), np.eye(7), undirected=undirected)
    assert np.flatnonzero(beyond(path, np.array([1]), 2)).tolist() == [4, 5, 6]
    assert np.flatnonzero(beyond(path, np.array([1]), 0)).tolist() == [0, 2, 3, 4, 5, 6]


def test_change_is_that_of_old_nodes_that_are_far():
    old, new = np.array([[1.0], [2.0], [4.0]]), np.array([[9.0], [1.0], [3.0], [5.0]])
    left, far = np.array([1, 2, 3]), np.array([True, True, False, True])
    assert change(old, new, left, far) == (2, 0.25)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_seed_of_all_that_is_measured(layers):
    found = run_seed(tiny(200, 120), SMALL.but(layers=layers), 0.05, 0, cpu_engine())
    assert found["hidden"] + found["visible"] == 60
    assert found["far_0"] >= found["far_1"] > 0
    assert found["far_single"] >= found["far_1"]
    # At one hop more than there are layers, degrees still depend on the new nodes; beyond that nothing does.
    assert found["change_0"] > 1e-3
    assert max(found["change_1"], found["change_single"]) < 1e-5
    assert all(0 <= found[f"{who}_{how}"] <= 100 for who in ("hidden", "visible") for how in ("new", "all"))
