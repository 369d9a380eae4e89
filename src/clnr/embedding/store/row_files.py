"""Rows of all nodes in files, written block by block: those that are read again, and shards of vectors."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.store.artifact_files import SHARDS
from clnr.embedding.store.export import id_part, vector_table
from clnr.embedding.store.shards import shard_path, shard_schema, write_shard
from clnr.embedding.store.stored_columns import stored_kinds
from clnr.engine.blocks import gather_rows
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.folder import map_array
from clnr.support.processes.workers import Workers

BLOCK_STEP = 1 << 10
"""Blocks begin at multiples of it, and so with a page: not every network file system lets two hosts write to one page."""
_FLOAT_BYTES = 4


class Sink(Protocol):
    """Where the rows of blocks go; those of a block are all there, or not there."""

    def has(self, number: int) -> bool: ...

    def width(self, number: int) -> int:
        """The numbers of a row of a block that is there."""

    def write(self, number: int, rows: Array) -> None: ...


class LayerFiles:
    """Rows of all nodes in one file, to be read again.

    Workers write their blocks to it, each of which has pages of its own (see ``BLOCK_STEP``). A small file for each block says
    that it is there, and how wide it is.
    """

    def __init__(self, folder: Path, blocks: list[slice]):
        self.folder, self._blocks = folder, blocks

    @property
    def path(self) -> Path:
        return self.folder / "rows.bin"

    def _mark(self, number: int) -> Path:
        return self.folder / f"{number:05d}.width"

    def has(self, number: int) -> bool:
        return self._mark(number).is_file()

    @property
    def complete(self) -> bool:
        return all(self.has(number) for number in range(len(self._blocks)))

    def width(self, number: int) -> int:
        return int(self._mark(number).read_text(encoding="utf-8"))

    def write(self, number: int, rows: Array) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        width = rows.shape[1]
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b") as file:
            file.seek(self._blocks[number].start * width * _FLOAT_BYTES)
            file.write(np.ascontiguousarray(rows, "<f4").data)
        part = self._mark(number).with_suffix(".unfinished")
        part.write_text(str(width), encoding="utf-8")
        part.replace(self._mark(number))

    @functools.cached_property
    def stored(self) -> Array:
        """All rows, once they are written."""
        return map_array(self.path, "float32", (self._blocks[-1].stop, self.width(0)))

    def rows(self, nodes: Array) -> Tensor:
        """The rows of some nodes, of all that were written; read in the order of the file."""
        return torch.from_numpy(gather_rows(self.stored, nodes))


class SampleFiles:
    """Rows of some nodes, sorted, in a file for each kind of rows: the first worker makes them."""

    def __init__(self, folder: Path, nodes: Array, workers: Workers):
        self.nodes, self._folder, self._workers = nodes, folder, workers

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npy"

    def has(self, name: str) -> bool:
        return self._workers.broadcast_object(self._path(name).is_file())

    def keep(self, name: str, make: Callable[[], Tensor]) -> None:
        """Keep some rows, unless they are there."""
        if self._workers.first and not self._path(name).is_file():
            self._folder.mkdir(parents=True, exist_ok=True)
            part = self._path("unfinished")
            np.save(part, make().numpy(force=True))
            part.replace(self._path(name))

    def rows(self, name: str) -> Tensor:
        return torch.from_numpy(np.load(self._path(name)))

    def remove(self) -> None:
        if self._workers.first:
            shutil.rmtree(self._folder, ignore_errors=True)


def remove_rows(work: Path) -> None:
    """Remove all rows from a folder in which a graph was embedded, but not the shards."""
    for path in work.iterdir():
        if path.is_dir() and path.name != SHARDS:
            shutil.rmtree(path, ignore_errors=True)


class ShardFiles:
    """Vectors of all nodes, in a shard for each block."""

    def __init__(self, work: Path, folder: Graph, blocks: list[slice]):
        self._work, self._folder, self._blocks = work, folder, blocks
        self._kinds = stored_kinds(folder)

    @property
    def columns(self) -> list[str]:
        return vector_table(id_part(self._folder, 0, 0), np.empty((0, 1), np.float32), self._kinds(np.arange(0))).column_names

    def has(self, number: int) -> bool:
        return shard_path(self._work, number).is_file()

    def width(self, number: int) -> int:
        return int(shard_schema(shard_path(self._work, number)).field("vector").type.list_size)

    def write(self, number: int, rows: Array) -> None:
        block = self._blocks[number]
        kinds = self._kinds(np.arange(block.start, block.stop))
        write_shard(shard_path(self._work, number), id_part(self._folder, block.start, block.stop), rows, kinds)
