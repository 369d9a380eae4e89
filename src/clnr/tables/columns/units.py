"""Numbers with a unit: money, percentages, lengths. A column of text that is nearly all of them, in one unit, is numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clnr.tables.columns.column_queries import ColumnQueries, ColumnQuery
from clnr.tables.columns.notations import (
    DECIMAL_COMMA,
    THOUSANDS_COMMA,
    notation_words,
    pattern_tests,
    usual_sql,
)
from clnr.tables.io.source import Table
from clnr.tables.io.sql import quoted, stated

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
# The shares of values that must be numbers without another unit, and that must have the unit: fewer may be parts of codes, as
# in 12a. In a column that the user calls numbers, any are enough.
_NEARLY_ALL, _LEAST_UNITED = 0.95, 0.25
LONGEST_UNIT = 40
# The most units of a column, and what else stands after numbers: 1st, 2nd.
_MOST_UNITS = 6
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
# How many of a unit others are: by a prefix, or by their own name. Neither nm nor mt, which are also miles and tons.
_PREFIXES = {"µ": 1e-6, "μ": 1e-6, "m": 1e-3, "c": 1e-2, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_WITH_PREFIX = ("g", "m", "l", "L", "s", "W", "Wh", "V", "A", "J", "N", "B", "Hz", "Pa", "bar", "cal", "mol", "eV")
_GRAMS = {"oz": 28.349523125, "lb": 453.59237, "t": 1e6}
_METRES = {"in": 0.0254, "ft": 0.3048, "mi": 1609.344, "mile": 1609.344}
_SECONDS = {"sec": 1.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86400.0}
_SIZES = {unit: (base, size) for base, of in {"g": _GRAMS, "m": _METRES, "s": _SECONDS}.items() for unit, size in of.items()}
_SPECIAL = re.compile(r"([!-/:-@\[-`{-~])")
_USUAL = r"[-+]?(\d+(\.\d*)?|\.\d+)"
# Such as 1.234, which money has no reason to be.
_EITHER_POINT = r"[-+]?[1-9]\d{0,2}\.\d{3}"
_BEFORE_SQL = f"regexp_extract(v, {quoted(rf'^{_SIGN}{_BLANKS}({_MONEY}){_BLANKS}{_SIGN}{_NUMBER}$')}, 1)"
_AFTER_SQL = f"regexp_extract(v, {quoted(rf'^{_SIGN}{_NUMBER}{_BLANKS}({_AFTER})$')}, 1)"
_UNIT = f"coalesce(nullif({_BEFORE_SQL}, ''), nullif({_AFTER_SQL}, ''))"


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

    @property
    def words(self) -> str:
        """How values are read, for a list of columns; "" for plain numbers."""
        return ", ".join(filter(None, (f"in {self.name}" if self.name else "", notation_words(self.notation))))

    def plain(self, text: str) -> str:
        """Text of a number, or of a date in a notation, as it is always read, in SQL; any other text stays as it is."""
        text = without_unit(text, self.name) if self.name else text
        return usual_sql(text, self.notation) if self.notation else text


def without_unit(text: str, unit: str) -> str:
    """Text of a number without its unit, in SQL; any other text stays as it is."""
    return f"regexp_replace({text}, {quoted(_pattern(unit))}, '\\1\\2\\3')"


def _pattern(unit: str) -> str:
    """A number with a unit after it, or without; one of money may come before it."""
    escaped = _SPECIAL.sub(r"\\\1", unit) + ("s?" if _PLURAL.fullmatch(unit[-3:]) else "")
    before = rf"({_SIGN}){_BLANKS}{escaped}{_BLANKS}({_SIGN}{_NUMBER})" if _IS_MONEY.fullmatch(unit) else "()()"
    return rf"^(?:({_SIGN}{_NUMBER})(?:{_BLANKS}{escaped})?|{before})$"


def query_unit(table: Table, column: str, wanted: bool = False) -> ColumnQueries[Unit]:
    """The unit of a column of text whose values are nearly all numbers in it; or, where numbers are ``wanted``, some.

    How the numbers are written must follow from them, as without a unit; only money is sure not to have three decimals.
    """
    given = table.columns[column]
    unit = f"regexp_replace({_UNIT}, '([A-Za-z]{{3}})s$', '\\1')"
    (name,) = yield ColumnQuery(given, table.first_rows, (f"mode({unit})",), stated("c"))
    if not name:
        return Unit()
    inside, number = f"regexp_full_match(v, {quoted(_pattern(name))})", without_unit("v", name)
    either = f"regexp_full_match({number}, {quoted(_EITHER_POINT)})"
    # Nothing has no unit.
    tests = ("true", f"v = '0' OR v <> {number}", f"contains({number}, '.')", either, *_written_tests(number))
    counts = ("count(v)", *(f"count(*) FILTER ({inside} AND ({test}))" for test in tests))
    for rows in (table.first_rows, table.sql):
        present, readable, united, points, either, *written = yield ColumnQuery(given, rows, counts, stated("c"))
        if not wanted and (readable < _NEARLY_ALL * present or united < _LEAST_UNITED * present):
            return Unit()
    money = _IS_MONEY.fullmatch(name) is not None
    notation = None if money and 0 < points == either else _notation(readable, written, money)
    return Unit() if notation is None else Unit(name, notation, readable)


def _written_tests(number: str) -> list[str]:
    """Whether a number is written in the usual way; then, for each notation, whether it can be read in it, and only in it."""
    usual = f"regexp_full_match({number}, {quoted(_USUAL)})"
    return [usual, *(test for notation in (DECIMAL_COMMA, THOUSANDS_COMMA) for test in pattern_tests(number, notation))]


def _notation(united: int, written: Sequence[int], money: bool = False) -> str | None:
    """How all of a number of values are written, by how many pass each of ``_written_tests``; None if that is unclear."""
    usual, comma, surely_comma, thousands, surely_thousands = written
    if usual == united:
        return ""
    if thousands == united and (money or surely_thousands):
        return THOUSANDS_COMMA
    return DECIMAL_COMMA if comma == united and surely_comma else None


def query_units(table: Table, column: str) -> ColumnQueries[dict[str, float]]:
    """The units of a column of text whose values are numbers in several of them, and their shares, the commonest first."""
    given, shares = table.columns[column], dict[str, float]()
    for rows in (table.first_rows, table.sql):
        present, units = yield ColumnQuery(given, rows, ("count(v)", f"histogram({_UNIT})"), stated("c"))
        shares = {unit: count / present for unit, count in sorted((units or {}).items(), key=lambda each: (-each[1], each[0]))}
        several = len({_singular(unit) for unit in shares}) > 1 and _ORDINALS.isdisjoint(shares)
        # A single letter may as well be a part of a code, as in 12a.
        units_only = relative_sizes(shares) or not any(len(unit) == 1 and unit.isalpha() for unit in shares)
        if not several or not units_only or len(shares) > _MOST_UNITS or sum(shares.values()) < _NEARLY_ALL:
            return {}
    return shares


def relative_sizes(units: Iterable[str]) -> dict[str, float]:
    """How many of the first unit one of each is; none if that is not known."""
    sizes = {unit: _sizes(unit) for unit in units}
    first = next(iter(sizes.values()), {})
    base = next((base for base in first if all(base in each for each in sizes.values())), None)
    return {} if base is None else {unit: each[base] / first[base] for unit, each in sizes.items()}


def _sizes(unit: str) -> dict[str, float]:
    """How many of other units it is; of a compound, such as mg/l, by its first part."""
    name, slash, per = _singular(unit).partition("/")
    sizes = {name: 1.0}
    if name[1:] in _WITH_PREFIX and name[0] in _PREFIXES:
        sizes[name[1:]] = _PREFIXES[name[0]]
    sizes |= {_SIZES[each][0]: size * _SIZES[each][1] for each, size in sizes.items() if each in _SIZES}
    return {base + slash + per: size for base, size in sizes.items()}


def _singular(unit: str) -> str:
    return unit[:-1] if unit.endswith("s") and _PLURAL.fullmatch(unit[-4:-1]) else unit
