"""The record of runs: one SQLite file, one row per run, safe with several writers and after a kill at any moment."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clnr import machine
from clnr.engine import Engine
from clnr.errors import RecordError
from clnr.graph import Graph
from clnr.methods import Method
from clnr.places import state_folder
from clnr.recipe import Recipe
from clnr.results import Run

_SCHEMA = 4
_FIELDS = tuple(field.name for field in dataclasses.fields(Run))
_DOCUMENTS = ("recipe", "versions", "more")
_OPTIONAL = ("epoch_ms",)
_TEXTS = ("method", "dataset", "device", "engine", "precision", "content", "machine")
_RESERVE = 1 << 16


def run_key(graph: Graph, method: Method, recipe: Recipe, seed: int, engine: Engine) -> str:
    """What makes two runs the same run: data, method, recipe, seed, engine, precision and code."""
    parts = {
        "content": graph.digest,
        "method": method.parts(),
        "recipe": recipe.to_dict(),
        "seed": seed,
        "engine": engine.name,
        "precision": engine.precision,
        "code": machine.code_version(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Record:
    """The runs made before.

    Args:
        path: The file; where the system keeps such things, or under CLNR_HOME, if not given.
    """

    def __init__(self, path: Path | None = None):
        self.path = path or state_folder() / "runs.sqlite"

    def prepare(self) -> None:
        """Make sure now, before hours of work, that runs can be written: by writing, and taking it back."""
        with self._open(create=True) as base:
            base.execute("CREATE TABLE IF NOT EXISTS reserve (space BLOB)")
            base.execute("INSERT INTO reserve VALUES (zeroblob(?))", (_RESERVE,))
        with self._open(create=True) as base:
            base.execute("DELETE FROM reserve")

    def add(self, key: str, run: Run) -> None:
        """Write one run, whole or not at all."""
        values = [json.dumps(value) if name in _DOCUMENTS else value for name, value in dataclasses.asdict(run).items()]
        marks = ", ".join("?" * (len(_FIELDS) + 2))
        with self._open(create=True) as base:
            made = datetime.now(UTC).isoformat(timespec="seconds")
            base.execute(f"INSERT INTO runs (key, made, {', '.join(_FIELDS)}) VALUES ({marks})", [key, made, *values])

    def find(self, key: str) -> Run | None:
        """The latest run of this key, if there is one."""
        rows = self._select("WHERE key = ? ORDER BY id DESC LIMIT 1", [key])
        return rows[0][1] if rows else None

    def runs(
        self, method: str | None = None, dataset: str | None = None, device: str | None = None, last: int | None = None
    ) -> list[tuple[str, Run]]:
        """Runs with the time that each was made, oldest first, filtered by what is given, in any case."""
        wanted = {"method": method, "dataset": dataset, "device": device}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ? COLLATE NOCASE" for name in given)
        limit = -1 if last is None else min(last, 2**63 - 1)
        rows = self._select(f"{'WHERE ' + where if where else ''} ORDER BY id DESC LIMIT ?", [*given.values(), limit])
        return rows[::-1]

    def _select(self, clauses: str, values: list[Any]) -> list[tuple[str, Run]]:
        if not self.path.exists():
            return []
        with self._open(create=False) as base:
            # A kill between the making of the file and that of its table leaves a record without runs.
            if not _form(base):
                return []
            rows = base.execute(f"SELECT made, {', '.join(_FIELDS)} FROM runs {clauses}", values).fetchall()
            return [(made, _run(row)) for made, *row in rows]

    @contextmanager
    def _open(self, create: bool) -> Iterator[sqlite3.Connection]:
        # SQLite's rollback journal, not its write-ahead log: the latter needs shared memory, which network homes lack.
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as base:
                form = _form(base)
                if form < _SCHEMA and (form or create):
                    _make(base)
                with base:
                    yield base
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise RecordError(
                f"the record of runs, {self.path}, cannot be used: {reason}; CLNR_HOME names another place for it"
            ) from None


def _form(base: sqlite3.Connection) -> int:
    """The version of the record's form; 0 before it has any."""
    version = int(base.execute("PRAGMA user_version").fetchone()[0])
    if version > _SCHEMA:
        raise sqlite3.DatabaseError(f"it was written by a newer clnr (form {version}; this one knows {_SCHEMA})")
    return version


def _make(base: sqlite3.Connection) -> None:
    """Give the file its form: afresh, or from an older one."""
    with base:
        base.execute("BEGIN IMMEDIATE")
        form = _form(base)
        if form == 1:
            # Form 1 had no early stopping, so that all epochs of the recipe were trained, or none.
            base.execute("ALTER TABLE runs ADD COLUMN epochs")
            trained = "CASE WHEN epoch_ms IS NULL OR NOT json_valid(recipe) THEN 0 ELSE json_extract(recipe, '$.epochs') END"
            base.execute(f"UPDATE runs SET epochs = {trained}")
        if form in (1, 2):
            # Until form 3, every run was trained alone.
            base.execute("ALTER TABLE runs ADD COLUMN together")
            base.execute("UPDATE runs SET together = 1")
        if form in (1, 2, 3):
            # Until form 4, nothing was measured beside the usual.
            base.execute("ALTER TABLE runs ADD COLUMN more")
            base.execute("UPDATE runs SET more = '{}'")
        base.execute(
            f"CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, key NOT NULL, made NOT NULL, {', '.join(_FIELDS)})"
        )
        base.execute("CREATE INDEX IF NOT EXISTS runs_key ON runs (key)")
        base.execute(f"PRAGMA user_version = {_SCHEMA}")


def _run(row: list[Any]) -> Run:
    fields = dict(zip(_FIELDS, row, strict=True))
    for name, value in fields.items():
        if name in _DOCUMENTS:
            fields[name] = json.loads(value)
        elif isinstance(value, str) is not (name in _TEXTS):
            raise ValueError(f"a run has {value!r} for its {name}")
        elif value is None and name not in _OPTIONAL:
            fields[name] = math.nan  # SQLite has no NaN and keeps none.
    if not (isinstance(fields["recipe"], dict) and "code" in fields["versions"] and isinstance(fields["more"], dict)):
        raise ValueError("a run has no recipe, no versions or no further measures")
    return Run(**fields)
