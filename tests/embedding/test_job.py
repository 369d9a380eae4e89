"""What clnr embed and NodeEmbedder share; the command line's own tests are in tests/cli/test_cmd_embed.py."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

from clnr import NodeEmbedder
from clnr.cli import cmd_embed
from clnr.embedding.defaults import LABELS, PURPOSES, choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.result.artifact import load_result, write_formats
from clnr.embedding.scoring.judges import Judge
from clnr.engine import choose, cpu_engine
from clnr.errors import DataError
from clnr.methods import CLNR_MIX, METHODS
from clnr.tables import read_tables
from tests.damage import seal
from tests.embedding.jobs import embed_tables, fit
from tests.embedding.test_fit_settings import SMALL, settings


def test_tables_become_a_folder_that_is_what_the_estimator_gives(tables, tmp_path):
    result = embed_tables(tables, tmp_path / "out", settings(seed=4))
    made = NodeEmbedder("CLNR", recipe=SMALL, seed=4, device="cpu", precision="float32", evaluate=True).fit(
        read_tables(**tables)
    )
    assert (result.z == made.embedding_).all()
    assert result.scores == made.scores_
    assert (load_result(tmp_path / "out").z == made.embedding_).all()
    assert "report.html" in {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.full
def test_a_finished_folder_is_left_alone_and_another_refused(tables, tmp_path):
    out = tmp_path / "out"

    def again(force=False, **changes):
        asked = settings(resume=True, **changes)
        return embed_tables(tables, out, asked, report=False, force=force)

    assert again() is not None
    assert again() is None
    with pytest.raises(DataError, match="threads was 1 and is 3"):
        again(engine=choose("cpu", "float32", 3))
    # What nobody asks for may be what another machine chose.
    recipe = out / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('device = "cpu"', 'device = "cuda"').replace("threads = 1\n", ""))
    seal(out)
    assert again(engine=choose("auto")) is None
    with pytest.raises(DataError, match="device was cuda and is cpu"):
        again(engine=choose("cpu"))
    assert again(seed=1, force=True) is not None


def test_equal_runs_write_equal_bytes_and_formats_can_be_added_later(tables, tmp_path):
    one, other = (tmp_path / name / "out" for name in ("one", "other"))
    for folder, formats in ((one, ["npy", "csv"]), (other, ["csv", "npy"])):
        embed_tables(tables, folder, settings())
        assert write_formats(folder, formats) == [folder / f"embeddings.{name}" for name in formats]
    files, others = (
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (one, other)
    )
    assert files == others
    assert {"model.safetensors", "report.html", "graph/graph.json"} < files.keys()
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["out"]


def test_a_supervised_method_needs_labels_from_a_file_or_a_query(tables, tmp_path):
    gcn = settings(method=METHODS["GCN"], recipe={"hidden": 16, "epochs": 3})
    query = tables | {"nodes": f"SELECT * FROM '{tables['nodes']}'"}
    assert embed_tables(query, tmp_path / "out", gcn, report=False).z.shape == (40, 2)
    del query["label"]
    with pytest.raises(DataError, match="GCN is supervised, and there are no labels"):
        embed_tables(query, tmp_path / "other", gcn)


def test_the_command_line_has_the_same_names_and_defaults():
    """Its options are written out there, so that its help needs no import of the library."""
    options = {name: each.default for name, each in inspect.signature(cmd_embed.embed).parameters.items()}
    parameters = inspect.signature(NodeEmbedder.__init__).parameters
    shared = {"effort", "resume"}
    assert shared <= options.keys() & parameters.keys()
    assert not {name for name in shared if options[name] != parameters[name].default}


def test_nothing_is_shown_in_python(tables, capsys):
    fit(read_tables(**tables), settings())
    assert capsys.readouterr() == ("", "")


@pytest.mark.full
def test_a_purpose_takes_a_baseline_that_is_better(tables, tmp_path, monkeypatch):
    asked = Settings(**{"engine": cpu_engine(), "recipe": SMALL, "hold_out": 0.2, **choose_method(None, purpose=LABELS)})
    monkeypatch.setattr(Judge, "best", lambda self, usual, others: METHODS["Cleora"] if METHODS["Cleora"] in others else None)
    taken = embed_tables(tables, tmp_path / "out", asked, report=False)
    assert taken.model.method.name == "Cleora"
    assert taken.z.shape[1] == asked.recipe_for(taken.graph)[0].dimension
    assert {"CLNR-mix", "Raw", "SVD"} <= taken.baselines.keys()
    assert "Cleora" not in taken.baselines
    assert taken.warnings[0].startswith("labels choose Cleora: accuracy ")
    assert load_result(tmp_path / "out").model.provenance.purpose == LABELS
    again = dataclasses.replace(asked, resume=True)
    assert embed_tables(tables, tmp_path / "out", again, report=False) is None
    monkeypatch.setattr(Judge, "best", lambda self, usual, others: None)
    assert embed_tables(tables, tmp_path / "own", asked, report=False).model.method == CLNR_MIX


@pytest.mark.full
@pytest.mark.parametrize("purpose", PURPOSES)
def test_what_a_purpose_chooses_can_be_set(purpose, tables, monkeypatch):
    """Vectors are bit for bit those of the hyper-parameter that is chosen, and the encoder is as it was."""
    monkeypatch.setattr(Judge, "best", lambda self, usual, others: 4 if 4 in others else None)
    given = read_tables(**tables)
    chosen, default, by_hand = (
        fit(given, Settings(engine=cpu_engine(), **{"hold_out": 0.2, "recipe": SMALL | changes} | asked))
        for asked, changes in (
            (choose_method(None, None, purpose), {}),
            (choose_method(None), {}),
            (choose_method(None), {"mix": "neighbors+walks"}),
        )
    )
    assert chosen.model.recipe == by_hand.model.recipe
    np.testing.assert_array_equal(chosen.z, by_hand.z)
    assert not np.array_equal(chosen.z, default.z)
    for name, value in default.model.parameters.items():
        if not name.startswith("readout."):
            assert (chosen.model.parameters[name] == value).all(), name
    assert any("choose mix=neighbors+walks: " in line for line in chosen.warnings)
    # Without a purpose, it is only told.
    assert default.model.recipe.mix == "all"
    assert any(line.startswith("purpose='labels' would choose mix=neighbors+walks: accuracy ") for line in default.warnings)


@pytest.mark.parametrize(
    "more",
    [{"evaluate": False}, {"changes": {"mix": "all"}}, choose_method("CLNR"), choose_method("SVD-mix") | {"recipe": None}],
)
def test_what_labels_would_choose_is_told_of_the_default_alone(more, tables, monkeypatch):
    monkeypatch.setattr(Judge, "best", lambda self, usual, others: next(iter(others)))
    asked = {"engine": cpu_engine(), "hold_out": 0.2, "recipe": SMALL, **choose_method(None)}
    made = fit(read_tables(**tables), Settings(**asked | more))
    assert not any("--for labels" in line for line in made.warnings)
