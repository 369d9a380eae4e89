from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import chance
from clnr.objectives import CCA, NTXent, Reconstruct, Variational, unit_rows
from tests.objectives.moments import moment, rows


def test_unit_rows():
    z = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]], dtype=torch.float64, requires_grad=True)
    u = unit_rows(z)
    torch.testing.assert_close(u, torch.tensor([[0.6, 0.8], [0, 0], [1, 0]], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(u.sum(), z)
    assert gradient.isfinite().all()
    assert not gradient[1].any()


def test_gradient_of_unit_rows():
    z = torch.tensor(np.random.default_rng(0).standard_normal((5, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(unit_rows, (z,))


@pytest.mark.parametrize("objective", [NTXent(0.5, 0), CCA(0.1), Reconstruct(), Variational()])
def test_what_has_nothing_to_learn_has_no_parameters_and_is_watched_itself(objective):
    assert objective.init(5, chance.key(0)) == {}
    loss = torch.tensor(1.5)
    assert objective.criterion(loss, lambda: pytest.fail("embedded in vain"), moment()) is loss


@pytest.mark.parametrize("objective", [Reconstruct(), Variational()])
def test_an_epoch_may_be_a_counter(objective):
    views = [torch.tensor(z) for z in rows(1, 40, 6)]
    seen = {float(objective({}, views, moment(epoch))) for epoch in range(3)}
    assert {float(objective({}, views, moment(torch.tensor(epoch)))) for epoch in range(3)} == seen
    assert len(seen) == 3
