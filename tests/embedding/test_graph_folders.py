"""A graph folder is taken like any graph: by the command line, by NodeEmbedder, by run and compare."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from clnr import Recipe, load, recipe_for, run
from clnr.cli import app
from clnr.errors import DataError
from clnr.tables import ingest


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Tables of a small graph with labels, and the folder that ingest makes of them."""
    folder = tmp_path_factory.mktemp("folders")
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 200)
    source = rng.integers(0, 200, 900)
    target = np.where(rng.random(900) < 0.8, (source // 3 * 3 + rng.integers(0, 9, 900)) % 200, rng.integers(0, 200, 900))
    features = rng.normal(size=(200, 6)) + label[:, None]
    pq.write_table(pa.table({"source": source, "target": target}), folder / "edges.parquet")
    pq.write_table(pa.table({"id": np.arange(200), "x": features.tolist(), "label": label}), folder / "nodes.parquet")
    ingest(folder / "edges.parquet", folder / "nodes.parquet", out=folder / "graph", label="label")
    return folder


def cli(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_ingest_and_verify_on_the_command_line(tables, tmp_path):
    given = ("--edges", tables / "edges.parquet", "--nodes", tables / "nodes.parquet", "--label", "label")
    given = (*given, "--out", tmp_path / "g")
    made = json.loads(cli("ingest", *given, "--dtype", "float16", "--json", "--quiet").stdout)
    assert (made["nodes"], made["features"], made["classes"]) == (200, 6, 3)
    told = cli("ingest", *given, "--dtype", "float16", "--force").stderr.splitlines()
    planned = cli("embed", *given[:6], "--dry-run", "--set", "device=cpu").stdout.splitlines()
    columns = [line for line in planned if line.startswith(("- edges '", "- nodes '"))]
    assert len(columns) > 3
    assert [line for line in told if line.startswith("- ")][: len(columns)] == columns
    assert "float16" in cli("ingest", "--verify", tmp_path / "g").stdout
    values = tmp_path / "g" / "features.values.bin"
    values.write_bytes(values.read_bytes()[::-1])
    with pytest.raises(DataError, match=r"features\.values\.bin: it is damaged"):
        cli("ingest", "--verify", tmp_path / "g")


def test_run_takes_a_folder_with_labels(tables, tmp_path):
    path = str(tables / "graph")
    quick = Recipe(epochs=2, hidden=8, dimension=8, probe_steps=10)
    by_path, by_graph = run("CLNR", path, recipe=quick, device="cpu"), run("CLNR", load(path), recipe=quick, device="cpu")
    assert by_path.strict == by_graph.strict
    assert by_path.dataset == "graph"
    assert recipe_for("CLNR", path) == recipe_for("CLNR", load(path))
    ingest(tables / "edges.parquet", out=tmp_path / "bare")
    with pytest.raises(DataError, match="bare has no labels"):
        run("CLNR", str(tmp_path / "bare"), recipe=quick, device="cpu")
    with pytest.raises(DataError, match="it is not a graph folder"):
        run("CLNR", str(tmp_path), recipe=quick, device="cpu")
