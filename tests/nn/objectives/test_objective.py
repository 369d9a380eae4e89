import pytest
import torch

from clnr import rng
from clnr.nn.objectives import CCA, Bootstrap, Infomax, NTXent, Reconstruct, Variational
from tests.nn.objectives.moments import rows, step


@pytest.mark.parametrize("objective", [Reconstruct(), Variational()])
def test_an_epoch_may_be_a_counter(objective):
    views = [torch.tensor(z) for z in rows(1, 40, 6)]
    seen = {float(objective({}, views, step(epoch))) for epoch in range(3)}
    assert {float(objective({}, views, step(torch.tensor(epoch)))) for epoch in range(3)} == seen
    assert len(seen) == 3


SAMPLED = [NTXent, CCA, Bootstrap, Infomax]


@pytest.mark.parametrize("objective", SAMPLED)
def test_sampled_nodes_are_those_of_chance_and_differ_by_epoch(objective):
    """Of so many nodes or fewer all are taken, which are none in particular; of all moments only NT-Xent takes a sample."""
    seen = set()
    for epoch in (0, 1, 40, torch.tensor(40)):
        nodes = objective(sampled_nodes=9, moments="sampled").nodes(40, step(epoch, seed=3))
        assert torch.equal(nodes, rng.sample(3, int(epoch), 1000, 40, 9, torch.device("cpu")))
        seen.add(tuple(nodes.tolist()))
    assert len(seen) == 3
    for sampled in (0, 40, 1024):
        assert objective(sampled_nodes=sampled, moments="sampled").nodes(40, step()) is None
    assert (objective(sampled_nodes=9).nodes(40, step()) is not None) is (objective is NTXent)
