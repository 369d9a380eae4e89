"""Sums in SQL that do not depend on the order in which numbers are added, and so not on DuckDB's threads.

A sum of floating-point numbers is rounded at each step. Here they are added as whole numbers, which rounds nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from clnr.tables.io.sql import Connection, double, run

# A number below 2 is this often in a whole number of 93 bits; 2^34 of them add up to no more than HUGEINT holds.
_BITS = 92
_ONE = 1 << _BITS
# Numbers from 2^-39 on keep all their 53 bits.
_SPAN = _BITS - 53


def power_of_two(largest: float) -> float:
    """The power of two that scales a positive number to lie from 1 to 2, without rounding."""
    return math.ldexp(1, math.frexp(largest)[1] - 1)


def whole_sum(value: str) -> str:
    """The sum of numbers between -2 and 2 as a whole number, in SQL; see ``as_mean``."""
    return f"sum(CAST({value} * {double(_ONE)} AS HUGEINT))"


def as_mean(total: int, count: int) -> float:
    """The mean of numbers, given their ``whole_sum`` and how many they are."""
    return int(total) / (count * _ONE)


class SumRange(NamedTuple):
    """The smallest above 0 and the largest of numbers that are added in groups: none is below 0."""

    low: float | None
    high: float | None

    @classmethod
    def of(cls, db: Connection, value: str, rows: str, name: str) -> SumRange:
        """The range of the values in some rows; the last argument is their name in messages."""
        ((low, high),) = run(db, f"SELECT min({value}) FILTER ({value} > 0), max({value}) FROM {rows}", name)
        return cls(low, high)

    def sql(self, value: str, where: str = "true") -> str:
        """The sum of a value over those rows of a group that are wanted, in SQL, as DOUBLE; 0 if there are none.

        Numbers of very different sizes are added apart, so that small ones keep all their digits.
        """
        if not self.low or not self.high:
            return f"coalesce(sum({value}) FILTER ({where}), 0)"
        parts: list[str] = []
        unit = power_of_two(self.high)
        while True:
            last = unit * 2.0**-_SPAN <= self.low
            below = "" if not parts else f" AND {value} < {double(2 * unit)}"
            above = "" if last else f" AND {value} >= {double(2 * unit * 2.0**-_SPAN)}"
            # Not by FILTER alone, which the numbers of other rows come before.
            inside = f"CASE WHEN {where}{below}{above} THEN {value} / {double(unit)} END"
            parts.append(f"coalesce(CAST({whole_sum(inside)} AS DOUBLE), 0) / {double(_ONE)} * {double(unit)}")
            if last:
                return f"({' + '.join(parts)})"
            unit *= 2.0**-_SPAN
