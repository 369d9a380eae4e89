from __future__ import annotations

import numpy as np
import torch

from clnr.engine import unit_rows


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
