from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clnr.evaluation import geometry
from tests import oracles


def unit(n, d, seed=0):
    z = np.random.default_rng(seed).standard_normal((n, d))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def test_alignment_is_the_mean_squared_distance():
    u, v = unit(20, 5), unit(20, 5, 1)
    expected = sum(float(((a - b) ** 2).sum()) for a, b in zip(u, v, strict=True)) / 20
    assert geometry.alignment(torch.tensor(u), torch.tensor(v)) == pytest.approx(expected)
    assert geometry.alignment(torch.tensor(u), torch.tensor(u)) == 0


@pytest.mark.parametrize("block", [1, 3, 7, 4096])
def test_uniformity_over_distinct_pairs_in_blocks(block, monkeypatch):
    monkeypatch.setattr(geometry, "_BLOCK_ROWS", block)
    u = unit(23, 4)
    assert geometry.uniformity(torch.tensor(u)) == pytest.approx(oracles.uniformity(u))


def test_uniformity_at_its_ends():
    """All in one point: 0. Two opposite points: distance 2, so -8. One row alone has no pair."""
    assert geometry.uniformity(torch.ones(5, 1)) == pytest.approx(0)
    assert geometry.uniformity(torch.tensor([[1.0], [-1.0]])) == pytest.approx(-8)
    assert math.isnan(geometry.uniformity(torch.ones(1, 3)))


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (1, 4), (5, 5)])
@pytest.mark.parametrize("block", [4, 4096])
def test_effective_rank_by_singular_values(shape, block, monkeypatch):
    monkeypatch.setattr(geometry, "_BLOCK_ROWS", block)
    z = np.random.default_rng(0).standard_normal(shape)
    assert geometry.effective_rank(torch.tensor(z)) == pytest.approx(oracles.effective_rank(z), rel=1e-6)


def test_effective_rank_of_known_matrices():
    assert geometry.effective_rank(torch.eye(9)) == pytest.approx(9)
    assert geometry.effective_rank(torch.ones(50, 7)) == pytest.approx(1, rel=1e-4)
    assert geometry.effective_rank(torch.zeros(5, 3)) == 0
