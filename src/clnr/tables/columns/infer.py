"""How a column is encoded, inferred from its type and its values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from clnr.errors import DataError, one_line, option
from clnr.tables.columns.column_encoders import COLUMN_TYPES, FALSE, TRUE, ColumnEncoder
from clnr.tables.columns.column_queries import ColumnQueries, ColumnQuery
from clnr.tables.columns.exact_sums import as_mean, power_of_two, whole_sum
from clnr.tables.columns.notations import (
    NOTATIONS,
    SEPARATED,
    query_bracketed,
    query_notation,
    query_separator,
    query_wanted_notation,
    tags_sql,
)
from clnr.tables.columns.text_words import Split, learn_vocabulary, split_tags, split_words
from clnr.tables.columns.units import Unit, query_unit
from clnr.tables.io.source import Column, Table, fetch_chunks
from clnr.tables.io.sql import DATETIMES, FLOATS, NUMBERS, Connection, is_code, is_missing, looks_like_datetime, quoted, trimmed

# The most categories that have a feature each; of more, those that occur twice, up to the second bound. The others are hashed.
_FEW_VALUES = 50
_MOST_VALUES = 4096
_VALUE_BUCKETS = 256
# The most words of a text column that have a feature each; only if there are more, the others are hashed.
_MOST_WORDS = 1 << 14
_WORD_BUCKETS = 1024
# Rows in which distinct whole numbers are ids; in smaller tables only those that are called so, or that count the rows.
# As many values of text are ids if hardly any repeats.
_ID_ROWS, _DISTINCT_SHARE = 100, 0.99
_COUNTED_ROWS = 20
# The most blanks of names, on average, and the share of rows that may share other words than those that nearly all have.
_NAME_BLANKS, _FEW_SHARE = 2, 0.05
_COUNTS = ("count(v)", "count(DISTINCT v)", "count(*)")
_FINITE = "(CASE WHEN isfinite(v) THEN v END)"
_SPANS = (f"count({_FINITE})", f"min({_FINITE})", f"max({_FINITE})", "count(*)")
_ID_NAME = re.compile(r"(?i:(^|[_\W])(id|ids|key|no|nr|number|index|idx|pk|uid|uuid)$)|[a-z](ID|Id|Key|Index|Number)$")


Inferred = ColumnEncoder | str
"""The encoder of a column, or the reason why it is not a feature."""


def query_encoder(db: Connection, table: Table, column: str, wanted: str | None) -> ColumnQueries[Inferred]:
    """The encoder of a column of a stored table; the user may want it to be one of ``COLUMN_WORDS``."""
    kind = table.columns[column].kind
    if wanted is not None:
        return (yield from _as_wanted(db, table, column, wanted))
    if kind.endswith("]"):
        return (yield from _list(db, table, column))
    if kind.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return _nested(kind)
    if kind == "BOOLEAN":
        return (yield from _bool(table, column, "CAST(c AS VARCHAR)"))
    if kind.startswith(DATETIMES):
        return (yield from _number(table, column, "epoch(CAST(c AS TIMESTAMP))", "datetime"))
    if kind.startswith(NUMBERS):
        return (yield from _unless_ids(table, column, "c"))
    return (yield from _text(db, table, column))


def _as_wanted(db: Connection, table: Table, column: str, wanted: str) -> ColumnQueries[Inferred]:
    given = table.columns[column]
    kind = given.kind
    if wanted == "id":
        return "it is an id"
    written = {each.word: (name, each.written) for name, each in COLUMN_TYPES.items() if each.written}
    if wanted in written:
        encoder_kind, form = written[wanted]
        if wanted == "date" and kind.startswith(NUMBERS):
            encoder_kind = "number"
        value = ColumnEncoder(column, encoder_kind, 1).sql(given._replace(sql="c"))
        (readable,) = yield ColumnQuery(given, table.sql, ("count(v)",), value)
        notation, unclear, unit = "", "", Unit()
        if kind == "VARCHAR":
            notation, readable, unclear = yield from query_wanted_notation(db, table, column, encoder_kind, readable)
            unit = (yield from query_unit(table, column, wanted=True)) if wanted == "number" else unit
        if unit.readable > readable:
            return (yield from _number(table, column, "", "number", unit.notation, unit=unit.name))
        if unclear:
            raise DataError(f"{table.name}: '{column}' is ambiguous as a {wanted}: {unclear}")
        if not readable:
            first_one = tuple(f"{each} FILTER (v IS NOT NULL)" for each in ("arg_min(v, i)", "min(i)"))
            first, row = yield ColumnQuery(given, table.sql, first_one, trimmed("c"), "i")
            if row is not None:
                place = f"'{one_line(first)}' in row {row + 1:,}"
                cure = f"{form}; choose another {option('types', {column: 'KIND'})}"
                raise DataError(f"{table.name}: '{column}' is not a {wanted}: {place}; {cure}")
        if wanted == "bool":
            return (yield from _bool(table, column, f"CAST({value} AS VARCHAR)"))
        return (yield from _number(table, column, value, encoder_kind, notation))
    present, distinct, rows = yield ColumnQuery(given, table.sql, _COUNTS, trimmed("c"))
    if not present:
        return "it is empty"
    if wanted == "tags":
        separator = "" if kind.endswith("]") else (yield from query_separator(table, column)) or ","
        return (yield from _tags(db, table, column, separator))
    if wanted == "text":
        return _bag(db, table, column, "text", present < rows) or "there are no words in it"
    return (yield from _categories(table, column, distinct, present < rows))


def _unless_ids(table: Table, column: str, sql: str) -> ColumnQueries[Inferred]:
    """Numbers; not a feature if they are ids: distinct whole numbers, none missing, in a large table or with a name of ids."""
    given, counts = table.columns[column], (*_SPANS, "count(*) FILTER (isfinite(v) AND v = floor(v))")
    *spans, whole = yield ColumnQuery(given, table.sql, counts, f"CAST({sql} AS DOUBLE)")
    _, low, high, rows = spans
    counted = rows >= _COUNTED_ROWS and whole == rows and high - low == rows - 1
    if whole == rows and (rows >= _ID_ROWS or counted or (rows > 1 and _ID_NAME.search(column))):
        (distinct,) = yield ColumnQuery(given, table.sql, ("count(DISTINCT v)",), sql)
        if distinct == rows:
            taken = option("types", {column: "number"})
            return f"its values are distinct whole numbers, like ids; {taken} makes it a feature"
    return (yield from _number(table, column, sql, "number", spans=spans))


def _text(db: Connection, table: Table, column: str) -> ColumnQueries[Inferred]:
    """Text may hold numbers, datetimes, bools, few categories, many, or words."""
    text = trimmed("c")
    bools = ", ".join(map(quoted, TRUE + FALSE))
    tests = ("true", "TRY_CAST(v AS DOUBLE) IS NOT NULL", is_code("v"), looks_like_datetime("v"), f"lower(v) IN ({bools})")
    counts = (f"count(*) FILTER (NOT {is_missing('v')} AND {test})" for test in tests)
    blanks = "avg(len(v) - len(replace(v, ' ', '')))"
    present, distinct, rows, known, numbers, codes, datetimes, truths, words = yield ColumnQuery(
        table.columns[column], table.sql, (*_COUNTS, *counts, blanks), text
    )
    if not known:
        return "it is empty"
    if distinct == 1 and present == rows:
        return "all its values are the same"
    are_ids = present >= _ID_ROWS and distinct >= _DISTINCT_SHARE * present
    like_ids = f"{distinct:,} of {present:,} values are distinct, like ids or names"
    like_ids += f"; {option('types', {column: 'category'})} makes it a feature"
    if numbers == known and codes:
        if are_ids or (distinct == rows and _ID_NAME.search(column)):
            return like_ids
        return (yield from _categories(table, column, distinct, present < rows))
    if numbers == known:
        return (yield from _unless_ids(table, column, f"TRY_CAST({text} AS DOUBLE)"))
    if datetimes == known:
        return (yield from _number(table, column, f"epoch(TRY_CAST({text} AS TIMESTAMP))", "datetime"))
    if truths == present:
        return (yield from _bool(table, column, text))
    if (notation := (yield from query_notation(table, column))) == SEPARATED:
        separated = ColumnEncoder(column, "vector", 1, notation=notation).sql(table.columns[column])
        if vector := (yield from _vector(table, column, separated, notation)):
            return vector
    elif notation:
        return (yield from _number(table, column, "", NOTATIONS[notation], notation))
    if (unit := (yield from query_unit(table, column))).name:
        return (yield from _number(table, column, "", "number", unit.notation, unit=unit.name))
    missing = present < rows
    if (yield from query_bracketed(table, column)):
        texts, numbers = (f"TRY_CAST({trimmed(table.columns[column].sql)} AS {kind}[])" for kind in ("VARCHAR", "DOUBLE"))
        # What is no number is NULL among the numbers.
        nulls = (f"len([x FOR x IN {each} IF x IS NULL])" for each in (texts, numbers))
        vector = yield from _vector(table, column, f"CASE WHEN {' = '.join(nulls)} THEN {numbers} END")
        return vector or (yield from _tags(db, table, column, ","))
    if separator := (yield from query_separator(table, column)):
        return (yield from _tags(db, table, column, separator))
    if distinct > _FEW_VALUES and words >= 1:
        may_be_names = are_ids and words <= _NAME_BLANKS
        is_text = not may_be_names or (yield from _query_shares_words(table, column, present))
        if is_text and (of_words := _bag(db, table, column, "text", missing)):
            return of_words
    if are_ids:
        return like_ids
    return (yield from _categories(table, column, distinct, missing))


def _query_shares_words(table: Table, column: str, rows: int) -> ColumnQueries[bool]:
    """Whether rows of a column of text have words that some others have, but not nearly all, as in 'Patient 7'."""
    words = f"list_distinct(string_split_regex(lower({trimmed(table.columns[column].sql)}), '[^\\p{{L}}\\p{{N}}]+'))"
    counts = f"(SELECT count(*) AS n FROM (SELECT unnest({words}) AS word FROM {table.sql}) WHERE word <> '' GROUP BY word)"
    some = (f"coalesce(sum(v) FILTER (v BETWEEN 2 AND {(1 - _FEW_SHARE) * rows}), 0) > {_FEW_SHARE * rows}",)
    return bool((yield ColumnQuery(Column("n", "BIGINT"), counts, some))[0])


def _categories(table: Table, column: str, distinct: int, missing: bool) -> ColumnQueries[ColumnEncoder]:
    """One-hot features. Of too many values, the most frequent have a feature; ties are broken by the order of values."""
    if distinct <= _FEW_VALUES:
        of_column = ("list(DISTINCT v) FILTER (v IS NOT NULL)",)
        (values,) = yield ColumnQuery(table.columns[column], table.sql, of_column, trimmed("c"))
    else:
        frequent = (
            f"(SELECT {trimmed(table.columns[column].sql)} AS given FROM {table.sql} WHERE given IS NOT NULL GROUP BY given "
            f"HAVING count(*) > 1 ORDER BY count(*) DESC, given LIMIT {_MOST_VALUES})"
        )
        (values,) = yield ColumnQuery(Column("given", "VARCHAR"), frequent, ("list(v)",))
    names = tuple(sorted(values or ()))
    buckets = _VALUE_BUCKETS if distinct > len(names) else 0
    return ColumnEncoder(column, "category", len(names) + buckets, missing, values=names, buckets=buckets, distinct=distinct)


def _bag(db: Connection, table: Table, column: str, kind: str, missing: bool, separator: str = "") -> ColumnEncoder | None:
    """A bag of words or of tags; None if there are none in the column."""
    split: Split = split_tags if kind == "tags" else split_words
    given = table.columns[column]
    selected = tags_sql(given, separator) if kind == "tags" else trimmed(given.sql)
    chunks = fetch_chunks(db, table, [selected], [column])
    words, weights, distinct = learn_vocabulary((texts for (texts,) in chunks), _MOST_WORDS, _WORD_BUCKETS, split)
    if not weights:
        return None
    learned: dict[str, Any] = {"values": words, "weights": weights, "buckets": len(weights) - len(words), "distinct": distinct}
    return ColumnEncoder(column, kind, len(weights), missing, **learned, separator=separator)


def _number(
    table: Table, column: str, sql: str, kind: str, notation: str = "", spans: Sequence[Any] = (), unit: str = ""
) -> ColumnQueries[Inferred]:
    """Scaled to mean 0 and variance 1; values that are not finite are missing.

    A notation and a unit say how to read their text; what ``_SPANS`` are may be known.
    """
    given = table.columns[column]
    if notation or unit:
        sql = ColumnEncoder(column, kind, 1, notation=notation, unit=unit).sql(given._replace(sql="c"))
    value = f"CAST({sql} AS DOUBLE)"
    present, low, high, rows = spans or (yield ColumnQuery(given, table.sql, _SPANS, value))
    missing = present < rows
    if not present:
        return "it is empty"
    if low == high:
        # Not their mean, which rounding may change.
        same = ColumnEncoder(column, kind, 1, missing, low, notation=notation, unit=unit)
        return same if missing else "all its values are the same"
    power = power_of_two(max(abs(low), abs(high)))
    (total,) = yield ColumnQuery(given, table.sql, (whole_sum(f"{_FINITE} / p0"),), value, parameters=(power,))
    mean = as_mean(total, present)
    widest = power_of_two(max(mean - low / power, high / power - mean))
    apart = f"(({_FINITE} / p0 - p1) / p2)"
    parameters = (power, mean, 2 * widest)
    (total,) = yield ColumnQuery(given, table.sql, (whole_sum(f"{apart} * {apart}"),), value, parameters=parameters)
    spread = math.sqrt(as_mean(total, present)) * 2 * widest
    scale = spread * power or high - low
    return ColumnEncoder(column, kind, 1, missing, mean * power, scale, notation=notation, unit=unit)


def _bool(table: Table, column: str, sql: str) -> ColumnQueries[Inferred]:
    present, distinct, rows = yield ColumnQuery(table.columns[column], table.sql, _COUNTS, f"lower({sql})")
    if not present:
        return "it is empty"
    if distinct == 1 and present == rows:
        return "all its values are the same"
    return ColumnEncoder(column, "bool", 1, present < rows)


def _list(db: Connection, table: Table, column: str) -> ColumnQueries[Inferred]:
    """A list is a vector, if it is of numbers and of the same length in every row; else it is tags."""
    c, kind = table.columns[column]
    inner = kind[: kind.rindex("[")]
    if inner.endswith("]") or inner.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return _nested(kind)
    vector = (yield from _vector(table, column, f"CAST({c} AS DOUBLE[])")) if inner.startswith(NUMBERS) else None
    return vector or (yield from _tags(db, table, column, ""))


def _nested(kind: str) -> str:
    """Why a column of nested values cannot be a feature."""
    inner = kind.removesuffix("[]")
    what = "list" if inner.endswith("]") else inner.partition("(")[0].lower()
    return f"a list of {what}s cannot be a feature" if kind.endswith("]") else f"a {what} cannot be a feature"


def _vector(table: Table, column: str, sql: str, notation: str = "") -> ColumnQueries[Inferred | None]:
    """Lists of numbers, divided by their root mean square; None if they are tags: not numbers, or ids in any number."""
    c, kind = table.columns[column]
    values = f"(SELECT {sql} AS numbers, {c if kind.endswith(']') else trimmed(c)} AS given, i FROM {table.sql})"
    spans = ("count(given)", "count(v)", "min(len(v))", "max(len(v))", "count(*)")
    numbers = Column("numbers", "DOUBLE[]")
    given, present, shortest, longest, rows = yield ColumnQuery(numbers, values, spans, beside="given")
    if present < given:
        return None
    if not present or not longest:
        return "it is empty"
    if shortest != longest:
        odd = (f"min(i) FILTER (len(v) <> {longest}) + 1", "bool_or(contains(CAST(given AS VARCHAR), '.'))")
        row, fractions = yield ColumnQuery(numbers, values, odd, beside="given, i")
        if notation or (not kind.startswith(FLOATS) and not fractions):
            return None
        raise DataError(
            f"{table.name}: '{column}' has {longest} numbers in some rows and another count in row {row:,}; make all rows "
            f"equally long, or leave it out: {option('ignore', [column])}"
        )
    if longest > 1 << 20:
        return f"{longest:,} numbers per row are too many"
    each, finite = Column("x", "DOUBLE"), f"(SELECT unnest(numbers) AS x FROM {values}) WHERE isfinite(TRY_CAST(x AS FLOAT))"
    count, largest = yield ColumnQuery(each, finite, ("count(*)", "max(abs(v))"))
    scale = 1.0
    if largest:
        unit = 2 * power_of_two(largest)
        (total,) = yield ColumnQuery(each, finite, (whole_sum("(v / p0) * (v / p0)"),), parameters=(unit,))
        scale = math.sqrt(as_mean(total, count)) * unit
    return ColumnEncoder(column, "vector", int(longest), present < rows, scale=scale, notation=notation)


def _tags(db: Connection, table: Table, column: str, separator: str) -> ColumnQueries[Inferred]:
    given = table.columns[column]
    present, distinct, rows = yield ColumnQuery(given, table.sql, _COUNTS, tags_sql(given._replace(sql="c"), separator))
    if present == rows and distinct == 1:
        return "all its values are the same"
    return _bag(db, table, column, "tags", present < rows, separator) or "it is empty"
