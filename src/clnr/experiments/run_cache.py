"""The run cache: a file with a line of JSON for each run, safe with several writers and if one is killed at any time."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from clnr.errors import RunCacheError, shorten
from clnr.experiments.results import Run
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.machine.paths import state_folder
from clnr.support.storage import lock, parse_json
from clnr.training.fingerprint import fingerprint, key_of

if TYPE_CHECKING:
    from clnr.engine import Engine
    from clnr.graph import Graph

_FIRST_BYTES = b'{"key": '


def run_key(graph: Graph, method: Method, recipe: Recipe, seed: int, engine: Engine) -> str:
    """The key of a run: of its fingerprint, threads and hardware."""
    from clnr.support.machine import environment

    where = {"choices": engine.choices, "hardware": environment.hardware(engine.device)}
    return key_of(fingerprint(graph.digest, method, recipe, seed, engine, **where))


class _Entry(NamedTuple):
    """A line: a run, its key, and when it was made."""

    key: str
    made: str
    run: Run


class RunCache:
    """The runs made so far: a file, by default in the user's state folder, or in CLNR_HOME.

    Reading changes nothing, and a file that is no run cache is never changed. A last line without its end is of a writer
    that was killed, or that is still writing: readers pass over it, and the next writer removes it.
    """

    def __init__(self, path: Path | None = None):
        self.path = path or state_folder() / "runs.jsonl"

    def prepare(self) -> None:
        """Fail before hours of training where runs could not be written."""
        with self._writing():
            pass

    def add(self, key: str, run: Run, rerun: bool = False) -> None:
        """Write one run, complete or not at all.

        If another process has written the same run in the meantime, nothing is written, except with ``rerun``.
        """
        made = datetime.now(UTC).isoformat(timespec="seconds")
        with self._writing() as file:
            if not rerun and any(entry.key == key for entry in self._entries()):
                return
            line = (json.dumps({"key": key, "made": made, **dataclasses.asdict(run)}) + "\n").encode()
            if file.write(line) < len(line):
                raise OSError("the disk is full")
            os.fsync(file.fileno())

    def find(self, key: str) -> Run | None:
        """The latest run of this key, if there is one."""
        with self._errors():
            return next((entry.run for entry in reversed(self._entries()) if entry.key == key), None)

    def runs(self, **asked: str | None) -> list[tuple[str, Run]]:
        """Runs with the time when each was made, oldest first; of a ``method``, ``dataset`` or ``device`` if asked."""
        with self._errors():
            entries = self._entries()
        wanted = {name: value for name, value in asked.items() if value is not None}
        return [(each.made, each.run) for each in entries if wanted.items() <= vars(each.run).items()]

    def _entries(self) -> list[_Entry]:
        *lines, _ = (self.path.read_bytes() if self.path.exists() else b"").split(b"\n")
        entries = []
        for number, line in enumerate(lines, 1):
            try:
                values = parse_json(line.decode())
                entries.append(_Entry(str(values.pop("key")), str(values.pop("made")), Run(**values)))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise ValueError(f"its line {number} is not a run: {error}") from None
        return entries

    @contextmanager
    def _writing(self) -> Iterator[IO[bytes]]:
        """The file, locked, at the end of its last run. If writing fails, it is as before."""
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with lock(self.path, wait=True), self.path.open("ab+", buffering=0) as file:
                self._entries()
                file.seek(0)
                whole, _, half = file.read().rpartition(b"\n")
                if not _FIRST_BYTES.startswith(half[: len(_FIRST_BYTES)]):
                    raise ValueError("it ends with something else than a run")
                end = len(whole) + bool(whole)
                file.truncate(end)
                try:
                    yield file
                except BaseException:
                    file.truncate(end)
                    raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn any error of the file into a RunCacheError of one line."""
        try:
            yield
        except (OSError, ValueError, TypeError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            problem = f"cannot be used: {shorten(' '.join(reason.split()), 200)}; set CLNR_HOME to another folder"
            raise RunCacheError(f"the run cache, {self.path}, {problem}") from None
