"""How a column is encoded, inferred from its type and its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.support.humanize import one_line
from clnr.tables.chunks import fetch_chunks
from clnr.tables.column_encoders import FALSE, TRUE, ColumnEncoder
from clnr.tables.source import Table
from clnr.tables.sql import DATETIMES, NUMBERS, looks_like_datetime, quoted, run, trimmed
from clnr.tables.vocabulary import learn_vocabulary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# So many categories have a feature each; of more, those that occur twice, up to the second bound. The others are hashed.
_FEW = 50
_VALUES = 4096
_VALUE_BUCKETS = 256
# The most words of a text column that have a feature each; only if there are more, the others are hashed.
_WORDS = 1 << 14
_WORD_BUCKETS = 1024


def infer_encoder(db: DuckDBPyConnection, table: Table, column: str) -> ColumnEncoder | str:
    """The encoder of a column of a stored table, or the reason why it is no feature."""
    c, kind = table.columns[column]
    if kind.endswith("]"):
        return _vector(db, table, column)
    if kind.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return f"a {kind.partition('(')[0].lower()} is no feature"
    if kind == "BOOLEAN":
        return _bool(db, table, column, f"CAST({c} AS VARCHAR)")
    if kind.startswith(DATETIMES):
        return _number(db, table, column, f"epoch(CAST({c} AS TIMESTAMP))", "datetime")
    if kind.startswith(NUMBERS):
        return _number(db, table, column, c, "number")
    return _text(db, table, column)


def type_warnings(db: DuckDBPyConnection, table: Table, encoders: Sequence[ColumnEncoder]) -> list[str]:
    """A line for each column that is read as text although most of its values are numbers."""
    lines = []
    odd = "FILTER (v IS NOT NULL AND x IS NULL)"
    for encoder in (encoder for encoder in encoders if encoder.sparse):
        text = trimmed(table.columns[encoder.column].sql)
        values = f"SELECT {text} AS v, TRY_CAST({text} AS DOUBLE) AS x, i FROM {table.sql}"
        found = f"SELECT count(v), count(x), min(i) {odd}, arg_min(v, i) {odd} FROM"
        # The first rows mostly tell, which saves a scan of millions.
        for rows in (f"({values} WHERE i < 1000)", f"({values})"):
            ((present, numbers, row, value),) = run(db, f"{found} {rows}", table.name)
            if 2 * numbers <= present:
                break
        else:
            message = f"is read as text, though {numbers:,} of {present:,} values are numbers"
            lines.append(f"{table.name}: '{encoder.column}' {message}: '{one_line(value)}' in row {row + 1:,} is none")
    return lines


def _text(db: DuckDBPyConnection, table: Table, column: str) -> ColumnEncoder | str:
    """Text may hold numbers, datetimes, bools, few categories, many, or words."""
    text = trimmed(table.columns[column].sql)
    bools = ", ".join(map(quoted, TRUE + FALSE))
    ((present, numbers, datetimes, truths, distinct, words, rows),) = run(
        db,
        f"SELECT count(v), count(TRY_CAST(v AS DOUBLE)), count(*) FILTER ({looks_like_datetime('v')}), "
        f"count(*) FILTER (lower(v) IN ({bools})), "
        f"count(DISTINCT v), avg(len(v) - len(replace(v, ' ', ''))), count(*) FROM (SELECT {text} AS v FROM {table.sql})",
        table.name,
    )
    if not present:
        return "it is empty"
    if distinct == 1 and present == rows:
        return "all its values are the same"
    if numbers == present:
        return _number(db, table, column, f"TRY_CAST({text} AS DOUBLE)", "number")
    if datetimes == present:
        return _number(db, table, column, f"epoch(TRY_CAST({text} AS TIMESTAMP))", "datetime")
    if truths == present:
        return _bool(db, table, column, text)
    missing = present < rows
    if distinct <= _FEW:
        found = run(db, f"SELECT DISTINCT {text} AS v FROM {table.sql} WHERE {text} IS NOT NULL ORDER BY v", table.name)
        values = tuple(row[0] for row in found)
        return ColumnEncoder(column, "category", len(values), missing, values=values, distinct=distinct)
    return (_words(db, table, column, missing) if words >= 1 else None) or _many(db, table, column, distinct, missing)


def _words(db: DuckDBPyConnection, table: Table, column: str, missing: bool) -> ColumnEncoder | None:
    """A bag of words; None if there are no words in the column."""
    chunks = fetch_chunks(db, table, trimmed(table.columns[column].sql), [column])
    words, weights, distinct = learn_vocabulary((texts for (texts,) in chunks), _WORDS, _WORD_BUCKETS)
    buckets = len(weights) - len(words)
    if not weights:
        return None
    return ColumnEncoder(
        column, "text", len(weights), missing, values=words, weights=weights, buckets=buckets, distinct=distinct
    )


def _many(db: DuckDBPyConnection, table: Table, column: str, distinct: int, missing: bool) -> ColumnEncoder:
    """The most frequent of many categories; of equally frequent ones, the first in order."""
    found = run(
        db,
        f"SELECT {trimmed(table.columns[column].sql)} AS v FROM {table.sql} WHERE v IS NOT NULL GROUP BY v "
        f"HAVING count(*) > 1 ORDER BY count(*) DESC, v LIMIT {_VALUES}",
        table.name,
    )
    values = tuple(sorted(row[0] for row in found))
    buckets = _VALUE_BUCKETS if distinct > len(values) else 0
    return ColumnEncoder(column, "category", len(values) + buckets, missing, values=values, buckets=buckets, distinct=distinct)


def _number(db: DuckDBPyConnection, table: Table, column: str, sql: str, kind: str) -> ColumnEncoder | str:
    """Scaled to mean 0 and variance 1; values that are not finite are missing."""
    values = f"(SELECT CASE WHEN isfinite(x) THEN x END AS v FROM (SELECT CAST({sql} AS DOUBLE) AS x FROM {table.sql}))"
    ((present, low, high, rows),) = run(db, f"SELECT count(v), min(v), max(v), count(*) FROM {values}", table.name)
    missing = present < rows
    if not present:
        return "it is empty"
    if low == high:
        # Not their mean, which rounding may change.
        return ColumnEncoder(column, kind, 1, missing, low) if missing else "all its values are the same"
    largest = max(abs(low), abs(high))
    # Very large or small numbers are divided by a power of two, which rounds nothing, to keep their squares in range.
    unit = 1.0 if 1e-100 < largest < 1e100 else math.ldexp(1, math.frexp(largest)[1] - 1)
    ((mean, spread),) = run(db, f"SELECT avg(v / {unit!r}), stddev_pop(v / {unit!r}) FROM {values}", table.name)
    return ColumnEncoder(column, kind, 1, missing, mean * unit, spread * unit or high - low)


def _bool(db: DuckDBPyConnection, table: Table, column: str, sql: str) -> ColumnEncoder | str:
    ((present, distinct, rows),) = run(
        db,
        f"SELECT count(v), count(DISTINCT lower(v)), count(*) FROM (SELECT {sql} AS v FROM {table.sql})",
        table.name,
    )
    if not present:
        return "it is empty"
    if distinct == 1 and present == rows:
        return "all its values are the same"
    return ColumnEncoder(column, "bool", 1, present < rows)


def _vector(db: DuckDBPyConnection, table: Table, column: str) -> ColumnEncoder | str:
    """A list of numbers, of the same length in every row; all are divided by their root mean square."""
    c, kind = table.columns[column]
    inner = kind[: kind.rindex("[")]
    if not inner.startswith(NUMBERS) or inner.endswith("]"):
        return f"a list of {'lists' if inner.endswith(']') else inner.partition('(')[0].lower()} is no feature"
    ((present, shortest, longest, rows),) = run(
        db, f"SELECT count({c}), min(len({c})), max(len({c})), count(*) FROM {table.sql}", table.name
    )
    if not present or not longest:
        return "it is empty"
    if shortest != longest:
        ((row,),) = run(db, f"SELECT min(i) FROM {table.sql} WHERE len({c}) <> {longest}", table.name)
        raise DataError(f"{table.name}: '{column}' has {longest} numbers in some rows and another count in row {row + 1:,}")
    if longest > 1 << 20:
        return f"{longest:,} numbers a row are too many"
    numbers = f"(SELECT unnest(CAST({c} AS DOUBLE[])) AS x FROM {table.sql})"
    ((square,),) = run(db, f"SELECT avg(x * x) FROM {numbers} WHERE isfinite(TRY_CAST(x AS FLOAT))", table.name)
    return ColumnEncoder(column, "vector", int(longest), present < rows, scale=math.sqrt(square or 0) or 1.0)
