from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Mask
from clnr.nn.encoders import BatchGCN, MomentumEncoder, MultiViewEncoder, PReLUGCN
from tests.conftest import tiny
from tests.nn.encoders.exact import Exact, differentiable, jittered, operators

KEY = rng.key(0, "encoder")
GRAPH = tiny()
VIEWS = [Exact(GRAPH), Exact(tiny(seed=3)), Exact(tiny(seed=4)), Exact(tiny(seed=5))]
BOTH = {
    "momentum": (MomentumEncoder(2, 6, 4, 0.9), "online", "target"),
    "per view": (MultiViewEncoder(2, 6, 4), "edges", "diffusion"),
}


def side(parameters, name):
    return {key.removeprefix(f"{name}."): value for key, value in parameters.items() if key.startswith(f"{name}.")}


@pytest.mark.parametrize("name", BOTH)
def test_both_halves_start_from_weights_of_their_own(name):
    encoder, one, other = BOTH[name]
    parameters = encoder.init(12, KEY)
    assert side(parameters, one).keys() == side(parameters, other).keys()
    assert len(parameters) == 2 * len(side(parameters, one))
    assert not torch.equal(parameters[f"{one}.0.weight"], parameters[f"{other}.0.weight"])
    assert all(torch.equal(value, encoder.init(12, KEY)[key]) for key, value in parameters.items())
    assert encoder.width(12) == 4
    assert encoder.asymmetric


def test_momentum_shows_the_learning_encoders_rows_and_then_the_targets():
    encoder = BOTH["momentum"][0]
    parameters = jittered(encoder.init(12, KEY))
    one = BatchGCN(2, 6, 4)
    for index, view in enumerate(VIEWS[:2]):
        expected = [one(side(parameters, half), view) for half in ("online", "target")]
        for rows, same in zip(encoder.rows(parameters, view, index), expected, strict=True):
            assert torch.equal(rows.materialize(), same)


def test_no_gradient_reaches_the_target():
    encoder = BOTH["momentum"][0]
    parameters = {name: value.requires_grad_() for name, value in encoder.init(12, KEY).items()}
    views = [operators(GRAPH), operators(GRAPH, mask=Mask(KEY, 0.5))]
    rows = [[each.materialize() for each in encoder.rows(parameters, view, i)] for i, view in enumerate(views)]
    assert [[each.requires_grad for each in of_view] for of_view in rows] == [[True, False], [True, False]]
    (rows[0][0] * rows[1][1]).sum().backward()
    assert all((value.grad is not None) == name.startswith("online.") for name, value in parameters.items())


def test_gradients_of_the_learning_half_equal_differences():
    encoder, graph = MomentumEncoder(2, 3, 2, 0.9), tiny(7, 10, 3)
    parameters = jittered(encoder.init(3, KEY))
    fixed = {name: value for name, value in parameters.items() if name.startswith("target.")}
    online = {name: value for name, value in parameters.items() if name.startswith("online.")}
    assert differentiable(lambda weights: encoder.rows(weights | fixed, Exact(graph), 0)[0].materialize(), online)


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("form", [int, torch.tensor])
@pytest.mark.parametrize(("epoch", "epochs", "share"), [(2, 6, 0.5), (0, 2, 0.5), (9, 10, 0.0), (3, 12, 0.75)])
def test_the_target_follows_by_a_cosine(momentum, epoch, epochs, share, form):
    """Of what it lacks it takes 1 - momentum at the start, after half of the steps half of that, at the end nothing."""
    encoder = MomentumEncoder(2, 6, 4, momentum)
    parameters = jittered(encoder.init(12, KEY))
    before = {name: value.clone() for name, value in parameters.items()}
    encoder.update_ema(parameters, form(epoch), epochs)
    for name, value in side(before, "target").items():
        step = (1 - momentum) * share * (before[f"online.{name}"] - value)
        torch.testing.assert_close(parameters[f"target.{name}"], value + step)
        assert torch.equal(parameters[f"online.{name}"], before[f"online.{name}"])


def test_many_steps_of_following_in_closed_form():
    encoder = MomentumEncoder(1, 1, 1, 0.8)
    parameters = jittered(encoder.init(3, KEY))
    start = parameters["target.0.weight"].clone()
    left = 1.0
    for step in range(20):
        encoder.update_ema(parameters, step, 20)
        left *= 1 - 0.2 * math.cos(math.pi * (step + 1) / 40) ** 2
    expected = parameters["online.0.weight"] + left * (start - parameters["online.0.weight"])
    torch.testing.assert_close(parameters["target.0.weight"], expected)


def test_following_works_on_parameters_that_learn():
    encoder = BOTH["momentum"][0]
    parameters = {name: value.requires_grad_() for name, value in encoder.init(12, KEY).items()}
    target = parameters["target.0.weight"]
    before = target.detach().clone()
    encoder.update_ema(parameters, 0, 9)
    assert parameters["target.0.weight"] is target
    assert target.is_leaf
    assert not torch.equal(target, before)


def test_momentum_embeds_with_the_learning_half_and_its_settled_statistics():
    encoder = BOTH["momentum"][0]
    parameters = jittered(encoder.init(12, KEY))
    one = BatchGCN(2, 6, 4)
    online = side(parameters, "online")
    assert torch.equal(encoder.embed(parameters, VIEWS[:1]), one(online, VIEWS[0]))
    settled = encoder.finalize(parameters, VIEWS[:1])
    new = {f"online.{layer}.{name}" for layer in range(2) for name in ("mean", "variance")}
    assert settled.keys() - parameters.keys() == new
    assert torch.equal(encoder.embed(settled, VIEWS[1:2]), one(one.finalize(online, VIEWS[:1]), VIEWS[1]))
    assert not torch.allclose(encoder.embed(settled, VIEWS[1:2]), one(online, VIEWS[1]))


def test_views_take_the_two_encoders_in_turn():
    encoder = BOTH["per view"][0]
    parameters = jittered(encoder.init(12, KEY))
    one = PReLUGCN(2, 6, 4)
    for i, view in enumerate(VIEWS):
        (rows,) = encoder.rows(parameters, view, i)
        assert torch.equal(rows.materialize(), one(side(parameters, "diffusion" if i % 2 else "edges"), view))


def test_the_embedding_is_the_sum_over_both_sides():
    encoder = BOTH["per view"][0]
    parameters = jittered(encoder.init(12, KEY))
    one = PReLUGCN(2, 6, 4)
    expected = one(side(parameters, "edges"), VIEWS[0]) + one(side(parameters, "diffusion"), VIEWS[1])
    np.testing.assert_allclose(encoder.embed(parameters, VIEWS[:2]).numpy(), expected.numpy(), rtol=1e-12)


def test_gradients_of_both_sides_equal_differences():
    encoder, graph = MultiViewEncoder(2, 3, 2), tiny(7, 10, 3)
    views = [Exact(graph), Exact(tiny(7, 12, 3, seed=1))]
    parameters = jittered(encoder.init(3, KEY))

    def rows(weights):
        return torch.cat([encoder.rows(weights, view, i)[0].materialize() for i, view in enumerate(views)])

    assert differentiable(rows, parameters)
