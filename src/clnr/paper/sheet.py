"""A table as a value, and as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
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
        """For LaTeX with booktabs, ready to paste."""
        columns = "l" * self.words + "r" * (len(self.head) - self.words)
        groups = ("\n".join(_line([_bold(cell) for cell in row]) for row in group) for group in self.groups)
        lines = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{_escape(self.title)}}}",
            f"\\label{{tab:clnr-{self.name}}}",
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            _line([_escape(name) for name in self.head]),
            "\\midrule",
            "\n\\midrule\n".join(groups),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
        ]
        return "\n".join([*lines, *(f"% {line}" for note in self.notes for line in note.splitlines())]) + "\n"

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.head)
        writer.writerows([cell.text for cell in row] for row in self.rows)
        return out.getvalue()


def _pipes(text: str) -> str:
    return text.replace("|", "\\|")


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + " \\\\"


def _bold(cell: Cell) -> str:
    return f"\\textbf{{{_escape(cell.text)}}}" if cell.bold else _escape(cell.text)


_LATEX = {"&": "\\&", "%": "\\%", "#": "\\#", "_": "\\_", "±": "$\\pm$", "✓": "\\checkmark", "×": "$\\times$", "≤": "$\\le$"}


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
