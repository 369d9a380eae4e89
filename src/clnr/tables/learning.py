"""What kind of features a column can be, from its type and its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.tables.parts import FALSE, TRUE, Part
from clnr.tables.sql import MOMENTS, NUMBERS, named, quoted, run, trimmed, written_as_moment
from clnr.tables.trouble import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FEW = 50
_HASHED = 256
_WORDS = 1024


def learn(base: DuckDBPyConnection, table: str, column: str, kind: str, name: str) -> Part | str:
    """How a column of a DuckDB type is encoded, or why it is not."""
    c = named(column)
    if kind.endswith("]"):
        return _vector(base, table, column, kind, name)
    if kind.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return f"a {kind.partition('(')[0].lower()} is no feature"
    if kind == "BOOLEAN":
        return _flag(base, table, column, f"CAST({c} AS VARCHAR)", name)
    if kind.startswith(MOMENTS):
        return _number(base, table, column, f"epoch(CAST({c} AS TIMESTAMP))", "moment", name)
    if kind.startswith(NUMBERS):
        return _number(base, table, column, c, "number", name)
    return _text(base, table, column, name)


def doubts(base: DuckDBPyConnection, table: str, parts: Sequence[Part], name: str) -> list[str]:
    """A line for each column that is taken for text although most of its values are numbers."""
    lines = []
    odd = "FILTER (v IS NOT NULL AND x IS NULL)"
    for part in (part for part in parts if part.sparse):
        text = trimmed(part.column)
        values = f"SELECT {text} AS v, TRY_CAST({text} AS DOUBLE) AS x, rowid AS i FROM {table}"
        found = f"SELECT count(v), count(x), min(i) {odd}, arg_min(v, i) {odd} FROM"
        # The first rows mostly tell, and spare a look at millions.
        for rows in (f"({values} WHERE rowid < 1000)", f"({values})"):
            ((there, numbers, row, value),) = run(base, f"{found} {rows}", name)
            if 2 * numbers <= there:
                break
        else:
            said = f"is taken for text, though {numbers:,} of {there:,} values are numbers"
            lines.append(f"{name}: '{part.column}' {said}: '{one_line(value)}' in row {row + 1:,} is none")
    return lines


def _text(base: DuckDBPyConnection, table: str, column: str, name: str) -> Part | str:
    """Text may hold numbers, dates, flags, a few categories, many, or words."""
    text = trimmed(column)
    flags_known = ", ".join(map(quoted, TRUE + FALSE))
    ((there, numbers, moments, flags, distinct, words, rows),) = run(
        base,
        f"SELECT count(v), count(TRY_CAST(v AS DOUBLE)), count(*) FILTER ({written_as_moment('v')}), "
        f"count(*) FILTER (lower(v) IN ({flags_known})), "
        f"count(DISTINCT v), avg(len(v) - len(replace(v, ' ', ''))), count(*) FROM (SELECT {text} AS v FROM {table})",
        name,
    )
    if not there:
        return "it is empty"
    if distinct == 1 and there == rows:
        return "it is the same everywhere"
    if numbers == there:
        return _number(base, table, column, f"TRY_CAST({text} AS DOUBLE)", "number", name)
    if moments == there:
        return _number(base, table, column, f"epoch(TRY_CAST({text} AS TIMESTAMP))", "moment", name)
    if flags == there:
        return _flag(base, table, column, text, name)
    missing = there < rows
    if distinct <= _FEW:
        found = run(base, f"SELECT DISTINCT {text} AS v FROM {table} WHERE {text} IS NOT NULL ORDER BY v", name)
        values = tuple(row[0] for row in found)
        return Part(column, "category", len(values), missing, values=values)
    if words >= 1:
        return Part(column, "words", _WORDS, missing)
    return Part(column, "hashed", _HASHED, missing)


def _number(base: DuckDBPyConnection, table: str, column: str, sql: str, kind: str, name: str) -> Part | str:
    """Scaled to mean 0 and variance 1; what is no finite number is missing."""
    values = f"(SELECT CASE WHEN isfinite(x) THEN x END AS v FROM (SELECT CAST({sql} AS DOUBLE) AS x FROM {table}))"
    ((there, largest, rows),) = run(base, f"SELECT count(v), max(abs(v)), count(*) FROM {values}", name)
    if not there:
        return "it is empty"
    # A power of two, so that nothing is rounded, keeps squares of very large or small numbers in range.
    unit = 1.0 if not largest or 1e-100 < largest < 1e100 else math.ldexp(1, math.frexp(largest)[1] - 1)
    ((mean, spread),) = run(base, f"SELECT avg(v / {unit!r}), stddev_pop(v / {unit!r}) FROM {values}", name)
    missing = there < rows
    if not spread and not missing:
        return "it is the same everywhere"
    return Part(column, kind, 1, missing, mean * unit, spread * unit or 1.0)


def _flag(base: DuckDBPyConnection, table: str, column: str, sql: str, name: str) -> Part | str:
    ((there, distinct, rows),) = run(
        base, f"SELECT count(v), count(DISTINCT lower(v)), count(*) FROM (SELECT {sql} AS v FROM {table})", name
    )
    if not there:
        return "it is empty"
    if distinct == 1 and there == rows:
        return "it is the same everywhere"
    return Part(column, "flag", 1, there < rows)


def _vector(base: DuckDBPyConnection, table: str, column: str, kind: str, name: str) -> Part | str:
    """A list of numbers, as long in every row; scaled by one number for all."""
    inner = kind[: kind.rindex("[")]
    if not inner.startswith(NUMBERS) or inner.endswith("]"):
        return f"a list of {'lists' if inner.endswith(']') else inner.partition('(')[0].lower()} is no feature"
    c = named(column)
    ((there, shortest, longest, rows),) = run(
        base, f"SELECT count({c}), min(len({c})), max(len({c})), count(*) FROM {table}", name
    )
    if not there or not longest:
        return "it is empty"
    if shortest != longest:
        ((row,),) = run(base, f"SELECT min(rowid) FROM {table} WHERE len({c}) <> {longest}", name)
        raise DataError(f"{name}: '{column}' has {longest} numbers in some rows and another count in row {row + 1:,}")
    if longest > 1 << 20:
        return f"{longest:,} numbers a row are too many"
    numbers = f"(SELECT unnest(CAST({c} AS DOUBLE[])) AS x FROM {table})"
    ((square,),) = run(base, f"SELECT avg(x * x) FROM {numbers} WHERE isfinite(TRY_CAST(x AS FLOAT))", name)
    return Part(column, "vector", int(longest), there < rows, scale=math.sqrt(square or 0) or 1.0)
