from __future__ import annotations

import pytest
import torch

from clnr import rng
from clnr.nn.objectives import CCA, NTXent, Reconstruct, Variational
from tests.nn.objectives.moments import rows, step


@pytest.mark.parametrize("objective", [NTXent(0.5, 0), CCA(0.1), Reconstruct(), Variational()])
def test_what_has_nothing_to_learn_has_no_parameters_and_is_watched_itself(objective):
    assert objective.init(5, rng.key(0)) == {}
    loss = torch.tensor(1.5)
    assert objective.criterion(loss, lambda: pytest.fail("embedded in vain"), step()) is loss


@pytest.mark.parametrize("objective", [Reconstruct(), Variational()])
def test_an_epoch_may_be_a_counter(objective):
    views = [torch.tensor(z) for z in rows(1, 40, 6)]
    seen = {float(objective({}, views, step(epoch))) for epoch in range(3)}
    assert {float(objective({}, views, step(torch.tensor(epoch)))) for epoch in range(3)} == seen
    assert len(seen) == 3
