"""Ingest writes the graph that reading the same tables gives, and a killed one leaves nothing that opens."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from clnr.errors import ClnrError, DataError
from clnr.graph.folder import GraphWriter, verify
from clnr.graph.manifest import MANIFEST
from clnr.tables import ingest, load_graph_folder, read_tables
from tests.fuzz import examples
from tests.tables.files import dense, saved

NODES = "id,title,age,label,kind,vip\nann,Ann Lee,30,x,red,yes\nbob,Bob,,y,blue,no\ncy,Cy Old,50,x,red,yes\ndee,Dee,2,,red,no\n"
EDGES = "source,target,weight\nann,bob,1\nbob,ann,3\nann,bob,2\ncy,cy,1\ncy,bob,0\ncy,ann,0.5\nzed,ann,1\n"
TEXTS = " ".join(f"word{i % 70} other{i % 9}" for i in range(200))


def assert_equal(read, loaded):
    """Two results of reading tables are the same, up to the rounding of sums."""
    one, other = read.graph, loaded.graph
    assert one.ids.tolist() == other.ids.tolist()
    assert one.ids.dtype.kind == other.ids.dtype.kind
    for way in ("incoming", "outgoing"):
        a, b = getattr(one, way), getattr(other, way)
        np.testing.assert_array_equal(a.indptr, b.indptr)
        np.testing.assert_array_equal(a.indices, b.indices)
        np.testing.assert_array_equal(a.weight, b.weight)
    assert sp.issparse(one.features) == sp.issparse(other.features)
    np.testing.assert_allclose(dense(one.features), dense(other.features), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert (one.name, read.classes, read.ingest_report) == (other.name, loaded.classes, loaded.ingest_report)
    assert (read.columns is None) == (loaded.columns is None)
    assert read.columns is None or read.columns.equals(loaded.columns)
    assert read.feature_encoder.width == loaded.feature_encoder.width
    assert read.feature_encoder.dropped == loaded.feature_encoder.dropped


@pytest.mark.parametrize(
    ("edges", "nodes"),
    [
        (EDGES, NODES),
        (EDGES, None),
        (
            "source,target\n" + "".join(f"{i},{i * i % 97}\n" for i in range(97)),
            "id,text\n" + "".join(f"{i},{TEXTS[i : i + 90]}\n" for i in range(97)),
        ),
        ("source,target,weight\na,b,0\nb,c,1e-60\nc,a,2\n", "id,x\na,1\nb,2\nc,4\nlone,3\n"),
    ],
)
def test_it_writes_the_graph_that_reading_gives(tmp_path, edges, nodes):
    e = saved(tmp_path, "e.csv", edges)
    n = None if nodes is None else saved(tmp_path, "n.csv", nodes)
    directed = len(edges) % 2 == 0
    ingest(e, n, out=tmp_path / "graph", directed=directed)
    assert_equal(read_tables(e, n, directed=directed), load_graph_folder(tmp_path / "graph"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({"e.csv", "graph", *(["n.csv"] if nodes else [])})


TYPED = {
    "lists": {"id": [2, 1, 5], "x": [[1.0, 2.0], [3.0, 4.0], None], "y": [1, None, 3]},
    "times": {"id": [2.0, 1.0, 5.0], "x": pa.array([0, 10**12, None], pa.timestamp("ms")), "flag": [True, False, None]},
}


@pytest.mark.parametrize("case", TYPED)
def test_typed_columns_are_read_alike(tmp_path, case):
    nodes = pa.table(TYPED[case])
    edges = pa.table({"source": nodes["id"].take([0, 1, 1]), "target": nodes["id"].take([1, 2, 0])})
    ingest(edges, nodes, out=tmp_path / "graph")
    assert_equal(read_tables(edges, nodes), load_graph_folder(tmp_path / "graph"))


IDS = st.one_of(st.integers(-3, 9).map(str), st.sampled_from(["a", "B", "ü x", "007", "1.0", "nan", "-"]))


@hypothesis.given(
    st.lists(st.tuples(IDS, IDS, st.sampled_from(["0", "1", "2.5", "1e-3"])), min_size=1, max_size=12),
    st.one_of(st.none(), st.dictionaries(IDS, st.sampled_from(["", "1", "2", "red", "blue"]), min_size=1, max_size=9)),
    st.booleans(),
    st.booleans(),
)
@pytest.mark.fuzz
@hypothesis.settings(max_examples=examples(8), deadline=None)
def test_any_tables_are_the_same_graph_or_the_same_error(tmp_path_factory, edges, nodes, weighted, directed):
    folder = tmp_path_factory.mktemp("fuzz")
    e = pa.table(dict(zip(("source", "target", "weight")[: 2 + weighted], zip(*edges, strict=True), strict=False)))
    n = None if nodes is None else pa.table({"id": list(nodes), "x": list(nodes.values())})
    read = outcome(lambda: read_tables(e, n, directed=directed))
    written = outcome(lambda: ingest(e, n, out=folder / "graph", directed=directed))
    if isinstance(read, str):
        assert written == read
        assert list(folder.iterdir()) == []
    else:
        assert_equal(read, load_graph_folder(folder / "graph"))


def outcome(call):
    """What a call returns, or the message of its error."""
    try:
        return call()
    except DataError as error:
        return str(error)


def test_a_graph_of_many_chunks_is_the_same(tmp_path, monkeypatch):
    from clnr.tables import folder_sink
    from clnr.tables.io import source as sources
    from clnr.tables.io import sql

    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 500, (2, 3000))
    edges = pa.table({"source": source, "target": target, "weight": rng.integers(0, 3, 3000).astype(float)})
    nodes = pa.table({"id": rng.permutation(520), "x": rng.normal(size=520), "kind": [f"k{i % 7}" for i in range(520)]})
    for owner, name in ((sql, "_STREAMED_ROWS"), (sources, "_CHUNK_ROWS"), (folder_sink, "NODES_AT_A_TIME")):
        monkeypatch.setattr(owner, name, 64)
    for given in (nodes, None):
        for directed in (False, True):
            ingest(edges, given, out=tmp_path / "graph", directed=directed, force=True)
            assert_equal(read_tables(edges, given, directed=directed), load_graph_folder(tmp_path / "graph"))


def test_numbers_beyond_their_type_are_refused(tmp_path):
    with (
        pytest.raises(DataError, match="too large for float16"),
        GraphWriter(tmp_path, "float16").array("features.values") as append,
    ):
        append(np.array([[np.finfo(np.float32).max]]))


def test_what_cannot_be_done_is_said_before_anything_is_written(tmp_path, monkeypatch):
    edges = saved(tmp_path, "e.csv", EDGES)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    for given, said in (
        ({"memory": "10 MB"}, r"--memory must be an amount from 1 GB on"),
        ({"dtype": "float8"}, "float8"),
        ({"edges": None}, "there is nothing to read"),
        ({}, r"the disk is too small: about .* are needed, and .* are free"),
    ):
        with pytest.raises(ClnrError, match=said):
            ingest(**{"edges": edges, "out": tmp_path / "graph", **given})
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


def test_only_a_graph_folder_is_overwritten(tmp_path):
    edges = saved(tmp_path, "e.csv", EDGES)
    ingest(edges, out=tmp_path / "graph")
    with pytest.raises(ClnrError, match="exists already"):
        ingest(edges, out=tmp_path / "graph")
    assert ingest(edges, out=tmp_path / "graph", force=True, dtype="float16").features.dtype == np.float16
    saved(tmp_path / "graph", "mine.txt", "x")
    with pytest.raises(ClnrError, match=r"mine\.txt"):
        ingest(edges, out=tmp_path / "graph", force=True)


# It waits before its n-th line of progress, or for 0 before it closes the folder.
SLOW = """
import itertools, sys, time
from clnr.tables import ingest
from clnr.graph.folder import GraphWriter
edges, out, n = sys.argv[1:]
def wait(*_, **__):
    print("waiting", flush=True)
    time.sleep(60)
if n == "0":
    GraphWriter.close = wait
lines = itertools.count(1)
ingest(edges, out=out, progress=lambda line: next(lines) == int(n) and wait())
"""


@pytest.mark.full
@pytest.mark.parametrize("at", [0, 1, 3, 5])
def test_a_killed_ingest_leaves_nothing_that_opens_and_the_next_one_cleans_up(tmp_path, at):
    edges = saved(tmp_path, "e.csv", EDGES)
    out = tmp_path / "graph"
    with subprocess.Popen([sys.executable, "-c", SLOW, str(edges), str(out), str(at)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.kill()
    assert not out.exists()
    left = [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert left
    assert not any((path / MANIFEST).exists() for path in left)
    ingest(edges, out=out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "graph"]
    verify(out)
