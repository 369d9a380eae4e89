"""A table, and how it is written as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

_LINE_CHARACTERS = 120
Row = tuple[str, ...]


class Table(NamedTuple):
    """A table: column names, rows, and notes, which are paragraphs below it.

    ``name`` is as in a file name, and ``text_columns`` how many columns, from the left, hold text: numbers are
    aligned to the right. An empty first cell means that of the row above.
    """

    name: str
    title: str
    head: Row
    rows: Sequence[Row]
    notes: tuple[str, ...] = ()
    text_columns: int = 1

    def markdown(self) -> str:
        return page(f"## {self.title}", pipe_table(self.head, self.rows, self.text_columns), *self.notes)

    def csv(self) -> str:
        out, first = io.StringIO(), ""
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.head)
        for row in self.rows:
            first = row[0] or first
            writer.writerow([first, *(cell.strip("*") for cell in row[1:])])
        return out.getvalue()


def bold(text: str) -> str:
    return f"**{text}**"


def pipe_table(head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """A table in Markdown: if it is too wide in as few parts as fit, each with all text columns."""
    rules = ["---" if i < text_columns else "---:" for i in range(len(head))]
    others = range(text_columns, len(head))
    for count in range(1, max(1, len(others)) + 1):
        width = max(1, -(-len(others) // count))
        parts = [[*range(text_columns), *others[i : i + width]] for i in range(0, max(1, len(others)), width)]
        tables = [[f"| {' | '.join(line[i] for i in part)} |" for line in (head, rules, *rows)] for part in parts]
        if max(len(line) for table in tables for line in table) <= _LINE_CHARACTERS:
            break
    return "\n\n".join("\n".join(table) for table in tables)


def page(*parts: str) -> str:
    """Paragraphs in lines of at most 120 columns; headings, tables and pictures stay as they are."""
    wrapped = [
        part
        if part.startswith(("#", "|", "!"))
        else textwrap.fill(part, _LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False)
        for part in parts
    ]
    return "\n\n".join(wrapped) + "\n"
