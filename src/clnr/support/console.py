"""Console output that is only ever text: nothing in it makes a terminal act."""

from __future__ import annotations

from typing import Any

import rich.console
import rich.table

from clnr.support.humanize import escape_control


def printable(text: str) -> str:
    """Lines of text with their control characters escaped."""
    return "\n".join(map(escape_control, text.split("\n")))


class Console(rich.console.Console):
    """rich's console for plain text: no markup, no automatic colours, no control characters."""

    def __init__(self, **options: Any):
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **options)


class Table(rich.table.Table):
    """rich's table with headings and cells of plain text."""

    def add_column(self, header: Any = "", *args: Any, **options: Any) -> None:
        super().add_column(printable(header), *args, **options)

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(escape_control(each) if isinstance(each, str) else each for each in cells), **options)
