"""Rows of nodes in files: read as they were written, once all of them are there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from clnr.embedding.workspace import Workspace
from clnr.engine.distributed.worker_group import WorkerGroup
from clnr.support.processes.workers import ALONE

NODES = 120
BLOCKS = [slice(0, 1), slice(1, 50), slice(50, 51), slice(51, NODES)]


def write(workspace, name, rows):
    with workspace.writing(name, len(rows)) as writer:
        writer.write(0, rows)


@pytest.mark.parametrize("width", [1, 10, 1500])
def test_what_several_workers_write_in_any_order_is_read(tmp_path, width):
    """Also by one that wrote nothing, and so does not know how many numbers a row has."""
    store = torch.distributed.HashStore()
    rows = np.random.default_rng(0).normal(size=(NODES, width)).astype(np.float32)

    def work(rank):
        workspace = Workspace(tmp_path / "rows", WorkerGroup(rank, 3, 3, store, is_own=False))
        with workspace.writing("some", NODES) as writer:
            for part in ([], BLOCKS[::-2], BLOCKS[-2::-2])[rank]:
                writer.write(part.start, rows[part])
        return workspace.read("some")

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(work, range(3)):
            np.testing.assert_array_equal(found, rows)
            assert not found.flags.writeable


def test_rows_that_were_not_all_written_are_not_there(tmp_path, monkeypatch):
    workspace, rows = Workspace(tmp_path / "rows", ALONE), np.ones((NODES, 3), np.float32)

    def stopped():
        with workspace.writing("some", NODES) as writer:
            writer.write(50, 2 * rows[50:])
            raise KeyboardInterrupt

    def full(path, *_, **__):
        path.touch()
        raise OSError(28, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not workspace.has("some")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            write(workspace, "some", 3 * rows)
    assert not workspace.has("some")
    write(workspace, "some", rows)
    assert workspace.has("some")
    np.testing.assert_array_equal(workspace.read("some"), rows)


def test_rows_are_dropped_by_name_or_all_removed(tmp_path):
    workspace = Workspace(tmp_path / "rows", ALONE)
    workspace.remove()
    names = ["walk-1-3", "walk-10-3", "layer-0", "layer-1"]
    for name in names:
        write(workspace, name, np.ones((2, 2), np.float32))
    workspace.drop("layer-0", "walk-2-3")
    assert [workspace.has(name) for name in names] == [True, True, False, True]
    assert workspace.read("walk-1-3").shape == (2, 2)
    workspace.remove()
    assert not workspace.folder.exists()
