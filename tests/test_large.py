"""Every method on a graph as large as ogbn-arxiv, on a GPU that is allowed 16 GB."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from benchmarks._graphs import shaped

from clnr.experiments.run import run
from clnr.graph import Graph
from clnr.methods import METHODS
from clnr.methods.presets import preset

NODES, PAIRS, FEATURES = 169_343, 1_157_799, 128
LIMIT = 16e9


@pytest.fixture(scope="module")
def graph() -> Graph:
    made = shaped(NODES, PAIRS, FEATURES)
    assert 0.97 < made.num_edges / (2 * PAIRS) < 1.04
    assert 9000 < np.diff(made.incoming.indptr).max() < 15000
    return made


@pytest.fixture
def sixteen_gb(cuda):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(LIMIT / torch.cuda.get_device_properties(cuda).total_memory, cuda)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0, cuda)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_it_trains_on_an_arxiv_sized_graph_in_16_gb(name, graph, sixteen_gb):
    recipe = preset(METHODS[name], "ogbn-arxiv").recipe
    # All pairs of 169,343 nodes take seconds an epoch; the others are captured after two epochs and replayed.
    epochs = 1 if recipe.sampled_nodes == 0 else 6
    made = run(name, graph, recipe=recipe.but(epochs=epochs, probe_steps=1), device="cuda")
    print(f"{name}: {made.peak_memory_bytes / 2**30:.2f} GiB, {made.epoch_ms or 0:.0f} ms an epoch, {made.seconds:.0f} s")
    assert made.peak_memory_bytes < LIMIT
    assert made.epochs == (epochs if METHODS[name].objective else 0)
