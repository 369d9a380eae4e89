"""How a column is encoded, inferred from its type and its values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.support.humanize import one_line
from clnr.tables.chunks import fetch_chunks
from clnr.tables.column_encoders import FALSE, TRUE, ColumnEncoder
from clnr.tables.exact_sums import as_mean, power_of_two, whole_sum
from clnr.tables.notations import NOTATIONS, find_notation, rewrite_hint, wanted_notation
from clnr.tables.source import Table
from clnr.tables.sql import DATETIMES, FLOATS, NUMBERS, is_code, looks_like_datetime, quoted, run, trimmed
from clnr.tables.tags import find_separator, is_bracketed, split_tags, tags_sql
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


KINDS = ("text", "category", "number", "date", "bool", "tags", "id")
"""What a user can say of a column (``types``, ``--as``)."""
# So many rows of distinct whole numbers are ids; in smaller tables only those that are called so, or that count the rows.
_IDS = 100
_COUNTED = 20
# Dates and numbers that are not read as such.
_UNREAD = (
    ("dates", r"\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4})([ T].*)?|\d{4}/\d{1,2}/\d{1,2}([ T].*)?", "2020-12-31"),
    ("numbers", r"[$€£]? ?[-+]?(\d+|\d{1,3}([., ]\d{3})+)([.,]\d+)? ?[%$€£]?", "1234.5"),
)
# How what a user says of a column is written.
_WRITTEN = {
    "number": "numbers are written as 1234.5, or 1234,5",
    "date": "dates are written as 2020-12-31, or 31.12.2020",
    "bool": "they are written as true and false, or yes and no",
}
_ID_NAME = re.compile(r"(?i:(^|[_\W])(id|ids|key|no|nr|number|index|idx|pk|uid|uuid)$)|[a-z](ID|Id|Key|Index|Number)$")


def infer_encoder(db: DuckDBPyConnection, table: Table, column: str, wanted: str | None = None) -> ColumnEncoder | str:
    """The encoder of a column of a stored table, or the reason why it is no feature.

    Args:
        db: The connection.
        table: The table.
        column: The column.
        wanted: One of ``KINDS``, if the user said what the column is; None to infer it.
    """
    c, kind = table.columns[column]
    if wanted is not None:
        return _as_wanted(db, table, column, wanted)
    if kind.endswith("]"):
        return _list(db, table, column)
    if kind.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return f"a {kind.partition('(')[0].lower()} is no feature"
    if kind == "BOOLEAN":
        return _bool(db, table, column, f"CAST({c} AS VARCHAR)")
    if kind.startswith(DATETIMES):
        return _number(db, table, column, f"epoch(CAST({c} AS TIMESTAMP))", "datetime")
    if kind.startswith(NUMBERS):
        return _unless_ids(db, table, column, c)
    return _text(db, table, column)


def _as_wanted(db: DuckDBPyConnection, table: Table, column: str, wanted: str) -> ColumnEncoder | str:
    c, kind = table.columns[column]
    text = trimmed(c)
    if wanted == "id":
        return "it is an id"
    if wanted in ("number", "date", "bool"):
        as_date = wanted == "date" and not kind.startswith(NUMBERS)
        encoder_kind = "bool" if wanted == "bool" else "datetime" if as_date else "number"
        value = ColumnEncoder(column, encoder_kind, 1).sql(table.columns[column])
        ((readable,),) = run(db, f"SELECT count({value}) FROM {table.sql}", table.name)
        notation, unclear = wanted_notation(db, table, column, encoder_kind, readable) if kind == "VARCHAR" else ("", "")
        if unclear:
            raise DataError(f"{table.name}: it is not clear how '{column}' is a {wanted}: {unclear}")
        if not (readable or notation):
            found = run(db, f"SELECT {text}, i + 1 FROM {table.sql} WHERE {text} IS NOT NULL ORDER BY i LIMIT 1", table.name)
            for first, row in found:
                place = f"'{one_line(first)}' in row {row:,}"
                cure = f"{_WRITTEN[wanted]}; choose another --as {column}=KIND"
                raise DataError(f"{table.name}: '{column}' is no {wanted}: {place}; {cure}")
        if wanted == "bool":
            return _bool(db, table, column, f"CAST({value} AS VARCHAR)")
        return _number(db, table, column, value, encoder_kind, notation)
    ((present, distinct, rows),) = run(
        db, f"SELECT count(v), count(DISTINCT v), count(*) FROM (SELECT {text} AS v FROM {table.sql})", table.name
    )
    if not present:
        return "it is empty"
    if wanted == "tags":
        separator = "" if kind.endswith("]") else find_separator(db, table, column) or ","
        return _tags(db, table, column, separator)
    if wanted == "text":
        return _words(db, table, column, present < rows) or "there are no words in it"
    return _categories(db, table, column, distinct, present < rows)


def _unless_ids(db: DuckDBPyConnection, table: Table, column: str, sql: str) -> ColumnEncoder | str:
    """Numbers; not a feature if they are ids: distinct whole numbers, none missing, in a large table or with a name of ids."""
    value = f"CAST({sql} AS DOUBLE)"
    ((rows, whole, low, high),) = run(
        db,
        f"SELECT count(*), count(*) FILTER (isfinite(x) AND x = floor(x)), min(x), max(x) "
        f"FROM (SELECT {value} AS x FROM {table.sql})",
        table.name,
    )
    counted = rows >= _COUNTED and whole == rows and high - low == rows - 1
    if whole == rows and (rows >= _IDS or counted or (rows > 1 and _ID_NAME.search(column))):
        ((distinct,),) = run(db, f"SELECT count(DISTINCT {sql}) FROM {table.sql}", table.name)
        if distinct == rows:
            return f"all its values are distinct whole numbers, as ids are; --as {column}=number makes it a feature"
    return _number(db, table, column, sql, "number")


def case_twins(values: Iterable[str]) -> str:
    """Two values that differ only by case, in words; "" if there are none."""
    seen: dict[str, str] = {}
    for value in values:
        if (first := seen.setdefault(value.casefold(), value)) != value:
            return f"'{one_line(first, 40)}' and '{one_line(value, 40)}', which differ only by case,"
    return ""


def type_warnings(db: DuckDBPyConnection, table: Table, encoders: Sequence[ColumnEncoder]) -> list[str]:
    """Lines about columns that are not read as numbers although most values are, and about values that differ by case."""
    lines = []
    odd = "FILTER (v IS NOT NULL AND x IS NULL)"
    for encoder in (encoder for encoder in encoders if encoder.kind == "category"):
        if twins := case_twins(encoder.values):
            lines.append(f"{table.name}: '{encoder.column}' has {twins} as two values")
    for encoder in (encoder for encoder in encoders if encoder.sparse):
        text = trimmed(table.columns[encoder.column].sql)
        values = f"SELECT {text} AS v, TRY_CAST({text} AS DOUBLE) AS x, i FROM {table.sql}"
        found = f"SELECT count(v), count(x), min(i) {odd}, arg_min(v, i) {odd} FROM"
        # The first rows mostly tell, which saves a scan of millions.
        for rows in (f"({values} WHERE i < 1000)", f"({values})"):
            ((present, numbers, row, value),) = run(db, f"{found} {rows}", table.name)
            if 2 * numbers <= present:
                lines += _unread(db, table, encoder)
                break
        else:
            if numbers == present:
                lines.append(_code_note(db, table, encoder.column))
                continue
            message = f"is read as {encoder.kind}, though {numbers:,} of {present:,} values are numbers"
            other = f"'{one_line(value)}' in row {row + 1:,} is none; --as {encoder.column}=number takes such values as empty"
            lines.append(f"{table.name}: '{encoder.column}' {message}: {other}")
    return lines


def _unread(db: DuckDBPyConnection, table: Table, encoder: ColumnEncoder) -> list[str]:
    """A line if the first values of a column look like dates or numbers that are written in another way than is read."""
    text = trimmed(table.columns[encoder.column].sql)
    rows = f"(SELECT {text} AS v, i FROM {table.sql} WHERE i < 1000 AND {text} IS NOT NULL)"
    for what, pattern, right in _UNREAD:
        matches = f"regexp_full_match(v, {quoted(pattern)})"
        ((all_match, value),) = run(db, f"SELECT bool_and({matches}), arg_min(v, i) FROM {rows}", table.name)
        if all_match:
            cure = rewrite_hint(db, table, encoder.column) or f"write them as {right}, such as by a query"
            like = f"though it looks like {what}: '{one_line(value)}'; {cure}"
            return [f"{table.name}: '{encoder.column}' is read as {encoder.kind}, {like}"]
    return []


def _code_note(db: DuckDBPyConnection, table: Table, column: str) -> str:
    rows = f"(SELECT {trimmed(table.columns[column].sql)} AS v, i FROM {table.sql})"
    ((row, value),) = run(db, f"SELECT min(i), arg_min(v, i) FROM {rows} WHERE {is_code('v')}", table.name)
    message = f"'{one_line(value)}' in row {row + 1:,} begins with 0; --as {column}=number makes numbers of them"
    return f"{table.name}: '{column}' is read as codes, not as numbers: {message}"


def _text(db: DuckDBPyConnection, table: Table, column: str) -> ColumnEncoder | str:
    """Text may hold numbers, datetimes, bools, few categories, many, or words."""
    text = trimmed(table.columns[column].sql)
    bools = ", ".join(map(quoted, TRUE + FALSE))
    ((present, numbers, codes, datetimes, truths, distinct, words, rows),) = run(
        db,
        f"SELECT count(v), count(TRY_CAST(v AS DOUBLE)), count(*) FILTER ({is_code('v')}), "
        f"count(*) FILTER ({looks_like_datetime('v')}), count(*) FILTER (lower(v) IN ({bools})), "
        f"count(DISTINCT v), avg(len(v) - len(replace(v, ' ', ''))), count(*) FROM (SELECT {text} AS v FROM {table.sql})",
        table.name,
    )
    if not present:
        return "it is empty"
    if distinct == 1 and present == rows:
        return "all its values are the same"
    if numbers == present and codes:
        if distinct == rows and (rows >= _IDS or _ID_NAME.search(column)):
            return f"all its values are distinct codes, as ids are; --as {column}=category makes it a feature"
        return _categories(db, table, column, distinct, present < rows)
    if numbers == present:
        return _unless_ids(db, table, column, f"TRY_CAST({text} AS DOUBLE)")
    if datetimes == present:
        return _number(db, table, column, f"epoch(TRY_CAST({text} AS TIMESTAMP))", "datetime")
    if truths == present:
        return _bool(db, table, column, text)
    if notation := find_notation(db, table, column):
        return _number(db, table, column, "", NOTATIONS[notation], notation)
    missing = present < rows
    if is_bracketed(db, table, column):
        return _vector(db, table, column, f"TRY_CAST({text} AS DOUBLE[])") or _tags(db, table, column, ",")
    if separator := find_separator(db, table, column):
        return _tags(db, table, column, separator)
    if distinct > _FEW and words >= 1:
        return _words(db, table, column, missing) or _categories(db, table, column, distinct, missing)
    return _categories(db, table, column, distinct, missing)


def _categories(db: DuckDBPyConnection, table: Table, column: str, distinct: int, missing: bool) -> ColumnEncoder:
    """A feature each; of many, the most frequent."""
    if distinct > _FEW:
        return _many(db, table, column, distinct, missing)
    text = trimmed(table.columns[column].sql)
    found = run(db, f"SELECT DISTINCT {text} AS v FROM {table.sql} WHERE {text} IS NOT NULL ORDER BY v", table.name)
    values = tuple(row[0] for row in found)
    return ColumnEncoder(column, "category", len(values), missing, values=values, distinct=distinct)


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


def _number(db: DuckDBPyConnection, table: Table, column: str, sql: str, kind: str, notation: str = "") -> ColumnEncoder | str:
    """Scaled to mean 0 and variance 1; values that are not finite are missing. A notation says how to read their text."""
    sql = ColumnEncoder(column, kind, 1, notation=notation).sql(table.columns[column]) if notation else sql
    values = f"(SELECT CASE WHEN isfinite(x) THEN x END AS v FROM (SELECT CAST({sql} AS DOUBLE) AS x FROM {table.sql}))"
    ((present, low, high, rows),) = run(db, f"SELECT count(v), min(v), max(v), count(*) FROM {values}", table.name)
    missing = present < rows
    if not present:
        return "it is empty"
    if low == high:
        # Not their mean, which rounding may change.
        same = ColumnEncoder(column, kind, 1, missing, low, notation=notation)
        return same if missing else "all its values are the same"
    unit = power_of_two(max(abs(low), abs(high)))
    ((total,),) = run(db, f"SELECT {whole_sum(f'v / {unit!r}')} FROM {values}", table.name)
    mean = as_mean(total, present)
    widest = power_of_two(max(mean - low / unit, high / unit - mean))
    apart = f"((v / {unit!r} - {mean!r}) / {2 * widest!r})"
    ((total,),) = run(db, f"SELECT {whole_sum(f'{apart} * {apart}')} FROM {values}", table.name)
    spread = math.sqrt(as_mean(total, present)) * 2 * widest
    return ColumnEncoder(column, kind, 1, missing, mean * unit, spread * unit or high - low, notation=notation)


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


def _list(db: DuckDBPyConnection, table: Table, column: str) -> ColumnEncoder | str:
    """A list is a vector, if it is of numbers and of the same length in every row; else it is tags."""
    c, kind = table.columns[column]
    inner = kind[: kind.rindex("[")]
    if inner.endswith("]") or inner.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return f"a list of {'lists' if inner.endswith(']') else inner.partition('(')[0].lower()} is no feature"
    if not inner.startswith(NUMBERS):
        return _tags(db, table, column, "")
    return _vector(db, table, column, f"CAST({c} AS DOUBLE[])") or _tags(db, table, column, "")


def _vector(db: DuckDBPyConnection, table: Table, column: str, sql: str) -> ColumnEncoder | str | None:
    """Numbers, which are all divided by their root mean square; None for tags: no numbers, or as many ids as there may be."""
    c, kind = table.columns[column]
    values = f"(SELECT {sql} AS v, {c if kind.endswith(']') else trimmed(c)} AS given, i FROM {table.sql})"
    ((given, present, shortest, longest, rows),) = run(
        db, f"SELECT count(given), count(v), min(len(v)), max(len(v)), count(*) FROM {values}", table.name
    )
    if present < given:
        return None
    if not present or not longest:
        return "it is empty"
    numbers = f"(SELECT unnest(v) AS x FROM {values})"
    if shortest != longest:
        fractions = f"SELECT 1 FROM {values} WHERE contains(CAST(given AS VARCHAR), '.') LIMIT 1"
        if not kind.startswith(FLOATS) and not run(db, fractions, table.name):
            return None
        ((row,),) = run(db, f"SELECT min(i) + 1 FROM {values} WHERE len(v) <> {longest}", table.name)
        raise DataError(
            f"{table.name}: '{column}' has {longest} numbers in some rows and another count in row {row:,}; give all rows as "
            f"many, or leave it out: --ignore {column}"
        )
    if longest > 1 << 20:
        return f"{longest:,} numbers a row are too many"
    finite = f"{numbers} WHERE isfinite(TRY_CAST(x AS FLOAT))"
    ((count, largest),) = run(db, f"SELECT count(*), max(abs(x)) FROM {finite}", table.name)
    scale = 1.0
    if largest:
        unit = 2 * power_of_two(largest)
        ((total,),) = run(db, f"SELECT {whole_sum(f'(x / {unit!r}) * (x / {unit!r})')} FROM {finite}", table.name)
        scale = math.sqrt(as_mean(total, count)) * unit
    return ColumnEncoder(column, "vector", int(longest), present < rows, scale=scale)


def _tags(db: DuckDBPyConnection, table: Table, column: str, separator: str) -> ColumnEncoder | str:
    """A bag of tags."""
    sql = tags_sql(table.columns[column], separator)
    values = f"(SELECT {sql} AS v FROM {table.sql})"
    ((present, distinct, rows),) = run(db, f"SELECT count(v), count(DISTINCT v), count(*) FROM {values}", table.name)
    if present == rows and distinct == 1:
        return "all its values are the same"
    chunks = fetch_chunks(db, table, sql, [column])
    tags, weights, distinct = learn_vocabulary((lists for (lists,) in chunks), _WORDS, _WORD_BUCKETS, split_tags)
    if not weights:
        return "it is empty"
    return ColumnEncoder(
        column,
        "tags",
        len(weights),
        present < rows,
        values=tags,
        weights=weights,
        buckets=len(weights) - len(tags),
        distinct=distinct,
        separator=separator,
    )
