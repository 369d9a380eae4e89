"""How to train: what may be asked for, and the recipe that follows."""

from __future__ import annotations

import pytest

from clnr.embedding.defaults import EFFORTS, choose_method
from clnr.embedding.fit_settings import Settings
from clnr.engine import cpu_engine
from clnr.errors import RecipeError, UnknownName
from clnr.methods import CLNR, CLNR_MIX, SVD_MIX
from clnr.tables import read_tables

SMALL = {"hidden": 16, "epochs": 3, "probe_steps": 20}


def settings(**changes):
    return Settings(**{"method": CLNR, "engine": cpu_engine(), "recipe": SMALL, **changes})


def test_hyper_parameters_set_by_name_are_not_tuned(tables):
    assert set(settings(changes={"temperature": 0.3}).fixed) == {*SMALL, "temperature"}
    graph = read_tables(**tables)
    recipe, choices = settings(changes={"epochs": 7}).recipe_for(graph)
    assert (recipe.epochs, recipe.hidden) == (7, 16)
    assert {choice.key for choice in choices} == {"dimension", "edge_drop", "feature_mask", "structure"}
    whole = settings(recipe=recipe)
    assert whole.recipe_for(graph) == (recipe, [])
    assert not whole.fixed


def test_an_effort_stands_for_a_method_and_some_hyper_parameters(tables):
    graph = read_tables(**tables)
    quick, standard, best = (Settings(engine=cpu_engine(), **choose_method(None, effort)) for effort in EFFORTS)
    assert (quick.method, standard.method, best.method) == (SVD_MIX, CLNR_MIX, CLNR_MIX)
    assert choose_method(None) == choose_method(None, "standard")
    assert [each.recipe_for(graph)[0].hidden for each in (standard, best)] == [256, 512]
    assert best.recipe_for(graph)[0].epochs > standard.recipe_for(graph)[0].epochs
    # What the user sets goes before the effort.
    mine = Settings(engine=cpu_engine(), recipe={"hidden": 16}, **choose_method(None, "best"))
    assert mine.recipe_for(graph)[0].hidden == 16
    assert set(mine.fixed) == {"hidden"}
    with pytest.raises(UnknownName, match="'standard'"):
        choose_method(None, "standart")
    with pytest.raises(RecipeError, match="both choose the method: leave one out"):
        choose_method("CLNR", "best")
    with pytest.raises(RecipeError, match="a purpose may take a baseline in place of encoder"):
        choose_method(None, purpose="links", encoder=object())
