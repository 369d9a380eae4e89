from __future__ import annotations

import math

import numpy as np
import pytest

from clnr import rng
from clnr.nn.objectives import Infomax
from tests import oracles
from tests.nn.objectives.moments import differentiable, rows, value


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
def test_gradient(views):
    assert differentiable(Infomax(), rows(views, 5, 3), parameters=weights(3))


@pytest.mark.parametrize("views", [2, 4])
def test_without_weights_it_knows_nothing(views):
    zero = {"weight": np.zeros((4, 4)), "bias": np.zeros(())}
    assert value(Infomax(), rows(views, 9, 4), parameters=zero) == pytest.approx(math.log(2))


def test_a_discriminator_that_is_right_loses_nothing_and_one_that_is_wrong_all():
    h = np.ones((5, 2))
    for sign, expected in ((1, 0), (-1, 100 / (1 + math.exp(-1)) * 2)):
        parameters = {"weight": sign * 50 * np.ones((2, 2)), "bias": np.zeros(())}
        got = value(Infomax(), [h, -h], parameters=parameters)
        assert got == pytest.approx(expected, abs=1e-9)


def test_the_order_of_nodes_does_not_matter():
    h, corrupted = rows(2, 9, 4)
    order = np.random.default_rng(0).permutation(9)
    shuffled = value(Infomax(), [h, corrupted[order]], parameters=weights(4))
    assert shuffled == pytest.approx(value(Infomax(), [h, corrupted], parameters=weights(4)))


def test_initial_weights():
    parameters = Infomax().init(64, rng.key(0, "objective"))
    assert parameters["weight"].shape == (64, 64)
    assert 0.99 < parameters["weight"].abs().max() / (6 / (64**2 + 64)) ** 0.5 <= 1
    assert (parameters["bias"].shape, float(parameters["bias"])) == ((), 0.0)
