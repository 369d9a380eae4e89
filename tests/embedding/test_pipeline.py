"""What clnr embed and NodeEmbedder share; the command line's own tests are in tests/cli/test_cmd_embed.py."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from clnr import NodeEmbedder
from clnr.cli import cmd_embed
from clnr.embedding import pipeline
from clnr.embedding.artifact import load_folder
from clnr.embedding.defaults import EFFORTS, choose_method
from clnr.embedding.export import EXPORT_FORMATS
from clnr.embedding.fitting import HOLD_OUT
from clnr.embedding.pipeline import Settings, embed_tables
from clnr.engine import cpu
from clnr.errors import DataError, RecipeError, UnknownName
from clnr.methods import CLNR, CLNR_MIX, METHODS, SVD_MIX
from clnr.tables import read_tables
from clnr.training.checkpoint import checkpoint_path

SMALL = {"hidden": 16, "epochs": 3, "probe_steps": 20}


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"n{i},n{i * 3 % 40}\n" for i in range(40)))
    lines = "".join(f"n{i},{i * i % 17},{'ab'[i % 2]},{'xy'[i % 3 > 0]}\n" for i in range(40))
    (tmp_path / "n.csv").write_text("id,age,kind,label\n" + lines)
    return {"edges": str(tmp_path / "e.csv"), "nodes": str(tmp_path / "n.csv")}


def settings(**changes):
    return Settings(**{"method": CLNR, "engine": cpu(), "recipe": SMALL, **changes})


def test_tables_become_a_folder_that_is_what_the_estimator_gives(tables, tmp_path):
    result = embed_tables(tables, tmp_path / "out", settings(seed=4), formats=["npy"])
    made = NodeEmbedder("CLNR", recipe=SMALL, seed=4, device="cpu", evaluate=True).fit(read_tables(**tables))
    assert (result.z == made.embedding_).all()
    assert result.scores == made.scores_
    assert (load_folder(tmp_path / "out").z == made.embedding_).all()
    assert {"report.html", "embeddings.npy"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_a_finished_folder_is_left_alone_and_another_refused(tables, tmp_path):
    out = tmp_path / "out"
    asked = {"resume": True, "checkpoint": checkpoint_path(out)}
    assert embed_tables(tables, out, settings(**asked), report=False) is not None
    assert embed_tables(tables, out, settings(**asked), report=False) is None
    with pytest.raises(DataError, match=r"its seed is 0; .*force=True"):
        embed_tables(tables, out, settings(**asked, seed=1), report=False)
    with pytest.raises(DataError, match=r"its epochs is 3; .*force=True"):
        embed_tables(tables, out, settings(**asked, changes={"epochs": 4}), report=False)
    assert embed_tables(tables, out, settings(**asked, seed=1), report=False, force=True) is not None


def test_a_supervised_method_needs_labels_from_a_file_or_a_query(tables, tmp_path):
    gcn = settings(method=METHODS["GCN"], recipe={"hidden": 16, "epochs": 3})
    with pytest.raises(DataError, match="GCN is supervised, and there are no labels"):
        embed_tables({"edges": "not looked for"}, tmp_path / "out", gcn)
    query = {"edges": tables["edges"], "nodes_query": f"SELECT * FROM '{tables['nodes']}'"}
    assert embed_tables(query, tmp_path / "out", gcn, report=False).z.shape == (40, 2)
    query["nodes_query"] = f"SELECT id, age FROM '{tables['nodes']}'"
    with pytest.raises(DataError, match="GCN is supervised, and there are no labels"):
        embed_tables(query, tmp_path / "other", gcn)


def test_hyper_parameters_set_by_name_are_not_tuned(tables):
    assert set(settings(changes={"temperature": 0.3}).fixed) == {*SMALL, "temperature"}
    graph = read_tables(**tables).graph
    recipe, choices = settings(changes={"epochs": 7}).recipe_for(graph)
    assert (recipe.epochs, recipe.hidden) == (7, 16)
    assert {choice.key for choice in choices} == {"dimension", "hidden", "epochs", "edge_drop", "feature_mask", "structure"}
    whole = settings(recipe=recipe)
    assert whole.recipe_for(graph) == (recipe, [])
    assert not whole.fixed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tune": -1}, r"tune must be 0 or more \(--tune\), not -1"),
        ({"checkpoint_every": -2}, r"checkpoint_every must be 0 or more \(--checkpoint-every\), not -2"),
        ({"hold_out": 1}, r"hold_out must be from 0 to less than 1 \(--hold-out\), not 1"),
        ({"seed": -1}, "seed"),
        ({"resume": True}, "needs checkpoint=FILE"),
    ],
)
def test_wrong_settings_are_refused(change, message):
    with pytest.raises(RecipeError, match=message):
        settings(**change)


def test_the_command_line_has_the_same_names_and_defaults():
    """Its options are written out there, so that its help needs no import of the library."""
    options = {name: each.default for name, each in inspect.signature(cmd_embed.embed).parameters.items()}
    assert options["hold_out"] == HOLD_OUT
    parameters = inspect.signature(NodeEmbedder.__init__).parameters
    shared = {
        "method",
        "effort",
        "seed",
        "hold_out",
        "tune",
        "checkpoint_every",
        "resume",
        "ignore_memory_check",
        "device",
        "precision",
    }
    assert shared <= options.keys() & parameters.keys()
    differing = {name for name in shared if options[name] != parameters[name].default}
    assert differing == {"checkpoint_every"}  # Without checkpoint=FILE none is written; the command line has no such option.
    assert ", ".join(EXPORT_FORMATS) in inspect.getsource(cmd_embed)
    assert ", ".join(f"``{name}``" for name in EXPORT_FORMATS) in NodeEmbedder.save.__doc__


def test_nothing_is_shown_in_python(tables, capsys):
    pipeline.fit(read_tables(**tables), settings())
    assert capsys.readouterr() == ("", "")


# -- effort and auto --------------------------------------------------------------------------------------------------------


def test_an_effort_stands_for_a_method_and_some_hyper_parameters(tables):
    graph = read_tables(**tables).graph
    quick, standard, best = (Settings(engine=cpu(), **choose_method(None, effort)) for effort in EFFORTS)
    assert (quick.method, standard.method, best.method) == (SVD_MIX, CLNR_MIX, CLNR_MIX)
    assert choose_method(None) == choose_method(None, "standard")
    assert [each.recipe_for(graph)[0].hidden for each in (standard, best)] == [256, 512]
    assert best.recipe_for(graph)[0].epochs > standard.recipe_for(graph)[0].epochs
    # What the user sets goes before the effort, and the effort's values may be tuned.
    mine = Settings(engine=cpu(), recipe={"hidden": 16}, **choose_method(None, "best"))
    assert mine.recipe_for(graph)[0].hidden == 16
    assert set(mine.fixed) == {"hidden"}
    with pytest.raises(UnknownName, match="'standard'"):
        choose_method(None, "standart")
    with pytest.raises(RecipeError, match="give one of them"):
        choose_method("CLNR", "best")


def test_quick_trains_nothing(tables, tmp_path):
    made = embed_tables(tables, tmp_path / "out", Settings(engine=cpu(), **choose_method(None, "quick")), report=False)
    assert made.losses == ()
    assert made.model.method == SVD_MIX
    assert np.array_equal(load_folder(tmp_path / "out").model.embed(made.table_graph.graph, cpu()), made.z)


@pytest.mark.parametrize("labels", [True, False])
def test_auto_takes_the_best_by_validation_or_by_held_out_edges(labels, tables, tmp_path, monkeypatch):
    if not labels:
        tables = {"edges": tables["edges"]}
    asked = Settings(**{"engine": cpu(), "recipe": SMALL, "hold_out": 0.2, **choose_method("auto")})
    scored = dict.fromkeys(("validation_accuracy", "strict_accuracy", "link_auc"), 0.3)
    real = pipeline.fit_graph

    def fake(table_graph, method, *more, **keywords):
        result = real(table_graph, method, *more, **keywords)
        better = {"Cleora": scored | {"validation_accuracy": 1000.0, "link_auc": 1000.0}} if method != METHODS["Cleora"] else {}
        return dataclasses.replace(result, baselines=result.baselines | better)

    monkeypatch.setattr(pipeline, "fit_graph", fake)
    taken = embed_tables(tables, tmp_path / "out", asked, report=False)
    assert taken.model.method.name == "Cleora"
    assert taken.z.shape[1] == asked.recipe_for(taken.table_graph.graph)[0].dimension
    assert {"CLNR-mix", "Raw", "SVD"} <= taken.baselines.keys()
    assert "Cleora" not in taken.baselines
    again = dataclasses.replace(asked, resume=True, checkpoint=checkpoint_path(tmp_path / "out"))
    assert embed_tables(tables, tmp_path / "out", again, report=False) is None
    monkeypatch.setattr(pipeline, "fit_graph", lambda *a, **k: dataclasses.replace(real(*a, **k), baselines={}))
    assert embed_tables(tables, tmp_path / "own", asked, report=False).model.method == CLNR_MIX


@pytest.mark.parametrize("kind", [None, "met"])
def test_the_plan_of_an_extension_says_how_new_columns_are_read(kind, tables):
    def named(edges):
        return {**tables, "edges": edges if kind is None else {kind: edges}}

    earlier = pipeline.fit(read_tables(**named(tables["edges"])), settings(method=METHODS["Raw"], recipe={}, evaluate=False))
    plan = pipeline.plan_extension(earlier, {"edges": named(tables["edges"])["edges"]})
    assert plan.new_nodes == 0
    assert any("'source': source" in line for line in plan.columns)
    assert not any("nodes" in line.partition(":")[0] for line in plan.columns)
