"""Every table and figure of the paper: the runs it needs, its numbers, and its files."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clnr.support.storage.atomic_io import write_atomic
from reproduce import drawing, figures, result_tables
from reproduce.paper_runs.run_index import ResultSet
from reproduce.paper_runs.scope import Batch, Scope
from reproduce.table_format import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure: the runs that it shows, its numbers as a table, and if it is a figure, how it is drawn from them.

    ``draw`` returns None if there are no runs. ``name`` is as in a file name, and ``about`` for the help of a command.
    """

    name: str
    about: str
    needs: Callable[[Scope], list[Batch]]
    fill: Callable[[Scope, ResultSet], Table]
    draw: Callable[[Scope, ResultSet], Figure | None] | None = None

    def table(self, scope: Scope, results: ResultSet) -> Table:
        """Its numbers, with a note on where they come from."""
        table = self.fill(scope, results)
        command = f"python -m reproduce {self.name.replace('-', ' ')}{scope.words}"
        notes = [*table.notes, *scope.cautions, results.provenance(command, self.needs(scope))]
        return dataclasses.replace(table, notes=tuple(notes))

    def write(self, scope: Scope, results: ResultSet, folder: Path) -> list[Path]:
        """Write its files, each one atomically: Markdown, LaTeX and CSV, and a figure as PNG and SVG."""
        table = self.table(scope, results)
        figure = self.draw(scope, results) if self.draw else None
        if figure is None:
            return write_table(table, folder)
        pictures = [write_picture(figure, folder / f"{self.name}.{form}") for form in ("png", "svg")]
        return [*pictures, *write_table(table, folder, f"![{table.title}]({self.name}.png)")]


def write_table(table: Table, folder: Path, above: str = "") -> list[Path]:
    """Write a table as Markdown, LaTeX and CSV; ``above`` goes above the table in Markdown."""
    text = table.markdown()
    if above:
        text = text.replace("\n\n", f"\n\n{above}\n\n", 1)
    return write_forms(folder / table.name, text, table.latex(), table.csv())


def write_forms(path: Path, markdown: str, latex: str, csv: str) -> list[Path]:
    """Write the three forms of one content, each under its ending."""
    forms = {"md": markdown, "tex": latex, "csv": csv}
    return [write_atomic(path.with_name(f"{path.name}.{end}"), content.encode()) for end, content in forms.items()]


def write_picture(figure: Figure, path: Path) -> Path:
    """Write a figure in the form of the path's ending; the same numbers give the same file: no dates and no random names."""
    import matplotlib

    out, form = io.BytesIO(), path.suffix[1:]
    with matplotlib.rc_context({"svg.hashsalt": "clnr", "svg.fonttype": "path"}):
        figure.savefig(out, format=form, dpi=200, metadata={"Date": None} if form == "svg" else {"Software": None})
    return write_atomic(path, out.getvalue())


TABLES = (
    Exhibit("table-1", "architectures", lambda scope: [], result_tables.architectures),
    Exhibit("table-2", "accuracy, all methods and data sets", result_tables.accuracy_batches, result_tables.accuracies),
    Exhibit("table-3", "training time of CLNR and GRACE", result_tables.time_batches, result_tables.times),
    Exhibit("table-4", "data sets", lambda scope: [], result_tables.sizes),
    Exhibit("table-5", "hyper-parameters", lambda scope: [], result_tables.settings),
    Exhibit("table-6", "clustering scores on Cora", result_tables.cluster_batches, result_tables.clusters),
)
FIGURES = (
    Exhibit("figure-1", "validation nodes on the circle", figures.circle_batches, figures.circle, drawing.circle),
    Exhibit("figure-2", "alignment against uniformity", figures.plane_batches, figures.plane, drawing.plane),
    *(
        Exhibit(each.name, about, each.batches, each.table, partial(drawing.curves, each))
        for each, about in (
            (figures.DIMENSION_CURVES, "accuracy against dimension"),
            (figures.NOISE_CURVES, "accuracy against edge noise"),
        )
    ),
)
EXHIBITS = (*TABLES, *FIGURES)

# The most important first, in case the command is stopped.
_PRIORITY = ("table-2", "figure-2", "table-6", "figure-1", "table-3", "figure-4", "figure-3")
_PAPER_METHODS = (*result_tables.SELF_SUPERVISED, *result_tables.SUPERVISED, *figures.ABLATION)


def needs(exhibits: Iterable[Exhibit], scope: Scope) -> list[Batch]:
    """All batches of some tables and figures, the most important first, those not in the paper last."""
    by_priority = sorted(exhibits, key=lambda each: _PRIORITY.index(each.name) if each.name in _PRIORITY else -1)
    batches = [batch for exhibit in by_priority for batch in exhibit.needs(scope)]
    return sorted(batches, key=lambda batch: batch.method not in _PAPER_METHODS)
