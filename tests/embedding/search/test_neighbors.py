from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler, normalize

from clnr.embedding.search import neighbors as module
from clnr.embedding.search.neighbors import ArrayRows, Rows, nearest, nearest_of_kind, neighbor_lists
from clnr.embedding.search.node_ids import NodeIds

Z = np.random.default_rng(0).normal(size=(60, 7)).astype(np.float32)


def by_hand(z, i, k):
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    cosine = [(float(unit[i] @ unit[j]), j) for j in range(len(z)) if j != i]
    return sorted(cosine, key=lambda each: -each[0])[:k]


class Blocks(Rows):
    """Rows in blocks of some sizes, as shards are."""

    shape = Z.shape
    index = None

    def __init__(self, sizes):
        self.starts = np.cumsum([0, *sizes])

    def __getitem__(self, nodes):
        return Z[nodes]

    def blocks(self):
        return (Z[a:b] for a, b in pairwise(self.starts))


SIZES = [(60,), (1, 29, 0, 30), (20, 20, 20)]


def rows_of(sizes):
    return ArrayRows(Z) if len(sizes) == 1 else Blocks(sizes)


def assert_near(nodes, cosine, right):
    """Of two cosines that differ by rounding alone, either may come first."""
    np.testing.assert_allclose(cosine, [each for each, _ in right], atol=1e-6)
    ties = np.cumsum([0, *(before - after > 1e-6 for (before, _), (after, _) in pairwise(right))])
    assert sorted(zip(ties, nodes.tolist(), strict=True)) == sorted((tie, j) for tie, (_, j) in zip(ties, right, strict=True))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("asked", [0, 59])
@pytest.mark.parametrize("k", [1, 5, 59])
def test_the_nearest_are_those_of_all_pairs(asked, k, sizes):
    assert_near(*nearest(rows_of(sizes), asked, k), by_hand(Z, asked, k))


@pytest.mark.parametrize("block", [1, 1 << 25])
def test_the_lists_of_all_rows_are_those_of_each(block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_COSINES", block)
    for i, near in enumerate(zip(*neighbor_lists(Z, 5), strict=True)):
        assert_near(*near, by_hand(Z, i, 5))


@pytest.mark.parametrize(("count", "k", "expected"), [(1, 5, 0), (2, 5, 1), (60, 0, 0), (60, 100, 59)])
def test_there_are_as_many_as_there_can_be(count, k, expected):
    assert nearest(ArrayRows(Z[:count]), 0, k).nodes.shape == (expected,)
    assert neighbor_lists(Z[:count], k).nodes.shape == (count, expected)
    assert neighbor_lists(Z[:0], k).nodes.shape == (0, 0)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("row", "k", "linked"), [(0, 4, {1, 3, 40}), (0, 100, {3}), (7, 100, {1}), (59, 1, ())])
def test_the_nearest_of_a_kind_are_those_of_all_pairs(sizes, row, k, linked):
    ids = np.array([f"{'item' if i % 3 else 'user'}:{i}" for i in range(60)])
    found = nearest_of_kind(rows_of(sizes), NodeIds(ids), "item", (row, ids[row]), k, linked)
    z = Z
    if ids[row].startswith("user:"):
        items = np.arange(60) % 3 != 0
        z = np.empty_like(Z)
        for each in (items, ~items):
            z[each] = normalize(StandardScaler().fit_transform(Z[each]))
        of_items = [j for j in linked if items[j]]
        z[row] = z[of_items].sum(0) if of_items else z[row]
    assert_near(*found, [(cosine, j) for cosine, j in by_hand(z, row, 60) if ids[j].startswith("item:")][:k])


def test_equally_similar_nodes_come_in_order_and_a_row_of_zeros_is_near_to_none():
    z = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)
    assert nearest(ArrayRows(z), 7, 5).nodes.tolist() == [0, 1, 2, 3, 4]
    z[4] = 0
    near = nearest(ArrayRows(z), 4, 3)
    assert (near.nodes.tolist(), near.cosine.tolist()) == ([0, 1, 2], [0, 0, 0])
    assert np.isfinite(neighbor_lists(z, 59).cosine).all()
