"""Plan, train, and take the best."""

from __future__ import annotations

import dataclasses

import pytest

from clnr.embedding import planned_fit
from clnr.embedding.defaults import choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.pipeline import embed_tables
from clnr.engine import cpu_engine
from clnr.methods import CLNR_MIX, METHODS
from clnr.tables import read_tables
from clnr.training.checkpoint import checkpoint_path
from tests.embedding.test_fit_settings import SMALL, settings


def test_nothing_is_shown_in_python(tables, capsys):
    planned_fit.fit(read_tables(**tables), settings())
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("labels", [True, False])
def test_auto_takes_the_best_by_validation_or_by_held_out_edges(labels, tables, tmp_path, monkeypatch):
    if not labels:
        tables = {"edges": tables["edges"]}
    asked = Settings(**{"engine": cpu_engine(), "recipe": SMALL, "hold_out": 0.2, **choose_method("auto")})
    scored = dict.fromkeys(("validation_accuracy", "strict_accuracy", "link_auc"), 0.3)
    real = planned_fit.fit_graph

    def fake(table_graph, method, *more, **keywords):
        result = real(table_graph, method, *more, **keywords)
        better = {"Cleora": scored | {"validation_accuracy": 1000.0, "link_auc": 1000.0}} if method != METHODS["Cleora"] else {}
        return dataclasses.replace(result, baselines=result.baselines | better)

    monkeypatch.setattr(planned_fit, "fit_graph", fake)
    taken = embed_tables(tables, tmp_path / "out", asked, layout=None)
    assert taken.model.method.name == "Cleora"
    assert taken.z.shape[1] == asked.recipe_for(taken.table_graph.graph)[0].dimension
    assert {"CLNR-mix", "Raw", "SVD"} <= taken.baselines.keys()
    assert "Cleora" not in taken.baselines
    again = dataclasses.replace(asked, resume=True, checkpoint=checkpoint_path(tmp_path / "out"))
    assert embed_tables(tables, tmp_path / "out", again, layout=None) is None
    monkeypatch.setattr(planned_fit, "fit_graph", lambda *a, **k: dataclasses.replace(real(*a, **k), baselines={}))
    assert embed_tables(tables, tmp_path / "own", asked, layout=None).model.method == CLNR_MIX
