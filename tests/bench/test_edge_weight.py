"""What is read out with several weights is what CLNR-mix reads out, and the measures are those that it weighs by."""

from __future__ import annotations

import pytest
import torch
from benchmarks import edge_weight

from clnr.embedding.defaults import default_recipe
from clnr.engine import choose
from clnr.methods import CLNR_MIX
from tests.conftest import tiny

GRAPH, ENGINE = tiny(60, 150, 12), choose("cpu", "float32")
RECIPE = default_recipe(CLNR_MIX, GRAPH)[0].but(epochs=2, dimension=8, hidden=8)


@pytest.fixture(scope="module")
def made():
    return edge_weight.matrices(GRAPH, RECIPE, ENGINE)


def test_all_matrices_at_their_own_size_are_the_read_out(made):
    # GCN and MLP propagated 0, 1 and 2 times, own and propagated features, walks.
    assert [of_node for of_node, _, _ in made] == [False, False, False, True, False, False, True, False, False]
    sizes, matrices = [size for _, size, _ in made], [rows for *_, rows in made]
    fitted = CLNR_MIX.build(RECIPE).readout.fit_components(sizes, matrices)
    z = torch.cat(matrices, 1) @ fitted["weight"] + fitted["bias"]
    expected = edge_weight.learn(CLNR_MIX, GRAPH, 0, RECIPE.but(edge_weight="equal"), ENGINE).z
    torch.testing.assert_close(z, expected, rtol=1e-4, atol=1e-4)


def test_the_weight_is_the_one_that_is_measured(made):
    by_rows, by_edges, weight = edge_weight.measures(GRAPH, made)
    assert 0 < by_rows < 1
    assert 0 < by_edges < 1
    learned = edge_weight.learn(CLNR_MIX, GRAPH.without_labels(), 0, RECIPE, ENGINE)
    assert float(learned.fitted.parameters["readout.block.4.weight"]) == pytest.approx(weight)
