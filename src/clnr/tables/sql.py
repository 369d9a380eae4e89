"""A DuckDB connection, names and texts in SQL, and queries whose errors are one line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.tables.duckdb_errors import told

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBERS = (*_WHOLE, *(f"U{kind}" for kind in _WHOLE), "DOUBLE", "FLOAT", "REAL", "DECIMAL")
MOMENTS = ("DATE", "TIMESTAMP")

# Rows of a piece of an Arrow table, whose texts must not exceed 2 GiB together.
_BATCH = 1 << 16


# Nothing is fetched, no extension comes in, no variable of Python's is a table, and a moment is the same on every machine.
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "TimeZone": "'UTC'",
}


def connect(memory: str | None = None) -> DuckDBPyConnection:
    """A connection of its own, with a bound on its memory if given; what does not fit is put on disk meanwhile.

    Nothing that runs in it can change its settings.
    """
    import duckdb

    base = duckdb.connect(":memory:")
    aside = quoted(str(Path(tempfile.gettempdir(), f"clnr-{uuid4().hex}")))
    for name, value in {**_SETTINGS, "temp_directory": aside}.items():
        base.execute(f"SET {name} = {value}")
    if memory is not None:
        try:
            base.execute(f"SET memory_limit = {quoted(memory)}")
        except Exception:
            base.close()
            raise DataError(f"memory is to be an amount as '4 GB', not '{memory}'") from None
    base.execute("SET lock_configuration = true")
    return base


def quoted(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def trimmed(c: str) -> str:
    """The text of what is ``c`` in SQL, an empty one being none."""
    return f"nullif(trim(CAST({c} AS VARCHAR)), '')"


def run(base: DuckDBPyConnection, sql: str, name: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of a query; what is wrong with a table becomes one line that names it, and the line where it has one."""
    return _guarded(lambda: base.execute(sql, values).fetchall(), name)


def arrow(base: DuckDBPyConnection, sql: str, name: str) -> Any:
    """The columns of a query, each an Arrow array."""
    return [column.combine_chunks() for column in arrow_table(base, sql, name).columns]


def arrow_table(base: DuckDBPyConnection, sql: str, name: str) -> Any:
    return _guarded(lambda: base.sql(sql).to_arrow_table(_BATCH), name)


def fetched(base: DuckDBPyConnection, sql: str, name: str) -> dict[str, Array]:
    """The columns of a query without nulls, each a NumPy array."""
    found = _guarded(lambda: base.execute(sql).fetchnumpy(), name)
    return {column: np.ma.getdata(values) for column, values in found.items()}


def _guarded(query: Callable[[], Any], name: str) -> Any:
    import duckdb

    try:
        return query()
    except duckdb.OutOfMemoryException:
        raise DataError(f"{name}: memory does not suffice to read it; allow more, or make room on the disk") from None
    except MemoryError:
        raise
    except Exception as error:
        if "Query interrupted" in str(error):  # What DuckDB makes of Ctrl-C.
            raise KeyboardInterrupt from None
        # Beside its own errors there are those of what is handed to it, as a text that is not Unicode.
        raise DataError(told(str(error), name)) from None


def written_as_moment(text: str) -> str:
    """Whether a text is a date or a time as ISO 8601 writes them, in SQL."""
    return f"regexp_matches({text}, '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}') AND TRY_CAST({text} AS TIMESTAMP) IS NOT NULL"
