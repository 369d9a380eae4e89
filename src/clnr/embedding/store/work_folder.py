"""The folder beside the output in which a graph in files is embedded; what a stopped process left of it can be resumed."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from clnr.embedding.fit_settings import Settings
from clnr.embedding.store.artifact_files import DIGESTS, OWN_FILES, SHARDS
from clnr.embedding.workspace import remove_rows
from clnr.errors import DataError, option
from clnr.graph import Graph
from clnr.support.storage import errors_name, parse_json, resolve_path, temporary_path, write_bytes, write_folder
from clnr.training.fingerprint import Fingerprint, differences

READ_OUT = "read-out.safetensors"
_ABOUT, _SEEN = "about.json", "seen-by-all"
_LATEST_SECONDS, _POLL_SECONDS = 10.0, 0.2


def is_trained(out: Path) -> bool:
    """Whether a process that was stopped has left a model, so that only the embedding of ``embed_folder`` is left to do."""
    work = work_path(out)
    return (work / _ABOUT).is_file() and (work / DIGESTS).is_file()


def work_path(out: Path) -> Path:
    """The work folder of an output."""
    return temporary_path(resolve_path(out), "work")


def begun_choices(out: Path) -> Any:
    """The choices of the engine that a stopped process has begun an output with, not checked yet; None if nothing is left."""
    path = work_path(out) / _ABOUT
    if not path.is_file():
        return None
    with errors_name(path):
        return parse_json(path.read_text(encoding="utf-8")).get("choices")


def raise_left(path: Path) -> NoReturn:
    """The error of a stopped run that would be lost."""
    go_on, again = option("resume", True), option("force", True)
    raise DataError(f"{path} is of a run that was stopped: {go_on} goes on with it, {again} starts again")


class WorkFolder:
    """The folder beside the output in which it is made; what a stopped process left of it can be resumed.

    Stages keep files in it, and what they note.
    """

    def __init__(self, out: Path, folder: Graph, settings: Settings, fingerprint: Fingerprint, force: bool = False):
        self.path = work_path(out)
        self.folder = folder
        self._out, self._settings = resolve_path(out), settings
        self._fingerprint, self._force = fingerprint, force

    @property
    def notes(self) -> dict[str, Any]:
        """What was noted, by this process or an earlier one."""
        return parse_json((self.path / _ABOUT).read_text(encoding="utf-8"))

    def note(self, **more: Any) -> None:
        """Note something, besides what was noted before."""
        before = self.notes if (self.path / _ABOUT).is_file() else {}
        write_bytes(self.path / _ABOUT, json.dumps(before | more).encode())

    def begin(self, block_rows: int) -> int:
        """Make the folder, or go on in what a stopped process left, if that is to be resumed; all workers call it.

        Each gives the rows that its memory lets a block gather. Returns the fewest, or those of the stopped run.
        """
        workers = self._settings.workers
        if workers.first:
            self._check_left()
        self._check_seen()
        block_rows = workers.all_reduce_min(block_rows)
        if workers.first:
            if not (self.path / _ABOUT).is_file():
                self.note(about=self._fingerprint, block_rows=block_rows, choices=self._settings.engine.choices)
            block_rows = int(self.notes["block_rows"])
        return workers.broadcast_object(block_rows)

    def _check_left(self) -> None:
        """Fail if what is left is of something else, or is neither to be resumed nor to be overwritten."""
        left = (self.path / _ABOUT).is_file()
        if left and self._settings.resume:
            with errors_name(self.path / _ABOUT):
                earlier = dict(self.notes["about"])
            if differs := differences(earlier, self._fingerprint):
                what = f"{self.path} is another stopped run: {differs}"
                raise DataError(f"{what}; undo that, or start without {option('resume', True)}")
            return
        if left and not self._force:
            raise_left(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / SHARDS).mkdir(parents=True)

    def _check_seen(self) -> None:
        """Fail on a worker that does not see what the first one writes to this folder."""
        workers, path = self._settings.workers, self.path / _SEEN
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
                raise DataError(
                    f"{self.path.parent} is not the folder that rank 0 writes to; on several hosts, {option('out')} must be on "
                    "a shared file system"
                )
            time.sleep(_POLL_SECONDS)
        workers.barrier()
        if workers.first:
            path.unlink()

    @contextmanager
    def becomes_output(self, force: bool) -> Iterator[Path]:
        """The path of this folder, which is the output when the block ends."""
        with write_folder(self._out, force, OWN_FILES, self.path) as part:
            yield part
            remove_rows(part)
            for name in (READ_OUT, _ABOUT):
                (part / name).unlink(missing_ok=True)
