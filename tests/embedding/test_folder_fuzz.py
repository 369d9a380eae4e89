"""Damaged graph folders: whatever is in their files, they are refused in one line, or what is read of them can be right.

Each is opened, loaded and trained on from its files in a process apart. What opening and reading promise is checked here by
other means: plain arrays, all of them at once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from benchmarks._graph_folders import write_graph
from hypothesis import event, given
from hypothesis import strategies as st

from clnr.embedding.graph_facts import counts_of
from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.report_data import edges_among
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.folder import array_types, open_graph, verify
from clnr.graph.manifest import MANIFEST
from clnr.tables import ingest
from tests.apart import process_apart
from tests.damage import changed_graph, fuzzed
from tests.embedding import test_from_files
from tests.embedding.jobs import embed_folder

pytestmark = [pytest.mark.fuzz, pytest.mark.full]
NODES = 30


# -- what is tried ----------------------------------------------------------------------------------------------------------


def load(path: str, out: str) -> None:
    open_graph(path).in_memory()


def show(path: str, out: str) -> None:
    """What a report shows of it."""
    graph, some = open_graph(path), np.arange(0, NODES, 2)
    nodes = Nodes(graph)
    read = nodes.ids[some], nodes.names_of(some), nodes.labels_of(some), graph.columns and graph.columns.take(some)
    assert len(read[0]) == len(some)
    edges_among(graph, some)
    counts_of(graph)


def train(path: str, out: str, method: str = "CLNR") -> None:
    changes = {"epochs": 2, "sampled_nodes": 16}
    chosen = test_from_files.settings(method, changes=changes, hold_out=0.1, evaluate=True, seed=0)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(out)
    embed_folder(open_graph(path), Path(out), chosen)


def train_mix(path: str, out: str) -> None:
    train(path, out, "CLNR-mix")


def warm_up() -> None:
    """Import and compile what each attempt would."""
    with tempfile.TemporaryDirectory() as folder:
        for path in written(Path(folder)):
            train_mix(str(path), f"{folder}/out")


@pytest.fixture(scope="module")
def apart():
    module = "tests.embedding.test_folder_fuzz"
    with process_apart(f"{module}:warm_up") as call:
        yield lambda name, *arguments: call(f"{module}:{name}", *map(str, arguments))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return written(tmp_path_factory.mktemp("sound"))


def written(path: Path) -> list[Path]:
    """Graphs of all forms: weighted or not, directed or not, sparse or dense, with text or numbers as ids."""
    random = np.random.default_rng(1)
    source, target = random.integers(0, NODES - 2, (2, 4 * NODES))
    names = np.array([f"ü{i}" for i in range(NODES)])
    edges = {"source": names[source], "target": names[target], "weight": random.integers(1, 4, len(source)).astype(float)}
    nodes = {"id": names, "x": random.normal(size=(NODES, 5)).tolist(), "label": random.integers(0, 3, NODES)}
    ingest(pa.table(edges), pa.table(nodes), out=path / "tables", directed=True, label="label")
    x = random.normal(size=(NODES, 6)).astype(np.float32)
    write_graph(Graph.from_edges(source, target, sp.csr_array(np.where(x > 0, x, 0)), undirected=True), path / "sparse")
    labels = random.integers(-1, 4, NODES)
    write_graph(Graph.from_edges(source, target, x, labels=labels, undirected=True), path / "half", "float16")
    return [path / name for name in ("tables", "sparse", "half")]


# -- what is promised -------------------------------------------------------------------------------------------------------


def broken(folder: Path, ways: tuple[str, ...]) -> str | None:
    """The array of a folder that cannot be that of a graph; None if all can."""
    content = json.loads((folder / MANIFEST).read_bytes())
    arrays = {name: np.fromfile(folder / f"{name}.bin", dtype) for name, dtype in array_types(content).items()}
    nodes = content["nodes"]
    for name in (*ways, *(["features"] if "features.indptr" in arrays else [])):
        indptr, indices = arrays[f"{name}.indptr"], arrays[f"{name}.indices"]
        if not (len(indptr) == nodes + 1 and indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all()):
            return f"{name}.indptr"
        for start, stop in itertools.pairwise(indptr):
            row = indices[start:stop]
            if ((row < 0) | (row >= (content["features"] if name == "features" else nodes))).any():
                return f"{name}.indices"
            if name != "features" and (np.diff(row.astype(np.int64)) <= 0).any():
                return f"{name}.indices"
    for name, values in arrays.items():
        if name in [f"{way}.weight" for way in ways] and not (np.isfinite(values).all() and (values >= 0).all()):
            return name
        if name == "features.values" and not np.isfinite(values.astype(np.float32)).all():
            return name
    labels = arrays.get("labels.values", np.zeros(0))
    return "labels.values" if ((labels < -1) | (labels >= content["classes"])).any() else None


def tried(apart, call, path, tmp_path):
    """Whether a folder is taken; if it is not, one line says why."""
    said = apart(call, path, tmp_path / "out")
    event(f"{call}: {'taken' if said == 'done' else 'refused'}")
    if said == "done":
        return True
    # A plan, or a training, may be refused for other reasons.
    kinds = ("DataError: ", "clnr.errors.TrainingError: ", "clnr.errors.MethodError: ", "clnr.errors.OutOfMemory: ")
    assert said.startswith(kinds), said
    assert "\n" not in said
    assert len(said) < 1000
    # Numbers may be too large for a training; then they are finite.
    assert "learning_rate" not in said or broken(path, ("incoming",)) is None
    return False


@fuzzed(6)
@given(data=st.data())
def test_a_folder_is_read_as_it_can_be_or_not_at_all(data, apart, folders, tmp_path):
    sound, path = data.draw(st.sampled_from(folders)), tmp_path / "graph"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(sound, path)
    changed = data.draw(changed_graph(sound))
    for name, content in changed.items():
        (path / name).write_bytes(content)
    tried(apart, "show", path, tmp_path)
    if tried(apart, "load", path, tmp_path):
        assert broken(path, ways(path)) is None
    call = data.draw(st.sampled_from(["train", "train", "train", "train_mix"]))
    if tried(apart, call, path, tmp_path):
        assert broken(path, ways(path) if call == "train_mix" else ("incoming",)) is None
    if MANIFEST not in changed and any(content != (sound / name).read_bytes() for name, content in changed.items()):
        with pytest.raises(DataError, match="damaged, or was changed"):
            verify(path)


def ways(path):
    return ("incoming", "outgoing") if (path / "outgoing.indptr.bin").exists() else ("incoming",)


def test_sound_folders_are_taken(apart, folders, tmp_path):
    for path in folders:
        assert broken(path, ways(path)) is None
        for call in ("load", "show", "train"):
            assert apart(call, path, tmp_path / "out") == "done"
