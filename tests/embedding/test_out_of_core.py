"""A graph embedded from files, in blocks and shards, is embedded as in memory; and it goes on where it was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from clnr import methods
from clnr.cli import app
from clnr.embedding import block_embedding, disk_plan, out_of_core
from clnr.embedding.artifact import load_folder
from clnr.embedding.block_embedding import BlockEmbedding
from clnr.embedding.disk_plan import fits_memory, plan
from clnr.embedding.fitting import FittedModel
from clnr.embedding.out_of_core import embed_folder
from clnr.embedding.pipeline import Settings
from clnr.embedding.similar import similar_nodes
from clnr.engine import choose
from clnr.errors import ClnrError, DataError, MethodError, OutOfMemory
from clnr.experiments.run import learn
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.presets import preset
from clnr.support.workers import Alone
from clnr.tables import ingest

pytest.importorskip("duckdb")
pytest.importorskip("numba")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NODES = 300
CHANGES = {"epochs": 3, "hidden": 16, "dimension": 8, "sampled_nodes": 64, "moments": "sampled"}
SET = [word for key, value in CHANGES.items() for word in ("--set", f"{key}={value}")]
MEMORY = 2_000_000_000


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


def settings(method="CLNR", **more):
    changes = {**CHANGES, **more.pop("changes", {})}
    chosen = methods.find(method)
    recipe = {key: value for key, value in changes.items() if key in chosen.keys}
    return Settings(chosen, choose("cpu"), recipe=recipe, **{"hold_out": 0.0, "evaluate": False, "baselines": False, **more})


def vectors(folder):
    """Ids and vectors of all shards."""
    tables = [pq.read_table(path) for path in sorted((folder / "embeddings").iterdir())]
    ids = [each for table in tables for each in table["id"].to_pylist()]
    return ids, np.concatenate([np.stack(table["vector"].to_pylist()) for table in tables]).astype(np.float32)


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("CLNR", {}),
        ("CLNR", {"layers": 1}),
        ("CLNR", {"layers": 4}),
        ("CLNR", {"encoder": "mlp"}),
        ("CLNR", {"encoder": "gcn-bn", "layers": 3}),
        ("CLNR", {"hidden": 4, "dimension": 12}),
        ("GRACE", {}),
        ("Untrained", {}),
        ("Raw", {}),
    ],
)
def test_blocks_give_the_embedding_of_the_whole(folder, tmp_path, method, changes):
    chosen = settings(method, changes=changes)
    recipe, _ = plan(folder, chosen, MEMORY)
    trained = learn(chosen.method, folder.graph(), 0, recipe, chosen.engine)
    model = FittedModel(chosen.method, 0, recipe, trained.fitted.parameters, folder.num_features)
    (tmp_path / "embeddings").mkdir()
    dimension, shards = BlockEmbedding(model, folder, chosen, tmp_path, block_rows=60).run()
    assert shards > 5
    ids, z = vectors(tmp_path)
    assert ids == folder.graph().ids.tolist()
    assert dimension == z.shape[1]
    np.testing.assert_allclose(z, trained.z.numpy(), rtol=1e-4, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["embeddings"]


def test_from_a_folder_to_shards(folder, tmp_path):
    result = embed_folder(folder, tmp_path / "out", settings(), MEMORY)
    assert (result.nodes, result.dimension, len(result.losses)) == (NODES, 8, 3)
    recipe, _ = plan(folder, settings(), MEMORY)
    whole = learn(methods.CLNR, folder.graph(), 0, recipe, choose("cpu"))
    np.testing.assert_allclose(vectors(tmp_path / "out")[1], whole.z.numpy(), rtol=1e-4, atol=1e-5)
    assert pq.ParquetFile(tmp_path / "out" / "embeddings" / "part-00000.parquet").num_row_groups == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(DataError, match="its embedding is in shards"):
        load_folder(tmp_path / "out")
    with pytest.raises(ClnrError, match="exists already"):
        embed_folder(folder, tmp_path / "out", settings(), MEMORY)
    (tmp_path / "out" / "embeddings" / "mine").write_text("x")
    with pytest.raises(ClnrError, match="embeddings/mine"):
        embed_folder(folder, tmp_path / "out", settings(), MEMORY, force=True)
    (tmp_path / "out" / "embeddings" / "mine").unlink()
    embed_folder(folder, tmp_path / "out", settings(seed=1), MEMORY, force=True)


def test_similar_nodes_of_shards(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(disk_plan, "_LEAST_ROWS", 50)
    monkeypatch.setattr(block_embedding, "_MOST_NODES", 50)
    out = tmp_path / "out"
    assert embed_folder(folder, out, settings(), MEMORY).shards > 3
    ids, z = vectors(out)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    cosine = unit @ unit[ids.index("n7")]
    order = [i for i in np.argsort(-cosine, kind="stable") if ids[i] != "n7"][:5]
    found = similar_nodes(out, "n7", 5)
    assert [each.id for each in found.nodes] == [ids[i] for i in order]
    np.testing.assert_allclose([each.cosine for each in found.nodes], cosine[order], rtol=1e-5)
    graph = folder.graph()
    linked = {*graph.incoming.indices[graph.incoming.indptr[7] : graph.incoming.indptr[8]].tolist()}
    linked |= {*graph.outgoing.indices[graph.outgoing.indptr[7] : graph.outgoing.indptr[8]].tolist()}
    assert [each.linked for each in found.nodes] == [i in linked for i in order]
    assert [each.label for each in found.nodes] == [str(graph.labels[i]) for i in order]
    with pytest.raises(DataError, match="there is no node 'zed'; its ids are such as 'n0', 'n1', 'n2'"):
        similar_nodes(out, "zed")
    (out / "embeddings" / "part-00001.parquet").write_bytes(b"x")
    with pytest.raises(DataError, match=r"part-00001\.parquet: it cannot be read"):
        similar_nodes(out, "n7")


def test_similar_nodes_by_an_index(folder, tmp_path):
    pytest.importorskip("usearch")
    embed_folder(folder, tmp_path / "out", settings(), MEMORY)
    exact, index = (similar_nodes(tmp_path / "out", "n7", 5, approximate=each) for each in (False, True))
    assert len({each.id for each in exact.nodes} & {each.id for each in index.nodes}) >= 4


SLOW = """
import sys
import time
from pathlib import Path
from clnr.embedding import block_embedding, disk_plan, out_of_core
from clnr.graph.graph_folder import GraphFolder
from tests.embedding.test_out_of_core import MEMORY, settings
disk_plan._LEAST_ROWS = block_embedding._MOST_NODES = 40
at, compute, calls = int(sys.argv[3]), block_embedding.BlockEmbedding._compute, []
def slow(self, layer, block):
    calls.append(block)
    if len(calls) == at:
        print("stopped", flush=True)
        time.sleep(60)
    return compute(self, layer, block)
block_embedding.BlockEmbedding._compute = slow
chosen = settings(resume=True, checkpoint=Path(sys.argv[2] + ".checkpoint"))
out_of_core.embed_folder(GraphFolder.open(Path(sys.argv[1])), Path(sys.argv[2]), chosen, MEMORY)
"""


def test_a_killed_embedding_goes_on_from_its_last_block(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(disk_plan, "_LEAST_ROWS", 40)
    monkeypatch.setattr(block_embedding, "_MOST_NODES", 40)
    out = tmp_path / "out"
    for at in (4, 12, 3):
        process = subprocess.Popen([sys.executable, "-c", SLOW, str(folder.path), str(out), str(at)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"stopped\n"
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert not out.exists()
    calls = []
    compute = BlockEmbedding._compute
    monkeypatch.setattr(BlockEmbedding, "_compute", lambda *args: calls.append(args) or compute(*args))
    monkeypatch.setattr(out_of_core, "_train", lambda *_: pytest.fail("it trained again"))
    chosen = settings(resume=True, checkpoint=tmp_path / "out.checkpoint")
    shards = embed_folder(folder, out, chosen, MEMORY).shards
    assert len(calls) < shards
    monkeypatch.undo()
    embed_folder(folder, tmp_path / "undisturbed", settings(), MEMORY)
    np.testing.assert_allclose(vectors(out)[1], vectors(tmp_path / "undisturbed")[1], rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "undisturbed"]


def test_what_was_stopped_while_it_was_scored_is_not_embedded_again(folder, tmp_path, monkeypatch):
    chosen = settings(resume=True, checkpoint=tmp_path / "out.checkpoint")
    with monkeypatch.context() as patch:
        patch.setattr(out_of_core, "score_files", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            embed_folder(folder, tmp_path / "out", chosen, MEMORY)
    monkeypatch.setattr(BlockEmbedding, "run", lambda *_: pytest.fail("it embedded again"))
    assert embed_folder(folder, tmp_path / "out", chosen, MEMORY).scored.scores["effective_rank"] > 1


def test_several_workers_are_refused(folder):
    class Two(Alone):
        size = 2

    with pytest.raises(MethodError, match="it cannot work from files by several workers; leave out --workers"):
        plan(folder, settings(workers=Two()), MEMORY)


@pytest.mark.parametrize(
    ("method", "more", "said"),
    [
        ("CLNR-mix", {}, "WeightFeatures looks at all of the graph"),
        ("CLNR-hops", {}, "its read-out (Hops) is fitted to the rows of all nodes"),
        ("CLNR", {"changes": {"moments": "all"}}, "each step computes the rows of all nodes, unless moments=sampled"),
        ("CLNR", {"changes": {"sampled_nodes": 0}}, "each step computes the rows of all nodes"),
        ("CLNR", {"changes": {"structure": 4}}, "AddStructure looks at all of the graph"),
        ("GCA", {}, "AdaptiveDropEdges looks at all of the graph"),
        ("GCN", {}, "each step computes the rows of all nodes"),
        ("CLNR", {"tune": 2}, "tuning and --method auto score by held-out edges"),
    ],
)
def test_what_needs_all_rows_is_refused_with_advice(folder, method, more, said):
    with pytest.raises(MethodError) as caught:
        plan(folder, settings(method, **more), MEMORY)
    assert said in str(caught.value)
    assert "--method CLNR with its defaults works" in str(caught.value)


def test_the_plan_tells_memory_and_disk(folder):
    _, found = plan(folder, settings(), MEMORY)
    assert 1.7e9 < found.memory <= MEMORY
    assert found.disk == 4 * NODES * (2 * 16 + 8)
    assert 0 < found.step_bytes <= 2 * (NODES * 6 * 4 + folder.num_edges * 4)
    assert "a step reads up to" in str(found)
    assert fits_memory(folder, settings(), None)
    assert not fits_memory(folder, settings(), 500_000_000)
    with pytest.raises(OutOfMemory, match="training from files needs about"):
        plan(folder, settings(), 500_000_000)


def test_the_disk_is_checked_before_training(folder, tmp_path, monkeypatch):
    import shutil
    from types import SimpleNamespace

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(DataError, match="the disk is too small"):
        embed_folder(folder, tmp_path / "out", settings(), MEMORY)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_embeds_from_files_where_memory_is_small(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(disk_plan, "fits_memory", lambda *_: False)
    words = ["embed", "--graph", str(folder.path), "--method", "CLNR", *SET, "--device", "cpu", "--memory", "2 GB"]
    dry = CliRunner().invoke(app, [*words, "--dry-run", "--json"])
    assert json.loads(dry.stdout)["disk_bytes"] == 4 * NODES * (2 * 16 + 8)
    made = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out"), "--json", "--quiet"])
    assert json.loads(made.stdout)["nodes"] == NODES
    found = CliRunner().invoke(app, ["similar", str(tmp_path / "out"), "n7", "-k", "3", "--json"])
    assert len(json.loads(found.stdout)) == 3
    odd = CliRunner().invoke(app, [*words[:-1], "lots", "--out", str(tmp_path / "b")])
    assert "--memory must be an amount such as '4 GB', not 'lots'" in str(odd.exception)


def test_recipes_of_folders_are_those_of_graphs(folder):
    graph = GraphFolder.open(folder.path)
    assert settings().recipe_for(graph)[0] == settings().recipe_for(graph.graph())[0].but(structure=0)
    assert preset(methods.CLNR, str(folder.path)) == preset(methods.CLNR, None)
