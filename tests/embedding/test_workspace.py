"""Rows of nodes in files: read as they were written."""

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


def test_a_mark_that_a_full_disk_has_cut_stands_for_no_rows(tmp_path, monkeypatch):
    def full(path, *_, **__):
        path.touch()
        raise OSError(28, "No space left on device")

    workspace = Workspace(tmp_path / "rows", ALONE)
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"), workspace.writing("some", NODES) as writer:
        writer.write(0, np.ones((NODES, 3), np.float32))
    assert not workspace.has("some")
