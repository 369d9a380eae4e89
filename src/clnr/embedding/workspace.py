"""The rows of nodes that a job makes and reads again: in files of a folder that all of its workers see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from clnr.embedding.store.artifact_files import GRAPH, SHARDS
from clnr.graph.csr import Array
from clnr.graph.folder import map_array
from clnr.support.processes.workers import Workers


class Workspace:
    """Rows by name, each in a file. A small file beside it says that all of its rows are there, and how many numbers each has.

    What was begun by a process that was stopped has no mark, and is made again. Nothing is flushed to the disk: rows that are
    soon removed are mostly never written there.
    """

    def __init__(self, folder: Path, workers: Workers):
        self.folder, self.workers = folder, workers

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.rows"

    def _mark(self, name: str) -> Path:
        return self.folder / f"{name}.made"

    def has(self, name: str) -> bool:
        """Whether all rows are there, as the first worker sees it."""
        return self.workers.broadcast_object(self._mark(name).is_file())

    def read(self, name: str) -> Array:
        """All rows, which cannot be written to."""
        rows, width = map(int, self._mark(name).read_text(encoding="utf-8").split())
        return map_array(self._file(name), "float32", (rows, width))

    @contextmanager
    def writing(self, name: str, count: int) -> Iterator[_Writer]:
        """What takes ``count`` rows, of which every worker writes some; all of them are there when the block ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(self._file(name), os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b") as file:
            writer = _Writer(file)
            yield writer
        # Zero for a worker that wrote no block.
        width = -self.workers.all_reduce_min(-writer.width)
        if self.workers.first:
            # On a full disk, half a mark would stand for rows that are there.
            part = self._mark(name).with_suffix(".unfinished")
            part.write_text(f"{count} {width}", encoding="utf-8")
            part.replace(self._mark(name))
        self.workers.barrier()

    def drop(self, *names: str) -> None:
        """Remove rows, if they are there."""
        for name in names if self.workers.first else ():
            self._mark(name).unlink(missing_ok=True)
            self._file(name).unlink(missing_ok=True)

    def clear(self, kept: Collection[str] = ()) -> None:
        """Remove all rows, but those whose names begin so."""
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if not path.name.startswith(tuple(kept)):
                path.unlink()


def remove_rows(work: Path) -> None:
    """Remove all rows from a folder in which a graph was embedded, but neither the shards nor the graph."""
    for path in work.iterdir():
        if path.is_dir() and path.name not in (SHARDS, GRAPH):
            shutil.rmtree(path, ignore_errors=True)


class _Writer:
    """Writes rows to their places in a file."""

    def __init__(self, file: BinaryIO):
        self._file, self.width = file, 0

    def write(self, first: int, rows: Array) -> None:
        """Write rows from the ``first`` on."""
        self.width = rows.shape[1]
        self._file.seek(first * self.width * rows.itemsize)
        self._file.write(np.ascontiguousarray(rows, "<f4").data)
