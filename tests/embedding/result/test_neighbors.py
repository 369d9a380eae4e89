from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler, normalize

from clnr.embedding.result import neighbors as module
from clnr.embedding.result.neighbors import most_similar, neighbor_lists
from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.shards import Shards, shard_path, write_shard
from clnr.graph import Graph
from clnr.graph.table_info import TableInfo

Z = np.random.default_rng(0).normal(size=(60, 7)).astype(np.float32)


def by_hand(z, i, k):
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    cosine = [(float(unit[i] @ unit[j]), j) for j in range(len(z)) if j != i]
    return sorted(cosine, key=lambda each: -each[0])[:k]


SIZES = [(60,), (1, 29, 0, 30), (20, 20, 20)]


@pytest.fixture(params=SIZES, ids=str)
def z(request, tmp_path):
    """The same rows as an array, or in shards of some sizes."""
    if len(request.param) == 1:
        return Z
    (tmp_path / "embeddings").mkdir()
    for number, (start, stop) in enumerate(pairwise(np.cumsum([0, *request.param]).tolist())):
        write_shard(shard_path(tmp_path, number), nodes_of(range(60)).graph, start, Z[start:stop])
    return Shards(tmp_path)


def nodes_of(ids, row=0, linked=()):
    """Nodes with these ids, which tell their kinds, and edges from one of them."""
    graph = Graph.from_edges([row] * len(linked), linked, np.zeros((len(ids), 1)), ids=ids)
    kinds = tuple(dict.fromkeys(str(each).partition(":")[0] for each in ids))
    return Nodes(replace(graph, info=TableInfo(node_kinds=kinds)))


def assert_near(nodes, cosine, right):
    """Of two cosines that differ by rounding alone, either may come first."""
    np.testing.assert_allclose(cosine, [each for each, _ in right], atol=1e-6)
    ties = np.cumsum([0, *(before - after > 1e-6 for (before, _), (after, _) in pairwise(right))])
    assert sorted(zip(ties, nodes.tolist(), strict=True)) == sorted((tie, j) for tie, (_, j) in zip(ties, right, strict=True))


@pytest.mark.parametrize("asked", [0, 59])
@pytest.mark.parametrize("k", [1, 5, 59])
def test_the_nearest_are_those_of_all_pairs(asked, k, z, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_ROWS", 7)
    nodes = nodes_of(range(60), asked, [3, 9, 20])
    assert_near(*most_similar(z, nodes, asked, k), by_hand(Z, asked, k))
    linked = nodes.graph.neighbours(asked)
    apart = [each for each in by_hand(Z, asked, 60) if each[1] not in linked]
    assert_near(*most_similar(z, nodes, asked, k, unlinked=True), apart[:k])


@pytest.mark.parametrize("block", [1, 1 << 25])
def test_the_lists_of_all_rows_are_those_of_each(block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_COSINES", block)
    for i, near in enumerate(zip(*neighbor_lists(Z, 5), strict=True)):
        assert_near(*near, by_hand(Z, i, 5))


@pytest.mark.parametrize(("count", "k", "expected"), [(1, 5, 0), (2, 5, 1), (60, 0, 0), (60, 100, 59)])
def test_there_are_as_many_as_there_can_be(count, k, expected):
    assert most_similar(Z[:count], nodes_of(range(count)), 0, k).nodes.shape == (expected,)
    assert neighbor_lists(Z[:count], k).nodes.shape == (count, expected)
    assert neighbor_lists(Z[:0], k).nodes.shape == (0, 0)


@pytest.mark.parametrize(("row", "k", "linked"), [(0, 4, [1, 3, 40]), (0, 100, [3]), (7, 100, [1]), (59, 1, [])])
def test_the_nearest_of_a_kind_are_those_of_all_pairs(z, row, k, linked):
    ids = np.array([f"{'item' if i % 3 else 'user'}:{i}" for i in range(60)])
    found = most_similar(z, nodes_of(ids, row, linked), row, k, kind="item")
    right = Z
    if ids[row].startswith("user:"):
        items = np.arange(60) % 3 != 0
        right = np.empty_like(Z)
        for each in (items, ~items):
            right[each] = normalize(StandardScaler().fit_transform(Z[each]))
        of_items = [j for j in linked if items[j]]
        right[row] = right[of_items].sum(0) if of_items else right[row]
    assert_near(*found, [(cosine, j) for cosine, j in by_hand(right, row, 60) if ids[j].startswith("item:")][:k])


def test_equally_similar_nodes_come_in_order_and_a_row_of_zeros_is_near_to_none():
    z, nodes = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0), nodes_of(range(60))
    assert most_similar(z, nodes, 7, 5).nodes.tolist() == [0, 1, 2, 3, 4]
    z[4] = 0
    near = most_similar(z, nodes, 4, 3)
    assert (near.nodes.tolist(), near.cosine.tolist()) == ([0, 1, 2], [0, 0, 0])
    assert np.isfinite(neighbor_lists(z, 59).cosine).all()
