"""Where tables come from: files, globs of them, queries, data frames. All become a relation of one DuckDB connection."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clnr.errors import DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEXT = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
_PARQUET = (".parquet", ".pq")
_JSON = (".json", ".jsonl", ".ndjson")
_QUERY = re.compile(r"\s*(select|with|from|values)\b", re.IGNORECASE)
_DELIMITERS = (",", "\t", ";", "|", " ")


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


def connect(memory: str | None = None) -> DuckDBPyConnection:
    """A connection of its own, with a bound on its memory if given; what does not fit is put on disk meanwhile."""
    import duckdb

    base = duckdb.connect(":memory:")
    if memory is not None:
        try:
            base.execute(f"SET memory_limit = {quoted(memory)}")
        except duckdb.Error:
            raise DataError(f"memory is to be an amount as '4 GB', not '{memory}'") from None
    return base


def quoted(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def named(column: str) -> str:
    """A column's name in SQL."""
    return '"' + column.replace('"', '""') + '"'


def table(base: DuckDBPyConnection, given: Any, what: str, names: Sequence[str]) -> Table:
    """A table as the user gives it.

    Args:
        base: The connection.
        given: A path or a glob, a query, or a data frame (pandas, polars, Arrow).
        what: What it is, for messages: ``edges``.
        names: Names by which a text file's first line is known to be a header.
    """
    if isinstance(given, str | Path):
        text = str(given)
        if isinstance(given, str) and _QUERY.match(text):
            return _described(base, text, f"({text})", texts=False)
        return _file(base, text, names)
    view = f"given_{what}"
    try:
        base.register(view, given)
    except Exception as error:
        raise DataError(f"{what} are to be a file, a query or a data frame, not a {type(given).__name__}: {error}") from None
    return _described(base, f"the data frame of {what}", view, texts=False)


def _file(base: DuckDBPyConnection, path: str, names: Sequence[str]) -> Table:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = bool(suffixes) and suffixes[-1] in (".gz", ".zst")
    kind = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes else ""
    if kind in _PARQUET:
        return _described(base, path, f"read_parquet({quoted(path)})", texts=False)
    if kind in _JSON:
        return _described(base, path, f"read_json_auto({quoted(path)}, sample_size = -1)", texts=False)
    if kind not in _TEXT:
        known = ", ".join((*_TEXT, *_PARQUET, *_JSON))
        raise DataError(f"{path}: of what form it is cannot be told from its name; it should end in one of {known}")
    return _text(base, path, names)


def _text(base: DuckDBPyConnection, path: str, names: Sequence[str]) -> Table:
    """A text file: its first line tells what divides columns, and whether it is a header."""
    first = _first_line(_first_file(base, path))
    delimiter = max(_DELIMITERS, key=lambda each: (first.count(each) > 0, -_DELIMITERS.index(each)))
    fields = next(csv.reader([first], delimiter=delimiter))
    known = {name.casefold() for name in names}
    header = any(field.strip().casefold() in known for field in fields)
    titles = [field.strip() for field in fields] if header else [f"column {i}" for i in range(1, len(fields) + 1)]
    for title in titles:
        if not title or titles.count(title) > 1:
            wrong = f"column '{title}' twice" if title else "a column without a name"
            raise DataError(f"{path}: its first line has {wrong}")
    columns = ", ".join(f"{quoted(title)}: 'VARCHAR'" for title in titles)
    options = (
        f"delim = {quoted(delimiter)}, header = {str(header).lower()}, columns = {{{columns}}}, auto_detect = false, "
        "quote = '\"', escape = '\"', comment = '#'"
    )
    return Table(
        path, f"read_csv({quoted(path)}, {options})", dict.fromkeys(titles, "VARCHAR"), texts=True, headless=not header
    )


def _first_file(base: DuckDBPyConnection, path: str) -> Path:
    found = run(base, f"SELECT file FROM glob({quoted(path)}) ORDER BY file LIMIT 1", path)
    if not found:
        raise DataError(f"{path}: there is no such file")
    return Path(found[0][0])


def _first_line(path: Path) -> str:
    """The first line that is no comment and not blank; with quotes, it may go on over several."""
    try:
        opened = gzip.open if path.suffix.lower() == ".gz" else open
        with opened(path, "rb") as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as lines:
            for line in lines:
                while line.count('"') % 2 and (more := lines.readline()):
                    line += more
                if line.strip() and not line.startswith("#"):
                    return line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: it is not text in UTF-8: {error.reason} at byte {error.start:,}") from None
    except OSError as error:
        raise DataError(f"{path}: it cannot be read: {error.strerror or error}") from None
    raise DataError(f"{path}: there is nothing in it")


def _described(base: DuckDBPyConnection, name: str, sql: str, texts: bool, headless: bool = False) -> Table:
    rows = run(base, f"DESCRIBE SELECT * FROM {sql}", name)
    return Table(name, sql, {row[0]: row[1] for row in rows}, texts, headless)


def run(base: DuckDBPyConnection, sql: str, name: str) -> list[tuple[Any, ...]]:
    """The rows of a query; what is wrong with a table becomes one line that names it, and the line where it has one."""
    import duckdb

    try:
        return base.execute(sql).fetchall()
    except duckdb.OutOfMemoryException:
        raise DataError(f"{name}: memory does not suffice to read it; allow more, or make room on the disk") from None
    except duckdb.Error as error:
        raise DataError(f"{name}: {_said(str(error))}") from None


def _said(text: str) -> str:
    """The sentence of DuckDB's message that says what is wrong, with the line that it names."""
    line = re.search(r"CSV Error on Line: (\d+)", text)
    parts = [re.sub(r"^[\w ]*Error: ?", "", part).strip() for part in text.splitlines()]
    told = [part for part in parts if part and not part.startswith(("Original Line", "CSV Error", "LINE ", "on Line"))]
    reason = told[0] if told else "it cannot be read"
    return f"line {int(line[1]):,}: {reason}" if line else reason
