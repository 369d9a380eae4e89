from __future__ import annotations

import hashlib
import math
import statistics

import numpy as np
import torch

from clnr import rng
from clnr.graph import id_vectors
from clnr.graph.id_vectors import RANDOM, random_features


def marked(ids):
    return random_features(ids).numpy() * math.sqrt(RANDOM)


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
    assert np.array_equal(marked(np.array([7, -1])), marked(np.array(["7", "-1"], object)))
    assert len(np.unique(marks, axis=0)) == 500


def test_vectors_of_any_width_begin_alike():
    ids = np.array(["a", "b"], object)
    assert random_features(ids, 0).shape == (2, 0)
    for width in (5, 6):
        rows = random_features(ids, width)
        assert rows.shape == (2, width)
        assert torch.equal(rows[:, :3], random_features(ids)[:, :3])


def test_each_number_is_a_quantile_chosen_by_a_hash_of_the_id():
    word = int.from_bytes(hashlib.blake2b(b"node 7", digest_size=8).digest(), "little")
    key, quantile = rng.key(0, "mark"), statistics.NormalDist(0, RANDOM**-0.5).inv_cdf
    drawn = [rng.draw(key, word & 0xFFFFFFFF, ((word >> 32) + column) & 0xFFFFFFFF) for column in range(RANDOM // 2)]
    expected = [quantile((bits + 0.5) / 65536) for part in (16, 0) for bits in (each >> part & 0xFFFF for each in drawn)]
    assert np.allclose(random_features(np.array(["node 7"], object))[0], expected, rtol=1e-6, atol=0)


def test_many_rows_are_those_of_some_at_a_time(monkeypatch):
    ids = np.array([f"node {i}" for i in range(10)], object)
    whole = random_features(ids, 8)
    monkeypatch.setattr(id_vectors, "_ROWS", 3)
    assert torch.equal(random_features(ids, 8), whole)
    assert torch.equal(random_features(ids[4:], 8), whole[4:])
