"""How each column of a table was read, in one line."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line
from clnr.support.humanize import plural

NOT_USED = "not used"
# From so many columns on that are read alike, one after the other, they share a line.
_ALIKE_COLUMNS = 5


class ColumnInfo(NamedTuple):
    """How one column was read.

    Attributes:
        table: ``edges`` or ``nodes``, followed by the name of its kind where there are several: ``nodes user``.
        column: Its name.
        role: ``source``, ``target``, ``weight``, ``id``, ``label``, ``name``, ``time``, ``feature`` or ``not used``.
        kind: What it holds: ``number``, ``text`` ...
        note: How it is encoded, or why it is not used.
        features: How many features it became.
        empty: In how many rows it is empty; None if that was not counted.
    """

    table: str
    column: str
    role: str
    kind: str
    note: str = ""
    features: int = 0
    empty: int | None = None

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ColumnInfo:
        """Read one of a saved list; anything else is an error."""
        info = cls(**content)
        counts = (info.features, info.empty or 0)
        if not all(isinstance(text, str) for text in info[:5]) or not all(type(each) is int and each >= 0 for each in counts):
            raise DataError("not a valid saved description of a column")
        return info


def column_lines(columns: Iterable[ColumnInfo]) -> list[str]:
    """A line for each column; many that are read alike share one."""
    lines = []
    for _, group in groupby(columns, lambda each: each._replace(column="")):
        alike = list(group)
        if len(alike) < _ALIKE_COLUMNS:
            lines += [_line(each, f"'{each.column}'", 1) for each in alike]
        else:
            names = f"'{alike[0].column}' to '{alike[-1].column}' ({len(alike):,} columns)"
            lines.append(_line(alike[0], names, len(alike)))
    return lines


def _line(info: ColumnInfo, names: str, count: int) -> str:
    parts = [f"{info.role}, {info.kind}", info.note if info.features else ""]
    if info.features:
        parts.append(plural(info.features * count, "feature"))
    if info.empty is not None:
        parts.append(f"{info.empty:,} empty" if info.empty else "none empty")
    why = f": {info.note}" if info.note and not info.features else ""
    return one_line(f"{info.table} {names}: {', '.join(part for part in parts if part)}{why}")
