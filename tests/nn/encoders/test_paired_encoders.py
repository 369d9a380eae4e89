import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Mask, cpu_engine
from clnr.methods import CLNR, CLNR_MIX
from clnr.methods.recipe import Recipe
from clnr.nn.encoders.gcn import GCN, BatchGCN, PReLUGCN
from clnr.nn.encoders.mlp import MLP
from clnr.nn.encoders.paired_encoders import GCNAndMLP, MomentumEncoder, MultiViewEncoder
from clnr.nn.layers import add_prefix, sub_dict
from clnr.nn.objectives import StepContext
from tests.conftest import tiny
from tests.nn.encoders.exact import exact, jittered, operators

KEY = rng.key(0, "encoder")
GRAPH = tiny()
VIEWS = [exact(GRAPH), exact(tiny(seed=3)), exact(tiny(seed=4)), exact(tiny(seed=5))]
MOMENTUM, PER_VIEW = MomentumEncoder(2, 6, 4, 0.9), MultiViewEncoder(2, 6, 4)


def test_momentum_shows_the_learning_encoders_rows_and_then_the_targets():
    parameters = jittered(MOMENTUM.init(12, KEY))
    one = BatchGCN(2, 6, 4)
    for index, view in enumerate(VIEWS[:2]):
        expected = [one(sub_dict(parameters, half), view) for half in ("online", "target")]
        for rows, same in zip(MOMENTUM.rows(parameters, view, index), expected, strict=True):
            assert torch.equal(rows.materialize(), same)


def test_no_gradient_reaches_the_target():
    parameters = {name: value.requires_grad_() for name, value in MOMENTUM.init(12, KEY).items()}
    views = [operators(GRAPH), operators(GRAPH, mask=Mask(KEY, 0.5))]
    rows = [[each.materialize() for each in MOMENTUM.rows(parameters, view, i)] for i, view in enumerate(views)]
    assert [[each.requires_grad for each in of_view] for of_view in rows] == [[True, False], [True, False]]
    (rows[0][0] * rows[1][1]).sum().backward()
    assert all((value.grad is not None) == name.startswith("online.") for name, value in parameters.items())


@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("form", [int, torch.tensor])
@pytest.mark.parametrize(("epoch", "epochs", "share"), [(2, 6, 0.5), (0, 2, 0.5), (9, 10, 0.0), (3, 12, 0.75)])
def test_the_target_follows_by_a_cosine(momentum, epoch, epochs, share, form):
    """Of what it lacks it takes 1 - momentum at the start, after half of the steps half of that, at the end nothing."""
    encoder = MomentumEncoder(2, 6, 4, momentum)
    parameters = jittered(encoder.init(12, KEY))
    before = {name: value.clone() for name, value in parameters.items()}
    encoder.update_ema(parameters, form(epoch), epochs)
    for name, value in sub_dict(before, "target").items():
        step = (1 - momentum) * share * (before[f"online.{name}"] - value)
        torch.testing.assert_close(parameters[f"target.{name}"], value + step)
        assert torch.equal(parameters[f"online.{name}"], before[f"online.{name}"])


def test_momentum_embeds_with_the_learning_half_and_its_settled_statistics():
    parameters = jittered(MOMENTUM.init(12, KEY))
    one = BatchGCN(2, 6, 4)
    online = sub_dict(parameters, "online")
    assert torch.equal(MOMENTUM.embed(parameters, VIEWS[:1]), one(online, VIEWS[0]))
    settled = MOMENTUM.finalize(parameters, VIEWS[:1])
    new = {f"online.{layer}.{name}" for layer in range(2) for name in ("mean", "variance")}
    assert settled.keys() - parameters.keys() == new
    assert torch.equal(MOMENTUM.embed(settled, VIEWS[1:2]), one(one.finalize(online, VIEWS[:1]), VIEWS[1]))
    assert not torch.allclose(MOMENTUM.embed(settled, VIEWS[1:2]), one(online, VIEWS[1]))


def test_views_take_the_two_encoders_in_turn_and_the_embedding_is_the_sum_over_both():
    parameters = jittered(PER_VIEW.init(12, KEY))
    one = PReLUGCN(2, 6, 4)
    for i, view in enumerate(VIEWS):
        (rows,) = PER_VIEW.rows(parameters, view, i)
        assert torch.equal(rows.materialize(), one(sub_dict(parameters, "diffusion" if i % 2 else "edges"), view))
    expected = one(sub_dict(parameters, "edges"), VIEWS[0]) + one(sub_dict(parameters, "diffusion"), VIEWS[1])
    np.testing.assert_allclose(PER_VIEW.embed(parameters, VIEWS[:2]).numpy(), expected.numpy(), rtol=1e-12)


def test_a_gcn_and_an_mlp_are_each_the_encoder_alone():
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
