import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine.dense import PLAIN
from clnr.nn.autograd import prelu_linear
from clnr.nn.layers import add_prefix, batch_norm, bilinear, glorot, linear_layers, norms, prelu, sub_dict

RANDOM = np.random.default_rng(0)


def numbers(*shape, scale=1.0):
    return torch.tensor(RANDOM.standard_normal(shape) * scale)


def test_under_undoes_at_and_takes_only_its_own():
    own, other = {"0.weight": numbers(2), "a.b": numbers(1)}, {"x": numbers(1)}
    everything = add_prefix("here", own) | add_prefix("here.too", other) | add_prefix("hereafter", other)
    assert everything.keys() == {"here.0.weight", "here.a.b", "here.too.x", "hereafter.x"}
    assert sub_dict(add_prefix("here", own) | add_prefix("hereafter", other), "here") == own
    assert sub_dict(everything, "here.too") == other
    assert sub_dict(everything, "her") == {}


@pytest.mark.parametrize(("rows", "columns"), [(300, 200), (100, 1), (1, 1000)])
def test_glorot_is_uniform_within_its_bound(rows, columns):
    weight = glorot(rng.key(0, "w"), rows, columns)
    bound = (6 / (rows + columns)) ** 0.5
    assert weight.shape == (rows, columns)
    assert 0.9 * bound < weight.abs().max() <= bound
    assert abs(float(weight.mean())) < 5 * bound / (3 * rows * columns) ** 0.5
    assert float(weight.double().var()) == pytest.approx(bound**2 / 3, rel=6 / (rows * columns) ** 0.5)
    assert torch.equal(weight, glorot(rng.key(0, "w"), rows, columns))
    assert not torch.equal(weight, glorot(rng.key(1, "w"), rows, columns))


def test_plain_layers_begin_as_torchs_linear():
    torch.manual_seed(0)
    ours, theirs = linear_layers([900, 700], rng.key(0)), torch.nn.Linear(900, 700)
    for mine, other in ((ours["0.weight"], theirs.weight), (ours["0.bias"], theirs.bias)):
        other = other.detach()
        assert mine.numel() == other.numel()
        # Both uniform within 1 / sqrt(900): alike in their extremes and in their spread.
        assert mine.abs().max() <= 1 / 30
        assert mine.abs().max() == pytest.approx(float(other.abs().max()), rel=0.02)
        assert mine.std() == pytest.approx(float(other.std()), rel=0.1)
        assert abs(float(mine.mean())) < 5 * float(other.std()) / mine.numel() ** 0.5


def test_a_bilinear_form_begins_as_dgis():
    torch.manual_seed(0)
    theirs = torch.nn.init.xavier_uniform_(torch.nn.Bilinear(64, 64, 1).weight.data)
    ours = bilinear(rng.key(0), 64)
    assert theirs.shape == (1, *ours.shape)
    assert ours.abs().max() == pytest.approx(float(theirs.abs().max()), rel=0.01)
    assert ours.std() == pytest.approx(float(theirs.std()), rel=0.05)


def test_a_layer_after_prelu_keeps_only_what_it_was_given():
    parts = [numbers(6, 4), torch.tensor(0.3, dtype=torch.float64), numbers(4, 3), numbers(3)]
    for part in parts:
        part.requires_grad_()
    h, slope, weight, bias = parts
    torch.testing.assert_close(prelu_linear(*parts), prelu(h, slope) @ weight + bias)
    assert torch.autograd.gradcheck(prelu_linear, parts)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        prelu_linear(*parts)
    assert kept == [h.shape, slope.shape, weight.shape]


def test_a_constant_column_survives_batch_norm():
    h = torch.full((50, 2), 0.1, requires_grad=True)
    z = batch_norm(norms([2]), 0, h, None, PLAIN)
    (z * torch.arange(50)[:, None]).sum().backward()
    assert z.abs().max() < 1e-4
    assert h.grad.isfinite().all()
