from __future__ import annotations

import pytest
import torch

from clnr.training.optim import Adam


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_it_is_torchs(decoupled, decay):
    """Against torch's own class in its plain form, at a rate that changes, with one parameter left without a gradient."""
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in ((4, 3), (5,), (2,))]
    ours, theirs = ([each.clone() for each in start] for _ in range(2))
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    oracle = kind(theirs, weight_decay=decay, foreach=False)
    adam = Adam(ours, decay, decoupled)
    for epoch in range(7):
        rate = 0.1 / (epoch + 1)
        gradients = [torch.randn(each.shape, generator=generator) for each in start[:2]] + [None]
        for each, gradient in zip(theirs, gradients, strict=True):
            each.grad = gradient
        oracle.param_groups[0]["lr"] = rate
        oracle.step()
        adam.step(gradients, rate)
    torch.testing.assert_close(ours, theirs)
    assert torch.equal(ours[2], start[2])
    assert not torch.equal(ours[0], start[0])
