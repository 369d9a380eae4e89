from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Mask, View
from clnr.nn.encoders import MomentumEncoder
from clnr.nn.objectives import Bootstrap
from tests import oracles
from tests.nn.objectives.moments import ENGINE, TINY, differentiable, rows, step, value

KEY = rng.key(0, "objective")
NAMES = ("0.weight", "0.bias", "1.weight", "1.bias")


def weights(width, hidden, seed=1):
    random = np.random.default_rng(seed)
    shapes = ((width, hidden), (hidden,), (hidden, width), (width,))
    parameters = {name: random.standard_normal(shape) for name, shape in zip(NAMES, shapes, strict=True)}
    return parameters | {"0.slope": np.array(0.3)}


def identity(width):
    """A predictor that changes nothing: x = relu(x) - relu(-x), with slope 0."""
    eye = np.eye(width)
    layers = (np.hstack([eye, -eye]), np.zeros(2 * width), np.vstack([eye, -eye]), np.zeros(width))
    return dict(zip(NAMES, layers, strict=True)) | {"0.slope": np.array(0.0)}


def test_values_equal_the_loop():
    views, parameters = rows(4, 7, 3), weights(3, 5)

    def predict(z):
        return oracles.perceptron(z, *(parameters[name] for name in NAMES), lambda x: oracles.leaky(x, 0.3))

    assert value(Bootstrap(5), views, parameters=parameters) == pytest.approx(oracles.bootstrap(*views, predict))


def test_gradient():
    assert differentiable(Bootstrap(4), rows(4, 5, 3), parameters=weights(3, 4))


def test_each_view_predicts_the_others_target():
    u, v, u_target, v_target = rows(4, 6, 3)
    predict = identity(3)
    crossed = 2 - sum(oracles.cosine(u[i], v_target[i]) + oracles.cosine(v[i], u_target[i]) for i in range(6)) / 6
    assert value(Bootstrap(0), [u, v, u_target, v_target], parameters=predict) == pytest.approx(crossed)


def test_perfect_prediction_is_the_minimum_and_its_opposite_the_maximum():
    u, v = rows(2, 6, 3)
    predict = identity(3)
    assert value(Bootstrap(0), [u, v, v, u], parameters=predict) == pytest.approx(0)
    assert value(Bootstrap(0), [u, v, -v, -u], parameters=predict) == pytest.approx(4)
    inputs = [torch.tensor(z, requires_grad=True) for z in (u, v)]
    targets = [torch.tensor(z) for z in (v, u)]
    Bootstrap(0)({name: torch.tensor(w) for name, w in predict.items()}, [*inputs, *targets], step()).backward()
    assert max(float(z.grad.abs().max()) for z in inputs) < 1e-12


def test_it_stays_between_zero_and_four():
    for seed in range(20):
        assert 0 <= value(Bootstrap(5), rows(4, 5, 2, seed=seed), parameters=weights(2, 5, seed)) <= 4


def test_the_length_of_targets_and_predictions_does_not_matter():
    u, v, u_target, v_target = rows(4, 6, 3)
    parameters = weights(3, 5)
    base = value(Bootstrap(5), [u, v, u_target, v_target], parameters=parameters)
    lengths = np.linspace(0.1, 9, 6)[:, None]
    assert value(Bootstrap(5), [u, v, lengths * u_target, 7 * v_target], parameters=parameters) == pytest.approx(base)
    longer = parameters | {"1.weight": 5 * parameters["1.weight"], "1.bias": 5 * parameters["1.bias"]}
    assert value(Bootstrap(5), [u, v, u_target, v_target], parameters=longer) == pytest.approx(base)


def test_with_a_target_that_follows_no_gradient_reaches_it():
    encoder, objective = MomentumEncoder(2, 6, 4, 0.9), Bootstrap(5)
    online = {name: value.requires_grad_() for name, value in encoder.init(12, KEY).items()}
    predictor = {name: value.requires_grad_() for name, value in objective.init(4, KEY).items()}
    views = [ENGINE.operators(View(TINY, mask=Mask(rng.key(i), 0.5))) for i in range(2)]
    (u, u_target), (v, v_target) = (encoder.rows(online, view, i) for i, view in enumerate(views))
    objective(predictor, [rows.materialize() for rows in (u, v, u_target, v_target)], step()).backward()
    assert all(value.grad.any() for value in predictor.values())
    assert all((value.grad is None) == name.startswith("target.") for name, value in online.items())


@pytest.mark.parametrize(("head_width", "hidden"), [(0, 6), (9, 9)])
def test_initial_weights(head_width, hidden):
    parameters = Bootstrap(head_width).init(3, KEY)
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    assert shapes == {"0.weight": (3, hidden), "0.bias": (hidden,), "1.weight": (hidden, 3), "1.bias": (3,), "0.slope": ()}
    assert float(parameters["0.slope"]) == 0.25
