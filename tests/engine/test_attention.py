import numpy as np
import pytest
import torch

from clnr.engine import Dropout, View, cpu_engine
from tests import oracles
from tests.engine.conftest import DROPS, EVERY, GRAPHS, KEY, random

ATTENTION = ["usual", "weighted", "directed, weighted, sparse", "one node", "no edges", "star", "loops of its own"]
HEADS = 3


def attention(graph, rule, dtype=torch.float64, engine=None):
    """The arguments of ``attend``, and a loop's answer with its shares, head by head."""
    n = graph.num_nodes
    h, source, target = random(n, HEADS, 4), 3 * random(n, HEADS, seed=3), 3 * random(n, HEADS, seed=4)

    def keep(i, j):
        ends = (min(i, j), max(i, j)) if rule and rule.pairs else (i, j)
        return rule is None or oracles.kept(rule.key, rule.rate, *ends)

    device = "cpu" if engine is None else engine.device
    inputs = [torch.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in (h, source, target)]
    near = oracles.listened_to(graph, keep)
    seen = [oracles.attend(h[:, k], source[:, k], target[:, k], near) for k in range(HEADS)]
    return inputs, np.stack([rows for rows, _ in seen], 1), [shares for _, shares in seen]


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_attention_equals_the_loop(engine, name, drop):
    graph = GRAPHS[name]
    inputs, expected, _ = attention(graph, DROPS[drop], engine=engine)
    got = engine.operators(View(engine.to_device(graph), DROPS[drop])).attend(*inputs, "here")
    np.testing.assert_allclose(got.detach().cpu().numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("drop", ["all", "half", "none left"])
@pytest.mark.parametrize("name", ["one node", "no edges", "star", "loops of its own"])
def test_gradient_of_attention(name, drop):
    inputs, _, _ = attention(GRAPHS[name], DROPS[drop])
    operators = cpu_engine().operators(View(cpu_engine().to_device(GRAPHS[name]), DROPS[drop]))
    assert torch.autograd.gradcheck(lambda *all: operators.attend(*all, "here"), inputs)


@pytest.mark.parametrize("name", ["usual", "star", "directed, weighted, sparse"])
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_every_engines_gradient_of_attention(engine, name, monkeypatch):
    """Also where a hub's edges are summed in parts."""
    csr_layout = pytest.importorskip("clnr.engine.gpu.triton.csr_layout", reason="Triton is not installed")
    monkeypatch.setattr(csr_layout, "SHORT_ROW_ENTRIES", 2)
    monkeypatch.setattr(csr_layout, "SEGMENT_ENTRIES", 4)

    def gradients(engine, dtype):
        inputs, _, _ = attention(GRAPHS[name], DROPS["half"], dtype, engine)
        out = engine.operators(View(engine.to_device(GRAPHS[name]), DROPS["half"])).attend(*inputs, "here")
        weight = torch.tensor(random(*out.shape, seed=8), dtype=dtype, device=out.device)
        return [each.double().cpu() for each in torch.autograd.grad((out * weight).sum(), inputs)]

    for one, other in zip(gradients(engine, torch.float32), gradients(cpu_engine(), torch.float64), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_large_scores_do_no_harm():
    operators = cpu_engine().operators(View(cpu_engine().to_device(GRAPHS["usual"])))
    h, far = torch.tensor(random(40, 1, 4), dtype=torch.float32), torch.linspace(-1e4, 1e4, 40)[:, None].requires_grad_()
    out = operators.attend(h, far, far, "here")
    (gradient,) = torch.autograd.grad(out.sum(), far)
    assert out.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_dropout_thins_out_the_shares_of_attention(engine):
    graph, dropout = GRAPHS["usual"], Dropout(KEY, 0.5)
    (h, *scores), _, shares = attention(graph, None, engine=engine)
    place = engine.to_device(graph)
    got = engine.operators(View(place, dropout=dropout)).attend(h, *scores, "here")
    expected, own = np.zeros((40, HEADS, 4)), oracles.key(1, "train", 0, 0, "DropEdges", "here")
    for e, (i, j) in enumerate(torch.stack([place.edges.columns, place.edges.rows]).T.tolist()):
        for k in range(HEADS):
            share = 2 * oracles.kept(own, 0.5, e * HEADS + k) * shares[k][i, j]
            expected[j, k] += share * h[i, k].detach().cpu().numpy()
    np.testing.assert_allclose(got.detach().cpu().numpy(), expected, atol=1e-10)
