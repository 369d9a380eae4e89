"""Our numbers beside those that the paper's authors published."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from clnr.experiments.results import Summary
from clnr.methods.presets import preset
from reproduce import result_tables
from reproduce.paper_runs.run_index import ResultSet, title_of
from reproduce.paper_runs.scope import SEEDS, SETS, Batch, Scope
from reproduce.table_format import Cell, Row, Table, row

_METHODS = (*result_tables.SELF_SUPERVISED, *result_tables.SUPERVISED)
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
    """A number of ours and theirs: means, and squared standard errors where they are known."""

    what: str
    method: str
    dataset: str
    ours: float
    theirs: float
    error: float | None = None

    @property
    def errors(self) -> float | None:
        """The difference in standard errors."""
        return (self.ours - self.theirs) / math.sqrt(self.error) if self.error else None


def batches(scope: Scope) -> list[Batch]:
    """The runs behind it."""
    accuracies = [scope.batch(method, name) for method in scope.lineup(_METHODS) for name in scope.among(SETS)]
    return [*accuracies, *result_tables.time_batches(scope), *result_tables.cluster_batches(scope)]


def table(scope: Scope, results: ResultSet) -> Table:
    """Every published number that there are runs for: ours, theirs, and the difference in standard errors."""
    groups_of_lines = [each(scope, results) for each in (_accuracies, _times, _program, _clusters)]
    groups = tuple(tuple(map(_line, group)) for group in groups_of_lines if group)
    known = [abs(each.errors) for each in groups_of_lines[0] if each.errors is not None]
    apart = sum(each > 2 for each in known)
    notes = (
        f"Accuracies are by the authors' rule, in percent. Of {len(known)}, {apart} differ by more than 2 standard errors, "
        f"where {0.05 * len(known):.0f} would by chance; in bold, those by more than {_BOLD_ERRORS}. The standard error is "
        f"that of the difference of two means: of our seeds, and of {SEEDS} runs with the spread that the paper prints. CLNR "
        "and GRACE are the authors' own runs; most other rows of their table come from other papers.",
        "The paper's seconds are of another machine, and have no error: only the ratio can be compared. *Their program* is the "
        "authors' own for CLNR, run on our data and one H200 with two to five seeds. Cluster scores were printed without a "
        "spread; the error is ours alone. Alignment and uniformity were published as a figure, without numbers.",
        *scope.cautions,
        results.provenance(f"python -m reproduce paper{scope.words}", batches(scope)),
    )
    head = ("What", "Method", "Data set", "ours", "the authors'", "difference", "standard errors")
    return Table("authors", "Our numbers beside the authors'", head, groups, notes, text_columns=3)


def _line(each: Beside) -> Row:
    errors = "-" if each.errors is None else f"{each.errors:+.1f}"
    far = each.errors is not None and abs(each.errors) > _BOLD_ERRORS
    names = (each.what, each.method, title_of(each.dataset))
    digits = 3 if abs(each.ours) < 10 else 2
    theirs = f"{each.theirs:.1f}" if each.theirs == round(each.theirs, 1) else f"{each.theirs:g}"
    return row(*names, f"{each.ours:.{digits}f}", theirs, f"{each.ours - each.theirs:+.{digits}f}", Cell(errors, far))


def _accuracies(scope: Scope, results: ResultSet) -> list[Beside]:
    lines = []
    for method in scope.lineup(_METHODS):
        for name in scope.among(SETS):
            summary, printed = results.find(scope.batch(method, name)), preset(method, name).published
            if isinstance(summary, Summary) and printed is not None:
                values = [run.paper for run in summary.runs]
                error = _square(values) + printed.spread**2 / SEEDS
                lines.append(Beside("accuracy", method.name, name, statistics.fmean(values), printed.accuracy, error))
    return lines


def _times(scope: Scope, results: ResultSet) -> list[Beside]:
    here, lines = results.on_one_platform(result_tables.time_batches(scope)), []
    for name in scope.among(result_tables.PUBLISHED_SECONDS):
        summaries = [here.find(result_tables.time_batch(scope, method, name)) for method in result_tables.TIMED_METHODS]
        known = [each for each in summaries if isinstance(each, Summary)]
        if len(known) < len(summaries):
            continue
        ours = [statistics.median(result_tables.seconds(each)) for each in known]
        theirs = result_tables.PUBLISHED_SECONDS[name]
        lines += [
            Beside("seconds", method.name, name, *pair)
            for method, *pair in zip(result_tables.TIMED_METHODS, ours, theirs, strict=True)
        ]
        lines.append(Beside("ratio of seconds", "GRACE / CLNR", name, ours[1] / ours[0], round(theirs[1] / theirs[0], 1)))
    return lines


def _program(scope: Scope, results: ResultSet) -> list[Beside]:
    clnr, lines = result_tables.CLNR, []
    for name in scope.among(_AUTHORS_PROGRAM) if scope.lineup([clnr]) else ():
        accuracy, seconds = _AUTHORS_PROGRAM[name]
        summary = results.find(scope.batch(clnr, name))
        if isinstance(summary, Summary):
            lines.append(Beside("accuracy, their program", clnr.name, name, summary.mean("paper"), accuracy))
        timed = results.find(result_tables.time_batch(scope, clnr, name))
        if isinstance(timed, Summary):
            ours = statistics.median(result_tables.seconds(timed))
            lines.append(Beside("seconds, their program", clnr.name, name, ours, seconds))
    return lines


def _clusters(scope: Scope, results: ResultSet) -> list[Beside]:
    lines = []
    for batch in result_tables.cluster_batches(scope) if scope.among(("cora",)) else ():
        summary = results.find(batch)
        if not isinstance(summary, Summary) or batch.dataset != "cora":
            continue
        for score, theirs in zip(result_tables.SCORES, result_tables.PUBLISHED_CLUSTERS[batch.method.name], strict=True):
            values = result_tables.scores(summary, score)
            what = score.replace("_", "-")
            lines.append(Beside(what, batch.method.name, batch.dataset, statistics.fmean(values), theirs, _square(values)))
    return lines


def _square(values: list[float]) -> float:
    """The squared standard error of a mean."""
    return statistics.variance(values) / len(values) if len(values) > 1 else 0.0
