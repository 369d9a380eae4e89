"""Our numbers beside those that the paper's authors published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, variance

from clnr.methods import CLNR
from clnr.methods.presets import preset
from reproduce import tables
from reproduce.formats import Row, Table, bold
from reproduce.record import SEEDS, SETS, Record, batch

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


def table(record: Record) -> Table:
    """Every published number that there are runs for: ours, theirs, and the difference in standard errors."""
    rows, known = _accuracies(record)
    rows += [*_times(record), *_program(record), *_clusters(record)]
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
    return Table("authors", "Our numbers beside the authors'", head, rows, notes, text_columns=3)


def _row(what: str, method: str, dataset: str, ours: float, theirs: float, errors: float | None = None) -> Row:
    """A number of ours and theirs; ``errors`` is the difference in standard errors, where these are known."""
    judged = "-" if errors is None else f"{errors:+.1f}"
    if errors is not None and abs(errors) > _BOLD_ERRORS:
        judged = bold(judged)
    digits = 3 if abs(ours) < 10 else 2
    printed = f"{theirs:.1f}" if theirs == round(theirs, 1) else f"{theirs:g}"
    difference = f"{ours - theirs:+.{digits}f}"
    return (what, method, tables.title_of(dataset), f"{ours:.{digits}f}", printed, difference, judged)


def _errors(ours: Sequence[float], theirs: float, square: float = 0.0) -> float | None:
    """The difference from our mean in standard errors; ``square`` is the squared error of theirs."""
    square += variance(ours) / len(ours) if len(ours) > 1 else 0.0
    return (fmean(ours) - theirs) / math.sqrt(square) if square else None


def _accuracies(record: Record) -> tuple[list[Row], list[float]]:
    """The rows, and how many standard errors each accuracy is off."""
    rows, known = [], []
    for method in (*tables.SELF_SUPERVISED, *tables.SUPERVISED):
        for name in SETS:
            ours, printed = tables.values(record.find(batch(method, name)), "paper"), preset(method, name).published
            if ours and printed is not None:
                errors = _errors(ours, printed.accuracy, printed.spread**2 / SEEDS)
                rows.append(_row("accuracy", method.name, name, fmean(ours), printed.accuracy, errors))
                known += [] if errors is None else [abs(errors)]
    return rows, known


def _times(record: Record) -> list[Row]:
    here, rows = tables.on_one_machine(record), []
    for name, theirs in tables.PUBLISHED_SECONDS.items():
        both = tables.seconds(here, name)
        if all(both):
            ours = [median(each) for each in both]
            for method, *pair in zip(tables.PAIR, ours, theirs, strict=True):
                rows.append(_row("seconds", method.name, name, *pair))
            ratio = round(theirs[1] / theirs[0], 1)
            rows.append(_row("ratio of seconds", "GRACE / CLNR", name, ours[1] / ours[0], ratio))
    return rows


def _program(record: Record) -> list[Row]:
    rows = []
    for name, (accuracy, seconds) in _AUTHORS_PROGRAM.items():
        runs, timed = record.find(batch(CLNR, name)), tables.seconds(record, name)[0]
        if runs:
            rows.append(_row("accuracy, their program", CLNR.name, name, tables.mean(runs, "paper"), accuracy))
        if timed:
            rows.append(_row("seconds, their program", CLNR.name, name, median(timed), seconds))
    return rows


def _clusters(record: Record) -> list[Row]:
    rows = []
    for method, published in tables.PUBLISHED_CLUSTERS.items():
        for (score, ours), theirs in zip(tables.scores(record, method).items(), published, strict=True):
            if ours:
                what = score.replace("_", "-")
                rows.append(_row(what, method.name, "cora", fmean(ours), theirs, _errors(ours, theirs)))
    return rows
