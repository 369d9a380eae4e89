"""What a job makes and reads again: rows of all nodes, and what it has learned; in a folder, what a stopped run left of it.

The folder is beside the output, and all workers see it. What is whole has its name there, so that it is found by that; nothing
else is. Without a folder nothing is kept: the graph is in memory, and only the first worker goes on after the training.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from clnr.embedding.result.shards import TemporaryFolder
from clnr.errors import DataError, option
from clnr.graph.csr import Array
from clnr.graph.folder import map_array
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.storage import errors_name, parse_json, resolve_path, temporary_path, write_bytes
from clnr.training.fingerprint import Fingerprint, differences

if TYPE_CHECKING:
    from torch import Tensor

_ABOUT, _SEEN, _CHECKPOINT, _NOTES_KEY = "about.json", "seen-by-all", "checkpoint", "clnr"
_LATEST_SECONDS, _POLL_SECONDS = 10.0, 0.2

Kept = tuple[dict[str, "Tensor"], dict[str, Any]]
"""What was learned: tensors by name, and what JSON has."""


class Workspace:
    """Where a job keeps what it makes: in a folder, or nowhere.

    Rows have names, each a file. A small file beside it says that all of its rows are there, and how many numbers each has.
    What was begun by a process that was stopped has no mark, and is made again. No rows are flushed to the disk: those that are
    soon removed are mostly never written there.

    With ``block_rows``, the graph stays in files: rows of a block of nodes are made from at most so many. None: in memory.
    """

    def __init__(self, folder: Path | None, workers: Workers = ALONE, block_rows: int | None = None):
        self._folder, self.workers, self.block_rows = folder, workers, block_rows
        self.holds: TemporaryFolder | None = None

    @classmethod
    def of_output(cls, out: Path, workers: Workers = ALONE, block_rows: int | None = None) -> Workspace:
        """The workspace of an output: beside it."""
        return cls(temporary_path(resolve_path(out), "work"), workers, block_rows)

    @classmethod
    def temporary(cls, workers: Workers, block_rows: int) -> Workspace:
        """A workspace in a temporary folder of the first worker, for rows of blocks and vectors that nobody writes out."""
        folder = TemporaryFolder() if workers.first else None
        path = workers.broadcast_object("" if folder is None else str(folder.path / "work"))
        workspace = cls(Path(path), workers, block_rows)
        workspace.holds = folder
        return workspace

    @property
    def folder(self) -> Path:
        assert self._folder is not None, "nothing is kept"
        return self._folder

    @property
    def alone(self) -> Workspace:
        """The same, of one worker."""
        return Workspace(self._folder, ALONE, self.block_rows)

    def part(self, name: str) -> Workspace:
        """A workspace in this one."""
        return Workspace(self.folder / name, self.workers, self.block_rows)

    # -- a run that was stopped ---------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Path | None:
        """The file for the state of a training."""
        return None if self._folder is None else self._folder / _CHECKPOINT

    @property
    def about(self) -> dict[str, Any]:
        """What the run in the folder is of; empty if none was begun there."""
        path = None if self._folder is None else self._folder / _ABOUT
        if path is None or not path.is_file():
            return {}
        with errors_name(path):
            return dict(parse_json(path.read_text(encoding="utf-8")))

    @property
    def stopped(self) -> str:
        """What to tell whoever has stopped the run in the folder."""
        again, path = f"run the same command with {option('resume', True)} to continue", self.checkpoint
        if self.has_kept("model"):
            return f"stopped; training is complete: {again} with the embedding"
        if path is not None and path.is_file():
            return f"stopped; training is saved in {path}: {again}"
        return "stopped without a checkpoint: the first is saved after a minute of training"

    def check_left(self, resume: bool, force: bool) -> None:
        """Fail if a stopped run would be lost."""
        if self.about and not (resume or force) and any(path.name != _ABOUT for path in self.folder.iterdir()):
            go_on, again = option("resume", True), option("force", True)
            raise DataError(f"{self.folder} is of a run that was stopped: {go_on} goes on with it, {again} starts again")

    def begin(self, fingerprint: Fingerprint, choices: Any, resume: bool) -> None:
        """Begin a run, or go on with what a stopped one left, if that is to be resumed; all workers call it.

        Blocks stay as large as they were; each worker has given the rows that its memory allows, and the fewest count.
        """
        if self._folder is None:
            return
        block_rows = None if self.block_rows is None else self.workers.all_reduce_min(self.block_rows)
        if self.workers.first:
            about = self._resumed(fingerprint) if resume and self.about else None
            if about is None:
                self.remove()
                self.folder.mkdir(parents=True)
                about = {"fingerprint": fingerprint, "choices": choices}
            about["block_rows"] = about.get("block_rows") or block_rows
            write_bytes(self._folder / _ABOUT, json.dumps(about).encode())
            block_rows = None if block_rows is None else about["block_rows"]
        self.block_rows = self.workers.broadcast_object(block_rows)
        if self.block_rows is not None:
            self._check_seen()

    def _resumed(self, fingerprint: Fingerprint) -> dict[str, Any]:
        """What the run that is resumed was begun with; another one is refused."""
        about = self.about
        with errors_name(self.folder / _ABOUT):
            differs = differences(dict(about["fingerprint"]), fingerprint)
        if differs:
            again = option("resume", True)
            raise DataError(f"{self.folder} is another stopped run: {differs}; undo that, or start without {again}")
        return about

    def _check_seen(self) -> None:
        """Fail on a worker that does not see what the first one writes to this folder."""
        workers, path = self.workers, self.folder / _SEEN
        if workers.alone:
            return
        mark = workers.broadcast_object(secrets.randbelow(1 << 60))
        if workers.first:
            path.write_text(str(mark), encoding="utf-8")
        workers.barrier()
        # A network file system may show it a little later.
        end = time.monotonic() + _LATEST_SECONDS
        while not (path.is_file() and path.read_text(encoding="utf-8") == str(mark)):
            if time.monotonic() > end:
                where = f"{self.folder.parent} is not the folder that rank 0 writes to"
                raise DataError(f"{where}; on several hosts, {option('out')} must be on a shared file system")
            time.sleep(_POLL_SECONDS)
        workers.barrier()
        if workers.first:
            path.unlink()

    def remove(self) -> None:
        """Remove the folder, and all that is kept in it; by the first worker."""
        if self._folder is not None and self.workers.first:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- what was learned ---------------------------------------------------------------------------------------------

    def once(self, name: str, make: Callable[[], Kept | None]) -> Kept | None:
        """What ``make`` gives, which is kept, or has been kept by a process that was stopped. All workers call it.

        In memory, those that are not the first have None.
        """
        path = None if self._folder is None else self._folder / f"{name}.safetensors"
        done = self.workers.broadcast_object(path is not None and path.is_file())
        made = None if done else make()
        if not self.workers.first:
            made = None
        if path is None:
            return made
        if made is not None:
            _write_kept(path, made)
        self.workers.barrier()
        # The first has what it made.
        return _read_kept(path) if made is None and (self.workers.first or self.block_rows is not None) else made

    def has_kept(self, name: str) -> bool:
        """Whether something is kept, by the folder that this process sees."""
        return self._folder is not None and (self._folder / f"{name}.safetensors").is_file()

    # -- rows ---------------------------------------------------------------------------------------------------------

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


class _Writer:
    """Writes rows to their places in a file."""

    def __init__(self, file: BinaryIO):
        self._file, self.width = file, 0

    def write(self, first: int, rows: Array) -> None:
        """Write rows from the ``first`` on."""
        self.width = rows.shape[1]
        self._file.seek(first * self.width * rows.itemsize)
        self._file.write(np.ascontiguousarray(rows, "<f4").data)


def _write_kept(path: Path, kept: Kept) -> None:
    import safetensors.torch

    tensors = {name: value.contiguous() for name, value in kept[0].items()}
    write_bytes(path, safetensors.torch.save(tensors, {_NOTES_KEY: json.dumps(kept[1])}))


def _read_kept(path: Path) -> Kept:
    import safetensors

    with errors_name(path), safetensors.safe_open(str(path), "pt") as file:
        notes = parse_json((file.metadata() or {})[_NOTES_KEY])
        return {name: file.get_tensor(name).clone() for name in file.keys()}, notes  # noqa: SIM118
