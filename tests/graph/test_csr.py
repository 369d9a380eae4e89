"""The median weight of edges."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from clnr.graph import csr
from clnr.graph.csr import median_weight


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_it_is_the_lower_median(count):
    weights = np.random.default_rng(count).random(count, np.float32)
    assert median_weight(weights) == statistics.median_low(weights.tolist())
    assert median_weight(np.repeat(weights, 2)) == median_weight(weights)


def test_without_weights_it_is_1():
    assert median_weight(None) == median_weight(np.empty(0, np.float32)) == 1


def test_of_many_some_parts_are_looked_at(monkeypatch):
    monkeypatch.setattr(csr, "_PARTS", 5)
    monkeypatch.setattr(csr, "_PART", 100)
    weights = np.arange(10_001, dtype=np.float32)
    assert abs(median_weight(weights) - 5000) <= 50
    shuffled = np.random.default_rng(0).permutation(weights)
    assert abs(median_weight(shuffled) - 5000) < 1000
