"""Lines about columns whose values look as if they were meant otherwise than they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from clnr.errors import one_line
from clnr.tables.columns.column_asks import Ask, Asks, answer_all
from clnr.tables.columns.column_encoders import ColumnEncoder
from clnr.tables.columns.notations import rewrite_hint
from clnr.tables.io.source import Table
from clnr.tables.io.sql import is_code, quoted, trimmed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Dates and numbers that are not read as such.
_UNREAD = (
    ("dates", r"\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4})([ T].*)?|\d{4}/\d{1,2}/\d{1,2}([ T].*)?", "2020-12-31"),
    ("numbers", r"[$€£]? ?[-+]?(\d+|\d{1,3}([., ]\d{3})+)([.,]\d+)? ?[%$€£]?", "1234.5"),
)


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
    for encoder in (encoder for encoder in encoders if encoder.kind == "category"):
        if twins := case_twins(encoder.values):
            lines.append(f"{table.name}: '{encoder.column}' has {twins} as two values")
    notes = answer_all(db, table.name, [_ask_numbers(db, table, encoder) for encoder in encoders if encoder.sparse])
    return lines + [line for some in notes for line in some]


def _ask_numbers(db: DuckDBPyConnection, table: Table, encoder: ColumnEncoder) -> Asks[list[str]]:
    """A line if most values of a column are numbers."""
    column = encoder.column
    odd = "FILTER (v IS NOT NULL AND TRY_CAST(v AS DOUBLE) IS NULL)"
    counts = ("count(v)", "count(TRY_CAST(v AS DOUBLE))", f"min(i) {odd}", f"arg_min(v, i) {odd}")
    # The first rows mostly tell, which saves a scan of millions.
    for rows in (f"{table.sql} WHERE i < 1000", table.sql):
        present, numbers, row, value = yield Ask(table.columns[column], rows, counts, trimmed("c"), "i")
        if 2 * numbers <= present:
            return (yield from _ask_unread(db, table, encoder))
    if numbers == present:
        first_code = tuple(f"{each} FILTER ({is_code('v')})" for each in ("min(i)", "arg_min(v, i)"))
        row, value = yield Ask(table.columns[column], table.sql, first_code, trimmed("c"), "i")
        message = f"'{one_line(value)}' in row {row + 1:,} begins with 0; --as {column}=number makes numbers of them"
        return [f"{table.name}: '{column}' is read as codes, not as numbers: {message}"]
    message = f"is read as {encoder.kind}, though {numbers:,} of {present:,} values are numbers"
    other = f"'{one_line(value)}' in row {row + 1:,} is none; --as {column}=number takes such values as empty"
    return [f"{table.name}: '{column}' {message}: {other}"]


def _ask_unread(db: DuckDBPyConnection, table: Table, encoder: ColumnEncoder) -> Asks[list[str]]:
    """A line if the first values of a column look like dates or numbers that are written in another way than is read."""
    rows = f"{table.sql} WHERE i < 1000"
    for what, pattern, right in _UNREAD:
        matches = f"regexp_full_match(v, {quoted(pattern)})"
        aggregates = (f"bool_and({matches})", "arg_min(v, i) FILTER (v IS NOT NULL)")
        all_match, value = yield Ask(table.columns[encoder.column], rows, aggregates, trimmed("c"), "i")
        if all_match:
            cure = rewrite_hint(db, table, encoder.column) or f"write them as {right}, such as by a query"
            like = f"though it looks like {what}: '{one_line(value)}'; {cure}"
            return [f"{table.name}: '{encoder.column}' is read as {encoder.kind}, {like}"]
    return []
