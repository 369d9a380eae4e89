"""What is written for people to read: text, and nothing in it that a terminal would act on."""

from __future__ import annotations

from typing import Any

import rich.console
import rich.table

from clnr.support.humanize import visible


def shown(text: str) -> str:
    """Lines of text, with control characters written out."""
    return "\n".join(map(visible, text.split("\n")))


class Console(rich.console.Console):
    """One that takes text for what it says: no markup, no colours of its own choice, no control characters."""

    def __init__(self, **options: Any):
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(shown(each) if isinstance(each, str) else each for each in objects), **options)


class Table(rich.table.Table):
    """One whose cells are text."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(visible(each) if isinstance(each, str) else each for each in cells), **options)
