from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import torch

from clnr.engine import cpu
from clnr.errors import ClnrError, DataError, MethodError
from clnr.methods import METHODS
from clnr.own.folder import METRICS, MODEL, NODES, RECIPE, TABLES, VECTORS, load_folder, name_nodes, save_folder
from clnr.own.given import as_read
from clnr.own.learning import learn_graph
from clnr.recipe import Recipe
from clnr.run import shelf
from clnr.tables import read_tables
from tests.conftest import tiny

SMALL = {"hidden": 16, "dimension": 8, "epochs": 3, "probe_steps": 20, "head_width": 0}


def outcome_of(method="CLNR", read=None, **changes):
    recipe = shelf(METHODS[method], None).recipe.but(**SMALL | changes)
    return learn_graph(as_read(tiny()) if read is None else read, METHODS[method], recipe, 1, cpu())


def tables(tmp_path):
    (tmp_path / "e.csv").write_text("source,target,weight\n" + "".join(f"n{i},n{i * 3 % 20},{i + 1}\n" for i in range(20)))
    (tmp_path / "n.csv").write_text(
        "id,age,kind,label\n" + "".join(f"n{i},{i * i},{'ab'[i % 2]},{'xyz'[i % 3]}\n" for i in range(20))
    )
    return read_tables(tmp_path / "e.csv", tmp_path / "n.csv")


def saved(outcome, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    save_folder(outcome, folder)
    return folder


@pytest.mark.parametrize("name", METHODS)
def test_every_method_comes_back_and_embeds_as_before(name, tmp_path):
    outcome = outcome_of(name)
    back = load_folder(saved(outcome, tmp_path))
    assert (back.z == outcome.z).all()
    assert (back.trained.embed(tiny(seed=5), cpu()) == outcome.trained.embed(tiny(seed=5), cpu())).all()
    assert back.trained.recipe == outcome.trained.recipe
    assert (back.losses, back.scores, back.remarks) == (outcome.losses, pytest.approx(outcome.scores), outcome.remarks)


@pytest.mark.parametrize("how", [{}, {"sparse": True}, {"weighted": True}, {"undirected": False}])
def test_the_graph_comes_back(how, tmp_path):
    outcome = outcome_of(read=as_read(tiny(**how)))
    back = load_folder(saved(outcome, tmp_path)).read.graph
    assert back.digest == outcome.read.graph.digest


def test_tables_come_back_with_ids_encoding_and_columns(tmp_path):
    outcome = outcome_of(read=tables(tmp_path))
    back = load_folder(saved(outcome, tmp_path)).read
    assert back.graph.ids.tolist() == outcome.read.graph.ids.tolist() == [f"n{i}" for i in range(20)]
    assert back.encoding == outcome.read.encoding
    assert back.classes == outcome.read.classes == ("x", "y", "z")
    assert back.findings == outcome.read.findings
    assert back.columns.equals(outcome.read.columns)


def test_an_earlier_clnrs_folder_opens_and_its_nodes_can_be_given_names(tmp_path):
    folder = saved(outcome_of(read=tables(tmp_path)), tmp_path)
    content = json.loads((folder / TABLES).read_text())
    del content["findings"]["names"]
    (folder / TABLES).write_text(json.dumps(content))
    back = load_folder(folder)
    assert back.read.names_of(np.arange(20)) == []
    named = name_nodes(back, "Kind", folder).read
    assert named.names_of(np.arange(3)) == ["a", "b", "a"]
    assert load_folder(folder).read.findings == named.findings
    with pytest.raises(DataError, match=r"nodes\.parquet: there is no column 'king' for names; there are id, age, kind, label"):
        name_nodes(back, "king", folder)
    with pytest.raises(DataError, match="there is no table of nodes in it"):
        name_nodes(outcome_of(), "kind", folder)


def test_vectors_are_plain_parquet(tmp_path):
    import pyarrow.parquet as pq

    outcome = outcome_of(read=tables(tmp_path))
    table = pq.read_table(saved(outcome, tmp_path) / VECTORS)
    assert table.column_names == ["id", "vector"]
    assert table["id"].to_pylist()[3] == "n3"
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), outcome.z)


def test_a_method_of_ones_own_is_not_saved(tmp_path):
    from clnr.methods import CLNR

    own = CLNR.but("mine", "of my own", postprocess=())
    outcome = learn_graph(as_read(tiny()), own, Recipe(**SMALL), 0, cpu())
    with pytest.raises(MethodError, match="mine"):
        saved(outcome, tmp_path)


@pytest.mark.parametrize("name", [RECIPE, MODEL, TABLES, VECTORS, METRICS, "graph.safetensors"])
def test_a_missing_file_is_named(name, tmp_path):
    folder = saved(outcome_of(), tmp_path)
    (folder / name).unlink()
    with pytest.raises(DataError, match=name):
        load_folder(folder)


def test_what_is_no_folder_is_said(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        load_folder(tmp_path / "none")


@pytest.mark.parametrize("name", [RECIPE, TABLES])
def test_a_newer_form_is_refused(name, tmp_path):
    folder = saved(outcome_of(), tmp_path)
    path = folder / name
    path.write_text(path.read_text().replace("form = 1", "form = 7").replace('"form": 1,\n "enc', '"form": 7,\n "enc'))
    with pytest.raises(DataError, match="form 7"):
        load_folder(folder)


def replaced(path, a, b):
    text = path.read_text()
    assert a in text
    path.write_text(text.replace(a, b))


@pytest.mark.parametrize(
    ("name", "a", "b", "said"),
    [
        (RECIPE, "hidden = 16", "hidden = 65536", "does not fit"),
        (RECIPE, "dimension = 8", "dimension = 9", "does not fit"),
        (RECIPE, "features = 12", "features = 1000000", "does not fit"),
        (RECIPE, 'method = "CLNR"', 'method = "GRACE"', "is not there"),
        (RECIPE, 'method = "CLNR"', 'method = "os.system"', "unknown method"),
        (RECIPE, "seed = 1", "seed = -1", "whole number"),
        (RECIPE, "epochs = 3", 'epochs = "3"', "whole number"),
        (METRICS, '"loss"', '"lost"', "loss"),
        (TABLES, '"names": null', '"names": "title"', "names are to be in column 'title', which nodes.parquet lacks"),
    ],
)
def test_what_does_not_fit_is_refused(name, a, b, said, tmp_path):
    folder = saved(outcome_of(), tmp_path)
    replaced(folder / name, a, b)
    with pytest.raises(DataError, match=said):
        load_folder(folder)


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    import safetensors.torch

    folder = saved(outcome_of(), tmp_path)
    parameters = safetensors.torch.load_file(folder / MODEL)
    name = next(iter(parameters))
    parameters[name][0] = torch.nan
    safetensors.torch.save_file(parameters, folder / MODEL)
    with pytest.raises(DataError, match="not finite"):
        load_folder(folder)


def test_a_pickle_is_refused_and_never_run(tmp_path):
    """Whichever file of the folder it stands in."""

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    whole = saved(outcome_of(read=tables(tmp_path)), tmp_path)
    for name in sorted(path.name for path in whole.iterdir()):
        folder = tmp_path / f"bomb-{name}"
        shutil.copytree(whole, folder)
        torch.save(Bomb(), folder / name)
        with pytest.raises(DataError, match=name):
            load_folder(folder)
    assert not (tmp_path / "exploded").exists()


def test_a_fuzzed_folder_is_refused_or_read_and_nothing_else(tmp_path):
    whole = saved(outcome_of(read=tables(tmp_path)), tmp_path)
    assert NODES in {path.name for path in whole.iterdir()}
    random = np.random.default_rng(0)
    refused = []
    for path in sorted(whole.iterdir()):
        content = path.read_bytes()
        for _ in range(25):
            damaged = bytearray(content)
            for _ in range(random.integers(1, 4)):
                damaged[random.integers(0, len(damaged))] = random.integers(0, 256)
            if random.random() < 0.3:
                damaged = damaged[: random.integers(0, len(damaged))]
            path.write_bytes(damaged)
            try:
                load_folder(whole)
            except ClnrError as error:
                refused.append(str(error))
        path.write_bytes(content)
    assert len(refused) > 60
    assert not any("\n" in said for said in refused)
    load_folder(whole)


def test_json_that_is_no_object_is_refused(tmp_path):
    folder = saved(outcome_of(), tmp_path)
    for text in ("[]", "3", "null", json.dumps({"form": 1}), "{" * 10_000):
        (folder / TABLES).write_text(text)
        with pytest.raises(DataError, match=TABLES):
            load_folder(folder)
