from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clnr import chance
from clnr.objectives import NTXent
from tests import oracles
from tests.objectives.moments import differentiable, moment, rows, value


def loss(views, temperature=0.5, sampled=0, when=None):
    return value(NTXent(temperature, sampled), views, when)


def test_all_nodes():
    u, v = rows(2, 40, 6)
    for sampled in (0, 40, 1024):
        assert loss([u, v], sampled=sampled) == pytest.approx(oracles.nt_xent(u, v, 0.5))


def test_sampled_nodes_are_those_of_chance_and_differ_by_epoch():
    u, v = rows(2, 40, 6)
    seen = set()
    for epoch in (0, 1, 40):
        nodes = chance.sample(3, epoch, 1000, 40, 9, torch.device("cpu")).numpy()
        got = loss([u, v], sampled=9, when=moment(epoch, seed=3))
        assert got == pytest.approx(oracles.nt_xent(u[nodes], v[nodes], 0.5))
        seen.add(got)
    assert len(seen) == 3


def test_views_may_change_places_and_rows_their_length():
    u, v = rows(2, 40, 6)
    assert loss([u, v]) == pytest.approx(loss([v, u]))
    assert loss([u, v]) == pytest.approx(loss([u * np.linspace(0.1, 9, 40)[:, None], v]))


def test_closed_form_for_orthonormal_rows():
    """Equal views of m orthonormal rows: the positive at similarity 1, 2 (m - 1) negatives at 0."""
    u = np.eye(6)
    assert loss([u, u]) == pytest.approx(math.log(math.exp(2) + 10) - 2)


def test_one_node_has_no_negatives():
    u, v = rows(2, 1, 4)
    assert loss([u, v]) == pytest.approx(0)


@pytest.mark.parametrize("sampled", [0, 3])
def test_gradient(sampled):
    assert differentiable(NTXent(0.5, sampled), rows(2, 5, 3))
