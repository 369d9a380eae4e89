"""Numbers with a unit: money, percentages, lengths. A column of text that is nearly all of them, in one unit, is numbers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from clnr.tables.columns.column_queries import ColumnQueries, ColumnQuery
from clnr.tables.columns.notations import DECIMAL_COMMA, THOUSANDS_COMMA, number_tests
from clnr.tables.io.source import Table
from clnr.tables.io.sql import quoted, trimmed

_BLANKS = r"[ \x{00A0}\x{202F}]*"
_NUMBER = r"(?:(?:\d+|\d{1,3}(?:[., \x{00A0}\x{202F}]\d{3})+)(?:[.,]\d+)?|[.,]\d+)"
_SIGN = "[-+]?"
_CODES = "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|TRY|USD|ZAR"
_MONEY = rf"[A-Z]{{0,3}}[$€£¥₹₽₩₺]|{_CODES}"
_LETTER = r"A-Za-zµμΩ°%‰$€£¥₹₽₩₺"
# A unit after a number has one or two words: km, m², mg/dl, sq ft.
_AFTER = rf"[{_LETTER}][{_LETTER}0-9²³/·^-]{{0,15}}(?: [{_LETTER}²³/]{{1,15}})?"
_IS_MONEY = re.compile(_MONEY)
_PLURAL = re.compile("[A-Za-z]{3}")
# Of all values, so many have the unit. Of a column that the user calls numbers, any are enough.
_NEARLY_ALL = 0.95
LONGEST_UNIT = 40


_SPECIAL = re.compile(r"([!-/:-@\[-`{-~])")
_USUAL = r"[-+]?(\d+(\.\d*)?|\.\d+)"
# Such as 1.234, which money has no reason to be.
_EITHER_POINT = r"[-+]?[1-9]\d{0,2}\.\d{3}"


class Unit(NamedTuple):
    """What numbers of a column are written with.

    Attributes:
        name: The unit; "" if there is none.
        notation: How the numbers are written, one of ``NOTATIONS``; "" for 1234.5.
        readable: How many values can be read.
    """

    name: str = ""
    notation: str = ""
    readable: int = 0


def without_unit(text: str, unit: str) -> str:
    """Text of a number without its unit, in SQL; any other text stays as it is."""
    return f"regexp_replace({text}, {quoted(_pattern(unit))}, '\\1\\2\\3')"


def _pattern(unit: str) -> str:
    """A number with a unit after it; one of money may come before it."""
    escaped = _SPECIAL.sub(r"\\\1", unit) + ("s?" if _PLURAL.fullmatch(unit[-3:]) else "")
    before = rf"({_SIGN}){_BLANKS}{escaped}{_BLANKS}({_SIGN}{_NUMBER})" if _IS_MONEY.fullmatch(unit) else "()()"
    return rf"^(?:({_SIGN}{_NUMBER}){_BLANKS}{escaped}|{before})$"


def query_unit(table: Table, column: str, wanted: bool = False) -> ColumnQueries[Unit]:
    """The unit of a column of text whose values are nearly all numbers in it; or, where numbers are ``wanted``, some.

    How the numbers are written must follow from them, as without a unit; only money is sure not to have three decimals.
    """
    given = table.columns[column]
    before = f"regexp_extract(v, {quoted(rf'^{_SIGN}{_BLANKS}({_MONEY}){_BLANKS}{_SIGN}{_NUMBER}$')}, 1)"
    after = f"regexp_extract(v, {quoted(rf'^{_SIGN}{_NUMBER}{_BLANKS}({_AFTER})$')}, 1)"
    unit = f"coalesce(nullif({before}, ''), nullif(regexp_replace({after}, '([A-Za-z]{{3}})s$', '\\1'), ''))"
    counts: tuple[str, ...] = ("count(v)", f"count(*) FILTER (v = '0' OR {unit} IS NOT NULL)", f"mode({unit})")
    present, united, name = yield ColumnQuery(given, table.first_rows, counts, trimmed("c"))
    if not name or (not wanted and united < _NEARLY_ALL * present):
        return Unit()
    # Nothing has no unit.
    inside = f"(v = '0' OR regexp_full_match(v, {quoted(_pattern(name))}))"
    number = without_unit("v", name)
    usual, either = (f"regexp_full_match({number}, {quoted(pattern)})" for pattern in (_USUAL, _EITHER_POINT))
    (comma, surely_comma), (thousands, surely_thousands) = number_tests(number).values()
    tests = ("true", usual, f"contains({number}, '.')", either, comma, surely_comma, thousands, surely_thousands)
    counts = ("count(v)", *(f"count(*) FILTER ({inside} AND ({test}))" for test in tests))
    found = yield ColumnQuery(given, table.sql, counts, trimmed("c"))
    present, united, usual, points, either, comma, surely_comma, thousands, surely_thousands = found
    if not united or (not wanted and united < _NEARLY_ALL * present):
        return Unit()
    money = _IS_MONEY.fullmatch(name) is not None
    if usual == united:
        return Unit() if money and 0 < points == either else Unit(name, "", united)
    if thousands == united and (money or surely_thousands):
        return Unit(name, THOUSANDS_COMMA, united)
    return Unit(name, DECIMAL_COMMA, united) if comma == united and surely_comma else Unit()


def numbers_in(texts: Any, unit: str, notation: str) -> Any:
    """Texts of an Arrow array as numbers, of those that are written with a unit and in a notation of numbers; else null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.replace_substring_regex(texts, _pattern(unit), r"\1\2\3") if unit else texts
    if notation == THOUSANDS_COMMA:
        plain = pc.replace_substring(plain, ",", "")
    elif notation == DECIMAL_COMMA:
        plain = pc.replace_substring(pc.replace_substring_regex(plain, "[. \u00a0\u202f]", ""), ",", ".")
    readable = pc.match_substring_regex(plain, rf"^{_USUAL}([eE][-+]?\d+)?$")
    return pc.cast(pc.if_else(readable, plain, None), pa.float64())
