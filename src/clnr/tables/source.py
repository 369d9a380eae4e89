"""Where tables come from: files, globs of them, data frames. All become a relation of one DuckDB connection."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr.errors import DataError
from clnr.support.humanize import one_line
from clnr.tables import csv_header
from clnr.tables.duckdb_errors import check_names
from clnr.tables.sql import quoted, run
from clnr.tables.table_files import found_files, in_sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEXT = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
_PARQUET = (".parquet", ".pq")
_JSON = (".json", ".jsonl", ".ndjson")
_NUMBERED = re.compile(r"_[0-9]+$")
# What DuckDB makes of texts in JSON that look like it.
_TEXTS = re.compile(r"DATE|TIME(STAMP)?(_[A-Z]+)?( WITH TIME ZONE)?|UUID")


class Column(NamedTuple):
    """A column of a table: what it is called in SQL, which is its place and never its name, and DuckDB's type."""

    sql: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A relation that can be queried.

    Attributes:
        name: What to call it in messages: the file, or what the user gave.
        sql: What to write after FROM.
        columns: By their names, in order.
        texts: Whether everything in it is text, as in a CSV file, so that types are to be found out.
        headless: Whether it has no names of its own for its columns.
    """

    name: str
    sql: str
    columns: dict[str, Column]
    texts: bool = False
    headless: bool = False


def table(base: DuckDBPyConnection, given: Any, what: str, names: Sequence[str]) -> Table:
    """A table as the user gives it.

    Args:
        base: The connection.
        given: A path or a glob, or a data frame (pandas, polars, Arrow).
        what: What it is, for messages: ``edges``.
        names: Names by which a text file's first line is known to be a header.
    """
    return _file(base, os.fspath(given), names) if isinstance(given, str | Path) else _frame(base, given, what)


def described(base: DuckDBPyConnection, name: str, sql: str) -> Table:
    """A relation whose columns are yet to be learned."""
    rows = run(base, f"DESCRIBE SELECT * FROM {sql}", name)
    check_names((row[0] for row in rows), name)
    return _placed(name, sql, {row[0]: row[1] for row in rows})


def stored(base: DuckDBPyConnection, given: Table, name: str) -> Table:
    """A table kept under a name, its rows numbered from 0 on by ``i``, in their order."""
    run(base, f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER () - 1 AS i FROM {given.sql}", given.name)
    return replace(given, sql=name)


def _placed(name: str, sql: str, kinds: dict[str, str]) -> Table:
    columns = {column: Column(f"c{i}", kind) for i, (column, kind) in enumerate(kinds.items())}
    return Table(one_line(name), f"{sql} AS given({', '.join(column.sql for column in columns.values())})", columns)


# -- frames -----------------------------------------------------------------------------------------------------------------


def is_frame(given: Any) -> bool:
    """pandas, polars, Arrow: what has columns with names. Asked of its type, since a column may be called anything."""
    return hasattr(type(given), "columns")


def _frame(base: DuckDBPyConnection, given: Any, what: str) -> Table:
    if not is_frame(given):
        raise DataError(f"{what} are to be a file or a data frame, not a {type(given).__name__}")
    name, view = f"the data frame of {what}", f"given_{what}"
    try:
        frame = _plain(given)
        names = [str(each) for each in (frame.column_names if hasattr(type(frame), "column_names") else frame.columns)]
        if names:
            base.register(view, frame)
    except Exception as error:
        raise DataError(f"{name}: {one_line(str(error))}") from None
    if not names:
        raise DataError(f"{name}: there is no column in it")
    check_names(names, name)
    return described(base, name, view)


def _plain(given: Any) -> Any:
    """A frame with what DuckDB does not see of it as columns: a named index of pandas, a plan of polars that is not run yet."""
    kind = type(given)
    if hasattr(kind, "reset_index") and any(name is not None for name in given.index.names):
        return given.reset_index()
    return given.collect() if hasattr(kind, "collect_schema") and not hasattr(kind, "shape") else given


# -- files ------------------------------------------------------------------------------------------------------------------


def _file(base: DuckDBPyConnection, path: str, names: Sequence[str]) -> Table:
    files = found_files(base, path)
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = bool(suffixes) and suffixes[-1] in (".gz", ".zst")
    kind = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else ""
    if kind in _PARQUET:
        return _parquet(base, path, files)
    if kind in _JSON:
        return _json(base, path, files)
    if kind in _TEXT:
        return _text(path, files, names)
    known = ", ".join((*_TEXT, *_PARQUET, *_JSON))
    raise DataError(f"{one_line(path)}: of what form it is cannot be told from its name; it should end in one of {known}")


def _text(path: str, files: list[str], names: Sequence[str]) -> Table:
    head = csv_header.common_head([Path(file) for file in files], names)
    found = _placed(path, f"read_csv({in_sql(files)}, {csv_header.options(head)})", dict.fromkeys(head.titles, "VARCHAR"))
    return replace(found, texts=True, headless=not head.header)


def _parquet(base: DuckDBPyConnection, path: str, files: list[str]) -> Table:
    rows = run(base, f"SELECT file_name, name, num_children FROM parquet_schema({in_sql(files)})", path)
    for file in dict.fromkeys(file for file, _, _ in rows):
        check_names(_outermost([row[1:] for row in rows if row[0] == file]), file)
    return described(base, path, f"read_parquet({in_sql(files)}, hive_partitioning = false)")


def _outermost(rows: Sequence[tuple[str, int | None]]) -> list[str]:
    """Names of columns in the schema of a Parquet file, where each, as the file itself, comes before all that is in it."""
    names, within = [], 0
    for name, children in rows[1:]:
        if not within:
            names.append(name)
        within += (children or 0) - (within > 0)
    return names


def _json(base: DuckDBPyConnection, path: str, files: list[str]) -> Table:
    """Texts stay as they are written, whatever they look like; values of several types in one column become texts."""
    plain = f"{in_sql(files)}, hive_partitioning = false"
    found = described(base, path, f"read_json_auto({plain}, sample_size = -1, map_inference_threshold = -1)")
    if list(found.columns) == ["json"] and _keys(base, path, files) != ["json"]:
        raise DataError(f"{path}: there are no rows with named columns in it")
    small = {column.casefold() for column in found.columns}
    if any(_NUMBERED.search(column) and _NUMBERED.sub("", column) in small for column in small):
        # DuckDB may have made such a name of one that another column has but for capitals.
        check_names(_keys(base, path, files), path)
    kinds = {column: "VARCHAR" if _TEXTS.fullmatch(kind) else kind for column, (_, kind) in found.columns.items()}
    if list(kinds.values()) != [kind for _, kind in found.columns.values()]:
        told = ", ".join(f"{quoted(column)}: {quoted(kind)}" for column, kind in kinds.items())
        found = _placed(path, f"read_json({plain}, columns = {{{told}}})", kinds)
    if "JSON" not in kinds.values():
        return found
    texts = ", ".join(f"{c} ->> '$'" if kind == "JSON" else c for c, kind in found.columns.values())
    mixed = {column: "VARCHAR" if kind == "JSON" else kind for column, kind in kinds.items()}
    return _placed(path, f"(SELECT {texts} FROM {found.sql})", mixed)


def _keys(base: DuckDBPyConnection, path: str, files: list[str]) -> list[str]:
    """All names of columns in JSON files, as they are written there."""
    rows = run(base, f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects_auto({in_sql(files)})", path)
    return sorted(key for (key,) in rows)
