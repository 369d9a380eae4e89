"""The run cache: one SQLite file, one row per run, safe with several writers and if a writer is killed at any time."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clnr.errors import RunCacheError, shorten
from clnr.experiments.results import Run
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.machine import environment
from clnr.support.machine.paths import state_folder
from clnr.training.fingerprint import fingerprint, key_of

if TYPE_CHECKING:
    from clnr.engine import Engine
    from clnr.graph import Graph

# Columns keep their first names, also where the field of a run has a new one.
_COLUMN_NAMES = {"parallel_seeds": "together", "extra_metrics": "more"}
_COLUMNS = {field.name: _COLUMN_NAMES.get(field.name, field.name) for field in dataclasses.fields(Run)}
_RUN_COLUMNS = tuple(_COLUMNS.values())
_TYPES = {_COLUMNS[field.name]: str(field.type) for field in dataclasses.fields(Run)}
_JSON_COLUMNS = tuple(name for name, kind in _TYPES.items() if kind.startswith("dict"))
# The built-in graph was called otherwise in 0.1.
_COLUMN_EXPRESSIONS = {"dataset": "CASE dataset WHEN 'embedded' THEN 'toy' ELSE dataset END"}
_LARGEST_FLOAT = sys.float_info.max
# Smallest and largest valid values; those of all other numbers are finite and not negative.
_BOUNDS = {"alignment": (0, math.inf), "effective_rank": (0, math.inf), "uniformity": (-math.inf, _LARGEST_FLOAT)}
_JSON_LEVELS = 8
_RESERVE_BYTES = 1 << 16

# The column that a version of the file format added, and its value in older rows.
_ADDED_COLUMNS = {
    # Version 1 had no early stopping: all epochs of the recipe were trained, or none.
    2: ("epochs", "CASE WHEN epoch_ms IS NULL OR NOT json_valid(recipe) THEN 0 ELSE json_extract(recipe, '$.epochs') END"),
    3: ("together", "1"),  # Every run was trained alone.
    4: ("more", "'{}'"),  # There were no extra metrics.
    5: ("threads", "NULL"),
}
_FORMAT_VERSION = max(_ADDED_COLUMNS)


def run_key(graph: Graph, method: Method, recipe: Recipe, seed: int, engine: Engine) -> str:
    """The key of a run: of its fingerprint, threads and hardware."""
    where = {"threads": engine.thread_rule, "hardware": environment.hardware(engine.device)}
    loops = graph.loop_weight
    return key_of(fingerprint(graph.digest, method, recipe, seed, engine, loop_weight=loops, **where))


class RunCache:
    """The runs made so far: a file, by default in the user's state folder, or in CLNR_HOME.

    Reading changes nothing, and a file that is no run cache is never changed.
    """

    def __init__(self, path: Path | None = None):
        self.path = path or state_folder() / "runs.sqlite"

    def prepare(self) -> None:
        """Make sure before hours of training that runs can be written: by writing something and deleting it."""
        with self._writing() as base:
            (state,) = base.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(state)
            base.execute("CREATE TABLE IF NOT EXISTS reserve (space BLOB)")
            base.execute("INSERT INTO reserve VALUES (zeroblob(?))", (_RESERVE_BYTES,))
        with self._writing() as base:
            base.execute("DELETE FROM reserve")

    def add(self, key: str, run: Run, rerun: bool = False) -> None:
        """Write one run atomically.

        If another process has written the same run in the meantime, with all extra metrics of this one, nothing is written,
        except with ``rerun``.
        """
        with self._writing() as base:
            row = _row(check_run(run))
            others = [] if rerun else base.execute("SELECT more FROM runs WHERE key = ?", [key]).fetchall()
            if any(run.extra_metrics.keys() <= _document("more", more).keys() for (more,) in others):
                return
            now = datetime.now(UTC).isoformat(timespec="seconds")
            marks = ", ".join("?" * (len(_RUN_COLUMNS) + 2))
            base.execute(f"INSERT INTO runs (key, made, {', '.join(_RUN_COLUMNS)}) VALUES ({marks})", [key, now, *row])

    def find(self, key: str) -> Run | None:
        """The latest run of this key, if there is one."""
        rows = self._select("WHERE key = ? ORDER BY id DESC LIMIT 1", [key])
        return rows[0][1] if rows else None

    def runs(
        self, method: str | None = None, dataset: str | None = None, device: str | None = None, last: int | None = None
    ) -> list[tuple[str, Run]]:
        """Runs with the time when each was made, oldest first, filtered by the arguments; case does not matter."""
        wanted = {"method": method, "dataset": dataset, "device": device}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{_COLUMN_EXPRESSIONS.get(name, name)} = ? COLLATE NOCASE" for name in given)
        limit = -1 if last is None else min(last, 2**63 - 1)
        rows = self._select(f"{'WHERE ' + where if where else ''} ORDER BY id DESC LIMIT ?", [*given.values(), limit])
        return rows[::-1]

    def _select(self, clauses: str, values: list[Any]) -> list[tuple[str, Run]]:
        with self._errors():
            if not self.path.exists():
                return []
            with closing(self._connect()) as base:
                # One consistent state, whatever another process writes meanwhile.
                base.execute("BEGIN")
                # A process killed between creating the file and its table leaves a file without runs.
                if not (version := _format(base)):
                    return []
                before = {name: value for number, (name, value) in _ADDED_COLUMNS.items() if number > version}
                columns = ", ".join((_COLUMN_EXPRESSIONS | before).get(name, name) for name in _RUN_COLUMNS)
                rows = base.execute(f"SELECT made, {columns} FROM runs {clauses}", values).fetchall()
            return [(_text("made", made), _run(row)) for made, *row in rows]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction on a file of the present format. If it fails, the file is as before, or removed if it was new."""
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh = not self.path.exists()
            try:
                with closing(self._connect()) as base, base:
                    base.execute("BEGIN IMMEDIATE")
                    _update(base, _format(base))
                    yield base
            except BaseException:
                # An empty file belongs to nobody else.
                if fresh and self.path.is_file() and not self.path.stat().st_size:
                    self.path.unlink()
                raise

    def _connect(self) -> sqlite3.Connection:
        # SQLite's rollback journal, not its write-ahead log: that needs shared memory, which network file systems lack.
        return sqlite3.connect(self.path, timeout=60)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn any error of the file into a RunCacheError of one line."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            problem = f"cannot be used: {' '.join(reason.split())}; set CLNR_HOME to another folder"
            raise RunCacheError(f"the run cache, {self.path}, {problem}") from None


def _format(base: sqlite3.Connection) -> int:
    """The version of the file format, 0 for an empty file; an error if the file is something else."""
    version = int(base.execute("PRAGMA user_version").fetchone()[0])
    if version > _FORMAT_VERSION:
        raise sqlite3.DatabaseError(
            f"it was written by a newer clnr (format {version}; this version reads up to {_FORMAT_VERSION})"
        )
    kinds = dict(base.execute("SELECT name, type FROM sqlite_master").fetchall())
    if not version and not kinds:
        return 0
    later = {name for number, (name, _) in _ADDED_COLUMNS.items() if number > version}
    columns = {row[1] for row in base.execute("PRAGMA table_info(runs)")}
    if version < 1 or kinds.get("runs") != "table" or columns != {"id", "key", "made", *_RUN_COLUMNS} - later:
        raise sqlite3.DatabaseError("it is a database, but not a run cache")
    return version


def _update(base: sqlite3.Connection, version: int) -> None:
    """Bring a file to the present format: a new one, or one of an older format."""
    if version == _FORMAT_VERSION:
        return
    if not version:
        base.execute(f"CREATE TABLE runs (id INTEGER PRIMARY KEY, key NOT NULL, made NOT NULL, {', '.join(_RUN_COLUMNS)})")
    for number, (name, value) in _ADDED_COLUMNS.items():
        if 0 < version < number:
            base.execute(f"ALTER TABLE runs ADD COLUMN {name}")
            base.execute(f"UPDATE runs SET {name} = {value}")
    base.execute("CREATE INDEX IF NOT EXISTS runs_key ON runs (key)")
    base.execute(f"PRAGMA user_version = {_FORMAT_VERSION}")


def check_run(run: Run) -> Run:
    """The run, if all its values are valid: a ValueError where it could not be read back."""
    return _run(_row(run))


def _row(run: Run) -> list[Any]:
    """A run as a row; NaN becomes NULL, since SQLite has no NaN."""
    values = {_COLUMNS[name]: value for name, value in dataclasses.asdict(run).items()}
    values |= {name: json.dumps(values[name]) for name in _JSON_COLUMNS}
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values.values()]


def _run(row: list[Any]) -> Run:
    return Run(**{name: _value(column, value) for (name, column), value in zip(_COLUMNS.items(), row, strict=True)})


def _value(name: str, value: Any) -> Any:
    """The value of a column, if it is valid."""
    if name in _JSON_COLUMNS:
        return _document(name, value)
    kind, optional, _ = _TYPES[name].partition(" | None")
    if kind == "str":
        return _text(name, value)
    if value is None and (optional or kind == "float"):
        return None if optional else math.nan
    least, most = _BOUNDS.get(name, (0, _LARGEST_FLOAT))
    if not isinstance(value, int if kind == "int" else int | float) or not least <= value <= most:
        raise _wrong(name, value)
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value)
    return value


def _document(name: str, value: Any) -> dict[str, Any]:
    """A dictionary stored as JSON, with a limit on its depth."""
    try:
        document = json.loads(_text(name, value))
    except (ValueError, RecursionError):
        raise _wrong(name, value) from None
    if not isinstance(document, dict) or _too_deep(document):
        raise _wrong(name, value)
    if name == "versions" and not ("code" in document and all(isinstance(each, str) for each in document.values())):
        raise _wrong(name, value)
    return document


def _too_deep(value: Any, levels: int = _JSON_LEVELS) -> bool:
    """Whether lists and dictionaries are nested deeper than ``levels``."""
    if not isinstance(value, dict | list):
        return False
    return levels == 0 or any(_too_deep(each, levels - 1) for each in (value.values() if isinstance(value, dict) else value))


def _wrong(name: str, value: Any) -> ValueError:
    return ValueError(f"a run has {shorten(repr(value), 60)} for its {name}")
