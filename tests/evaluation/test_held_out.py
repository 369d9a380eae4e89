"""Held-out pairs are those of smallest hash, found again here by brute force; and nothing of them is left in the graph."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from benchmarks._graph_folders import write_graph

from clnr.evaluation import held_out, hold_out, without_pairs
from clnr.evaluation.held_out import link_ends
from clnr.graph import Graph
from clnr.graph.csr import transpose
from tests import oracles

KINDS = np.arange(40) * 7 % 3


def random_graph(seed=0, nodes=40, edges=150, **more):
    """With loops, repeated edges, and edges in both directions."""
    random = np.random.default_rng(seed)
    source, target = random.integers(0, nodes, (2, edges))
    weight = random.random(edges) + 0.1 if more.pop("weighted", False) else None
    return Graph.from_edges(source, target, np.eye(nodes), weight=weight, **more)


def connected(graph):
    """All connected pairs, the smaller node first."""
    source, target, _ = graph.edges()
    return {(min(a, b), max(a, b)) for a, b in zip(source.tolist(), target.tolist(), strict=True) if a != b}


def listed(pairs):
    return list(zip(*pairs.tolist(), strict=True))


def by_hash(graph, seed):
    """All connected pairs in the order of their hashes."""
    key = oracles.key(seed, "held")
    return sorted(connected(graph), key=lambda pair: (oracles.draw(key, *pair), pair))


def kinds_of(kinds, pairs):
    return Counter(tuple(sorted(ends)) for ends in kinds[pairs].T.tolist())


def check(graph, held, wanted, seed, kinds=None):
    positives, negatives = listed(held.positives), listed(held.negatives)
    assert positives == sorted(by_hash(graph, seed)[:wanted])
    assert negatives == sorted(set(negatives))
    assert len(negatives) == wanted
    assert not set(negatives) & connected(graph)
    assert all(0 <= a < b < graph.num_nodes for a, b in negatives)
    if kinds is not None:
        assert kinds_of(kinds, held.negatives) == kinds_of(kinds, held.positives)


GRAPHS = {
    f"{'undirected' if undirected else 'directed'}{', weighted' * weighted}": {"undirected": undirected, "weighted": weighted}
    for undirected, weighted in itertools.product([False, True], repeat=2)
}


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
@pytest.mark.parametrize("kinds", [None, KINDS], ids=["one kind", "three kinds"])
@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_pairs_with_the_smallest_hashes_are_held_out(given, kinds, block, monkeypatch):
    monkeypatch.setattr(held_out, "_BLOCK_ENTRIES", block)
    for seed in (0, 3):
        graph = random_graph(seed, **given)
        pairs = len(connected(graph))
        check(graph, hold_out(graph, 0.3, seed, kinds), int(0.3 * pairs), seed, kinds)
        # However many of them are wanted.
        check(graph, hold_out(graph, 1.0, seed), pairs - 1, seed)


@pytest.mark.parametrize(("bound", "kinds"), [("MOST_PAIRS", None), ("MOST_PAIRS_OF_KINDS", KINDS)])
def test_no_more_than_so_many_pairs_are_held_out(bound, kinds, monkeypatch):
    monkeypatch.setattr(held_out, "_BLOCK_ENTRIES", 20)
    monkeypatch.setattr(held_out, bound, 9)
    check(random_graph(), hold_out(random_graph(), 0.5, 1, kinds), 9, 1, kinds)


@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_what_is_held_out_is_gone_both_ways_and_nothing_else(given):
    graph = random_graph(**given)
    held = hold_out(graph, 0.3, 1)
    seen = without_pairs(graph, held.positives)
    expected = graph.to_scipy().toarray()
    for a, b in listed(held.positives):
        expected[a, b] = expected[b, a] = 0
    np.testing.assert_array_equal(seen.to_scipy().toarray(), expected)
    for found, right in zip(seen.incoming, transpose(seen.outgoing), strict=True):
        np.testing.assert_array_equal(found, right)
    assert connected(seen) == connected(graph) - set(listed(held.positives))
    assert seen.features is graph.features


def test_a_dense_directed_graph_has_pairs_and_not_edges():
    """Of 60 nodes whose directed edges outnumber all pairs, while hundreds of pairs are free."""
    random = np.random.default_rng(0)
    one, other = np.triu_indices(60, 1)
    both = random.permutation(len(one))[:1216]
    source, target = np.concatenate([[one[both], other[both]], [other[both], one[both]]], axis=1)
    graph = Graph.from_edges(source, target, np.eye(60), weight=1 + random.random(len(source)))
    assert (graph.directed, graph.num_edges, 60 * 59 // 2 - len(connected(graph))) == (True, 2432, 554)
    for share, wanted in ((0.05, 60), (0.9, 554)):
        check(graph, hold_out(graph, share, 0), wanted, 0)


@pytest.mark.parametrize("kinds", [None, np.array([0, 1, 1])], ids=["one kind", "two kinds"])
@pytest.mark.parametrize(
    "edges",
    [[], [(0, 1), (1, 0)], [(0, 0), (1, 1)], [(0, 1), (0, 2), (1, 2)]],
    ids=["no edge", "one pair", "loops", "all edges"],
)
def test_too_little_is_no_score(edges, kinds):
    source, target = zip(*edges, strict=True) if edges else ((), ())
    assert hold_out(Graph.from_edges(source, target, np.eye(3)), 0.9, 0, kinds) is None
    assert hold_out(Graph.from_edges([], [], np.zeros((0, 1))), 0.9, 0) is None


# -- several kinds ----------------------------------------------------------------------------------------------------------


def test_between_kinds_with_few_non_edges_fewer_edges_are_held_out():
    every = [(user, item) for user in range(5) for item in range(5, 15)]
    kinds = np.repeat([0, 1], [5, 10])
    for lacking in (0, 3):
        graph = Graph.from_edges(*zip(*every[lacking:], strict=True), np.eye(15), undirected=True)
        held = hold_out(graph, 0.5, 0, kinds)
        assert (held is None) == (lacking == 0)
        if held is not None:
            check(graph, held, lacking, 0, kinds)
            assert listed(held.negatives) == every[:lacking]


def test_a_kind_pair_without_non_edges_does_not_take_from_another():
    """Nodes 0 to 4 are linked to all others; these, to some of theirs."""
    full = [(i, j) for i in range(5) for j in range(5, 30)]
    some = [(i, i + step) for i in range(5, 25) for step in (1, 3)]
    graph = Graph.from_edges(*zip(*full + some, strict=True), np.eye(30), undirected=True)
    kinds = np.repeat([1, 0], [5, 25])
    held = hold_out(graph, 0.3, 0, kinds)
    chosen = by_hash(graph, 0)[: int(0.3 * (len(full) + len(some)))]
    assert listed(held.positives) == sorted(pair for pair in chosen if pair[0] >= 5)
    assert kinds_of(kinds, held.negatives) == kinds_of(kinds, held.positives)


@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_ends_of_two_kinds_have_neighbours_of_the_others_kind(given, monkeypatch):
    monkeypatch.setattr(held_out, "MOST_NEIGHBOURS", 2)
    graph = random_graph(edges=250, **given)
    held = hold_out(graph, 0.2, 0, KINDS)
    left = connected(without_pairs(graph, held.positives))
    near = {node: {a + b - node for a, b in left if node in (a, b)} for node in range(40)}
    key, expected = oracles.key(0, "neighbours"), set()
    for pair in listed(np.concatenate([held.positives, held.negatives], axis=1)):
        for node, other in (pair, pair[::-1]):
            if KINDS[node] != KINDS[other]:
                alike = [each for each in near[node] if KINDS[each] == KINDS[other]]
                alike.sort(key=lambda each, node=node: oracles.draw(key, node, each))
                expected |= {(node, each) for each in alike[:2]}
    found = listed(held.linked)
    assert len(found) == len(set(found))
    assert set(found) == expected
    everything = {*itertools.chain(*found, *listed(held.positives), *listed(held.negatives))}
    assert link_ends(held).tolist() == sorted(everything)
    assert len(link_ends(None)) == hold_out(graph, 0.2, 0).linked.size == 0


# -- from files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", GRAPHS.values(), ids=GRAPHS)
def test_of_files_the_same_pairs_are_held_out_as_in_memory(given, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(held_out, "_BLOCK_ENTRIES", 50)
    graph = random_graph(**given)
    folder = write_graph(graph, tmp_path / "graph")
    for kinds in (None, KINDS):
        for one, other in zip(hold_out(folder, 0.3, 0, kinds), hold_out(graph, 0.3, 0, kinds), strict=True):
            np.testing.assert_array_equal(one, other)
