"""Run caches with anything in them: every use works or is a RunCacheError, and one that fails changes nothing."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clnr.cli import console_tables
from clnr.errors import RunCacheError
from clnr.experiments.results import Run, without_nan
from clnr.experiments.run_cache import RunCache
from tests.experiments.test_run_cache import FORMS, USES, earlier, made
from tests.fuzz import examples

pytestmark = pytest.mark.fuzz
FIELDS = ["key", "made", *(field.name for field in dataclasses.fields(Run))]
NUMBERS = (
    st.integers(-(2**63), 2**63 - 1) | st.floats() | st.sampled_from([0, -1, 2**63 - 1, 1e308, float("inf"), float("nan")])
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(["CLNR", "cora", "\x1b[31m", "nan"])
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(["code", "epochs", "self"]), inner),
    max_leaves=6,
).map(json.dumps)
NESTED = st.integers(1, 3000).map(lambda depth: '{"a":' + "[" * depth + "]" * depth + "}")
VALUES = st.none() | NUMBERS | TEXTS | DOCUMENTS | NESTED | st.binary(max_size=20)
STATEMENTS = st.sampled_from(
    [
        *(f"PRAGMA user_version = {version}" for version in (-1, 0, 1, 2, 3, 4, 5, 2**31 - 1)),
        *(f"ALTER TABLE runs DROP COLUMN {name}" for name in ("strict", "more", "machine")),
        *(f"ALTER TABLE runs RENAME COLUMN {name} TO banana" for name in ("made", "recipe", "together")),
        *("ALTER TABLE runs ADD COLUMN more", "ALTER TABLE runs ADD COLUMN banana NOT NULL DEFAULT 5"),
        *("DROP INDEX runs_key", "DROP TABLE runs", "DROP TABLE reserve", "CREATE TABLE reserve (space INTEGER UNIQUE)"),
        *("CREATE UNIQUE INDEX once ON runs (device)", "CREATE TABLE walks (id)", "CREATE VIEW reserve AS SELECT 1"),
        *("PRAGMA journal_mode = WAL", "VACUUM", "DELETE FROM runs"),
    ]
)


def assert_usable_or_refused(run_cache: RunCache) -> None:
    """Every use of a file works, or is one line and leaves the file as it was."""
    for name in ("runs", "find", "prepare", "add", "runs"):
        before, said = run_cache.path.read_bytes(), None
        try:
            found = USES[name](run_cache)
        except RunCacheError as error:
            said = str(error)
        if said is not None or name in ("runs", "find"):
            assert run_cache.path.read_bytes() == before
        if said is not None:
            assert "\n" not in said
        elif name == "runs":
            console_tables.runs(found)
            json.dumps([without_nan(vars(run)) for _, run in found], allow_nan=False)
    assert [file.name for file in run_cache.path.parent.iterdir()] == [run_cache.path.name]


def three_runs(folder: str) -> RunCache:
    run_cache = RunCache(Path(folder) / "runs.sqlite")
    for key, run in {
        "key": made(),
        "a": made(1, extra_metrics={"time": {"train_seconds": 1.0}}),
        "b": made(2, method="Raw"),
    }.items():
        run_cache.add(key, run)
    run_cache.prepare()
    return run_cache


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(FIELDS), VALUES), min_size=1, max_size=3), st.sampled_from([*FORMS, 4]))
def test_whatever_a_row_holds(cells, form):
    with tempfile.TemporaryDirectory() as folder:
        run_cache = three_runs(folder) if form == 4 else earlier(RunCache(Path(folder) / "runs.sqlite"), form)
        with closing(sqlite3.connect(run_cache.path)) as base, base:
            known = {row[1] for row in base.execute("PRAGMA table_info(runs)")}
            for name, value in cells:
                if name in known:
                    base.execute(f"UPDATE OR IGNORE runs SET {name} = ?", [value])
        assert_usable_or_refused(run_cache)


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(st.lists(STATEMENTS, min_size=1, max_size=4))
def test_whatever_has_become_of_the_schema(statements):
    with tempfile.TemporaryDirectory() as folder:
        run_cache = three_runs(folder)
        with closing(sqlite3.connect(run_cache.path, isolation_level=None)) as base:
            for statement in statements:
                try:
                    base.execute(statement)
                except sqlite3.Error:
                    continue
        assert_usable_or_refused(run_cache)


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=8), st.none() | st.integers(0, 2**20)
)
def test_whatever_bytes_are_damaged(changes, end):
    with tempfile.TemporaryDirectory() as folder:
        run_cache = three_runs(folder)
        content = bytearray(run_cache.path.read_bytes())
        for place, byte in changes:
            # The header, and the schema after it, are where most depends on a byte.
            content[place % (len(content) if place % 2 else 1200)] = byte
        run_cache.path.write_bytes(content if end is None else content[: end % len(content)])
        assert_usable_or_refused(run_cache)
