"""What kind of features a column can be, from its type and its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.support.humanize import one_line
from clnr.tables.column_encoders import FALSE, TRUE, Part
from clnr.tables.source import Table
from clnr.tables.sql import MOMENTS, NUMBERS, quoted, run, trimmed, written_as_moment

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FEW = 50
_HASHED = 256
_WORDS = 1024


def learn(base: DuckDBPyConnection, people: Table, column: str) -> Part | str:
    """How a column of a stored table is encoded, or why it is not."""
    c, kind = people.columns[column]
    if kind.endswith("]"):
        return _vector(base, people, column)
    if kind.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return f"a {kind.partition('(')[0].lower()} is no feature"
    if kind == "BOOLEAN":
        return _flag(base, people, column, f"CAST({c} AS VARCHAR)")
    if kind.startswith(MOMENTS):
        return _number(base, people, column, f"epoch(CAST({c} AS TIMESTAMP))", "moment")
    if kind.startswith(NUMBERS):
        return _number(base, people, column, c, "number")
    return _text(base, people, column)


def doubts(base: DuckDBPyConnection, people: Table, parts: Sequence[Part]) -> list[str]:
    """A line for each column that is taken for text although most of its values are numbers."""
    lines = []
    odd = "FILTER (v IS NOT NULL AND x IS NULL)"
    for part in (part for part in parts if part.sparse):
        text = trimmed(people.columns[part.column].sql)
        values = f"SELECT {text} AS v, TRY_CAST({text} AS DOUBLE) AS x, i FROM {people.sql}"
        found = f"SELECT count(v), count(x), min(i) {odd}, arg_min(v, i) {odd} FROM"
        # The first rows mostly tell, and spare a look at millions.
        for rows in (f"({values} WHERE i < 1000)", f"({values})"):
            ((there, numbers, row, value),) = run(base, f"{found} {rows}", people.name)
            if 2 * numbers <= there:
                break
        else:
            said = f"is taken for text, though {numbers:,} of {there:,} values are numbers"
            lines.append(f"{people.name}: '{part.column}' {said}: '{one_line(value)}' in row {row + 1:,} is none")
    return lines


def _text(base: DuckDBPyConnection, people: Table, column: str) -> Part | str:
    """Text may hold numbers, dates, flags, a few categories, many, or words."""
    text = trimmed(people.columns[column].sql)
    flags_known = ", ".join(map(quoted, TRUE + FALSE))
    ((there, numbers, moments, flags, distinct, words, rows),) = run(
        base,
        f"SELECT count(v), count(TRY_CAST(v AS DOUBLE)), count(*) FILTER ({written_as_moment('v')}), "
        f"count(*) FILTER (lower(v) IN ({flags_known})), "
        f"count(DISTINCT v), avg(len(v) - len(replace(v, ' ', ''))), count(*) FROM (SELECT {text} AS v FROM {people.sql})",
        people.name,
    )
    if not there:
        return "it is empty"
    if distinct == 1 and there == rows:
        return "it is the same everywhere"
    if numbers == there:
        return _number(base, people, column, f"TRY_CAST({text} AS DOUBLE)", "number")
    if moments == there:
        return _number(base, people, column, f"epoch(TRY_CAST({text} AS TIMESTAMP))", "moment")
    if flags == there:
        return _flag(base, people, column, text)
    missing = there < rows
    if distinct <= _FEW:
        found = run(base, f"SELECT DISTINCT {text} AS v FROM {people.sql} WHERE {text} IS NOT NULL ORDER BY v", people.name)
        values = tuple(row[0] for row in found)
        return Part(column, "category", len(values), missing, values=values)
    if words >= 1:
        return Part(column, "words", _WORDS, missing)
    return Part(column, "hashed", _HASHED, missing)


def _number(base: DuckDBPyConnection, people: Table, column: str, sql: str, kind: str) -> Part | str:
    """Scaled to mean 0 and variance 1; what is no finite number is missing."""
    values = f"(SELECT CASE WHEN isfinite(x) THEN x END AS v FROM (SELECT CAST({sql} AS DOUBLE) AS x FROM {people.sql}))"
    ((there, low, high, rows),) = run(base, f"SELECT count(v), min(v), max(v), count(*) FROM {values}", people.name)
    missing = there < rows
    if not there:
        return "it is empty"
    if low == high:
        # Their mean may be another number, by rounding.
        return Part(column, kind, 1, missing, low) if missing else "it is the same everywhere"
    largest = max(abs(low), abs(high))
    # A power of two, so that nothing is rounded, keeps squares of very large or small numbers in range.
    unit = 1.0 if 1e-100 < largest < 1e100 else math.ldexp(1, math.frexp(largest)[1] - 1)
    ((mean, spread),) = run(base, f"SELECT avg(v / {unit!r}), stddev_pop(v / {unit!r}) FROM {values}", people.name)
    return Part(column, kind, 1, missing, mean * unit, spread * unit or high - low)


def _flag(base: DuckDBPyConnection, people: Table, column: str, sql: str) -> Part | str:
    ((there, distinct, rows),) = run(
        base, f"SELECT count(v), count(DISTINCT lower(v)), count(*) FROM (SELECT {sql} AS v FROM {people.sql})", people.name
    )
    if not there:
        return "it is empty"
    if distinct == 1 and there == rows:
        return "it is the same everywhere"
    return Part(column, "flag", 1, there < rows)


def _vector(base: DuckDBPyConnection, people: Table, column: str) -> Part | str:
    """A list of numbers, as long in every row; scaled by one number for all."""
    c, kind = people.columns[column]
    inner = kind[: kind.rindex("[")]
    if not inner.startswith(NUMBERS) or inner.endswith("]"):
        return f"a list of {'lists' if inner.endswith(']') else inner.partition('(')[0].lower()} is no feature"
    ((there, shortest, longest, rows),) = run(
        base, f"SELECT count({c}), min(len({c})), max(len({c})), count(*) FROM {people.sql}", people.name
    )
    if not there or not longest:
        return "it is empty"
    if shortest != longest:
        ((row,),) = run(base, f"SELECT min(i) FROM {people.sql} WHERE len({c}) <> {longest}", people.name)
        raise DataError(f"{people.name}: '{column}' has {longest} numbers in some rows and another count in row {row + 1:,}")
    if longest > 1 << 20:
        return f"{longest:,} numbers a row are too many"
    numbers = f"(SELECT unnest(CAST({c} AS DOUBLE[])) AS x FROM {people.sql})"
    ((square,),) = run(base, f"SELECT avg(x * x) FROM {numbers} WHERE isfinite(TRY_CAST(x AS FLOAT))", people.name)
    return Part(column, "vector", int(longest), there < rows, scale=math.sqrt(square or 0) or 1.0)
