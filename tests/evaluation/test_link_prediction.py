from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.engine import unit_rows
from clnr.evaluation import LinkSplit, hold_out, link_cosines, link_prediction, score_cosines
from clnr.graph import Graph
from tests.conftest import tiny


def pairs(graph):
    source, target, _ = graph.edges()
    return {(min(a, b), max(a, b)) for a, b in zip(source.tolist(), target.tolist(), strict=True) if a != b}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
def test_what_is_held_out_is_gone_both_ways_and_nothing_else(weighted, undirected):
    graph = tiny(weighted=weighted, undirected=undirected)
    held = hold_out(graph, 0.3, seed=1)
    joined = set(zip(*held.positives.tolist(), strict=True))
    assert len(joined) == int(0.3 * len(pairs(graph)))
    assert pairs(held.graph) == pairs(graph) - joined
    whole, left = graph.to_scipy().toarray(), held.graph.to_scipy().toarray()
    gone = np.zeros_like(whole, bool)
    for a, b in joined:
        gone[a, b] = gone[b, a] = True
    np.testing.assert_array_equal(left, np.where(gone, 0, whole))
    assert held.graph.features is graph.features
    apart = set(zip(*held.negatives.tolist(), strict=True))
    assert len(apart) == len(joined)
    assert not apart & pairs(graph)
    assert all(a < b for a, b in apart)
    assert held.positives.tolist() != hold_out(graph, 0.3, seed=2).positives.tolist()


def of_kinds(kinds, pairs):
    return Counter(tuple(sorted(ends)) for ends in kinds[pairs].T.tolist())


def test_non_edges_join_the_kinds_that_held_out_edges_join():
    kinds, graph = np.arange(40) % 3, tiny()
    held = hold_out(graph, 0.3, 1, kinds)
    plain = hold_out(graph, 0.3, 1)
    np.testing.assert_array_equal(held.positives, plain.positives)
    assert of_kinds(kinds, held.negatives) == of_kinds(kinds, held.positives) != of_kinds(kinds, plain.negatives)
    apart = set(zip(*held.negatives.tolist(), strict=True))
    assert len(apart) == held.negatives.shape[1]
    assert not apart & pairs(graph)
    assert (plain.kinds, held.kinds is kinds) == (None, True)


def test_between_kinds_with_few_non_edges_fewer_edges_are_held_out():
    every = [(user, item) for user in range(5) for item in range(5, 15)]
    kinds = np.repeat([0, 1], [5, 10])
    for lacking, expected in ((0, None), (3, 3)):
        source, target = zip(*every[lacking:], strict=True)
        held = hold_out(Graph.from_edges(source, target, np.eye(15), undirected=True), 0.5, 0, kinds)
        assert (held if held is None else held.negatives.shape[1]) == expected
        if held is not None:
            assert set(zip(*held.negatives.tolist(), strict=True)) == set(every[:lacking])


def test_a_loop_stays():
    graph = Graph.from_edges([0, 0, 1, 2], [0, 1, 2, 3], np.eye(5), undirected=True)
    assert (0, 0) in {(a, b) for a, b in zip(*hold_out(graph, 0.5, 0).graph.edges()[:2], strict=True)}


@pytest.mark.parametrize(
    ("edges", "nodes"), [([], 3), ([(0, 1)], 3), ([(0, 1), (0, 2), (1, 2)], 3)], ids=["no edge", "one edge", "all edges"]
)
def test_too_little_is_no_score(edges, nodes):
    source, target = zip(*edges, strict=True) if edges else ((), ())
    assert hold_out(Graph.from_edges(source, target, np.eye(nodes), undirected=True), 0.9, 0) is None


def test_scores_are_those_of_all_comparisons():
    rows = unit_rows(torch.randn(30, 4, generator=torch.Generator().manual_seed(0)))
    held = LinkSplit(tiny(30), np.arange(20).reshape(2, 10), np.arange(10, 30).reshape(2, 10))
    cosine = (rows @ rows.T).numpy().astype(float)
    yes, no = (np.array([cosine[a, b] for a, b in part.T]) for part in (held.positives, held.negatives))
    auc = np.mean([(a > b) + 0.5 * (a == b) for a in yes for b in no])
    precision = np.mean([(yes >= a).sum() / (np.r_[yes, no] >= a).sum() for a in yes])
    expected = {"auc": auc, "average_precision": precision}
    assert score_cosines(link_cosines(rows, held)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("block", [3, 1 << 16])
def test_sparse_rows_have_the_same_cosines(block, monkeypatch):
    monkeypatch.setattr(link_prediction, "_BLOCK_PAIRS", block)
    graph = tiny(sparse=True)
    held = hold_out(graph, 0.3, 0)
    dense = unit_rows(torch.tensor(graph.features.toarray()))
    np.testing.assert_allclose(link_cosines(sp.csr_array(dense.numpy()), held), link_cosines(dense, held), atol=1e-6)
