from __future__ import annotations

import numpy as np
import pytest

from clnr import rng
from clnr.nn.objectives import CCA, Bootstrap
from tests import oracles
from tests.nn.objectives.moments import differentiable, rows, value

KEY = rng.key(0, "objective")
NAMES = ("0.weight", "0.bias", "1.weight", "1.bias")


@pytest.mark.parametrize("shape", [(1, 1), (20, 4), (3, 6)])
@pytest.mark.parametrize("decorrelation", [0.0, 1e-3, 2.0])
def test_cca_equals_the_loop(shape, decorrelation):
    u, v = rows(2, *shape)
    assert value(CCA(decorrelation), [u, v]) == pytest.approx(oracles.cca(u, v, decorrelation))


def test_gradient_of_cca():
    assert differentiable(CCA(0.3), rows(2, 6, 3))


def test_equal_columns_cost_their_correlation():
    """Two equal standardised columns: the trace is 2, and two correlations of 1 in either view are penalised."""
    z = np.repeat([[1.0], [-1.0]], 2, axis=1)
    assert value(CCA(0.5), [z, z]) == pytest.approx(-2 + 0.5 * 4)


def weights(width, hidden, seed=1):
    random = np.random.default_rng(seed)
    shapes = ((width, hidden), (hidden,), (hidden, width), (width,))
    parameters = {name: random.standard_normal(shape) for name, shape in zip(NAMES, shapes, strict=True)}
    return parameters | {"0.slope": np.array(0.3)}


def test_bootstrap_equals_the_loop():
    views, parameters = rows(4, 7, 3), weights(3, 5)

    def predict(z):
        return oracles.perceptron(z, *(parameters[name] for name in NAMES), lambda x: oracles.leaky(x, 0.3))

    assert value(Bootstrap(5), views, parameters=parameters) == pytest.approx(oracles.bootstrap(*views, predict))


def test_gradient_of_bootstrap():
    assert differentiable(Bootstrap(4), rows(4, 5, 3), parameters=weights(3, 4))


@pytest.mark.parametrize(("head_width", "hidden"), [(0, 6), (9, 9)])
def test_initial_weights_of_bootstrap(head_width, hidden):
    parameters = Bootstrap(head_width).init(3, KEY)
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    assert shapes == {"0.weight": (3, hidden), "0.bias": (hidden,), "1.weight": (hidden, 3), "1.bias": (3,), "0.slope": ()}
    assert float(parameters["0.slope"]) == 0.25
