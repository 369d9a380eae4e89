"""Measures of what edges tell: 0.5 where it is nothing, near 1 where it is all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks import edge_weight

from clnr.embedding.defaults import default_recipe
from clnr.engine import choose
from clnr.graph import Graph
from clnr.methods import CLNR_MIX
from tests.conftest import tiny

NODES, GROUPS = 600, 20
DRAW = np.random.default_rng(0)
GROUP = DRAW.permutation(NODES) % GROUPS
PAIRS = DRAW.integers(NODES, size=(2, 60 * NODES))
ALIKE = GROUP[PAIRS[0]] == GROUP[PAIRS[1]]
OWN = np.eye(GROUPS)[GROUP] + 0.1 * DRAW.standard_normal((NODES, GROUPS))


def graph(pairs):
    return Graph.from_edges(pairs[0], pairs[1], np.zeros((NODES, 1), np.float32), undirected=True)


@pytest.mark.parametrize(
    ("pairs", "own", "features", "structure"),
    [
        (PAIRS[:, ALIKE], OWN, True, True),
        (PAIRS[:, ALIKE], OWN[DRAW.permutation(NODES)], False, True),
        (PAIRS[:, : 2 * NODES], OWN, False, False),
    ],
    ids=["both", "shuffled features", "random edges"],
)
def test_measures_tell_where_edges_say_something(pairs, own, features, structure):
    for found, tells in zip(edge_weight.measures(graph(pairs), own), (features, structure), strict=True):
        assert found > 0.8 if tells else abs(found - 0.5) < 0.05


def test_all_blocks_at_their_own_size_are_the_read_out():
    small, engine = tiny(60, 150, 12), choose("cpu", "float32")
    recipe = default_recipe(CLNR_MIX, small)[0].but(epochs=2, dimension=8, hidden=8)
    made = edge_weight.blocks(small, recipe, engine)
    # GCN and MLP propagated 0, 1 and 2 times, own and propagated features, walks.
    assert [from_edges for from_edges, _, _ in made] == [True, True, True, False, True, True, False, True, True]
    fitted = CLNR_MIX.build(recipe).readout.fit_components([(size, rows) for _, size, rows in made], torch.device("cpu"))
    z = torch.cat([rows for _, _, rows in made], 1) @ fitted["weight"] + fitted["bias"]
    expected = edge_weight.learn(CLNR_MIX, small, 0, recipe, engine).z
    torch.testing.assert_close(z, expected, rtol=1e-4, atol=1e-4)
