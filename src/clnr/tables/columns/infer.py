"""The types of columns: as the user says, else read off one query of counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line, option
from clnr.tables.columns.column_types import (
    FALSE,
    TRUE,
    ColumnEncoder,
    boolean_sql,
    number_sql,
    tags_sql,
    time_sql,
    vector_sql,
)
from clnr.tables.columns.text_words import Split, learn_vocabulary, split_tags, split_words
from clnr.tables.io.open import Table
from clnr.tables.io.sql import DATETIMES, NESTED, NUMBERS, Column, Connection, as_text, plain_id, quoted, run, whole_sums
from clnr.tables.io.text_files import ID_NAME

NEARLY_ALL = 0.95
"""The share from which on values differ in nearly all rows."""
MOST_EMPTY = 0.5
_ALMOST_NONE = 1 - NEARLY_ALL
# The most categories that have a feature each; of more, those that occur twice, up to the second bound. The others are hashed.
_FEW_VALUES, _MOST_VALUES, _VALUE_BUCKETS = 50, 4096, 256
# The most words of a text column that have a feature each; only if there are more, the others are hashed.
_MOST_WORDS, _WORD_BUCKETS = 1 << 14, 1024
# The words of text, on average, from which on it is no category.
_LEAST_WORDS = 2.0
# The least rows that a column of whole numbers counts.
_COUNTED_ROWS = 10
_MOST_VECTOR = 1 << 20
# What is not more apart cannot be divided by.
_LEAST_SPAN = 2.0**-900
_SEPARATORS = "|;,"
# Numbers with signs, and days with points: 1.234,50, $5, 12 %, 31.12.2020.
_SIGN = r"[^\w\s.,+-]{0,3}"
_SIGNED_NUMBER = (
    rf"{_SIGN} ?[-+]?(\d{{1,3}}([., ']\d{{3}})+([.,]\d+)?|\d+([.,]\d+)?) ?{_SIGN}|\d{{1,2}}\.\d{{1,2}}\.(\d{{4}}|\d{{2}})"
)
_SIGNED = "signed"
# The most columns of a query, and values of these that are distinct at once.
_QUERY_COLUMNS, _QUERY_VALUES = 100, 1 << 22

_TEXT = Column("v", "VARCHAR")

Inferred = ColumnEncoder | str
"""The encoder of a column, or the reason why it is no feature."""
Chunks = Callable[[str, str], Iterator[Any]]
"""Gives what is selected of a column, in the order of rows, as Arrow arrays."""


class _Counts(NamedTuple):
    """What a query tells of a column: how many values there are, are distinct, and can be read as this and that."""

    rows: int
    present: int
    distinct: int
    numbers: int
    low: float | None
    high: float | None
    times: int
    first: float | None
    last: float | None
    booleans: int
    signed: int
    codes: int
    words: float
    counts_rows: bool


class _Range(NamedTuple):
    """The values of a column of numbers: their SQL, how many there are, and between which they are."""

    kind: str
    value: str
    present: int
    missing: bool
    low: float
    high: float


def infer(
    db: Connection, table: Table, columns: Sequence[str], wanted: Mapping[str, str], asked: bool, chunks: Chunks
) -> dict[str, Inferred]:
    """How columns of a stored table become features, or why they do not.

    Args:
        db: The connection.
        table: The table, whose rows are numbered from 0 by ``i``.
        columns: Those that may be features.
        wanted: The types that the user gives, by column.
        asked: Whether the user names the columns, so that none is left out for what it looks like.
        chunks: Gives their values.
    """
    single = [name for name in columns if table.columns[name].is_single]
    counts = _count(db, table, single)
    found, ranges = dict[str, Inferred](), dict[str, _Range]()
    for name in columns:
        column, given = table.columns[name], wanted.get(name)
        if not column.is_single:
            found[name] = _of_list(db, table, name, column, given, chunks)
            continue
        of = counts[name]
        if not of.present:
            found[name] = "it is empty"
            continue
        # A number that is called a time stays as it is.
        given = "number" if given == "time" and column.is_of(NUMBERS) else given
        kind = given or _type_of(name, column, of, asked)
        if kind == _SIGNED:
            raise _signed(db, table, name)
        if isinstance(kind, tuple):
            found[name] = kind[0]
        elif kind in ("number", "time", "boolean"):
            number = _of_number(db, table, name, column, kind, of, wanted)
            found[name] = "" if isinstance(number, _Range) else number
            ranges |= {name: number} if isinstance(number, _Range) else {}
        elif kind == "list":
            found[name] = _of_tags(db, table, name, column, chunks)
        elif kind == "text":
            found[name] = _bag(name, column, "text", of.present < of.rows, chunks, "", asked or name in wanted)
        else:
            found[name] = _of_category(db, table, name, column, of)
    return found | _scaled(db, table, ranges)


def _count(db: Connection, table: Table, columns: Sequence[str]) -> dict[str, _Counts]:
    ((rows,),) = run(db, f"SELECT count(*) FROM {table.sql}", table.name)
    at_once = max(1, min(_QUERY_COLUMNS, _QUERY_VALUES // max(1, rows)))
    found: dict[str, _Counts] = {}
    for first in range(0, len(columns), at_once):
        some = columns[first : first + at_once]
        values = ", ".join(plain_id(table.columns[name].sql) for name in some)
        # One below the other, since DuckDB plans each aggregate of each column for longer than it takes to compute it.
        below = f"unnest(range({len(some)})) AS place, unnest([{values}]) AS v"
        run(db, f"CREATE OR REPLACE TEMP TABLE texts AS SELECT i, {below} FROM {table.sql}", table.name)
        read = f"SELECT i, place, v, {number_sql(_TEXT)} AS n, {time_sql(_TEXT)} AS t FROM texts"
        for place, *counts in run(db, f"SELECT place, {_aggregates()} FROM ({read}) GROUP BY place", table.name):
            found[some[place]] = _Counts(rows, *counts)
    return found


def _aggregates() -> str:
    """As ``_Counts`` has them, but for the rows."""
    words = ", ".join(map(quoted, TRUE + FALSE))
    in_order = f"count(n) >= {_COUNTED_ROWS} AND count(n) = count(*) AND min(n - i) = max(n - i)"
    aggregates = (
        *("count(v)", "count(DISTINCT v)", "count(n)", "min(n)", "max(n)", "count(t)", "min(t)", "max(t)"),
        f"count(*) FILTER (lower(v) IN ({words}))",
        f"count(*) FILTER (regexp_full_match(v, {quoted(_SIGNED_NUMBER)}) AND n IS NULL)",
        "count(*) FILTER (regexp_full_match(v, '0[0-9]+'))",
        "coalesce(avg(len(string_split(v, ' '))), 0)",
        f"coalesce({in_order}, false)",
    )
    return ", ".join(aggregates)


def _type_of(name: str, column: Column, of: _Counts, asked: bool) -> str | tuple[str]:
    """The type of a column, or why it is no feature, in a tuple."""
    nearly_distinct = of.present > 1 and of.distinct >= NEARLY_ALL * of.present
    if of.distinct == 1 and of.present == of.rows:
        return ("all its values are the same",)
    is_number = of.numbers == of.present and not of.codes and not column.is_of(("BOOLEAN", *DATETIMES))
    if not asked:
        if of.rows - of.present > MOST_EMPTY * of.rows:
            return (f"it is empty in {of.rows - of.present:,} of {of.rows:,} rows",)
        if of.counts_rows and is_number:
            return ("it counts the rows",)
        if ID_NAME.search(name) and nearly_distinct:
            return ("it is an id: nearly all its values differ",)
    if ID_NAME.search(name):
        return "category"
    if is_number:
        return "number"
    if of.times == of.present:
        return "time"
    if of.booleans == of.present:
        return "boolean"
    if not asked and of.signed and 2 * (of.signed + of.numbers) > of.present:
        return _SIGNED
    if nearly_distinct or (of.distinct > _FEW_VALUES and of.words >= _LEAST_WORDS):
        return "text"
    return "category"


def _signed(db: Connection, table: Table, name: str) -> DataError:
    """The error for text that looks like numbers."""
    text = as_text(table.columns[name].sql)
    sql = (
        f"SELECT DISTINCT {text} AS v FROM {table.sql} WHERE v IS NOT NULL AND TRY_CAST(v AS DOUBLE) IS NULL ORDER BY v LIMIT 3"
    )
    some = ", ".join(f"'{one_line(value, 30)}'" for (value,) in run(db, sql, table.name))
    ways = f"say what it is, {option('types', {name: 'TYPE'})}; leave it out, {option('ignore', [name])}"
    found = f"'{name}' has numbers with signs, such as {some}, which only a guess could read"
    return DataError(f"{table.name}: {found}; {ways}; or write numbers plainly by a query")


def _of_number(
    db: Connection, table: Table, name: str, column: Column, kind: str, of: _Counts, wanted: Mapping[str, str]
) -> Inferred | _Range:
    """A column that is a number; values that cannot be read are missing."""
    value = {"number": number_sql, "time": time_sql, "boolean": boolean_sql}[kind](column)
    by_kind = {"number": (of.numbers, of.low, of.high), "time": (of.times, of.first, of.last)}
    present, low, high = by_kind.get(kind, (of.booleans, 0.0, 1.0))
    if kind == "number" and column.is_of(("BOOLEAN",)):
        present, low, high = of.booleans, 0.0, 1.0
    if name in wanted and 2 * present <= of.present:
        _refuse_unreadable(db, table, name, value, wanted[name])
    missing = present < of.rows
    if kind == "boolean":
        return ColumnEncoder(name, kind, 1, missing)
    if low is None or high is None:
        return f"it has no {kind}"
    if low == high:
        return ColumnEncoder(name, kind, 1, missing, low) if missing else "all its values are the same"
    if not _LEAST_SPAN < high - low < math.inf:
        return "its values are too close to each other, or too far apart"
    return _Range(kind, value, present, missing, low, high)


def _scaled(db: Connection, table: Table, ranges: Mapping[str, _Range]) -> dict[str, ColumnEncoder]:
    """The encoders that scale numbers to mean 0 and variance 1."""
    sums = list[Any]()
    for first in range(0, len(ranges), _QUERY_COLUMNS):
        some = [*ranges.values()][first : first + _QUERY_COLUMNS]
        selected = (total for of in some for total in whole_sums(of.value, of.low, of.high))
        sums += run(db, f"SELECT {', '.join(selected)} FROM {table.sql}", table.name)[0]
    encoders = {}
    for place, (name, of) in enumerate(ranges.items()):
        total, squares, unit = int(sums[2 * place]), int(sums[2 * place + 1]), (of.high - of.low) / 2.0**47
        variance = (of.present * squares - total**2) / of.present**2
        scale = math.sqrt(variance) * unit or of.high - of.low
        encoders[name] = ColumnEncoder(name, of.kind, 1, of.missing, of.low + total / of.present * unit, scale)
    return encoders


def _refuse_unreadable(db: Connection, table: Table, name: str, value: str, kind: str) -> None:
    text = as_text(table.columns[name].sql)
    sql = f"SELECT {text}, i + 1 FROM {table.sql} WHERE {text} IS NOT NULL AND ({value}) IS NULL ORDER BY i LIMIT 1"
    for found, row in run(db, sql, table.name):
        cure = f"choose another type ({option('types')}), or write it otherwise by a query"
        raise DataError(f"{table.name}: '{name}' is no {kind}: '{one_line(found, 80)}' in row {row:,}; {cure}")


def _of_category(db: Connection, table: Table, name: str, column: Column, of: _Counts) -> ColumnEncoder:
    """One-hot features. Of too many values, the most frequent have a feature; ties are broken by the order of values."""
    least, most = (1, _FEW_VALUES) if of.distinct <= _FEW_VALUES else (2, _MOST_VALUES)
    values = (
        f"SELECT v FROM (SELECT {plain_id(column.sql)} AS v FROM {table.sql}) WHERE v IS NOT NULL GROUP BY v "
        f"HAVING count(*) >= {least} ORDER BY count(*) DESC, v LIMIT {most}"
    )
    names = tuple(sorted(value for (value,) in run(db, values, table.name)))
    buckets = _VALUE_BUCKETS if of.distinct > len(names) else 0
    some: dict[str, Any] = {"values": names, "buckets": buckets, "distinct": of.distinct}
    return ColumnEncoder(name, "category", len(names) + buckets, of.present < of.rows, **some)


def _bag(
    name: str, column: Column, kind: str, missing: bool, chunks: Chunks, separator: str = "", asked: bool = True
) -> Inferred:
    """A bag of words or of tags; no feature if hardly any two rows share one."""
    split: Split = split_tags if kind == "tags" else split_words
    selected = tags_sql(column, separator) if kind == "tags" else as_text(column.sql)
    words = learn_vocabulary(chunks(name, selected), _MOST_WORDS, _WORD_BUCKETS, split)
    if not words.weights:
        return "there are no words in it"
    if words.shared < _ALMOST_NONE and not asked:
        return "nearly all its values differ, and share no words"
    buckets = len(words.weights) - len(words.words)
    learned: dict[str, Any] = {"values": words.words, "weights": words.weights, "distinct": words.distinct}
    return ColumnEncoder(name, kind, len(words.weights), missing, buckets=buckets, separator=separator, **learned)


def _of_tags(db: Connection, table: Table, name: str, column: Column, chunks: Chunks) -> Inferred:
    """Text as a list: of numbers in brackets, else of tags between the commonest separator."""
    text = as_text(column.sql)
    if vector := _of_vector(db, table, name, column):
        return vector
    counts = ", ".join(f"sum(length({text}) - length(replace({text}, {quoted(sign)}, '')))" for sign in _SEPARATORS)
    (counted,) = run(db, f"SELECT {counts} FROM {table.sql}", table.name)
    sign = max(zip(_SEPARATORS, counted, strict=True), key=lambda each: each[1] or 0)[0]
    return _bag(name, column, "tags", _has_missing(db, table, tags_sql(column, sign)), chunks, sign)


def _of_list(db: Connection, table: Table, name: str, column: Column, kind: str | None, chunks: Chunks) -> Inferred:
    """A list is a vector, if it is of numbers and of the same length in every row; else it is tags."""
    inner = column.kind[: column.kind.rindex("[")] if column.kind.endswith("]") else ""
    if not inner or inner.endswith("]") or inner.startswith(NESTED):
        return f"a {'list of them' if inner else column.kind.partition('(')[0].lower()} cannot be a feature"
    if kind not in (None, "list"):
        raise DataError(f"{table.name}: '{name}' has lists, and is no {kind}: {option('types')}")
    if inner.startswith(NUMBERS) and (vector := _of_vector(db, table, name, column)):
        return vector
    return _bag(name, column, "tags", _has_missing(db, table, tags_sql(column, "")), chunks)


def _of_vector(db: Connection, table: Table, name: str, column: Column) -> Inferred | None:
    """Lists of numbers, divided by their root mean square; None if they are not that, or of several lengths."""
    value = vector_sql(column)
    lengths = (
        "count(v), count(*) FILTER (given IS NOT NULL), min(len(v)), max(len(v)), count(*), bool_or(list_contains(v, NULL))"
    )
    given = column.sql if column.kind.endswith("]") else as_text(column.sql)
    rows = f"(SELECT {value} AS v, {given} AS given FROM {table.sql})"
    ((present, some, shortest, longest, total, holes),) = run(db, f"SELECT {lengths} FROM {rows}", table.name)
    if not present or present < some or holes or shortest != longest or not longest:
        return None
    if longest > _MOST_VECTOR:
        return f"{longest:,} numbers in a row are too many"
    each = f"(SELECT unnest(v) AS x FROM {rows}) WHERE isfinite(TRY_CAST(x AS FLOAT))"
    ((count, largest),) = run(db, f"SELECT count(x), max(abs(x)) FROM {each}", table.name)
    scale = 1.0
    if largest:
        ((_, squares),) = run(db, f"SELECT {', '.join(whole_sums('abs(x)', 0.0, largest))} FROM {each}", table.name)
        scale = math.sqrt(int(squares) / count) * largest / 2.0**47
    return ColumnEncoder(name, "vector", int(longest), present < total, scale=scale or 1.0)


def _has_missing(db: Connection, table: Table, value: str) -> bool:
    return bool(run(db, f"SELECT count({value}) < count(*) FROM {table.sql}", table.name)[0][0])
