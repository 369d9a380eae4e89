"""A table, and how it is written as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Cell(NamedTuple):
    """One cell of a table."""

    text: str
    bold: bool = False


Row = tuple[Cell, ...]


def row(*cells: str | Cell) -> Row:
    return tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)


@dataclass(frozen=True)
class Table:
    """A table: column names, groups of rows with a rule between them, and notes, which are paragraphs below it.

    ``name`` is as in a file name, and ``text_columns`` how many columns, from the left, hold text: numbers are aligned to the
    right.
    """

    name: str
    title: str
    head: tuple[str, ...]
    groups: tuple[tuple[Row, ...], ...]
    notes: tuple[str, ...] = ()
    text_columns: int = 1

    @property
    def rows(self) -> Iterable[Row]:
        return (row for group in self.groups for row in group)

    def markdown(self) -> str:
        """As Markdown with lines of at most 120 columns."""
        notes = ["\n".join(map(wrapped, note.splitlines())) for note in self.notes]
        return "\n\n".join([f"## {self.title}", self.pipe_table(), *notes]) + "\n"

    def pipe_table(self) -> str:
        """The table alone, in Markdown: if it is too wide in as few parts as fit, each with all text columns."""
        rules = ["---" if i < self.text_columns else "---:" for i in range(len(self.head))]
        cells = [[_escape_pipes(name) for name in self.head], rules]
        cells += [[_marked(cell) for cell in row] for row in self.rows]
        others = range(self.text_columns, len(self.head))
        for count in range(1, max(1, len(others)) + 1):
            width = max(1, -(-len(others) // count))
            parts = [[*range(self.text_columns), *others[i : i + width]] for i in range(0, max(1, len(others)), width)]
            tables = [[f"| {' | '.join(line[i] for i in part)} |" for line in cells] for part in parts]
            if max(len(line) for table in tables for line in table) <= _LINE_CHARACTERS:
                break
        return "\n\n".join("\n".join(table) for table in tables)

    def latex(self) -> str:
        """As LaTeX with booktabs; long texts are broken into lines, and the table over pages."""
        longest = [max(len(cell.text) for cell in column) for column in zip(*self.rows, strict=True)]
        long = any(length > _LONG_CHARACTERS for length in longest)
        columns = "l" * self.text_columns + "r" * (len(self.head) - self.text_columns)
        if long:
            widths = [math.sqrt(max(length, _SHORT_CHARACTERS)) for length in longest]
            columns = "".join(f"p{{{0.9 * width / sum(widths):.2f}\\textwidth}}" for width in widths)
        groups = ("\n".join(" & ".join(map(_bold, row)) + " \\\\" for row in group) for group in self.groups)
        names = f"\\caption{{{_escape(self.title)}}}\\label{{tab:clnr-{self.name}}}"
        begin = ["\\begin{table}", "\\centering", names, f"\\begin{{tabular}}{{{columns}}}"]
        end = ["\\end{tabular}", "\\end{table}"]
        if long:
            begin, end = ["\\footnotesize", f"\\begin{{longtable}}{{{columns}}}", f"{names} \\\\"], ["\\end{longtable}"]
        lines = [
            f"% needs \\usepackage{{booktabs,amssymb{',longtable' if long else ''}}}",
            *begin,
            "\\toprule",
            " & ".join(map(_escape, self.head)) + " \\\\",
            "\\midrule",
            "\n\\midrule\n".join(groups),
            "\\bottomrule",
            *end,
        ]
        return "\n".join([*lines, *(f"% {line}" for note in self.notes for line in note.splitlines())]) + "\n"

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.head)
        first = ""
        for row in self.rows:
            # An empty first cell means that of the row above.
            first = row[0].text or first
            writer.writerow([first, *(cell.text for cell in row[1:])])
        return out.getvalue()


_LINE_CHARACTERS = 120


def wrapped(text: str) -> str:
    """Text in lines of at most 120 columns; headings, tables and pictures, which are one line each, stay as they are."""
    if text.startswith(("#", "|", "!")):
        return text
    return textwrap.fill(text, _LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False)


def _escape_pipes(text: str) -> str:
    return text.replace("|", "\\|")


def _marked(cell: Cell) -> str:
    return f"**{_escape_pipes(cell.text)}**" if cell.bold else _escape_pipes(cell.text)


def _bold(cell: Cell) -> str:
    return f"\\textbf{{{_escape(cell.text)}}}" if cell.bold else _escape(cell.text)


_SHORT_CHARACTERS, _LONG_CHARACTERS = 25, 60
_LATEX_ESCAPES = {
    **{letter: f"\\{letter}" for letter in "&%#_$"},
    "{": "\\{",
    "}": "\\}",
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": "$\\pm$",
    "✓": "\\checkmark",
    "×": "$\\times$",
}


def _escape(text: str) -> str:
    return "".join(_LATEX_ESCAPES.get(letter, letter) for letter in text)
