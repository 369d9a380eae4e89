"""What a stopped embedding has left is taken up where it ended, by what it was made for alone."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from benchmarks._graph_folders import write_graph
from clnr.embedding.stages.block_embedding import BlockEmbedding
from clnr.embedding.store.row_files import LayerFiles, ShardFiles

from clnr.embedding.job import as_begun, embed_folder
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.embedding.store.work_folder import is_trained
from clnr.engine import choose
from clnr.errors import DataError
from clnr.training.checkpoint import Checkpoint
from tests.embedding.stages.test_graph_in_files import MEMORY, random_folder, settings, vectors


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two graphs of the same size."""
    path = tmp_path_factory.mktemp("graphs")
    return [random_folder(path / str(seed), seed) for seed in (1, 2)]


def stopped(folder, out, chosen, monkeypatch, sink):
    """An embedding that finds the disk full at its third block of a layer, or of vectors."""
    write = sink.write

    def full(self, number, rows):
        if number == 2:
            raise OSError(28, "No space left on device")
        write(self, number, rows)

    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", full)
        with pytest.raises(OSError, match="No space left"):
            embed_folder(folder, out, chosen, MEMORY)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("sink", [LayerFiles, ShardFiles])
def test_a_full_disk_loses_nothing_that_was_written(folders, tmp_path, monkeypatch, sink):
    chosen = settings(resume=True, checkpoint=tmp_path / "out.checkpoint")
    stopped(folders[0], tmp_path / "out", chosen, monkeypatch, sink)
    blocks, compute = [], BlockEmbedding._compute
    monkeypatch.setattr(BlockEmbedding, "_compute", lambda *args: blocks.append(args) or compute(*args))
    assert embed_folder(folders[0], tmp_path / "out", chosen, MEMORY).z.shards >= 5
    again = len(blocks)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    embed_folder(folders[0], tmp_path / "whole", settings(), MEMORY)
    of_all = len(blocks) - again
    # Of each block: what the first layer propagates, and two layers.
    written = 2 if sink is LayerFiles else 2 * of_all // 3 + 2
    assert again == of_all - written
    np.testing.assert_array_equal(vectors(tmp_path / "out")[1], vectors(tmp_path / "whole")[1])


@pytest.mark.parametrize("stage", ["train", "embed"])
def test_a_graph_that_is_written_anew_meanwhile_is_told(folders, tmp_path, monkeypatch, stage):
    graph = write_graph(folders[0].in_memory(), tmp_path / "graph")
    made = getattr(GraphInFiles, stage)

    def changed(*arguments):
        result = made(*arguments)
        shutil.rmtree(tmp_path / "graph")
        write_graph(folders[1].in_memory(), tmp_path / "graph")
        return result

    monkeypatch.setattr(GraphInFiles, stage, changed)
    with pytest.raises(DataError, match="graph has changed during this run"):
        embed_folder(graph, tmp_path / "out", settings(), MEMORY)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("small_blocks")
def test_a_graph_that_changed_is_told_and_nothing_is_lost(folders, tmp_path, monkeypatch):
    one, other = folders
    chosen = settings(resume=True, checkpoint=tmp_path / "out.checkpoint")
    stopped(one, tmp_path / "out", chosen, monkeypatch, ShardFiles)
    left = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for folder, asked, said in ((other, chosen, "graph"), (one, dataclasses.replace(chosen, seed=1), "seed")):
        with pytest.raises(DataError, match=f"another stopped run: {said} was"):
            embed_folder(folder, tmp_path / "out", asked, MEMORY)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == left
    embed_folder(other, tmp_path / "out", dataclasses.replace(chosen, resume=False), MEMORY)
    embed_folder(other, tmp_path / "whole", settings(), MEMORY)
    np.testing.assert_array_equal(vectors(tmp_path / "out")[1], vectors(tmp_path / "whole")[1])


def test_an_output_that_was_written_over_leaves_nothing(folders, tmp_path):
    for folder in folders:
        embed_folder(folder, tmp_path / "out", settings(), MEMORY, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    # As a process that was killed at that moment would leave it.
    (tmp_path / "out").rename(tmp_path / ".out.clnr.work")
    assert not is_trained(tmp_path / "out")


@pytest.mark.usefixtures("small_blocks")
def test_a_stopped_run_keeps_its_precision_and_threads(folders, tmp_path, monkeypatch):
    out, checkpoint = tmp_path / "out", tmp_path / "out.checkpoint"
    chosen = settings(resume=True, checkpoint=checkpoint)
    stopped(folders[0], out, chosen, monkeypatch, ShardFiles)
    begun = chosen.engine.choices
    # Another machine prefers another precision, and has more threads.
    monkeypatch.setenv("CLNR_PRECISION", {"float32": "bfloat16", "bfloat16": "float32"}[begun["precision"]])
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: True)
    asked = dataclasses.replace(chosen, engine=choose("cpu"))
    assert asked.engine.precision != begun["precision"]
    with pytest.raises(DataError, match="another stopped run: precision was"):
        embed_folder(folders[0], out, asked, MEMORY)
    assert as_begun(asked).engine is asked.engine
    again = as_begun(asked, out)
    assert again.engine.choices == begun
    embed_folder(folders[0], out, again, MEMORY)
    embed_folder(folders[0], tmp_path / "whole", settings(engine=again.engine), MEMORY)
    np.testing.assert_array_equal(vectors(out)[1], vectors(tmp_path / "whole")[1])


@pytest.mark.parametrize("choices", [{}, [], "x", {"device": "cpu", "precision": "x", "threads": None}])
def test_choices_that_nobody_wrote_are_refused_in_one_line(tmp_path, choices):
    Checkpoint(tmp_path / "state", {}, False, None, choices).save(1, {"written": torch.ones(2, 3)})
    with pytest.raises(DataError, match=f"^{tmp_path / 'state'}: .*$"):
        as_begun(settings(resume=True, checkpoint=tmp_path / "state"))
