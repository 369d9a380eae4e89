import pytest
import torch

from clnr.engine.dense import PLAIN
from clnr.training.train_state import Adam


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_kernels_step_is_torchs(decoupled, monkeypatch):
    pytest.importorskip("triton")
    from clnr.engine.gpu import triton_dense

    monkeypatch.setattr(triton_dense, "_NUMBERS_WORTH_A_KERNEL", 100)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in ((41, 60), (5,), (101,))]
    ours, theirs = ([each.to(device).clone() for each in start] for _ in range(2))
    adams = [
        Adam(ours, 0.3, decoupled, triton_dense.KernelDense(triton_dense.triton_kernels())),
        Adam(theirs, 0.3, decoupled, PLAIN),
    ]
    for epoch in range(5):
        rate = torch.tensor(0.1 / (epoch + 1), device=device)
        gradients = [torch.randn(each.shape, generator=generator).to(device) for each in start]
        for adam in adams:
            adam.step(gradients, rate)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(adams[0].state, adams[1].state, rtol=1e-6, atol=1e-6)
