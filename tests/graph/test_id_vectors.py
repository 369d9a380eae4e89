from __future__ import annotations

import math

import numpy as np

from clnr.graph.id_vectors import RANDOM, id_words, random_features


def marked(ids):
    return random_features(ids) * math.sqrt(RANDOM)


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


def test_vectors_of_any_even_width_begin_alike():
    ids = np.array(["a", "b"], object)
    assert random_features(ids, 6).shape == (2, 6)
    assert random_features(ids, 0).shape == (2, 0)
    assert np.array_equal(random_features(ids, 6)[:, :3], random_features(ids)[:, :3])


def test_ids_have_words_of_their_own():
    words = id_words(np.arange(5000))
    assert words.dtype == np.int64
    assert len(np.unique(words)) == 5000
    assert id_words(np.array([], object)).shape == (0,)
