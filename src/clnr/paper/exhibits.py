"""Every table and figure of the paper: what it needs, how it is filled, and how it is written."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.paper import drawing, figures, result_tables
from clnr.paper.result_set import Holdings
from clnr.paper.scope import Batch, Scope
from clnr.paper.table_format import Sheet
from clnr.support.atomic_io import write_atomic
from clnr.support.optional import import_optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure.

    Attributes:
        name: As in a file's name.
        about: A few words for a command's help.
        needs: The runs that it shows.
        fill: Its numbers.
        draw: Its picture, if it is a figure; None where there is nothing to draw.
    """

    name: str
    about: str
    needs: Callable[[Scope], list[Batch]]
    fill: Callable[[Scope, Holdings], Sheet]
    draw: Callable[[Scope, Holdings], Figure | None] | None = None

    def sheet(self, scope: Scope, holdings: Holdings) -> Sheet:
        """Its numbers, with where they come from."""
        sheet = self.fill(scope, holdings)
        command = f"clnr {self.name.replace('-', ' ')}{scope.words}"
        notes = [*sheet.notes, *([scope.caution] if scope.caution else []), holdings.provenance(command, self.needs(scope))]
        return dataclasses.replace(sheet, notes=tuple(notes))

    def write(self, scope: Scope, holdings: Holdings, folder: Path) -> list[Path]:
        """Its files, each whole or not at all: Markdown, LaTeX and CSV, and the picture as PNG and SVG."""
        sheet = self.sheet(scope, holdings)
        figure = self.draw(scope, holdings) if self.draw else None
        if figure is None:
            return write_sheet(sheet, folder)
        pictures = [write_atomic(folder / f"{self.name}.{form}", _picture(figure, form)) for form in ("png", "svg")]
        return [*pictures, *write_sheet(sheet, folder, f"![{sheet.title}]({self.name}.png)")]


def write_sheet(sheet: Sheet, folder: Path, above: str = "") -> list[Path]:
    """A table's files: Markdown, with something above the table if given, LaTeX and CSV."""
    text = sheet.markdown()
    if above:
        text = text.replace("\n\n", f"\n\n{above}\n\n", 1)
    forms = {"md": text, "tex": sheet.latex(), "csv": sheet.csv()}
    return [write_atomic(folder / f"{sheet.name}.{end}", content.encode()) for end, content in forms.items()]


_OF_A_RUN = (
    *("method", "dataset", "seed", "strict", "paper", "validation", "alignment", "uniformity", "effective_rank"),
    *("epochs", "train_seconds", "parallel_seeds", "seconds", "machine", "precision"),
)


def write_runs(holdings: Holdings, batches: Iterable[Batch], folder: Path) -> Path:
    """Every run that is shown, one a line: so that all that is said of them can be computed anew."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_OF_A_RUN, "code", "changed"])
    for run in sorted(holdings.runs(batches), key=lambda run: (run.method, run.dataset, str(run.recipe), run.seed)):
        changed = " ".join(Batch(METHODS[run.method], run.dataset, Recipe.of(run.recipe), 1).changed)
        values = (getattr(run, name) for name in _OF_A_RUN)
        told = [f"{value:.6g}" if isinstance(value, float) else value for value in values]
        writer.writerow([*told, run.versions["code"], changed])
    return write_atomic(folder / "runs.csv", out.getvalue().encode())


def _nothing(scope: Scope) -> list[Batch]:
    return []


TABLES = (
    Exhibit("table-1", "architectures", _nothing, result_tables.architectures),
    Exhibit("table-2", "accuracy, all methods and data sets", result_tables.accuracy_batches, result_tables.accuracies),
    Exhibit("table-3", "training time of CLNR and GRACE", result_tables.time_batches, result_tables.times),
    Exhibit("table-4", "data sets", _nothing, result_tables.sizes),
    Exhibit("table-5", "hyper-parameters", _nothing, result_tables.settings),
    Exhibit("table-6", "clustering scores on Cora", result_tables.cluster_batches, result_tables.clusters),
)
FIGURES = (
    Exhibit("figure-1", "validation nodes on the circle", figures.circle_batches, figures.circle, drawing.circle),
    Exhibit("figure-2", "alignment against uniformity", figures.plane_batches, figures.plane, drawing.plane),
    Exhibit("figure-3", "accuracy against dimension", figures.dimension_batches, figures.dimensions, drawing.dimensions),
    Exhibit("figure-4", "accuracy against edge noise", figures.noise_batches, figures.noises, drawing.noises),
)
EXHIBITS = (*TABLES, *FIGURES)

# In the order of what a reader would miss most, should it be stopped.
_WORTH = ("table-2", "figure-2", "table-6", "figure-1", "table-3", "figure-4", "figure-3")
_OF_THE_PAPER = (*result_tables.SELF_SUPERVISED, *result_tables.SUPERVISED, *figures.ABLATION)


def needs(exhibits: Iterable[Exhibit], scope: Scope) -> list[Batch]:
    """All batches of some tables and figures, the most worthwhile first, what the paper does not have last."""
    by_worth = sorted(exhibits, key=lambda each: _WORTH.index(each.name) if each.name in _WORTH else -1)
    batches = [batch for exhibit in by_worth for batch in exhibit.needs(scope)]
    return sorted(batches, key=lambda batch: batch.method not in _OF_THE_PAPER)


def check_drawable(exhibits: Iterable[Exhibit]) -> None:
    """Fail before the runs, not after them, if one is a figure and there is no matplotlib."""
    if any(exhibit.draw for exhibit in exhibits):
        import_optional("matplotlib.figure", "drawing figures", "figures")


def _picture(figure: Figure, form: str) -> bytes:
    import matplotlib

    out = io.BytesIO()
    # Without dates and random names, so that the same numbers give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "clnr", "svg.fonttype": "path"}):
        figure.savefig(out, format=form, dpi=200, metadata={"Date": None} if form == "svg" else {"Software": None})
    return out.getvalue()
