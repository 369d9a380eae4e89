from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import torch
from benchmarks._fit_graph import fit_graph

from clnr.embedding.result.artifact import Output, load_result, name_nodes, save_folder, write_result
from clnr.embedding.result.artifact_files import (
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
from clnr.embedding.result.neighbors import similar_nodes
from clnr.embedding.result.report_data import report_data
from clnr.engine import cpu_engine
from clnr.errors import DataError, MethodError, UnknownName
from clnr.graph import Graph
from clnr.graph.manifest import MANIFEST, NODES, TABLES
from clnr.graph.table_info import TableInfo
from clnr.methods import METHODS
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe
from clnr.tables import read_tables
from tests.cases import in_tiers
from tests.conftest import tiny
from tests.damage import reseal, rewritten, seal

SMALL = {"hidden": 16, "dimension": 8, "epochs": 3, "probe_steps": 20, "head_width": 0}

FITTED_ROWS = [method.name for method in METHODS.values() if method.readout or method.inputs != METHODS["CLNR"].inputs]


def fitted(method="CLNR", graph=None, **changes):
    recipe = preset(METHODS[method], None).recipe.but(**SMALL | changes)
    return fit_graph(tiny() if graph is None else graph, METHODS[method], recipe, 1, cpu_engine())


def tables(tmp_path):
    (tmp_path / "e.csv").write_text("source,target,weight\n" + "".join(f"n{i},n{i * 3 % 20},{i + 1}\n" for i in range(20)))
    (tmp_path / "n.csv").write_text(
        "id,age,kind,label\n" + "".join(f"n{i},{i * i},{'ab'[i % 2]},{'xyz'[i % 3]}\n" for i in range(20))
    )
    return read_tables(tmp_path / "e.csv", tmp_path / "n.csv", label="label")


def saved(result, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    save_folder(result, folder)
    return folder


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
        result = fitted(name, graph, structure=structure, dimension=40, walk_columns=3)
        back = load_result(saved(result, folder))
        assert np.isfinite(back.z).all(), case
        assert (back.z == result.z).all(), case
        assert (back.model.embed(graph, cpu_engine()) == result.model.embed(graph, cpu_engine())).all(), case


@pytest.mark.parametrize("name", ["SVD", "SVD-mix", "CLNR-mix", "Spectral", "Cleora", "Raw"])
def test_numbers_of_any_size_in_a_recipe_take_neither_time_nor_memory(name, tmp_path):
    folder = saved(fitted(name, structure=1), tmp_path)
    text = (folder / RECIPE).read_text()
    wide = [("features = 12", f"features = {number}") for number in (10**9, 2**62, 2**70)]
    for old, new in (*wide, ("reduced = 256", "reduced = 65536"), ("n = 8\n", "n = 65536\n")):
        assert old in text
        (folder / RECIPE).write_text(text.replace(old, new))
        seal(folder)
        # Some fit any number of them.
        with contextlib.suppress(DataError):
            load_result(folder)
            assert old != "features = 12"


def test_tables_come_back_can_be_given_names_and_are_saved_again_when_their_folder_is_gone(tmp_path):
    result = fitted(graph=tables(tmp_path))
    folder = saved(result, tmp_path)
    back, was = load_result(folder), result.graph
    assert back.nodes.ids.tolist() == [f"n{i}" for i in range(20)]
    assert (back.graph.info, back.nodes.names_of(np.arange(20))) == (was.info, [""] * 20)
    named = name_nodes(back, "Kind")
    with pytest.raises(UnknownName, match="unknown column 'king'; did you mean 'kind'"):
        name_nodes(back, "king")
    with pytest.raises(DataError, match="column 'kind' for names needs a node table"):
        name_nodes(fitted(), "kind")
    shutil.rmtree(folder)
    write_result(named, Output(tmp_path / "again", report=True))
    again = load_result(tmp_path / "again")
    assert again.nodes.names_of(np.arange(3)) == ["a", "b", "a"]
    assert again.graph.columns.table().equals(was.columns.table())
    assert again.graph.digest == named.graph.digest
    assert (again.z == result.z).all()


def test_a_method_of_ones_own_is_not_saved(tmp_path):
    own = METHODS["CLNR"].but("mine", "of my own", postprocess=())
    with pytest.raises(MethodError, match="mine"):
        saved(fit_graph(tiny(), own, Recipe(**SMALL), 0, cpu_engine()), tmp_path)


OF_GRAPH = (GRAPH_FILE, f"{GRAPH}/{TABLES}", f"{GRAPH}/features.values.bin")


@pytest.mark.parametrize("name", [RECIPE, MODEL, VECTORS, METRICS, *OF_GRAPH])
def test_a_file_that_is_missing_or_of_another_folder_is_named(name, tmp_path):
    folder, other = saved(fitted(), tmp_path), tmp_path / "other"
    (folder / name).unlink()
    with pytest.raises(DataError, match=name):
        load_result(folder)
    other.mkdir()
    graph = dataclasses.replace(tiny(seed=1), info=TableInfo(notes=("another",)))
    save_folder(fitted(graph=graph, hidden=12), other)
    shutil.copy(other / name, folder / name)
    with pytest.raises(DataError, match=f"{name}: it "):
        load_result(folder)


def replaced(path, a, b):
    text = path.read_text()
    assert a in text
    path.write_text(text.replace(a, b))


def text(name, a, b):
    """A file with another text in it."""
    return lambda folder: replaced(folder / name, a, b)


def parameter(change):
    """A model with some of its parameters changed."""

    def edit(folder):
        arrays = safetensors.numpy.load_file(folder / MODEL)
        change(arrays)
        safetensors.numpy.save_file(arrays, folder / MODEL)

    return edit


def cut(name, rows):
    return parameter(lambda arrays: arrays.__setitem__(name, arrays[name][:rows].copy()))


def vectors(values):
    def edit(folder):
        table = pq.read_table(folder / VECTORS)
        assert table.column_names == ["id", "vector"]
        pq.write_table(table.set_column(1, "vector", values), folder / VECTORS)

    return edit


def lists(numbers, width=8):
    return vectors(pa.FixedSizeListArray.from_arrays(pa.array(numbers), width))


def array(name, place, value):
    return lambda folder: rewritten(folder / GRAPH, lambda arrays: arrays[name].__setitem__(place, value))


def no_text(folder):
    path = folder / GRAPH / NODES
    bad = pa.array([b"\xff\xfe"] * 20).view(pa.string())
    pq.write_table(pq.read_table(path).set_column(2, "kind", bad), path)


WRONG = {
    "CLNR": [
        (text(RECIPE, "hidden = 16", "hidden = 65536"), "model.safetensors: it does not fit"),
        (text(RECIPE, "features = 3", f"features = {2**62}"), MODEL),
        (text(RECIPE, "seed = 1", "seed = -1"), "whole number"),
        (text(RECIPE, "form = 1", "form = 7"), "recipe.toml: its format is version 7"),
        (text(RECIPE, 'method = "CLNR"', 'method = "os.system"'), "unknown method"),
        (text(RECIPE, "epochs = 3", 'epochs = "3"'), "whole number"),
        (text(RECIPE, 'device = "cpu"', 'device = "tpu"'), "unknown device 'tpu'"),
        (text(RECIPE, "hold_out = 0.05", "hold_out = 1.5"), "from 0 to less than 1, not 1.5"),
        (text(RECIPE, "threads = 1", 'threads = "many"'), "'many' is not a whole number"),
        (text(METRICS, '"loss"', '"lost"'), "metrics.jsonl: .*loss"),
        (text(METRICS, '"scores"', '"baselines": ["Raw"], "scores"'), "metrics.jsonl: it cannot be read"),
        (text(f"{GRAPH}/{TABLES}", '"form": 2', '"form": 7'), "tables.json: its format is version 7"),
        (lists(np.full(160, np.inf, np.float32)), "embeddings.parquet: .*not finite"),
        (lists(np.ones(160)), "embeddings.parquet: .*float32"),
        (lists(np.ones(80, np.float32), 4), "8 numbers, and those of the folder have 4"),
        (
            vectors(pa.array([[1.0] * 8] * 19 + [None], pa.list_(pa.float32(), 8))),
            r"embeddings\.parquet: .*(missing|cannot be read)",
        ),
        (array("incoming.indptr", 1, -1), r"incoming.indptr.*: row"),
        (array("incoming.indices", 0, 40), r"incoming.indices.*: row"),
        (array("features.values", 0, np.nan), r"features.*row"),
        (no_text, NODES),
    ],
    "Spectral": [
        (parameter(lambda arrays: arrays.pop("input.0.ids")), "'input.0.ids' is not there"),
        (parameter(lambda arrays: arrays["input.0.rows"].__setitem__(0, np.nan)), "'input.0.rows' has a number that is not"),
    ],
    "SVD-mix": [
        (cut("input.0.weight", 2), "'input.0.weight' is of another shape or type"),
        (cut("readout.block.0.directions", 2), "'readout.block.0.directions' is of another shape or type"),
    ],
    "CLNR-mix": [(cut("encoder.mlp.0.mean", 2), "'encoder.mlp.0.mean' is of another shape or type")],
    "Cleora": [(parameter(lambda arrays: arrays.update(extra=np.ones(3, np.float32))), "'extra' is not of this model")],
}


@pytest.mark.parametrize("method", WRONG)
def test_what_does_not_fit_is_refused(method, tmp_path):
    sound = saved(fitted(method, tables(tmp_path)), tmp_path)
    for number, (change, said) in enumerate(WRONG[method]):
        folder = tmp_path / f"wrong-{number}"
        shutil.copytree(sound, folder)
        change(folder)
        reseal(folder / GRAPH)
        seal(folder)
        with pytest.raises(DataError, match=said):
            load_result(folder)


@pytest.mark.parametrize("read", [lambda folder: load_result(folder).z.tolist(), lambda folder: similar_nodes(folder, "3", 2)])
def test_a_folder_that_is_replaced_while_it_is_read_is_the_new_one(tmp_path, monkeypatch, read):
    for seed, name in enumerate(("folder", "new")):
        (tmp_path / name).mkdir()
        save_folder(fitted(graph=tiny(seed=seed)), tmp_path / name)
    wanted, opened = read(tmp_path / "new"), ArtifactFiles.open

    def replaced(folder):
        files = opened(folder)
        if (tmp_path / "new").is_dir():
            shutil.rmtree(tmp_path / "folder")
            (tmp_path / "new").rename(tmp_path / "folder")
        return files

    monkeypatch.setattr(ArtifactFiles, "open", replaced)
    assert read(tmp_path / "folder") == wanted


def test_a_wrong_class_takes_neither_time_nor_memory(tmp_path):
    folder = saved(fitted(), tmp_path)

    def labelled(label, classes):
        rewritten(folder / GRAPH, lambda arrays: arrays["labels.values"].__setitem__(0, label), classes=classes)
        seal(folder)

    labelled(2**40, 2**40 + 1)
    with pytest.raises(DataError, match=f"{GRAPH_FILE}: 1,099,511,627,777 classes are too many"):
        load_result(folder)
    labelled(2**40, 4)
    with pytest.raises(DataError, match=rf"labels\.values\.bin: .* row 0 has label {2**40}"):
        load_result(folder)
    labelled(900, 901)
    labels = report_data(load_result(folder), "title").columns[0]
    assert labels.names == ("0", "1", "2", "900")
    assert labels.values[:4].tolist() == [3, 1, 2, 0]


def test_a_folder_is_ours_by_its_content(tmp_path):
    folder = saved(fitted(graph=tables(tmp_path)), tmp_path)
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

    whole = saved(fitted(graph=tables(tmp_path)), tmp_path)
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert len(names) > 15
    for number, name in enumerate(names):
        folder = tmp_path / f"bomb-{number}"
        shutil.copytree(whole, folder)
        torch.save(Bomb(), folder / name)
        with pytest.raises(DataError, match=name.name):
            load_result(folder)
        if name.name not in (MANIFEST, DIGESTS):
            # With the right digest, it is read, if it ever is.
            reseal(folder / GRAPH)
            seal(folder)
            with contextlib.suppress(DataError):
                load_result(folder)
    assert not (tmp_path / "exploded").exists()
