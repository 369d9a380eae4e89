"""A graph embedded from files, in blocks and shards, is embedded as in memory; and it goes on where it was stopped."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from benchmarks._graph_folders import write_graph
from typer.testing import CliRunner

from clnr import methods
from clnr.cli import app
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.planning import plan
from clnr.embedding.result.artifact import load_result
from clnr.embedding.result.neighbors import similar_nodes
from clnr.embedding.rows.passes import Passes
from clnr.embedding.rows.vectors import write_vectors
from clnr.embedding.workspace import Workspace
from clnr.engine import choose
from clnr.engine.blocks import in_blocks
from clnr.errors import ClnrError, DataError
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.graph.csr import median_weight
from clnr.tables import ingest
from tests.embedding.jobs import embed_folder, planned

NODES = 300
CHANGES = {"epochs": 3, "hidden": 16, "dimension": 8, "sampled_nodes": 64, "moments": "sampled", "structure": 0}
SET = [word for key, value in CHANGES.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small graph with text as ids, a hub, weights and labels."""
    path = tmp_path_factory.mktemp("graphs")
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, NODES - 4, (2, 1200))
    target[:200] = 7
    weight = rng.integers(1, 4, 1200).astype(float)
    names = np.array([f"n{i}" for i in range(NODES)])
    nodes = {"id": names, "x": rng.normal(size=(NODES, 6)).tolist(), "label": rng.integers(0, 3, NODES)}
    edges = pa.table({"source": names[source], "target": names[target], "weight": weight})
    return ingest(edges, pa.table(nodes), out=path / "graph", directed=True)


def random_folder(path, seed=1):
    random = np.random.default_rng(seed)
    ends, features = random.integers(0, NODES, (2, 1200)), random.normal(size=(NODES, 6)).astype(np.float32)
    return write_graph(Graph.from_edges(*ends, features), path)


def settings(method="CLNR", **more):
    changes = {**CHANGES, **more.pop("changes", {})}
    chosen = methods.find(method)
    recipe = {key: value for key, value in changes.items() if key in chosen.keys}
    defaults = {"engine": choose("cpu"), "hold_out": 0.0, "evaluate": False, "baselines": False}
    return Settings(chosen, recipe=recipe, **defaults | more)


def vectors(folder):
    """Ids and vectors of all shards."""
    tables = [pq.read_table(path) for path in sorted((folder / "embeddings").iterdir())]
    ids = [each for table in tables for each in table["id"].to_pylist()]
    return ids, np.concatenate([np.stack(table["vector"].to_pylist()) for table in tables]).astype(np.float32)


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("CLNR", {}),
        ("CLNR", {"layers": 4}),
        ("CLNR", {"encoder": "mlp"}),
        ("CLNR", {"encoder": "gcn-bn", "layers": 3}),
        ("CLNR", {"hidden": 4, "dimension": 12}),
        ("GRACE", {"layers": 1}),
        ("BGRL", {}),
        ("Raw", {}),
    ],
)
@pytest.mark.usefixtures("small_blocks")
def test_blocks_give_the_embedding_of_the_whole(folder, tmp_path, method, changes):
    chosen = settings(method, changes=changes)
    recipe = planned(folder, chosen).recipe
    trained = learn(chosen.method, folder.in_memory(), 0, recipe, chosen.engine)
    model = FittedModel(
        chosen.method, 0, recipe, trained.fitted.parameters, folder.num_features, Provenance(0.0, "cpu", "float32", None, None)
    )
    workspace = Workspace(tmp_path, block_rows=60)
    passes = Passes(in_blocks(folder, median_weight(folder.incoming.weight)), chosen, workspace.part("all"), 60)
    made = write_vectors(model, passes, folder, workspace)
    assert len(made.paths) > 5
    ids, z = vectors(tmp_path)
    assert ids == folder.in_memory().ids.tolist()
    assert made.shape == z.shape
    np.testing.assert_allclose(z, trained.z.numpy(), rtol=1e-4, atol=1e-5)
    assert len(list(tmp_path.rglob("*.rows"))) <= 1


@pytest.mark.parametrize(
    ("method", "changes"), [("BGRL", {}), ("CLNR", {"encoder": "gcn-bn"}), ("CLNR-mix", {})], ids=["BGRL", "gcn-bn", "mix"]
)
@pytest.mark.parametrize("most", [NODES, 100])
def test_statistics_of_batch_norm_are_those_in_memory(folder, tmp_path, monkeypatch, method, changes, most):
    monkeypatch.setattr("clnr.methods.model.MEASURED_NODES", most)
    chosen = settings(method, changes=changes)
    found = embed_folder(folder, tmp_path / "out", chosen).model
    whole = learn(chosen.method, folder.in_memory(), 0, found.recipe, chosen.engine).fitted.parameters
    names = [name for name in whole if name.endswith(("mean", "variance"))]
    assert names
    for name in names:
        torch.testing.assert_close(found.parameters[name], whole[name], rtol=1e-3, atol=1e-4)


def test_from_a_folder_to_shards(folder, tmp_path):
    result = embed_folder(folder, tmp_path / "out", settings())
    assert (len(result.z), result.z.shape[1], len(result.losses)) == (NODES, 8, 3)
    assert pq.ParquetFile(tmp_path / "out" / "embeddings" / "part-00000.parquet").num_row_groups == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert np.array_equal(np.asarray(load_result(tmp_path / "out").z), vectors(tmp_path / "out")[1])
    with pytest.raises(ClnrError, match="exists already"):
        embed_folder(folder, tmp_path / "out", settings())
    (tmp_path / "out" / "embeddings" / "mine").write_text("x")
    with pytest.raises(ClnrError, match="embeddings/mine"):
        embed_folder(folder, tmp_path / "out", settings(), force=True)
    (tmp_path / "out" / "embeddings" / "mine").unlink()
    embed_folder(folder, tmp_path / "out", settings(seed=1), force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("small_blocks")
def test_a_damaged_shard_is_named(folder, tmp_path):
    out = tmp_path / "out"
    assert len(embed_folder(folder, out, settings()).z.paths) > 3
    with pytest.raises(DataError, match=r"out: there is no node 'zed'; ids are such as 'n0', 'n1', 'n2'"):
        similar_nodes(out, "zed")
    (out / "embeddings" / "part-00001.parquet").write_bytes(b"x")
    with pytest.raises(DataError, match=r"part-00001\.parquet: it cannot be read"):
        similar_nodes(out, "n7")


def clnr(folder, *words):
    """clnr embed --graph with a small recipe."""
    asked = [
        "embed",
        "--graph",
        str(folder.stored.path),
        "--set",
        "method=CLNR",
        *SET,
        "--set",
        "device=cpu",
        "--memory",
        "2 GB",
    ]
    return CliRunner().invoke(app, [*asked, *map(str, words)])


def test_the_command_line_embeds_from_files_where_memory_is_small(folder, tmp_path, monkeypatch):
    alone, shared = ([], ["--workers", "2", "--memory", "1 GB"])
    plans = [json.loads(clnr(folder, *words, "--dry-run", "--json").stdout) for words in (alone, shared)]
    assert [each["from_files"] for each in plans] == [False, True]
    monkeypatch.setattr(plan, "fits_memory", lambda *_: False)
    assert json.loads(clnr(folder, "--dry-run", "--json").stdout)["from_files"]
    made = clnr(folder, "--out", tmp_path / "out", "--json")
    assert json.loads(made.stdout)["nodes"] == NODES
    assert "--memory must be an amount" in str(clnr(folder, "--memory", "lots", "--out", tmp_path / "b").exception)


@pytest.mark.usefixtures("bounded_from_files")
def test_a_stopped_embedding_says_that_it_goes_on(folder, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    out = ("--out", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(Passes, "make", interrupted)
        stopped = clnr(folder, *out)
    assert stopped.exit_code == 130
    assert "stopped; training is complete: run the same command with --resume to continue with the embedding" in stopped.stderr
    said = [clnr(folder, *out, "--resume").stderr for _ in range(2)]
    assert "training is complete; continuing with the embedding" in said[0]
    assert said[1] == f"clnr: {tmp_path / 'out'} is finished: there is nothing to resume\n"
