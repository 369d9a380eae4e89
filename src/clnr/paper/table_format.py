"""A table as a value, and as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

NO_DATA = "no data"
NOT_RUN = "not run"


class Cell(NamedTuple):
    """What stands in one place of a table."""

    text: str
    bold: bool = False


Row = tuple[Cell, ...]


def row(*cells: str | Cell) -> Row:
    return tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells)


@dataclass(frozen=True)
class Sheet:
    """A table: its columns' names, groups of rows with a rule between, and what is to be said about it.

    Attributes:
        name: As in a file's name: ``table-2``.
        title: One line.
        head: The columns' names.
        groups: Rows; each group is set apart from the one before.
        notes: What stands below, a paragraph each.
        words: How many columns, from the left, hold words; numbers are set to the right.
    """

    name: str
    title: str
    head: tuple[str, ...]
    groups: tuple[tuple[Row, ...], ...]
    notes: tuple[str, ...] = ()
    words: int = 1

    @property
    def rows(self) -> Iterable[Row]:
        return (row for group in self.groups for row in group)

    def markdown(self) -> str:
        marks = ["---" if i < self.words else "---:" for i in range(len(self.head))]
        lines = [[_pipes(name) for name in self.head], marks]
        lines += [[f"**{_pipes(cell.text)}**" if cell.bold else _pipes(cell.text) for cell in row] for row in self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"## {self.title}", table, *self.notes]) + "\n"

    def latex(self) -> str:
        """For LaTeX with booktabs, ready to paste; cells of many words get lines of their own, and pages if need be."""
        longest = [max(len(cell.text) for cell in column) for column in zip(*self.rows, strict=True)]
        long = any(length > _LONG for length in longest)
        columns = "l" * self.words + "r" * (len(self.head) - self.words)
        if long:
            widths = [math.sqrt(max(length, _SHORT)) for length in longest]
            columns = "".join(f"p{{{0.9 * width / sum(widths):.2f}\\textwidth}}" for width in widths)
        groups = ("\n".join(_line([_bold(cell) for cell in row]) for row in group) for group in self.groups)
        names = f"\\caption{{{_escape(self.title)}}}\\label{{tab:clnr-{self.name}}}"
        begin = ["\\begin{table}", "\\centering", names, f"\\begin{{tabular}}{{{columns}}}"]
        end = ["\\end{tabular}", "\\end{table}"]
        if long:
            begin, end = ["\\footnotesize", f"\\begin{{longtable}}{{{columns}}}", f"{names} \\\\"], ["\\end{longtable}"]
        lines = [
            f"% needs \\usepackage{{booktabs,amssymb{',longtable' if long else ''}}}",
            *begin,
            "\\toprule",
            _line([_escape(name) for name in self.head]),
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
            # What a reader sees from the row above, a program would miss.
            first = row[0].text or first
            writer.writerow([first, *(cell.text for cell in row[1:])])
        return out.getvalue()


def _pipes(text: str) -> str:
    return text.replace("|", "\\|")


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + " \\\\"


def _bold(cell: Cell) -> str:
    return f"\\textbf{{{_escape(cell.text)}}}" if cell.bold else _escape(cell.text)


_SHORT, _LONG = 25, 60
_LATEX = {
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
    return "".join(_LATEX.get(letter, letter) for letter in text)
