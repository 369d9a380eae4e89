"""What is asked of many columns of a table, answered for all of them by few queries.

How a column is read is found step by step: it is written as a generator that yields an ``Ask`` and is sent the answer. All
columns take their steps side by side, and what several of them ask alike is one query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from clnr.tables.io.source import Column
from clnr.tables.io.sql import double, run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")
# At most so many columns are in a query, and so many values: what is distinct among them is in memory.
_QUERY_COLUMNS = 300
_QUERY_VALUES = 1 << 22


class Ask(NamedTuple):
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


Asks = Generator[Ask, tuple[Any, ...], T]


def answer(db: DuckDBPyConnection, name: str, steps: Asks[T]) -> T:
    """What is found of one column; see ``answer_all``."""
    return answer_all(db, name, [steps])[0]


def answer_all(
    db: DuckDBPyConnection, name: str, columns: Sequence[Asks[T]], progress: Callable[[int], None] | None = None
) -> list[T]:
    """What is found of each of some columns of a table.

    Args:
        db: The connection.
        name: What to call the table in messages.
        columns: The steps of each column.
        progress: Called with the number of columns that are done.
    """
    results: dict[int, T] = {}
    asked: dict[int, Ask] = {}

    def go_on(column: int, with_answer: tuple[Any, ...] | None) -> None:
        try:
            asked[column] = next(columns[column]) if with_answer is None else columns[column].send(with_answer)
        except StopIteration as end:
            results[column] = end.value

    for column in range(len(columns)):
        go_on(column, None)
    while asked:
        alike = defaultdict(list)
        for column, ask in asked.items():
            alike[ask._replace(column=ask.column._replace(sql=""), parameters=())].append((column, ask))
        asked.clear()
        for some in alike.values():
            size = _batch(db, name, some[0][1].rows) if len(some) > 1 else 1
            for first in range(0, len(some), size):
                batch = some[first : first + size]
                for (column, _), answered in zip(batch, _answers(db, name, [ask for _, ask in batch]), strict=True):
                    go_on(column, answered)
                if progress is not None:
                    progress(len(results))
    return [results[column] for column in range(len(columns))]


def _batch(db: DuckDBPyConnection, name: str, rows: str) -> int:
    """The number of columns of one query."""
    ((count,),) = run(db, f"SELECT count(*) FROM {rows}", name)
    return max(1, min(_QUERY_COLUMNS, _QUERY_VALUES // max(1, count)))


def _answers(db: DuckDBPyConnection, name: str, asks: Sequence[Ask]) -> list[tuple[Any, ...]]:
    """The answers to asks that differ by column and parameters alone: their values stand below each other, in one column."""
    first = asks[0]
    wanted, beside = ", ".join(first.aggregates), f", {first.beside}" if first.beside else ""
    if len(asks) > 1:
        stacked = {"c": [ask.column.sql for ask in asks], "k": [str(number) for number in range(len(asks))]}
        stacked |= {f"p{i}": [double(ask.parameters[i]) for ask in asks] for i in range(len(first.parameters))}
        columns = ", ".join(f"unnest([{', '.join(each)}]) AS {alias}" for alias, each in stacked.items())
        values = f"SELECT *, {first.value} AS v FROM (SELECT {columns}{beside} FROM {first.rows})"
        rows = run(db, f"SELECT k, {wanted} FROM ({values}) GROUP BY k", name)
        if len(rows) == len(asks):
            return [tuple(row[1:]) for row in sorted(rows, key=lambda row: row[0])]
    answers = []
    for ask in asks:  # One alone; or a table without rows, which has no groups.
        columns = ", ".join([f"{ask.column.sql} AS c", *(f"{double(each)} AS p{i}" for i, each in enumerate(ask.parameters))])
        values = f"SELECT *, {ask.value} AS v FROM (SELECT {columns}{beside} FROM {ask.rows})"
        answers += run(db, f"SELECT {wanted} FROM ({values})", name)
    return answers
