from __future__ import annotations

import math

import numpy as np
import pytest

from clnr.tables.structure import MARKS, structural


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
    found = structural(source, target, np.arange(count), count)
    expected = slow(pairs, count)
    spread = expected.std(0)
    expected = (expected - expected.mean(0)) / np.where(spread > 0, spread, 1)
    assert found.shape == (count, 4 + MARKS)
    assert np.allclose(found[:, :4], expected, atol=1e-5)


def test_marks_are_normal_numbers_that_follow_from_the_id():
    none = np.empty(0, np.int64)
    marks = structural(none, none, np.array([f"node {i}" for i in range(500)], object), 500)[:, 4:] * math.sqrt(MARKS)
    assert abs(marks.mean()) < 0.02
    assert abs(marks.std() - 1) < 0.02
    again = structural(none, none, np.array(["node 7", "other"], object), 2)[:, 4:] * math.sqrt(MARKS)
    assert np.array_equal(again[0], marks[7])
    assert len(np.unique(marks[:, 0])) == 500
