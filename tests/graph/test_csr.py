"""The median weight of edges, neighbours that are drawn, and distinct numbers."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from clnr.graph import Graph, csr
from clnr.graph.csr import CSR, are_among, distinct, draw_neighbours, find_edges, median_weight
from tests.conftest import tiny


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_the_median_weight_is_the_lower_median_and_1_without_weights(count):
    weights = np.random.default_rng(count).random(count, np.float32)
    assert median_weight(weights) == statistics.median_low(weights.tolist())
    assert median_weight(np.repeat(weights, 2)) == median_weight(weights)
    assert median_weight(None) == median_weight(weights[:0]) == 1


def test_of_many_some_parts_are_looked_at(monkeypatch):
    monkeypatch.setattr(csr, "_WEIGHT_SAMPLES", 5)
    monkeypatch.setattr(csr, "_SAMPLE_WEIGHTS", 100)
    weights = np.arange(10_001, dtype=np.float32)
    assert abs(median_weight(weights) - 5000) <= 50
    shuffled = np.random.default_rng(0).permutation(weights)
    assert abs(median_weight(shuffled) - 5000) < 1000


def test_edges_are_found_where_they_are_and_others_are_not():
    indptr, indices, _ = tiny(30, 80, undirected=False).incoming
    row, column = np.divmod(np.random.default_rng(0).permutation(30 * 30), 30)
    places = find_edges(indptr, indices, row, column)
    found = places >= 0
    assert sorted(places[found].tolist()) == list(range(len(indices)))
    np.testing.assert_array_equal(indices[places[found]], column[found])
    assert (indptr[row[found]] <= places[found]).all()
    assert (places[found] < indptr[row[found] + 1]).all()


# -- drawn neighbours -------------------------------------------------------------------------------------------------------


def by_node(graph, nodes, most, left_out=None):
    place, neighbour = draw_neighbours(graph.edges_by_end, np.asarray(nodes), most, left_out)
    assert (np.diff(place) >= 0).all()
    return [neighbour[place == number].tolist() for number in range(len(nodes))]


def neighbours(graph, node):
    source, target, _ = graph.edges()
    return set(source[target == node].tolist()) | set(target[source == node].tolist()) - {node}


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("most", [1, 3, 60])
def test_neighbours_in_either_direction(undirected, most):
    graph = tiny(60, 150, undirected=undirected)
    nodes = np.random.default_rng(0).permutation(60)
    for node, drawn in zip(nodes, by_node(graph, nodes, most), strict=True):
        assert len(drawn) == len(set(drawn)) == min(most, len(neighbours(graph, node)))
        assert set(drawn) <= neighbours(graph, node)


def test_no_node_is_its_own_neighbour():
    graph = Graph.from_edges([0, 0, 1, 2], [0, 1, 1, 1], np.zeros((3, 1)))
    assert [sorted(each) for each in by_node(graph, [0, 1, 2], 5)] == [[1], [0, 2], [1]]


def test_neighbours_do_not_depend_on_other_edges():
    graph = tiny(60, 150)
    whole = by_node(graph, range(60), 60)
    few = by_node(graph, range(60), 2)
    assert few == [each[:2] for each in whole]
    assert by_node(graph, [7, 3, 7], 60) == [whole[7], whole[3], whole[7]]
    source, target, _ = graph.edges()
    keys = np.sort((target * 60 + source)[::3])
    kept = ~np.isin(target * 60 + source, keys)
    fewer = Graph.from_edges(source[kept], target[kept], graph.features)
    place, neighbour = draw_neighbours([fewer.incoming], np.arange(60), 3)
    assert by_node(graph, range(60), 3, keys) == [neighbour[place == node].tolist() for node in range(60)]


def test_of_many_edges_some_are_looked_at(monkeypatch):
    monkeypatch.setattr(csr, "_SAMPLED_NEIGHBORS", 10)
    graph = Graph.from_edges(np.zeros(200, int), np.arange(1, 201), np.zeros((201, 1)), undirected=True)
    (looked_at,) = by_node(graph, [0], 500)
    assert sorted(looked_at) == list(range(1, 201, 20))
    assert by_node(graph, [0], 4) == [looked_at[:4]]


@pytest.mark.parametrize(
    ("indptr", "indices"), [([0, 5, 2], [1, 0]), ([-1, 1, 2], [1, 0]), ([0, 1, 9], [1, 0]), ([0, 1, 2], [1, 2])]
)
def test_edges_outside_of_the_graph_are_refused(indptr, indices):
    with pytest.raises(IndexError):
        draw_neighbours([CSR(np.array(indptr), np.array(indices), None)], np.arange(2), 3)


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_distinct_numbers_and_members_are_numpys(count):
    random = np.random.default_rng(count)
    values, others = (random.integers(-50, 50, size) for size in (count, count // 2))
    np.testing.assert_array_equal(distinct(values), np.unique(values))
    np.testing.assert_array_equal(are_among(values, np.sort(others)), np.isin(values, others))
    assert not are_among(values, others[:0]).any()
