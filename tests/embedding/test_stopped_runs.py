"""What a stopped embedding has left is taken up where it ended, by what it was made for alone."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from benchmarks._graph_folders import write_graph

from clnr.embedding import embed
from clnr.embedding.job import as_begun
from clnr.engine import choose
from clnr.errors import DataError
from clnr.training.checkpoint import Checkpoint
from tests.embedding.jobs import embed_folder
from tests.embedding.stops import calls, stopped
from tests.embedding.test_from_files import random_folder, settings, vectors


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two graphs of the same size."""
    path = tmp_path_factory.mktemp("graphs")
    return [random_folder(path / str(seed), seed) for seed in (1, 2)]


FULL = OSError(28, "No space left on device")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("what", ["rows", "vectors"])
def test_a_full_disk_loses_no_pass_before_that_one(folders, tmp_path, what):
    chosen = settings(resume=True)
    with stopped(what, 3, FULL):
        embed_folder(folders[0], tmp_path / "out", chosen)
    with calls("rows") as rows, calls("vectors") as shards:
        count = len(embed_folder(folders[0], tmp_path / "out", chosen).z.paths)
    assert count >= 5
    # Of each block: what the first layer propagates, and one layer before that of the vectors.
    assert (len(rows), len(shards)) == (2 * count if what == "rows" else 0, count)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    embed_folder(folders[0], tmp_path / "whole", settings())
    np.testing.assert_array_equal(vectors(tmp_path / "out")[1], vectors(tmp_path / "whole")[1])


@pytest.mark.parametrize("stage", ["train", "write_vectors"])
def test_a_graph_that_is_written_anew_meanwhile_is_told(folders, tmp_path, monkeypatch, stage):
    graph = write_graph(folders[0].in_memory(), tmp_path / "graph")
    made = getattr(embed, stage)

    def changed(*arguments):
        result = made(*arguments)
        shutil.rmtree(tmp_path / "graph")
        write_graph(folders[1].in_memory(), tmp_path / "graph")
        return result

    monkeypatch.setattr(embed, stage, changed)
    with pytest.raises(DataError, match="graph has changed during this run"):
        embed_folder(graph, tmp_path / "out", settings())
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("small_blocks")
def test_a_stopped_run_keeps_its_precision_and_threads(folders, tmp_path, monkeypatch):
    out = tmp_path / "out"
    chosen = settings(resume=True)
    with stopped("vectors", 3, FULL):
        embed_folder(folders[0], out, chosen)
    begun = chosen.engine.choices
    # Another machine prefers another precision, and has more threads.
    monkeypatch.setenv("CLNR_PRECISION", {"float32": "bfloat16", "bfloat16": "float32"}[begun["precision"]])
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: True)
    asked = dataclasses.replace(chosen, engine=choose("cpu"))
    assert asked.engine.precision != begun["precision"]
    with pytest.raises(DataError, match="another stopped run: precision was"):
        embed_folder(folders[0], out, asked)
    assert as_begun(asked, tmp_path / "other").engine is asked.engine
    again = as_begun(asked, out)
    assert again.engine.choices == begun
    embed_folder(folders[0], out, again)
    embed_folder(folders[0], tmp_path / "whole", settings(engine=again.engine))
    np.testing.assert_array_equal(vectors(out)[1], vectors(tmp_path / "whole")[1])


@pytest.mark.parametrize("choices", [{}, [], "x", {"device": "cpu", "precision": "x", "threads": None}])
def test_choices_that_nobody_wrote_are_refused_in_one_line(tmp_path, choices):
    Checkpoint(tmp_path / "state", {}, False, choices).save(1, {"written": torch.ones(2, 3)})
    with pytest.raises(DataError, match=f"^{tmp_path / 'state'}: .*$"):
        as_begun(settings(resume=True, checkpoint=tmp_path / "state"))
