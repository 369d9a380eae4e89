from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from benchmarks._fit_graph import fit_graph

from clnr.embedding.graph_sources import as_table_graph
from clnr.embedding.reporting.report_data import report_data
from clnr.embedding.search.neighbors import similar_nodes
from clnr.embedding.store.artifact import load_result, name_nodes, save_folder, save_names
from clnr.embedding.store.artifact_files import (
    DIGESTS,
    GRAPH,
    GRAPH_FILE,
    METRICS,
    MODEL,
    OWN_FILES,
    RECIPE,
    VECTORS,
    ArtifactFiles,
)
from clnr.embedding.store.output_folder import Output, write_result
from clnr.engine import cpu_engine
from clnr.errors import DataError, MethodError, UnknownName
from clnr.graph import Graph
from clnr.graph.manifest import MANIFEST
from clnr.methods import METHODS
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe
from clnr.tables import read_tables
from clnr.tables.ingest_report import NODES, TABLES
from tests.cases import in_tiers
from tests.conftest import tiny
from tests.damage import reseal, rewritten, unseal

SMALL = {"hidden": 16, "dimension": 8, "epochs": 3, "probe_steps": 20, "head_width": 0}

FITTED_ROWS = [method.name for method in METHODS.values() if method.readout or method.inputs != METHODS["CLNR"].inputs]


def fitted(method="CLNR", table_graph=None, **changes):
    recipe = preset(METHODS[method], None).recipe.but(**SMALL | changes)
    return fit_graph(as_table_graph(tiny()) if table_graph is None else table_graph, METHODS[method], recipe, 1, cpu_engine())


def tables(tmp_path):
    (tmp_path / "e.csv").write_text("source,target,weight\n" + "".join(f"n{i},n{i * 3 % 20},{i + 1}\n" for i in range(20)))
    (tmp_path / "n.csv").write_text(
        "id,age,kind,label\n" + "".join(f"n{i},{i * i},{'ab'[i % 2]},{'xyz'[i % 3]}\n" for i in range(20))
    )
    return read_tables(tmp_path / "e.csv", tmp_path / "n.csv")


def saved(result, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    save_folder(result, folder)
    return folder


def unsealed(result, tmp_path):
    """Without digests, so that all else is checked."""
    return unseal(saved(result, tmp_path))


@pytest.mark.parametrize("name", in_tiers())
def test_every_method_comes_back_and_embeds_as_before(name, tmp_path):
    result = fitted(name)
    back = load_result(saved(result, tmp_path))
    assert (back.z == result.z).all()
    assert (back.model.embed(tiny(seed=5), cpu_engine()) == result.model.embed(tiny(seed=5), cpu_engine())).all()
    assert back.model.recipe == result.model.recipe
    assert (back.losses, back.scores, back.warnings) == (result.losses, pytest.approx(result.scores), result.warnings)


SMALLEST = {
    "one node": Graph.from_edges([], [], np.ones((1, 3))),
    "one feature": Graph.from_edges([0], [1], np.zeros((2, 1)), undirected=True),
    "few nodes": Graph.from_edges([0, 1], [1, 2], np.eye(4, 60), undirected=True),
}


@pytest.mark.parametrize("name", in_tiers(FITTED_ROWS))
def test_rows_that_fit_inputs_or_a_read_out_come_back_whatever_their_width(name, tmp_path):
    # What has no columns of structure has no use for their number.
    for case, structure in itertools.product(SMALLEST, (0, 2) if "structure" in METHODS[name].keys else (0,)):
        graph, folder = SMALLEST[case], tmp_path / f"{case} {structure}"
        folder.mkdir()
        result = fitted(name, as_table_graph(graph), structure=structure, dimension=40, walk_columns=3)
        back = load_result(saved(result, folder))
        assert np.isfinite(back.z).all(), case
        assert (back.z == result.z).all(), case
        assert (back.model.embed(graph, cpu_engine()) == result.model.embed(graph, cpu_engine())).all(), case


def cut(name, rows):
    return lambda arrays: arrays.__setitem__(name, arrays[name][:rows].copy())


@pytest.mark.parametrize(
    ("method", "change", "said"),
    [
        ("Spectral", lambda arrays: arrays.pop("input.0.ids"), "'input.0.ids' is not there"),
        ("Spectral", lambda arrays: arrays["input.0.rows"].__setitem__(0, np.nan), "'input.0.rows' has a number that is not"),
        ("SVD-mix", cut("input.0.weight", 5), "'input.0.weight' is of another shape or type"),
        ("SVD-mix", cut("readout.block.0.directions", 5), "'readout.block.0.directions' is of another shape or type"),
        ("CLNR-mix", cut("encoder.mlp.0.mean", 5), "'encoder.mlp.0.mean' is of another shape or type"),
        ("Cleora", lambda arrays: arrays.__setitem__("extra", np.ones(3, np.float32)), "'extra' is not of this model"),
    ],
)
def test_damaged_inputs_and_read_outs_are_refused(method, change, said, tmp_path):
    folder = unsealed(fitted(method), tmp_path)
    edited(folder, MODEL, change)
    with pytest.raises(DataError, match=f"model.safetensors: .*{said}"):
        load_result(folder)


@pytest.mark.parametrize("name", ["SVD", "SVD-mix", "CLNR-mix", "Spectral", "Cleora", "Raw"])
def test_numbers_of_any_size_in_a_recipe_take_neither_time_nor_memory(name, tmp_path):
    folder = unsealed(fitted(name, structure=1), tmp_path)
    text = (folder / RECIPE).read_text()
    wide = [("features = 12", f"features = {number}") for number in (10**9, 2**62, 2**70)]
    for old, new in (*wide, ("reduced = 256", "reduced = 65536"), ("n = 8\n", "n = 65536\n")):
        assert old in text
        (folder / RECIPE).write_text(text.replace(old, new))
        # Some fit any number of them.
        with contextlib.suppress(DataError):
            load_result(folder)
            assert old != "features = 12"


def test_scores_of_baselines_come_back(tmp_path):
    result = dataclasses.replace(fitted(), baselines={"Raw": {"link_auc": 0.5, "link_auc_error": float("nan")}})
    folder = unsealed(result, tmp_path)
    back = load_result(folder).baselines["Raw"]
    assert back["link_auc"] == 0.5
    assert np.isnan(back["link_auc_error"])
    *epochs, last = (folder / METRICS).read_text().splitlines()
    content = json.loads(last)
    assert content.pop("baselines") == {"Raw": {"link_auc": 0.5, "link_auc_error": None}}
    (folder / METRICS).write_text("\n".join([*epochs, json.dumps(content)]))
    assert load_result(folder).baselines == {}
    (folder / METRICS).write_text("\n".join([*epochs, json.dumps(content | {"baselines": ["Raw"]})]))
    with pytest.raises(DataError, match=r"metrics\.jsonl: it cannot be read"):
        load_result(folder)


@pytest.mark.parametrize("how", [{"sparse": True, "weighted": True}, {"undirected": False}])
def test_the_graph_comes_back(how, tmp_path):
    result = fitted(table_graph=as_table_graph(tiny(**how)))
    assert load_result(saved(result, tmp_path)).table_graph.graph.digest == result.table_graph.graph.digest


def test_tables_come_back_with_ids_encoding_and_columns(tmp_path):
    result = fitted(table_graph=tables(tmp_path))
    back = load_result(saved(result, tmp_path)).table_graph
    assert back.graph.ids.tolist() == result.table_graph.graph.ids.tolist() == [f"n{i}" for i in range(20)]
    assert back.feature_encoder == result.table_graph.feature_encoder
    assert back.classes == result.table_graph.classes == ("x", "y", "z")
    assert back.ingest_report == result.table_graph.ingest_report
    assert back.columns.equals(result.table_graph.columns)


def test_nodes_of_a_folder_can_be_given_names(tmp_path):
    folder = saved(fitted(table_graph=tables(tmp_path)), tmp_path)
    back = load_result(folder)
    assert back.table_graph.names_of(np.arange(20)) == []
    result = name_nodes(back, "Kind")
    save_names(result, folder)
    named = result.table_graph
    assert named.names_of(np.arange(3)) == ["a", "b", "a"]
    assert load_result(folder).table_graph.ingest_report == named.ingest_report
    assert None not in json.loads((folder / DIGESTS).read_text())["sha256"].values()
    with pytest.raises(UnknownName, match="unknown column 'king'; did you mean 'kind'"):
        name_nodes(back, "king")
    with pytest.raises(DataError, match="column 'kind' for names needs a node table"):
        name_nodes(fitted(), "kind")


def test_a_method_of_ones_own_is_not_saved(tmp_path):
    own = METHODS["CLNR"].but("mine", "of my own", postprocess=())
    with pytest.raises(MethodError, match="mine"):
        saved(fit_graph(as_table_graph(tiny()), own, Recipe(**SMALL), 0, cpu_engine()), tmp_path)


@pytest.mark.parametrize("name", [RECIPE, MODEL, TABLES, VECTORS, METRICS, GRAPH_FILE])
def test_a_file_that_is_missing_or_of_another_folder_is_named(name, tmp_path):
    folder, other = saved(fitted(), tmp_path), tmp_path / "other"
    (folder / name).unlink()
    with pytest.raises(DataError, match=name):
        load_result(folder)
    if name != TABLES:
        other.mkdir()
        save_folder(fitted(table_graph=as_table_graph(tiny(seed=1)), hidden=12), other)
        shutil.copy(other / name, folder / name)
        with pytest.raises(DataError, match=f"{name}: it is damaged, or was edited"):
            load_result(folder)


@pytest.mark.parametrize("name", [RECIPE, TABLES])
def test_a_newer_form_is_refused(name, tmp_path):
    folder = unsealed(fitted(), tmp_path)
    path = folder / name
    path.write_text(path.read_text().replace("form = 1", "form = 7").replace('"form": 1,\n "enc', '"form": 7,\n "enc'))
    with pytest.raises(DataError, match="format is version 7"):
        load_result(folder)


def replaced(path, a, b):
    text = path.read_text()
    assert a in text
    path.write_text(text.replace(a, b))


@pytest.mark.parametrize(
    ("name", "a", "b", "said"),
    [
        (RECIPE, "hidden = 16", "hidden = 65536", "does not fit"),
        (RECIPE, "features = 12", "features = 1000000", "does not fit"),
        (RECIPE, 'method = "CLNR"', 'method = "GRACE"', "learned by 'CLNR', not by GRACE"),
        (RECIPE, "features = 12", f"features = {2**62}", MODEL),
        (RECIPE, "seed = 1", f"seed = {2**200}", "seed must be"),
        (RECIPE, "form = 1", "form = 7" * 50, RECIPE),
        (RECIPE, 'method = "CLNR"', 'method = "os.system"', "unknown method"),
        (RECIPE, "seed = 1", "seed = -1", "whole number"),
        (RECIPE, "epochs = 3", 'epochs = "3"', "whole number"),
        (RECIPE, 'device = "cpu"', 'device = "tpu"', "device is 'tpu', which is none of auto, cpu, cuda"),
        (RECIPE, "hold_out = 0.05", "hold_out = 1.5", "hold_out is 1.5, and not from 0 to less than 1"),
        (RECIPE, "threads = 1", 'threads = "many"', "'many' is not a whole number"),
        (METRICS, '"loss"', '"lost"', "loss"),
        (TABLES, '"names": null', '"names": "title"', "the column of names, 'title', is not in nodes.parquet"),
    ],
)
def test_what_does_not_fit_is_refused(name, a, b, said, tmp_path):
    folder = unsealed(fitted(), tmp_path)
    replaced(folder / name, a, b)
    with pytest.raises(DataError, match=said):
        load_result(folder)


def edited(folder, name, change):
    """The arrays of a safetensors file with some changed."""
    import safetensors.numpy

    with safetensors.safe_open(folder / name, "numpy") as file:
        arrays, metadata = {each: file.get_tensor(each) for each in file.keys()}, file.metadata()  # noqa: SIM118
    change(arrays)
    safetensors.numpy.save_file(arrays, folder / name, metadata)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        # SciPy's own full check lets such rows pass.
        ("features.indptr", 1, 100_000),
        ("incoming.indptr", 1, -1),
        ("incoming.indices", 0, 40),
        ("features.values", 0, np.nan),
    ],
)
def test_arrays_of_the_graph_are_checked_completely(name, place, value, tmp_path):
    folder = unsealed(fitted(table_graph=as_table_graph(tiny(sparse=True))), tmp_path)
    rewritten(folder / GRAPH, lambda arrays: arrays[name].__setitem__(place, value))
    with pytest.raises(DataError, match=rf"{name}\.bin: it is damaged, or was changed: row"):
        load_result(folder)


def test_a_graph_in_the_place_of_another_is_refused(tmp_path):
    folder, other = saved(fitted(), tmp_path), tmp_path / "other"
    other.mkdir()
    save_folder(fitted(table_graph=as_table_graph(tiny(seed=1))), other)
    values = "features.values.bin"
    right = (folder / GRAPH / values).read_bytes()
    shutil.copy(other / GRAPH / values, folder / GRAPH)
    with pytest.raises(DataError, match=f"{values}: it is damaged, or was changed"):
        load_result(folder)
    (folder / GRAPH / values).write_bytes(right)
    load_result(folder)
    shutil.rmtree(folder / GRAPH)
    shutil.copytree(other / GRAPH, folder / GRAPH)
    for read in (load_result, lambda folder: similar_nodes(folder, "3")):
        with pytest.raises(DataError, match=f"{GRAPH_FILE}: it is damaged, or was edited"):
            read(folder)


def test_what_was_loaded_stays_when_its_folder_goes_and_can_be_saved_again(tmp_path):
    first = tmp_path / "first"
    first.mkdir()
    save_folder(fitted(table_graph=tables(tmp_path)), first)
    back = name_nodes(load_result(first), "kind")
    shutil.rmtree(first)
    write_result(back, Output(tmp_path / "again", report=True))
    again = load_result(tmp_path / "again")
    assert again.table_graph.graph.digest == back.table_graph.graph.digest
    assert again.table_graph.columns.equals(back.table_graph.columns)
    assert again.nodes.names_of(np.arange(3)) == ["a", "b", "a"]
    assert (again.z == back.z).all()


def test_a_recipe_edited_by_hand_is_said_and_what_to_do_about_it(tmp_path):
    folder = saved(fitted(), tmp_path)
    (folder / "report.html").write_text("mine now")
    load_result(folder)
    replaced(folder / RECIPE, "temperature = 0.5", "temperature = 0.6")
    with pytest.raises(DataError, match=r"recipe\.toml: it is damaged, or was edited; .* write the folder again") as caught:
        load_result(folder)
    assert DIGESTS not in str(caught.value)
    assert load_result(unseal(folder)).model.recipe.temperature == 0.6


@pytest.mark.parametrize("read", [lambda folder: load_result(folder).z.tolist(), lambda folder: similar_nodes(folder, "3", 2)])
def test_a_folder_that_is_replaced_while_it_is_read_is_the_new_one(tmp_path, monkeypatch, read):
    for seed, name in enumerate(("folder", "new")):
        (tmp_path / name).mkdir()
        save_folder(fitted(table_graph=as_table_graph(tiny(seed=seed))), tmp_path / name)
    wanted, opened = read(tmp_path / "new"), ArtifactFiles.open

    def replaced(folder):
        files = opened(folder)
        if (tmp_path / "new").is_dir():
            shutil.rmtree(tmp_path / "folder")
            (tmp_path / "new").rename(tmp_path / "folder")
        return files

    monkeypatch.setattr(ArtifactFiles, "open", replaced)
    assert read(tmp_path / "folder") == wanted


@pytest.mark.parametrize("made", ["from tables", "in Python"])
def test_a_wrong_class_takes_neither_time_nor_memory(made, tmp_path):
    table_graph = tables(tmp_path) if made == "from tables" else as_table_graph(tiny())
    folder = unsealed(fitted(table_graph=table_graph), tmp_path)
    rewritten(folder / GRAPH, lambda arrays: arrays["labels.values"].__setitem__(0, 2**40), classes=2**40 + 1)
    with pytest.raises(DataError, match=f"{GRAPH_FILE}: 1,099,511,627,777 classes are too many"):
        load_result(folder)
    rewritten(folder / GRAPH, lambda arrays: None, classes=4)
    if made == "in Python":
        with pytest.raises(DataError, match=rf"labels\.values\.bin: .* row 0 has label {2**40}"):
            load_result(folder)
    rewritten(folder / GRAPH, lambda arrays: arrays["labels.values"].__setitem__(0, 900), classes=901)
    if made == "from tables":
        with pytest.raises(DataError, match=r"label 900, but tables\.json lists 3 classes"):
            load_result(folder)
        return
    back = load_result(folder)
    labels = report_data(back, "title").columns[0]
    assert labels.names == ("0", "1", "2", "900")
    assert labels.values[:4].tolist() == [3, 1, 2, 0]
    assert back.table_graph.class_name(900) == "900"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (pa.FixedSizeListArray.from_arrays(pa.array(np.full(160, np.inf, np.float32)), 8), "not finite"),
        (pa.FixedSizeListArray.from_arrays(pa.array(np.ones(160)), 8), "float32"),
        (pa.FixedSizeListArray.from_arrays(pa.array(np.ones(80, np.float32)), 4), "8 numbers, and those of the folder have 4"),
        (pa.array([[1.0] * 8] * 19 + [None], pa.list_(pa.float32(), 8)), "missing"),
    ],
)
def test_odd_vectors_are_refused(values, said, tmp_path):
    folder = unsealed(fitted(table_graph=tables(tmp_path)), tmp_path)
    table = pq.read_table(folder / VECTORS)
    assert table.column_names == ["id", "vector"]
    pq.write_table(table.set_column(1, "vector", values), folder / VECTORS)
    with pytest.raises(DataError, match=rf"folder.*(embeddings\.parquet|model\.safetensors): .*{said}"):
        load_result(folder)


def test_text_that_is_none_in_a_column_of_nodes_is_refused(tmp_path):
    folder = unsealed(fitted(table_graph=tables(tmp_path)), tmp_path)
    path = folder / GRAPH / NODES
    bad = pa.array([b"\xff\xfe"] * 20).view(pa.string())
    pq.write_table(pq.read_table(path).set_column(2, "kind", bad), path)
    reseal(folder / GRAPH)
    with pytest.raises(DataError, match=NODES):
        load_result(folder)


def test_a_folder_is_ours_by_its_content(tmp_path):
    folder = saved(fitted(table_graph=tables(tmp_path)), tmp_path)
    assert OWN_FILES.find_foreign(folder) is None
    (folder / GRAPH / "notes.txt").write_text("mine")
    assert OWN_FILES.find_foreign(folder) == f"{GRAPH}/notes.txt"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / NODES).write_bytes(b"my own table")
    assert OWN_FILES.find_foreign(mine) == NODES
    (mine / RECIPE).write_text("[soup]\nwater = 1\n")
    assert OWN_FILES.find_foreign(mine) == NODES


def test_a_pickle_is_refused_and_never_run(tmp_path):
    """Whichever file of the folder it stands in."""

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    whole = unsealed(fitted(table_graph=tables(tmp_path)), tmp_path)
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert len(names) > 15
    for number, name in enumerate(names):
        folder = tmp_path / f"bomb-{number}"
        shutil.copytree(whole, folder)
        torch.save(Bomb(), folder / name)
        with pytest.raises(DataError, match=name.name):
            load_result(folder)
        if name.parts[0] == GRAPH and name.name != MANIFEST:
            # With the right digest, it is read, if it ever is.
            reseal(folder / GRAPH)
            with contextlib.suppress(DataError):
                load_result(folder)
    assert not (tmp_path / "exploded").exists()
