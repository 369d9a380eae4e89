"""Where tables come from: files, globs of them, queries, data frames. All become a relation of one DuckDB connection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clnr.errors import DataError
from clnr.tables import text
from clnr.tables.sql import named, quoted, run
from clnr.tables.trouble import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEXT = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
_PARQUET = (".parquet", ".pq")
_JSON = (".json", ".jsonl", ".ndjson")
_QUERY = re.compile(r"\s*(select|with|from|values)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """A relation that can be queried.

    Attributes:
        name: What to call it in messages: the file, or what the user gave.
        sql: What to write after FROM.
        columns: Names and DuckDB's types, in order.
        texts: Whether everything in it is text, as in a CSV file, so that types are to be found out.
        headless: Whether it has no names of its own for its columns.
    """

    name: str
    sql: str
    columns: dict[str, str]
    texts: bool = False
    headless: bool = False


def table(base: DuckDBPyConnection, given: Any, what: str, names: Sequence[str]) -> Table:
    """A table as the user gives it.

    Args:
        base: The connection.
        given: A path or a glob, a query, or a data frame (pandas, polars, Arrow).
        what: What it is, for messages: ``edges``.
        names: Names by which a text file's first line is known to be a header.
    """
    if isinstance(given, str | Path):
        path = str(given)
        if isinstance(given, str) and _QUERY.match(path):
            return _described(base, path, f"({path}\n)")
        return _file(base, path, names)
    given = _plain(given)
    view = f"given_{what}"
    try:
        base.register(view, given)
    except Exception as error:
        if hasattr(given, "columns") and not len(given.columns):
            raise DataError(f"the data frame of {what}: there is no column in it") from None
        kind = type(given).__name__
        known = f"{what} are to be a file, a query or a data frame, not a {kind}"
        raise DataError(
            known if "replacement scans" in str(error) or given is None else f"{known}: {one_line(str(error))}"
        ) from None
    return _described(base, f"the data frame of {what}", view)


def _plain(given: Any) -> Any:
    """A frame with what DuckDB does not see of it as columns: a named index of pandas, a plan of polars that is not run yet."""
    if hasattr(given, "reset_index") and any(name is not None for name in given.index.names):
        return given.reset_index()
    return given.collect() if hasattr(given, "collect_schema") and not hasattr(given, "shape") else given


def _file(base: DuckDBPyConnection, path: str, names: Sequence[str]) -> Table:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = bool(suffixes) and suffixes[-1] in (".gz", ".zst")
    kind = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else ""
    if not path.strip():
        raise DataError("a table is to be a file, a query or a data frame, not an empty text")
    if _is_folder(path):
        raise DataError(f"{path}: it is a folder; name a file, or all of a kind, as {Path(path, '*.parquet')}")
    if kind not in (*_TEXT, *_PARQUET, *_JSON):
        known = ", ".join((*_TEXT, *_PARQUET, *_JSON))
        raise DataError(f"{one_line(path)}: of what form it is cannot be told from its name; it should end in one of {known}")
    found = [Path(file) for (file,) in run(base, f"SELECT file FROM glob({quoted(path)}) ORDER BY file", path)]
    if not found:
        raise DataError(f"{path}: there is no such file")
    if kind in _PARQUET:
        return _described(base, path, f"read_parquet({quoted(path)})")
    if kind in _JSON:
        return _json(base, path)
    head = text.common_head(found, names)
    sql = f"read_csv({quoted(path)}, {text.options(head)})"
    return Table(path, sql, dict.fromkeys(head.titles, "VARCHAR"), texts=True, headless=not head.header)


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError as error:
        raise DataError(f"{one_line(path)}: it cannot be read: {error.strerror}") from None


def _json(base: DuckDBPyConnection, path: str) -> Table:
    """Values of several types in one column become texts, without the quotes that they have in JSON."""
    sql = f"read_json_auto({quoted(path)}, sample_size = -1)"
    found = _described(base, path, sql)
    mixed = [column for column, kind in found.columns.items() if kind == "JSON"]
    if list(found.columns) == ["json"]:
        raise DataError(f"{path}: there are no rows with named columns in it")
    if not mixed:
        return found
    plain = ", ".join(f"{named(column)} ->> '$' AS {named(column)}" for column in mixed)
    return _described(base, path, f"(SELECT * REPLACE ({plain}) FROM {sql})")


def _described(base: DuckDBPyConnection, name: str, sql: str) -> Table:
    rows = run(base, f"DESCRIBE SELECT * FROM {sql}", name)
    return Table(one_line(name), sql, {row[0]: row[1] for row in rows})
