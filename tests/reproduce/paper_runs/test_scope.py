from __future__ import annotations

import pytest
from reproduce.paper_runs.scope import SETS, Scope

from clnr import methods
from clnr.methods import CLNR, METHODS
from clnr.methods.presets import preset


def test_without_words_it_is_the_paper():
    scope = Scope.of(None, None, None, quick=False)
    assert scope.sets(SETS) == list(SETS)
    assert scope.lineup(METHODS.values()) == list(METHODS.values())
    batch = scope.batch(CLNR, "cora")
    assert (batch.seeds, batch.recipe) == (20, preset(CLNR, "cora").recipe)
    assert scope.words == ""
    assert scope.cautions == []


def test_words_narrow_it_and_come_out_as_they_went_in():
    scope = Scope.of("PubMed, cora", "grace,CLNR", 3, quick=False)
    assert scope.sets(SETS) == ["cora", "pubmed"]
    assert [method.name for method in scope.lineup(METHODS.values())] == ["GRACE", "CLNR"]
    assert scope.batch(CLNR, "cora").seeds == 3
    assert scope.words == " --seeds 3 --datasets pubmed,cora --methods GRACE,CLNR"


@pytest.mark.parametrize(
    ("method", "dataset", "seeds"),
    [("CLNR", "cora", 20), ("BGRL", "cora", 10), ("CLNR", "cs", 120), ("GRACE", "cs", 120), ("CCA-SSG", "cs", 20)],
)
def test_slow_methods_have_fewer_seeds_and_close_ones_more_unless_said(method, dataset, seeds):
    scopes = ((Scope(), None), (Scope(), 5), (Scope(quick=True), None), (Scope(seeds=9), None))
    assert [scope.batch(METHODS[method], dataset, asked).seeds for scope, asked in scopes] == [seeds, 5, 2, 9]
    assert Scope().batch(METHODS[method], dataset).slow is (method == "BGRL")


def test_quick_is_small_and_says_so():
    scope = Scope(quick=True)
    batch = scope.batch(methods.GRACE, "cora")
    assert (batch.seeds, batch.recipe.epochs, batch.recipe.probe_steps) == (2, 5, 300)
    assert scope.sets(SETS) == ["cora", "citeseer"]
    assert scope.some((1, 2, 3)) == (1, 3)
    assert "not comparable" in scope.cautions[0]


def test_keys_that_a_method_has_no_use_for_make_no_difference():
    scope = Scope()
    assert scope.batch(CLNR, "cora").kind == scope.batch(CLNR, "cora", momentum=0.5).kind
    assert scope.batch(CLNR, "cora").kind != scope.batch(CLNR, "cora", temperature=0.9).kind
    # Labels say how wide a classifier's rows are.
    assert scope.batch(methods.SUPERVISED_GCN, "cora").kind == scope.batch(methods.SUPERVISED_GCN, "cora", dimension=7).kind
