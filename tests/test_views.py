from __future__ import annotations

import torch

from clnr import chance
from clnr.engine import View, cpu
from clnr.methods import CLNR
from clnr.recipe import Recipe
from clnr.views import DropEdges, MaskFeatures
from tests.conftest import tiny

ENGINE = cpu()
PLACED = ENGINE.place(tiny(200, 900, 50))
KEY = chance.key(0, "x")


def test_rate_zero_changes_nothing():
    view = View(PLACED)
    assert DropEdges(0.0, "directions")(view, KEY) is view
    assert MaskFeatures(0.0, "columns")(view, KEY) is view


def test_words_choose_what_is_dropped_and_masked():
    assert DropEdges(0.5, "directions")(View(PLACED), KEY).drop == (KEY, 0.5, False)
    assert DropEdges(0.5, "pairs")(View(PLACED), KEY).drop == (KEY, 0.5, True)
    assert MaskFeatures(0.1, "columns")(View(PLACED), KEY).mask == (KEY, 0.1, False)
    assert MaskFeatures(0.1, "elements")(View(PLACED), KEY).mask == (KEY, 0.1, True)


def test_pairs_keep_a_view_symmetric_and_directions_do_not():
    for drop, symmetric in (("pairs", True), ("directions", False)):
        kept = DropEdges(0.5, drop)(View(PLACED), KEY).drop.keep(PLACED)
        edges = {(i, j) for i, j in zip(PLACED.edges.columns[kept].tolist(), PLACED.edges.rows[kept].tolist(), strict=True)}
        assert (edges == {(j, i) for i, j in edges}) is symmetric
        assert all((i, i) in edges for i in range(200))


def test_a_view_is_a_function_of_seed_epoch_and_view():
    model = CLNR.build(Recipe())

    def kept(seed, epoch, view, stream="train"):
        looked = model.look(PLACED, seed, stream, epoch)[view]
        return torch.cat([looked.drop.keep(PLACED), looked.mask.keep_columns(50, torch.device("cpu"))])

    base = kept(0, 0, 0)
    kept(9, 9, 1)
    assert torch.equal(base, kept(0, 0, 0))
    for other in (kept(1, 0, 0), kept(0, 1, 0), kept(0, 0, 1), kept(0, 0, 0, "measure")):
        assert not torch.equal(base, other)
