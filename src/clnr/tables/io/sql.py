"""A DuckDB connection, quoting for SQL, and queries whose errors are one line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.tables.io.duckdb_errors import format_duckdb_error

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBERS = (*_WHOLE, *(f"U{kind}" for kind in _WHOLE), "DOUBLE", "FLOAT", "REAL", "DECIMAL")
FLOATS = ("DOUBLE", "FLOAT", "REAL", "DECIMAL")
DATETIMES = ("DATE", "TIMESTAMP")

# Rows of a chunk of an Arrow table, whose text must not exceed 2 GiB.
_CHUNK_ROWS = 1 << 16
# Columns that are fetched at a time.
_QUERY_COLUMNS = 300
# Rows of a batch that is streamed.
_STREAMED_ROWS = 1 << 19


# Nothing is downloaded, no extension is loaded, no Python variable is a table, and times do not depend on the machine.
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "TimeZone": "'UTC'",
}


def connect(memory: str | None = None, spill: Path | None = None) -> DuckDBPyConnection:
    """A new connection, with a memory limit if given; what does not fit is spilled to disk.

    No query can change its settings.

    Args:
        memory: Such as ``4 GB``; None for DuckDB's own choice.
        spill: The folder to spill to; None for one among the system's temporary files.
    """
    import duckdb

    db = duckdb.connect(":memory:")
    folder = Path(tempfile.gettempdir(), f"clnr-{uuid4().hex}") if spill is None else spill
    for name, value in {**_SETTINGS, "temp_directory": quoted(str(folder))}.items():
        db.execute(f"SET {name} = {value}")
    if memory is not None:
        try:
            db.execute(f"SET memory_limit = {quoted(memory)}")
        except Exception:
            db.close()
            raise DataError(f"memory must be an amount such as '4 GB', not '{memory}'") from None
    db.execute("SET lock_configuration = true")
    return db


def quoted(text: str) -> str:
    """Text as a string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def double(number: float) -> str:
    """A number as a literal of SQL; without an exponent it would be a decimal number, which is rounded once more."""
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def trimmed(c: str) -> str:
    """The trimmed text of an SQL expression; empty text is NULL."""
    return f"nullif(trim(CAST({c} AS VARCHAR)), '')"


def run(db: DuckDBPyConnection, sql: str, name: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of a query; an error becomes one line that names the table, and its line if there is one."""
    return _guarded(lambda: db.execute(sql, values).fetchall(), name)


def fetch_columns(db: DuckDBPyConnection, selected: Sequence[str], rows: str, name: str) -> list[Any]:
    """Columns of rows that are in order, as Arrow arrays in chunks: of a wide table, some columns at a time.

    Sorting very many at once takes DuckDB longer than sorting them in parts.
    """
    parts = (selected[first : first + _QUERY_COLUMNS] for first in range(0, len(selected), _QUERY_COLUMNS))
    return [column for part in parts for column in fetch_table(db, f"SELECT {', '.join(part)} FROM {rows}", name).columns]


def fetch_table(db: DuckDBPyConnection, sql: str, name: str) -> Any:
    return _guarded(lambda: db.sql(sql).to_arrow_table(_CHUNK_ROWS), name)


def fetch_numpy(db: DuckDBPyConnection, sql: str, name: str) -> dict[str, Array]:
    """The columns of a query without nulls, as NumPy arrays."""
    columns = _guarded(lambda: db.execute(sql).fetchnumpy(), name)
    return {column: np.ma.getdata(values) for column, values in columns.items()}


def stream_arrow(db: DuckDBPyConnection, sql: str, name: str) -> Iterator[list[Any]]:
    """The columns of a query as Arrow arrays, in batches of rows; no other query may run until all are read."""

    def open_reader() -> Any:
        relation = db.sql(sql)
        # DuckDB 2.0 has another name for it.
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        return read(_STREAMED_ROWS)

    reader = _guarded(open_reader, name)
    while (batch := _guarded(lambda: next(reader, None), name)) is not None:
        yield batch.columns


def _guarded(query: Callable[[], Any], name: str) -> Any:
    import duckdb

    try:
        return query()
    except duckdb.OutOfMemoryException:
        raise DataError(f"{name}: there is not enough memory to read it; allow more, or free disk space") from None
    except MemoryError:
        raise
    except Exception as error:
        if "Query interrupted" in str(error):  # DuckDB's error for Ctrl-C.
            raise KeyboardInterrupt from None
        # Not only DuckDB's errors: text that is not Unicode fails in Python.
        raise DataError(format_duckdb_error(str(error), name)) from None


def is_code(text: str) -> str:
    """Whether text is digits with a leading zero, as of codes such as 01067, in SQL."""
    return f"regexp_full_match({text}, '0[0-9]+')"


def looks_like_datetime(text: str) -> str:
    """Whether text is a date or time of ISO 8601, or such as 2020/1/31, in SQL."""
    pattern = "^[0-9]{4}(-[0-9]{2}-[0-9]{2}|/[0-9]{1,2}/[0-9]{1,2})"
    return f"regexp_matches({text}, {quoted(pattern)}) AND TRY_CAST({text} AS TIMESTAMP) IS NOT NULL"
