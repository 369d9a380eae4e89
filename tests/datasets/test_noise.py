from __future__ import annotations

import numpy as np
import pytest

from clnr.datasets import with_noise
from clnr.errors import DataError
from clnr.graph import Graph
from tests.conftest import tiny


def pairs(graph):
    source, target, _ = graph.edges()
    return {frozenset(pair) for pair in zip(source.tolist(), target.tolist(), strict=True) if len(set(pair)) == 2}


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 2.0])
def test_as_many_new_pairs_as_asked_for_and_nothing_lost(rate):
    graph = tiny()
    noisy = with_noise(graph, rate, 3)
    assert pairs(noisy) >= pairs(graph)
    assert len(pairs(noisy)) - len(pairs(graph)) == round(rate * len(pairs(graph)))
    assert not noisy.directed
    assert noisy.features is graph.features
    assert noisy.labels is graph.labels


def test_another_seed_adds_other_edges_and_the_same_seed_the_same():
    graph = tiny()
    assert with_noise(graph, 0.5, 0).digest == with_noise(graph, 0.5, 0).digest != with_noise(graph, 0.5, 1).digest


def test_pairs_are_drawn_evenly():
    graph = Graph.from_edges([0], [1], np.zeros((6, 1)), undirected=True)
    drawn = np.zeros((6, 6))
    for seed in range(700):
        (pair,) = pairs(with_noise(graph, 1.0, seed)) - pairs(graph)
        drawn[tuple(sorted(pair))] += 1
    counts = drawn[np.triu_indices(6, 1)]
    assert counts[0] == 0
    # 14 cells of 50 on average: chi-square with 13 degrees of freedom is above 34.5 once in a thousand times.
    assert ((counts[1:] - 50) ** 2 / 50).sum() < 34.5


def test_weights_and_directions_stay_and_new_edges_weigh_one():
    graph = Graph.from_edges([0, 1, 3], [1, 2, 3], np.zeros((9, 1)), weight=[5.0, 7.0, 2.0])
    noisy = with_noise(graph, 1.0, 0).to_scipy().toarray()
    assert (noisy[0, 1], noisy[1, 2], noisy[3, 3]) == (5, 7, 2)
    new = noisy - graph.to_scipy().toarray()
    assert new.sum() == 4
    assert set(new[new != 0]) == {1.0}
    assert np.array_equal(new, new.T)


def test_a_graph_without_room_is_refused():
    complete = Graph.from_edges(*np.triu_indices(4, 1), np.zeros((4, 1)), undirected=True)
    with pytest.raises(DataError, match="room for 0 more edges, not for the 3"):
        with_noise(complete, 0.5, 0)
    almost = Graph.from_edges([0, 0, 0, 1, 1], [1, 2, 3, 2, 3], np.zeros((4, 1)), undirected=True)
    assert pairs(with_noise(almost, 0.2, 0)) - pairs(almost) == {frozenset({2, 3})}
