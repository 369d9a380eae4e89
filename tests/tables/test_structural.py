from __future__ import annotations

import math

import numpy as np
import pytest

from clnr.tables.structural import RANDOM, StructuralFeatures, degree_features


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
    found = StructuralFeatures.fit(columns).features(columns, np.arange(count))
    spread = expected.std(0)
    expected = (expected - expected.mean(0)) / np.where(spread > 0, spread, 1)
    assert found.shape == (count, 4)
    assert np.allclose(found, expected, atol=1e-5)
    # As earlier versions saved them.
    old = StructuralFeatures(*(tuple(each) for each in (columns.mean(0).tolist(), [1.0] * 4)))
    assert old.features(columns, np.arange(count)).shape == (count, old.width) == (count, 4 + RANDOM)


def marked(ids):
    columns = degree_features(np.empty(0, np.int64), np.empty(0, np.int64), len(ids))
    return StructuralFeatures((0.0,) * 4, (1.0,) * 4).features(columns, ids)[:, 4:] * math.sqrt(RANDOM)


def test_marks_are_normal_numbers_that_follow_from_the_id():
    marks = marked(np.array([f"node {i}" for i in range(500)], object))
    assert abs(marks.mean()) < 0.02
    assert abs(marks.std() - 1) < 0.02
    assert abs((marks**3).mean()) < 0.05
    assert abs((marks**4).mean() - 3) < 0.15
    # No two columns, and no two nodes, say the same.
    assert abs(np.corrcoef(marks.T) - np.eye(RANDOM)).max() < 0.3
    assert abs(np.corrcoef(marks) - np.eye(500)).max() < 0.6
    again = marked(np.array(["node 7", "other"], object))
    assert np.array_equal(again[0], marks[7])
    assert len(np.unique(marks, axis=0)) == 500


def test_an_id_has_its_mark_whether_it_is_a_number_or_a_text():
    assert np.array_equal(marked(np.array([7, -1])), marked(np.array(["7", "-1"], object)))


def test_a_later_graph_is_scaled_as_the_first():
    tree, star = ([(0, 1), (1, 2), (1, 3), (3, 4), (4, 5)], 6), ([(0, i) for i in range(1, 8)], 8)
    (first, later) = (degree_features(*np.array(pairs).T, count) for pairs, count in (tree, star))
    kept = StructuralFeatures.fit(first)
    rows = slow(*tree)
    expected = (slow(*star) - rows.mean(0)) / rows.std(0)
    assert np.allclose(kept.features(later, np.arange(8))[:, :4], expected, atol=1e-4)


def test_rounding_is_no_spread():
    ring = np.arange(999)
    assert StructuralFeatures.fit(degree_features(ring, np.roll(ring, 1), 999)).scale == (1, 1, 1, 1)
