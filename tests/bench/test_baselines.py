from __future__ import annotations

import argparse
import inspect
import re

import numpy as np
import pytest
import torch

from clnr.graph import Graph
from tests.conftest import tiny

pytestmark = pytest.mark.full
ASKED = argparse.Namespace(node2vec_epochs=2, pyg_loss=False, dimension=8)


@pytest.fixture(scope="module")
def baselines():
    """The benchmark, which imports PyG."""
    pytest.importorskip("torch_geometric")
    from benchmarks import baselines

    return baselines


def test_walks_take_every_neighbour_alike_and_stay_without_edges(baselines):
    star = Graph.from_edges([1, 1, 1, 1], [2, 3, 4, 5], np.eye(7), undirected=True)
    torch.manual_seed(0)
    model = baselines.Walker(star)
    walks = baselines.uniform_walks(model.rowptr, model.col, torch.ones(8000, dtype=torch.long), 2)
    assert np.bincount(walks[:, 1], minlength=7)[2:6] == pytest.approx(2000, abs=160)
    assert (walks[:, 2] == 1).all()
    start = torch.tensor([0, 6])
    assert torch.equal(baselines.uniform_walks(model.rowptr, model.col, start, 2), start[:, None].expand(-1, 3))


def test_node2vec_has_every_field_that_pygs_sets(baselines):
    source = inspect.getsource(baselines.Node2Vec.__init__)
    assert set(re.findall(r"self\.(\w+)(?:, self\.\w+)* =", source)) <= set(dir(baselines.Walker(tiny())))
    torch.manual_seed(0)
    model = baselines.Walker(tiny(), pyg_loss=True)
    near, far = model.sample([0, 1, 2])
    assert near.shape == far.shape == (3 * 10 * 11, 10)
    assert model.loss(near, far).isfinite()


def test_the_compiled_loss_and_gradient_are_pygs(baselines):
    torch.manual_seed(0)
    ours, theirs = baselines.Walker(tiny()), baselines.Walker(tiny(), pyg_loss=True)
    theirs.load_state_dict(ours.state_dict())
    found = []
    for model in (ours, theirs):
        torch.manual_seed(1)
        loss = model.learn(*model.sample([0, 1, 5, 7, 20, 39]))
        found.append((loss, model.embedding.weight.grad.coalesce()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert torch.equal(found[0][1].indices(), found[1][1].indices())
    torch.testing.assert_close(found[0][1].values(), found[1][1].values(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("who", ["node2vec", "SVD-propagated", "Spectral"])
def test_methods_give_a_row_per_node_of_the_width_asked_for(baselines, who):
    assert "GCN" not in baselines.METHODS, "none reads labels"
    z = baselines.embed(who, tiny(), 0, ASKED)
    assert (z.shape, z.dtype) == ((40, 8), torch.float32)
    assert z.isfinite().all()
    assert torch.equal(z, baselines.embed(who, tiny(), 0, ASKED))
