"""The run cache: a file with a line of JSON for each run, safe with several writers and if one is killed at any time."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr.errors import RunCacheError, shorten
from clnr.experiments.results import Run
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.machine import environment
from clnr.support.machine.paths import state_folder
from clnr.support.storage import lock, parse_json
from clnr.training.fingerprint import fingerprint, key_of

if TYPE_CHECKING:
    from clnr.engine import Engine
    from clnr.graph import Graph

_FIRST_BYTES = b'{"key": '
_RESERVE_BYTES = 1 << 16
_LARGEST_FLOAT = sys.float_info.max
# Smallest and largest valid values; those of all other numbers are finite and not negative.
_BOUNDS = {"alignment": (0, math.inf), "effective_rank": (0, math.inf), "uniformity": (-math.inf, _LARGEST_FLOAT)}


def run_key(graph: Graph, method: Method, recipe: Recipe, seed: int, engine: Engine) -> str:
    """The key of a run: of its fingerprint, threads and hardware."""
    where = {"threads": engine.thread_rule, "hardware": environment.hardware(engine.device)}
    loops = graph.loop_weight
    return key_of(fingerprint(graph.digest, method, recipe, seed, engine, loop_weight=loops, **where))


class _Entry(NamedTuple):
    """A line: a run, its key, and when it was made."""

    key: str
    made: str
    run: Run

    @classmethod
    def of(cls, line: bytes) -> _Entry:
        values = parse_json(line.decode())
        key, made = values.pop("key"), values.pop("made")
        if not (isinstance(key, str) and isinstance(made, str)):
            raise ValueError("its key and its time are text")
        return cls(key, made, check_run(Run(**values)))


class RunCache:
    """The runs made so far: a file, by default in the user's state folder, or in CLNR_HOME.

    Reading changes nothing, and a file that is no run cache is never changed. A last line without its end is of a writer
    that was killed, or that is still writing: readers pass over it, and the next writer removes it.
    """

    def __init__(self, path: Path | None = None):
        self.path = path or state_folder() / "runs.jsonl"
        self._known: list[_Entry] = []
        self._file: tuple[int, int] | None = None
        self._end = 0

    def prepare(self) -> None:
        """Make sure before hours of training that runs can be written: by writing something and removing it."""
        with self._writing() as file:
            _append(file, b" " * _RESERVE_BYTES)
            os.ftruncate(file, self._end)

    def add(self, key: str, run: Run, rerun: bool = False) -> None:
        """Write one run, complete or not at all.

        If another process has written the same run in the meantime, nothing is written, except with ``rerun``.
        """
        with self._writing() as file:
            values = dataclasses.asdict(check_run(run))
            if not rerun and any(entry.key == key for entry in self._entries()):
                return
            now = datetime.now(UTC).isoformat(timespec="seconds")
            _append(file, (json.dumps({"key": key, "made": now, **values}) + "\n").encode())

    def find(self, key: str) -> Run | None:
        """The latest run of this key, if there is one."""
        with self._errors():
            return next((entry.run for entry in reversed(self._entries()) if entry.key == key), None)

    def runs(
        self, method: str | None = None, dataset: str | None = None, device: str | None = None, last: int | None = None
    ) -> list[tuple[str, Run]]:
        """Runs with the time when each was made, oldest first, filtered by the arguments."""
        with self._errors():
            found = [
                (entry.made, entry.run)
                for entry in self._entries()
                if method in (None, entry.run.method)
                and dataset in (None, entry.run.dataset)
                and device in (None, entry.run.device)
            ]
        return found if last is None else found[-last:]

    def _entries(self) -> list[_Entry]:
        """All runs, of which only those are read that were not there before."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            now = os.fstat(file.fileno())
            if self._file != (now.st_dev, now.st_ino) or now.st_size < self._end:
                self._known, self._end, self._file = [], 0, (now.st_dev, now.st_ino)
            file.seek(self._end)
            content = file.read()
        *lines, _ = content.split(b"\n")
        for line in lines:
            try:
                self._known.append(_Entry.of(line))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise ValueError(f"its line {len(self._known) + 1} is not a run: {error}") from None
            self._end += len(line) + 1
        return self._known

    @contextmanager
    def _writing(self) -> Iterator[int]:
        """The descriptor of the file, locked, at the end of its last run. If writing fails, the file is as before."""
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with lock(self.path, wait=True):
                self._entries()
                # Not to append: a half-written line has to be removed.
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
                try:
                    os.lseek(file, self._end, os.SEEK_SET)
                    if not _FIRST_BYTES.startswith(os.read(file, len(_FIRST_BYTES)).rstrip(b" ")):
                        raise ValueError("it ends with something else than a run")
                    os.ftruncate(file, self._end)
                    os.lseek(file, self._end, os.SEEK_SET)
                    try:
                        yield file
                    except BaseException:
                        os.ftruncate(file, self._end)
                        raise
                finally:
                    os.close(file)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn any error of the file into a RunCacheError of one line."""
        try:
            yield
        except (OSError, ValueError, TypeError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            problem = f"cannot be used: {shorten(' '.join(reason.split()), 200)}; set CLNR_HOME to another folder"
            raise RunCacheError(f"the run cache, {self.path}, {problem}") from None


def _append(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]
    os.fsync(file)


def check_run(run: Run) -> Run:
    """The run, if all its values are valid: a ValueError where it could not be read back."""
    for field in dataclasses.fields(Run):
        value = getattr(run, field.name)
        if not _is_valid(field.name, str(field.type), value):
            raise ValueError(f"a run has {shorten(repr(value), 60)} for its {field.name}")
    return run


def _is_valid(name: str, declared: str, value: Any) -> bool:
    kind, optional, _ = declared.partition(" | None")
    if value is None:
        return bool(optional)
    if kind == "str":
        return isinstance(value, str)
    if name == "versions":
        return isinstance(value, dict) and "code" in value and all(isinstance(each, str) for each in value.values())
    if kind.startswith("dict"):
        return isinstance(value, dict)
    if isinstance(value, bool) or not isinstance(value, int if kind == "int" else int | float):
        return False
    least, most = _BOUNDS.get(name, (0, _LARGEST_FLOAT))
    return least <= value <= most or value != value  # NaN
