from __future__ import annotations

import math

import numpy as np
import pytest

from clnr.nn.objectives import Infomax, NTXent
from tests import oracles
from tests.nn.objectives.moments import differentiable, rows, value


def loss(views, temperature=0.5, sampled=0, when=None):
    return value(NTXent(temperature, sampled_nodes=sampled), views, when)


def test_the_rows_that_it_is_given_are_all_contrasted():
    u, v = rows(2, 40, 6)
    for sampled in (0, 9, 40, 1024):
        assert loss([u, v], sampled=sampled) == pytest.approx(oracles.nt_xent(u, v, 0.5))


def test_closed_form_for_orthonormal_rows():
    """Equal views of m orthonormal rows: the positive at similarity 1, 2 (m - 1) negatives at 0."""
    u = np.eye(6)
    assert loss([u, u]) == pytest.approx(math.log(math.exp(2) + 10) - 2)


def test_gradient_of_nt_xent():
    assert differentiable(NTXent(0.5), rows(2, 5, 3))


def test_of_several_encoders_each_ones_views_are_contrasted_by_themselves():
    a, b = rows(2, 20, 6, seed=1), rows(2, 20, 6, seed=2)
    both = oracles.nt_xent(*a, 0.5) + oracles.nt_xent(*b, 0.5)
    assert loss([*a, *b]) == pytest.approx(both)
    assert loss([a[0], b[0], a[1], b[1]]) != pytest.approx(both)


def weights(width, seed=1):
    random = np.random.default_rng(seed)
    return {"weight": random.standard_normal((width, width)), "bias": random.standard_normal(())}


def test_one_view_against_its_own_summary():
    h, corrupted = rows(2, 9, 4)
    expected = oracles.infomax([(h, corrupted, h)], **weights(4))
    assert value(Infomax(), [h, corrupted], parameters=weights(4)) == pytest.approx(expected)


def test_two_views_each_against_the_others_summary():
    h1, h2, c1, c2 = rows(4, 9, 4)
    expected = oracles.infomax([(h1, c1, h2), (h2, c2, h1)], **weights(4))
    assert value(Infomax(), [h1, h2, c1, c2], parameters=weights(4)) == pytest.approx(expected)
    straight = oracles.infomax([(h1, c1, h1), (h2, c2, h2)], **weights(4))
    assert expected != pytest.approx(straight)


@pytest.mark.parametrize("views", [2, 4])
def test_gradient_of_infomax(views):
    assert differentiable(Infomax(), rows(views, 5, 3), parameters=weights(3))
