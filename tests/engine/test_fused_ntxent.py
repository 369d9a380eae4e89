import subprocess
import sys

import numpy as np
import pytest
import torch

from clnr.engine import cpu_engine, torch_ntxent
from tests import oracles
from tests.engine.conftest import ENGINES, random, reference


@pytest.mark.parametrize("shape", [(1, 3), (2, 5), (7, 4), (33, 8)])
@pytest.mark.parametrize("temperature", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_contrast_is_the_papers_loss(engine, shape, temperature, monkeypatch):
    u, v = random(*shape, seed=4), random(*shape, seed=5)
    rows = np.concatenate([u, v])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = oracles.nt_xent(u, v, temperature)

    def outcome(nt_xent, dtype, device):
        r = torch.tensor(rows, dtype=dtype, device=device, requires_grad=True)
        loss = nt_xent(r, temperature)
        (3 * loss).backward()
        return float(loss.detach()), r.grad.cpu().double().numpy()

    oracle, slope = outcome(reference().nt_xent, torch.float64, "cpu")
    assert oracle == pytest.approx(expected, rel=1e-9, abs=1e-12)
    rel, slack = (1e-9, 1e-12) if engine.name != "gpu" else (1e-5, 1e-5)
    for similarities in (1 << 25, 40, 1):
        monkeypatch.setattr(torch_ntxent, "_SIMILARITIES_PER_BLOCK", similarities)
        loss, gradient = outcome(engine.nt_xent, torch.float64, engine.device)
        assert loss == pytest.approx(expected, rel=rel, abs=slack)
        np.testing.assert_allclose(gradient, slope, rtol=10 * rel, atol=slack)


def test_contrast_survives_extreme_temperatures():
    rows = torch.nn.functional.normalize(torch.randn(20, 4, generator=torch.Generator().manual_seed(0))).requires_grad_()
    for temperature in (1e-3, 1e3):
        loss = cpu_engine().nt_xent(rows, temperature)
        (gradient,) = torch.autograd.grad(loss, rows)
        assert loss.isfinite()
        assert gradient.isfinite().all()


_ALL_NODES = """
import torch
from clnr.engine import choose
from clnr.support.machine.memory import MemoryMeter
engine = choose({device!r})
rows = torch.nn.functional.normalize(torch.randn(2 * {nodes}, {width}, device=engine.device)).requires_grad_()
engine.nt_xent(rows[:64], 0.5).backward()
before = MemoryMeter(engine.device).peak()
meter = MemoryMeter(engine.device)
engine.nt_xent(rows, 0.5).backward()
print(meter.peak() - (before if engine.device.type == "cpu" else 0))
"""


def all_nodes_memory(device, nodes, width):
    script = _ALL_NODES.format(device=device, nodes=nodes, width=width)
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset a peak")
def test_contrast_over_all_nodes_takes_bounded_memory():
    """12,000 rows have 576 MB of similarities, and the plain formula needs them several times over."""
    assert all_nodes_memory("cpu", 6_000, 4) < 400e6


@pytest.mark.gpu
def test_contrast_over_all_of_pubmed_on_the_gpu(cuda):
    assert all_nodes_memory("cuda", 19_717, 512) < 2 * 2**30
