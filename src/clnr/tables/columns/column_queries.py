"""Aggregates over many columns of a table in few queries: similar queries are run as one.

How a column is read is found step by step: by a generator that yields a ``ColumnQuery`` and is sent its result. All columns
take their steps side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from clnr.tables.io.source import Column
from clnr.tables.io.sql import Connection, double, run

T = TypeVar("T")
# The most columns and values of a query: what is distinct among them is in memory.
_QUERY_COLUMNS = 300
_QUERY_VALUES = 1 << 22


class ColumnQuery(NamedTuple):
    """Aggregates of a column.

    Attributes:
        column: The column; those of one query are of one type.
        rows: What to write after FROM.
        aggregates: In SQL, where v is a value, and p0, p1 ... are the parameters.
        value: What v is, in SQL, where c is the column.
        beside: Another column of the rows that the aggregates need.
        parameters: Numbers of this column.
    """

    column: Column
    rows: str
    aggregates: tuple[str, ...]
    value: str = "c"
    beside: str = ""
    parameters: tuple[float, ...] = ()


ColumnQueries = Generator[ColumnQuery, tuple[Any, ...], T]


def run_column_queries(
    db: Connection, name: str, columns: Sequence[ColumnQueries[T]], progress: Callable[[int], None] | None = None
) -> list[T]:
    """Run the generators of several columns side by side and return their results; ``progress`` gets the number done."""
    results: dict[int, T] = {}
    waiting: dict[int, ColumnQuery] = {}

    def go_on(column: int, row: tuple[Any, ...] | None) -> None:
        try:
            waiting[column] = next(columns[column]) if row is None else columns[column].send(row)
        except StopIteration as end:
            results[column] = end.value

    for column in range(len(columns)):
        go_on(column, None)
    while waiting:
        alike = defaultdict(list)
        for column, query in waiting.items():
            alike[query._replace(column=query.column._replace(sql=""), parameters=())].append((column, query))
        waiting.clear()
        for group in alike.values():
            size = 1
            if len(group) > 1:
                ((count,),) = run(db, f"SELECT count(*) FROM {group[0][1].rows}", name)
                size = max(1, min(_QUERY_COLUMNS, _QUERY_VALUES // max(1, count)))
            for first in range(0, len(group), size):
                batch = group[first : first + size]
                for (column, _), row in zip(batch, _run_alike(db, name, [query for _, query in batch]), strict=True):
                    go_on(column, row)
                if progress is not None:
                    progress(len(results))
    return [results[column] for column in range(len(columns))]


def _run_alike(db: Connection, name: str, queries: Sequence[ColumnQuery]) -> list[tuple[Any, ...]]:
    """The results of queries that differ by column and parameters alone: their values stand below each other, in one column."""
    first = queries[0]
    wanted, beside = ", ".join(first.aggregates), f", {first.beside}" if first.beside else ""
    if len(queries) > 1:
        stacked = {"c": [query.column.sql for query in queries], "k": [str(number) for number in range(len(queries))]}
        stacked |= {f"p{i}": [double(query.parameters[i]) for query in queries] for i in range(len(first.parameters))}
        columns = ", ".join(f"unnest([{', '.join(each)}]) AS {alias}" for alias, each in stacked.items())
        values = f"SELECT *, {first.value} AS v FROM (SELECT {columns}{beside} FROM {first.rows})"
        rows = run(db, f"SELECT k, {wanted} FROM ({values}) GROUP BY k", name)
        if len(rows) == len(queries):
            return [tuple(row[1:]) for row in sorted(rows, key=lambda row: row[0])]
    results = []
    for query in queries:  # One alone; or a table without rows, which has no groups.
        parameters = (f"{double(each)} AS p{i}" for i, each in enumerate(query.parameters))
        columns = ", ".join([f"{query.column.sql} AS c", *parameters])
        values = f"SELECT *, {query.value} AS v FROM (SELECT {columns}{beside} FROM {query.rows})"
        results += run(db, f"SELECT {wanted} FROM ({values})", name)
    return results
