from __future__ import annotations

import math

import numpy as np
import pytest

from clnr.tables.structural import StructuralFeatures, degree_features


def slow(pairs, count):
    """The four columns by loops, before scaling."""
    near = {i: {b for a, b in pairs if a == i} | {a for a, b in pairs if b == i} for i in range(count)}
    degree = {i: math.log1p(len(near[i])) for i in range(count)}
    rows = []
    for i in range(count):
        seen = [degree[j] for j in near[i]]
        rows.append([degree[i], sum(seen) / len(seen), min(seen), max(seen)] if seen else [degree[i], 0, 0, 0])
    return np.array(rows)


@pytest.mark.parametrize(
    ("pairs", "count"),
    [
        ([(0, 1), (1, 2), (1, 3)], 4),
        ([(0, 1), (1, 2)], 5),
        ([(0, 2), (1, 2)], 4),
        ([(3, 4), (4, 3), (3, 4)], 5),
        ([(1, 3), (3, 5)], 7),
        ([], 3),
    ],
)
def test_columns_are_those_of_the_definition_with_isolated_nodes_anywhere(pairs, count):
    source, target = (np.array([pair[end] for pair in pairs], np.int64) for end in (0, 1))
    columns = degree_features(source, target, count)
    expected = slow(pairs, count)
    assert np.allclose(columns, expected, atol=1e-6)
    found = StructuralFeatures.fit(columns).features(columns)
    spread = expected.std(0)
    expected = (expected - expected.mean(0)) / np.where(spread > 0, spread, 1)
    assert found.shape == (count, 4)
    assert np.allclose(found, expected, atol=1e-5)


def test_a_later_graph_is_scaled_as_the_first():
    tree, star = ([(0, 1), (1, 2), (1, 3), (3, 4), (4, 5)], 6), ([(0, i) for i in range(1, 8)], 8)
    (first, later) = (degree_features(*np.array(pairs).T, count) for pairs, count in (tree, star))
    kept = StructuralFeatures.fit(first)
    rows = slow(*tree)
    expected = (slow(*star) - rows.mean(0)) / rows.std(0)
    assert np.allclose(kept.features(later), expected, atol=1e-4)


def test_rounding_is_no_spread():
    ring = np.arange(999)
    assert StructuralFeatures.fit(degree_features(ring, np.roll(ring, 1), 999)).scale == (1, 1, 1, 1)
