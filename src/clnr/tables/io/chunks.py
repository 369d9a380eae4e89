"""Columns of a stored table in chunks of rows, small enough for the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clnr.tables.io.source import Table
from clnr.tables.io.sql import fetch_columns, run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# At most so many rows, dense features and characters are in a chunk.
_CHUNK_ROWS = 1 << 18
_CHUNK_NUMBERS = 1 << 21
_CHUNK_CHARACTERS = 1 << 24


def fetch_chunks(
    db: DuckDBPyConnection, table: Table, selected: Sequence[str], texts: Iterable[str], width: int = 0
) -> Iterator[list[Any]]:
    """What is selected of a stored table's rows, in order, as Arrow arrays; an empty table is one empty chunk.

    Args:
        db: The connection.
        table: The table.
        selected: The columns to select, in SQL.
        texts: The columns whose length as text counts.
        width: Number of dense features that a row will have.
    """
    lengths = (f"coalesce(sum(strlen(CAST({table.columns[name].sql} AS VARCHAR))), 0)" for name in texts)
    ((count, size),) = run(db, f"SELECT count(*), list_sum([{', '.join(['0', *lengths])}]) FROM {table.sql}", table.name)
    step = max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // max(1, width), count * _CHUNK_CHARACTERS // max(1, int(size))))
    for start in range(0, max(1, count), step):
        rows = f"{table.sql} WHERE i >= {start} AND i < {start + step} ORDER BY i"
        yield [column.combine_chunks() for column in fetch_columns(db, selected, rows, table.name)]
