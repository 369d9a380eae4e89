"""Other notations of numbers and dates: with a decimal comma, with the day first, or with the month first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from clnr.errors import one_line
from clnr.tables.columns.column_asks import Ask, Asks, answer
from clnr.tables.io.source import Table
from clnr.tables.io.sql import quoted, run, trimmed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DECIMAL_COMMA, DAY_FIRST, MONTH_FIRST = "decimal comma", "day first", "month first"
NOTATIONS = {DECIMAL_COMMA: "number", DAY_FIRST: "datetime", MONTH_FIRST: "datetime"}
"""The kind of column encoder that reads each notation."""
# 1.234,5 and 1234,5; blanks may separate thousands, too. What may be either is read as such only beside one that is not.
_COMMA_PATTERN = r"[-+]?(\d+|\d{1,3}([. \x{00A0}\x{202F}]\d{3})+)(,\d+)?"
_EITHER_COMMA_PATTERN = r"[-+]?[1-9]\d{0,2},\d{3}"
_GROUP_PATTERN = r"[. \x{00A0}\x{202F}]"
_DATE_PATTERN = r"^(\d{1,2})[./-](\d{1,2})[./-](\d{4})"
_WHOLE_DATE_PATTERN = _DATE_PATTERN + r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?$"
_ORDERS = {DAY_FIRST: r"\3-\2-\1", MONTH_FIRST: r"\3-\1-\2"}
_FIRST_ROWS = 1000
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class _Counts(NamedTuple):
    """How many values of a column can be read in a notation, and how many of these cannot be read in any other."""

    readable: int
    certain: int


def notation_words(notation: str) -> str:
    """A notation in words, for a list of how columns are read."""
    return f"with {'a ' if notation == DECIMAL_COMMA else 'the '}{notation}"


def usual_sql(text: str, notation: str) -> str:
    """Text of a number or date in the notation that is always read, in SQL; text in no such notation stays as it is."""
    if notation == DECIMAL_COMMA:
        plain = f"replace(regexp_replace({text}, {quoted(_GROUP_PATTERN)}, '', 'g'), ',', '.')"
        return f"CASE WHEN regexp_full_match({text}, {quoted(_COMMA_PATTERN)}) THEN {plain} ELSE {text} END"
    return f"regexp_replace({text}, {quoted(_DATE_PATTERN)}, {quoted(_ORDERS[notation])})"


def find_notation(db: DuckDBPyConnection, table: Table, column: str) -> str:
    """The notation that all values of a column of text can be read in, and at least one in no other; "" if there is none."""
    return answer(db, table.name, ask_notation(table, column))


def ask_notation(table: Table, column: str, by_first_rows: bool = False) -> Asks[str]:
    """The steps of ``find_notation``.

    Args:
        table: The table.
        column: The column.
        by_first_rows: Whether the first rows decide.
    """
    # The first rows mostly tell, which saves a scan of millions.
    certain = ""
    for limit in (_FIRST_ROWS,) if by_first_rows else (_FIRST_ROWS, None):
        present, counts = yield from _count(table, column, limit)
        all_read = {notation: each for notation, each in counts.items() if present and each.readable == present}
        if not all_read:
            return ""
        certain = next((notation for notation, each in all_read.items() if each.certain), "")
    return certain


def ask_wanted_notation(db: DuckDBPyConnection, table: Table, column: str, wanted: str, usual: int) -> Asks[tuple[str, str]]:
    """The notation of a column that the user calls one of numbers or dates, and a hint if it may be in two of them.

    Args:
        db: The connection.
        table: The table.
        column: The column.
        wanted: The kind of column encoder.
        usual: How many of its values can be read in the usual notation.
    """
    _, counts = yield from _count(table, column, None)
    better = {key: each for key, each in counts.items() if NOTATIONS[key] == wanted and each.readable > usual}
    certain = [notation for notation, each in better.items() if each.certain]
    if len(certain) == 1:
        return certain[0], ""
    return "", rewrite_hint(db, table, column) if better else ""


def rewrite_hint(db: DuckDBPyConnection, table: Table, column: str) -> str:
    """How a query reads a column of text whose first values may be in one of two notations; "" if they are in none."""
    text, name = trimmed(table.columns[column].sql), sql_name(db, column)
    rows = f"(SELECT {text} AS v FROM {table.sql} LIMIT {_FIRST_ROWS})"
    numbers = f"bool_and({_IS_COMMA}), any_value(v) FILTER (regexp_full_match(v, {quoted(_EITHER_COMMA_PATTERN)}))"
    dates = f"bool_and({_IS_DATE}), any_value(v) FILTER ({' AND '.join(_PARSES.values())})"
    ((all_numbers, number, all_dates, date),) = run(db, f"SELECT {numbers}, {dates} FROM {rows}", table.name)
    if all_numbers and number is not None:
        ways = f"replace({name}, ',', '.')::DOUBLE, or replace({name}, ',', '')::DOUBLE"
        return f"'{one_line(number, 40)}' may have a decimal comma or one between thousands; a query says which: {ways}"
    if all_dates and date is not None:
        separator = next(sign for sign in date if sign in "./-")
        ways = " or ".join(f"strptime({name}, '{separator.join(order)}')" for order in (_DAY, _MONTH))
        return f"'{one_line(date, 40)}' may have the day or the month first; a query says which: {ways}"
    return ""


def sql_name(db: DuckDBPyConnection, column: str) -> str:
    """A column's name as it is written in a query."""
    reserved = "SELECT 1 FROM duckdb_keywords() WHERE keyword_category = 'reserved' AND keyword_name = lower(?)"
    if _IDENTIFIER.fullmatch(column) and not run(db, reserved, column, [column]):
        return column
    return '"' + column.replace('"', '""') + '"'


_IS_COMMA = f"regexp_full_match(v, {quoted(_COMMA_PATTERN)})"
_IS_DATE = f"regexp_matches(v, {quoted(_WHOLE_DATE_PATTERN)})"
_PARSES = {notation: f"TRY_CAST({usual_sql('v', notation)} AS TIMESTAMP) IS NOT NULL" for notation in _ORDERS}
_DAY, _MONTH = ("%d", "%m", "%Y"), ("%m", "%d", "%Y")


def _count(table: Table, column: str, limit: int | None) -> Asks[tuple[int, dict[str, _Counts]]]:
    """How many values there are, and the counts of each notation."""
    only_day, only_month = (f"NOT {_PARSES[other]}" for other in (MONTH_FIRST, DAY_FIRST))
    tests = [
        (_IS_COMMA, f"contains(v, ',') AND NOT regexp_full_match(v, {quoted(_EITHER_COMMA_PATTERN)})"),
        (f"{_IS_DATE} AND {_PARSES[DAY_FIRST]}", only_day),
        (f"{_IS_DATE} AND {_PARSES[MONTH_FIRST]}", only_month),
    ]
    counts = (f"count(*) FILTER ({each})" for test, only in tests for each in (test, f"{test} AND {only}"))
    rows = table.sql if limit is None else f"(SELECT * FROM {table.sql} LIMIT {limit})"
    present, *numbers = yield Ask(table.columns[column], rows, ("count(v)", *counts), trimmed("c"))
    pairs = [_Counts(*numbers[i : i + 2]) for i in range(0, len(numbers), 2)]
    return present, dict(zip((DECIMAL_COMMA, DAY_FIRST, MONTH_FIRST), pairs, strict=True))
