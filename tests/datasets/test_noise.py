from __future__ import annotations

import numpy as np
import pytest

from clnr import rng
from clnr.datasets import noise
from clnr.datasets.noise import sample_non_edges, with_noise
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


def dense(nodes, share=0.97, undirected=True):
    """A graph with that share of all pairs."""
    one, other = np.triu_indices(nodes, 1)
    there = np.random.default_rng(0).random(len(one)) < share
    return Graph.from_edges(one[there], other[there], np.zeros((nodes, 1)), undirected=undirected)


def non_edges(graph, first, second):
    all_pairs = {frozenset((a, b)) for a in first for b in second if a != b}
    return {min(pair) * graph.num_nodes + max(pair) for pair in all_pairs - pairs(graph)}


KINDS = {"all": None, "one": (np.arange(50, 150),) * 2, "two": (np.arange(100), np.arange(100, 200))}


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("ends", KINDS.values(), ids=KINDS)
def test_all_non_edges_of_a_dense_graph_are_found_with_few_draws(ends, undirected, monkeypatch):
    draws, draw = [], rng.draw
    graph = dense(200, undirected=undirected)
    expected = non_edges(graph, *(range(200),) * 2 if ends is None else [each.tolist() for each in ends])
    assert 100 < len(expected) < 700
    monkeypatch.setattr(rng, "draw", lambda key, i, j=0: (draws.append(len(i)), draw(key, i, j))[1])
    for more in (0, 10):
        sampled = sample_non_edges(graph.edges_by_end, len(expected) + more, rng.key(0), ends)
        assert sorted(sampled.tolist()) == sorted(expected)
    assert sum(draws) < 400 * len(expected)


@pytest.mark.parametrize("rounds", [16, 0], ids=["drawn", "listed"])
def test_non_edges_are_drawn_evenly(rounds, monkeypatch):
    monkeypatch.setattr(noise, "_DRAW_ROUNDS", rounds)
    graph = Graph.from_edges([0, 0, 1], [1, 2, 3], np.zeros((6, 1)))
    counts = dict.fromkeys(non_edges(graph, range(6), range(6)), 0)
    for seed in range(600):
        drawn = sample_non_edges(graph.edges_by_end, 2, rng.key(seed)).tolist()
        assert len(set(drawn)) == 2
        for pair in drawn:
            counts[pair] += 1
    # 12 cells of 100 on average: chi-square with 11 degrees of freedom is above 31.3 once in a thousand times.
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 31.3


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_other_graphs_keep_their_draws(share):
    graph, nodes, wanted, key = dense(60, share), 60, 300, rng.key(3)
    free, drawn, at = non_edges(graph, range(60), range(60)), [], 0
    while len(drawn) < wanted:
        one, other = (int(rng.draw(key, 2 * at + end)) * nodes >> 32 for end in (0, 1))
        pair = min(one, other) * nodes + max(one, other)
        if pair in free and pair not in drawn:
            drawn.append(pair)
        at += 1
    assert sample_non_edges(graph.edges_by_end, wanted, key).tolist() == drawn
