from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from clnr import METHODS
from clnr.embedding.fit_settings import Settings
from clnr.engine import cpu_engine
from clnr.methods.recipe import Recipe
from clnr.training.fingerprint import differences, fingerprint, key_of

RECIPE = Recipe(epochs=3)


@pytest.mark.parametrize(
    "changes",
    [
        {"hold_out": 0.1},
        {"purpose": "links"},
        {"evaluate": False},
        {"baselines": False},
        {"method": METHODS["CLNR-hops"]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_setting_of_an_embedding_gives_another_key(changes):
    usual = Settings(METHODS["CLNR"], cpu_engine())
    mine, other = (each.fingerprint("one", RECIPE) for each in (usual, dataclasses.replace(usual, **changes)))
    assert key_of(mine) != key_of(other)
    assert differences(mine, mine) == ""
    assert next(iter(changes)) in differences(mine, other) or "readout" in differences(mine, other)


@pytest.mark.parametrize(
    "changes",
    [{"checkpoint": Path("state")}, {"workers": None}],
    ids=lambda changes: next(iter(changes)),
)
def test_how_a_result_is_made_does_not_count(changes):
    usual = Settings(METHODS["CLNR"], cpu_engine())
    mine, other = (each.fingerprint("one", RECIPE) for each in (usual, dataclasses.replace(usual, **changes)))
    assert mine == other


def test_what_differs_is_named_with_both_values():
    mine = fingerprint("one", METHODS["CLNR"], RECIPE, 0, cpu_engine())
    other = fingerprint("another", METHODS["CLNR"], RECIPE.but(epochs=4), 0, cpu_engine())
    assert differences(mine, other).split(", ") == ["graph was one and is another", "epochs was 3 and is 4"]
    assert "graph" in differences({}, mine)
