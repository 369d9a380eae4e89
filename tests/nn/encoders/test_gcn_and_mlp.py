from __future__ import annotations

import pytest
import torch

from clnr import rng
from clnr.engine import cpu_engine
from clnr.methods import CLNR, CLNR_MIX
from clnr.methods.recipe import Recipe
from clnr.nn.encoders import GCN, MLP, GCNAndMLP
from clnr.nn.layers import add_prefix, sub_dict
from clnr.nn.objectives import StepContext
from tests.conftest import tiny
from tests.nn.encoders.exact import Exact, differentiable, jittered, operators

KEY = rng.key(0, "encoder")


def test_each_side_is_the_encoder_alone():
    graph = tiny()
    both = GCNAndMLP(8)
    parameters = both.init(graph.num_features, KEY)
    seen = operators(graph)
    final = both.finalize(parameters, [seen])
    expected = []
    for place, alone in (("gcn", GCN(1, 8, 8)), ("mlp", MLP(2, 8, 8))):
        own = sub_dict(parameters, place)
        first = alone.init(graph.num_features, rng.branch(KEY, place))
        assert own.keys() == first.keys()
        assert all(torch.equal(own[name], value) for name, value in first.items())
        settled = alone.finalize(own, [seen])
        assert settled.keys() == sub_dict(final, place).keys()
        expected.append(alone(settled, seen))
    assert [rows.materialize().shape for rows in both.rows(parameters, seen, 0)] == [(40, 8)] * 2
    for found, right in zip(both.outputs(final, [seen]), expected, strict=True):
        torch.testing.assert_close(found, right)
    torch.testing.assert_close(both.embed(final, [seen]), torch.cat(expected, 1))
    assert both.width(12) == 8


def test_it_embeds_with_the_statistics_of_the_training_graph():
    graph, other = tiny(), tiny(seed=5)
    both = GCNAndMLP(8)
    final = both.finalize(both.init(graph.num_features, KEY), [operators(graph)])
    mlp = MLP(2, 8, 8)
    settled = mlp.finalize(sub_dict(final, "mlp"), [operators(graph)])
    torch.testing.assert_close(both.outputs(final, [operators(other)])[1], mlp(settled, operators(other)))


def test_gradients_equal_differences():
    graph = tiny(9, 14, 3)
    both = GCNAndMLP(4)
    parameters = jittered(both.init(3, KEY))
    assert differentiable(lambda weights: torch.cat(both.outputs(weights, [Exact(graph)]), 1), parameters)


@pytest.mark.parametrize("sampled", [0, 9])
def test_its_loss_and_gradients_are_those_of_the_two_trained_alone(sampled):
    """Of the same views and nodes: the losses add up, and neither side's gradient knows of the other."""
    graph = tiny()
    engine = cpu_engine()
    recipe = Recipe(hidden=8, dimension=8, sampled_nodes=sampled)
    step = StepContext(engine, engine.to_device(graph), 3, 2, 10)
    mixed = CLNR_MIX.build(recipe)
    parameters = mixed.init(graph.num_features, 3)

    def learned(model, given):
        given = {name: value.clone().requires_grad_() for name, value in given.items()}
        loss = model.loss(given, step)
        return loss.item(), dict(zip(given, torch.autograd.grad(loss, list(given.values())), strict=True))

    total, gradients = learned(mixed, parameters)
    parts = []
    for place, encoder, layers in (("gcn", "gcn", 1), ("mlp", "mlp", 2)):
        alone = CLNR.build(recipe.but(encoder=encoder, layers=layers))
        loss, own = learned(alone, add_prefix("encoder", sub_dict(parameters, f"encoder.{place}")))
        parts.append(loss)
        for name, value in own.items():
            right = gradients[name.replace("encoder.", f"encoder.{place}.", 1)]
            torch.testing.assert_close(right, value, rtol=1e-4, atol=1e-6)
    assert total == pytest.approx(sum(parts), rel=1e-5)
