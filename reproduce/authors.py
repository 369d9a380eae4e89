"""Our numbers beside those that the paper's authors published."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from clnr.methods import CLNR
from clnr.methods.presets import preset
from reproduce import tables
from reproduce.formats import Row, Table, bold
from reproduce.record import SEEDS, SETS, Record, batch, title_of
from reproduce.tables import PUBLISHED_CLUSTERS, PUBLISHED_SECONDS, TIMED_METHODS

_METHODS = (*tables.SELF_SUPERVISED, *tables.SUPERVISED)
_BOLD_ERRORS = 3
# Not printed: the authors' own program for CLNR, run on one H200 with our data: accuracy by their rule, and seconds.
_AUTHORS_PROGRAM = {
    "cora": (83.9, 1.2),
    "citeseer": (72.9, 2.4),
    "pubmed": (83.5, 29.0),
    "computers": (89.8, 15.0),
    "photo": (93.3, 4.7),
    "physics": (95.5, 44.0),
}


class Beside(NamedTuple):
    """A number of ours and theirs; ``error`` is the squared standard error of the difference, where it is known."""

    what: str
    method: str
    dataset: str
    ours: float
    theirs: float
    error: float = 0.0

    @property
    def errors(self) -> float | None:
        """The difference in standard errors."""
        return (self.ours - self.theirs) / math.sqrt(self.error) if self.error else None

    def row(self) -> Row:
        errors = "-" if self.errors is None else f"{self.errors:+.1f}"
        if self.errors is not None and abs(self.errors) > _BOLD_ERRORS:
            errors = bold(errors)
        digits = 3 if abs(self.ours) < 10 else 2
        theirs = f"{self.theirs:.1f}" if self.theirs == round(self.theirs, 1) else f"{self.theirs:g}"
        numbers = (f"{self.ours:.{digits}f}", theirs, f"{self.ours - self.theirs:+.{digits}f}", errors)
        return (self.what, self.method, title_of(self.dataset), *numbers)


def table(record: Record) -> Table:
    """Every published number that there are runs for: ours, theirs, and the difference in standard errors."""
    accuracies = _accuracies(record)
    lines = [*accuracies, *_times(record), *_program(record), *_clusters(record)]
    known = [abs(each.errors) for each in accuracies if each.errors is not None]
    notes = (
        f"Accuracies are by the authors' rule, in percent. Of {len(known)}, {sum(each > 2 for each in known)} differ by "
        f"more than 2 standard errors, where {0.05 * len(known):.0f} would by chance; in bold, those by more than "
        f"{_BOLD_ERRORS}. The standard error is that of the difference of two means: of our seeds, and of {SEEDS} runs "
        "with the spread that the paper prints. CLNR and GRACE are the authors' own runs; most other rows of their "
        "table come from other papers.",
        "The paper's seconds are of another machine, and have no error: only the ratio can be compared. *Their program* "
        "is the authors' own for CLNR, run on our data and one H200 with two to five seeds. Cluster scores were printed "
        "without a spread; the error is ours alone. Alignment and uniformity were published as a figure, without "
        "numbers.",
    )
    head = ("What", "Method", "Data set", "ours", "the authors'", "difference", "standard errors")
    return Table("authors", "Our numbers beside the authors'", head, [each.row() for each in lines], notes, text_columns=3)


def _accuracies(record: Record) -> list[Beside]:
    lines = []
    for method in _METHODS:
        for name in SETS:
            runs, printed = record.find(batch(method, name)), preset(method, name).published
            if runs and printed is not None:
                error = _square(tables.values(runs, "paper")) + printed.spread**2 / SEEDS
                lines.append(Beside("accuracy", method.name, name, tables.mean(runs, "paper"), printed.accuracy, error))
    return lines


def _times(record: Record) -> list[Beside]:
    here, lines = record.on_one_platform(tables.time_batches()), []
    for name, theirs in PUBLISHED_SECONDS.items():
        both = [tables.seconds(here.find(tables.time_batch(method, name))) for method in TIMED_METHODS]
        if all(both):
            ours = [statistics.median(each) for each in both]
            for method, *pair in zip(TIMED_METHODS, ours, theirs, strict=True):
                lines.append(Beside("seconds", method.name, name, *pair))
            ratio = ours[1] / ours[0], round(theirs[1] / theirs[0], 1)
            lines.append(Beside("ratio of seconds", "GRACE / CLNR", name, *ratio))
    return lines


def _program(record: Record) -> list[Beside]:
    lines = []
    for name, (accuracy, seconds) in _AUTHORS_PROGRAM.items():
        runs, timed = record.find(batch(CLNR, name)), tables.seconds(record.find(tables.time_batch(CLNR, name)))
        if runs:
            lines.append(Beside("accuracy, their program", CLNR.name, name, tables.mean(runs, "paper"), accuracy))
        if timed:
            lines.append(Beside("seconds, their program", CLNR.name, name, statistics.median(timed), seconds))
    return lines


def _clusters(record: Record) -> list[Beside]:
    lines = []
    for method, published in PUBLISHED_CLUSTERS.items():
        if runs := record.find(batch(method, "cora", extra="clusters")):
            for score, theirs in zip(tables.SCORES, published, strict=True):
                values = tables.scores(runs, score)
                numbers = (statistics.fmean(values), theirs, _square(values))
                lines.append(Beside(score.replace("_", "-"), method.name, "cora", *numbers))
    return lines


def _square(values: list[float]) -> float:
    """The squared standard error of a mean."""
    return statistics.variance(values) / len(values) if len(values) > 1 else 0.0
