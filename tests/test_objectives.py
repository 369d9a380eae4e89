from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clnr import chance
from clnr.engine import cpu
from clnr.objectives import Moment, NTXent, unit_rows
from tests import oracles
from tests.conftest import tiny

ENGINE = cpu()


def moment(epoch=0, seed=0):
    return Moment(ENGINE, ENGINE.place(tiny()), seed, epoch)


def pair(shape=(40, 6), seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape), random.standard_normal(shape)]


def loss(views, temperature=0.5, sampled=0, when=None):
    return float(NTXent(temperature, sampled)({}, [torch.tensor(view) for view in views], when or moment()))


def test_all_nodes():
    u, v = pair()
    for sampled in (0, 40, 1024):
        assert loss([u, v], sampled=sampled) == pytest.approx(oracles.nt_xent(u, v, 0.5))


def test_sampled_nodes_are_those_of_chance_and_differ_by_epoch():
    u, v = pair()
    seen = set()
    for epoch in (0, 1, 40):
        nodes = chance.sample(3, epoch, 40, 9, torch.device("cpu")).numpy()
        got = loss([u, v], sampled=9, when=moment(epoch, seed=3))
        assert got == pytest.approx(oracles.nt_xent(u[nodes], v[nodes], 0.5))
        seen.add(got)
    assert len(seen) == 3


def test_views_may_change_places_and_rows_their_length():
    u, v = pair()
    assert loss([u, v]) == pytest.approx(loss([v, u]))
    assert loss([u, v]) == pytest.approx(loss([u * np.linspace(0.1, 9, 40)[:, None], v]))


def test_closed_form_for_orthonormal_rows():
    """Equal views of m orthonormal rows: the positive at similarity 1, 2 (m - 1) negatives at 0."""
    u = np.eye(6)
    assert loss([u, u]) == pytest.approx(math.log(math.exp(2) + 10) - 2)


def test_one_node_has_no_negatives():
    u, v = pair((1, 4))
    assert loss([u, v]) == pytest.approx(0)


def test_gradient():
    u, v = (torch.tensor(view, requires_grad=True) for view in pair((5, 3)))
    assert torch.autograd.gradcheck(lambda a, b: NTXent(0.5, 0)({}, [a, b], moment()), (u, v))


def test_unit_rows():
    z = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]], dtype=torch.float64, requires_grad=True)
    u = unit_rows(z)
    torch.testing.assert_close(u, torch.tensor([[0.6, 0.8], [0, 0], [1, 0]], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(u.sum(), z)
    assert gradient.isfinite().all()
    assert not gradient[1].any()
