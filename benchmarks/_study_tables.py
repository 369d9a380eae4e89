"""The tables of the study of defaults, in Markdown, from the results in its log."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reproduce.formats import pipe_table
from scipy.stats import spearmanr

from clnr.errors import UnknownName
from clnr.methods import BASELINES, METHODS, RAW

CHANCE = "chance"
NODE2VEC = "node2vec"
FREE = tuple(method.name for method in BASELINES)
MEASURES = {
    "validation": ("accuracy on validation nodes", 1),
    "link_auc": ("AUC of held-out edges", 1),
    "effective_rank": ("effective rank", 1),
    "alignment": ("alignment of linked nodes", -1),
    "uniformity": ("uniformity", -1),
    "neighbour_r2": ("features by neighbours, R^2", 1),
}
"""What may tell which method is best, and whether more of it (1) or less (-1) should be better."""
USES = {"link_auc": ("Link AUC", 1, 3), "nmi": ("Clustering: NMI, %", 100, 1), "purity": ("Ten nearest: same label, %", 100, 1)}

Record = dict[str, Any]


def label(record: Record) -> str:
    """What a result's row is called: the method, and what was set."""
    return " ".join([record["method"], *(f"{name}={value}" for name, value in sorted(record["set"].items()))])


class Results:
    """The results of one width, and of methods that have none, by graph and method."""

    def __init__(self, records: Iterable[Record], dimension: int):
        self.dimension = dimension
        self._records: dict[tuple[str, str], list[Record]] = {}
        for record in records:
            if record["dimension"] in (dimension, None):
                self._records.setdefault((record["graph"], label(record)), []).append(record)
        self.graphs = sorted({graph for graph, _ in self._records}, key=lambda name: (kind(name), name))
        places = {name: place for place, name in enumerate(METHODS)}
        names = {(places.get(each[0]["method"], len(places)), method) for (_, method), each in self._records.items()}
        self.methods = [method for _, method in sorted(names)]

    def seeds(self) -> str:
        counts = {len(each) for each in self._records.values()}
        return f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"

    def values(self, graph: str, method: str, measure: str) -> list[float]:
        found = (record.get(measure) for record in self._records.get((graph, method), []))
        return [value for value in found if value is not None]

    def mean(self, graph: str, method: str, measure: str = "test") -> float:
        """Over seeds; not a number if there is none."""
        values = self.values(graph, method, measure)
        return statistics.fmean(values) if values else math.nan

    def best_free(self, graph: str) -> str | None:
        """The baseline with the highest test accuracy, which is more than one could know beforehand."""
        found = {name: self.mean(graph, name) for name in FREE if self.values(graph, name, "test")}
        return max(found, key=found.__getitem__, default=None)

    def difference(self, graph: str, ours: str) -> float:
        """From the best baseline, in points."""
        best = self.best_free(graph)
        return math.nan if best is None else self.mean(graph, ours) - self.mean(graph, best)


def kind(graph: str) -> int:
    """Real graphs first, then those without features, then those that were made."""
    return 0 if ":" not in graph else 1 if graph.endswith(":structure") else 2


KINDS = ("as they are", "without features", "generated")


def tables(records: Sequence[Record], ours: str) -> str:
    """All tables."""
    dimensions = sorted({record["dimension"] for record in records} - {None})
    by_dimension = [Results(records, dimension) for dimension in dimensions]
    if not by_dimension:
        return "no results\n"
    results = max(by_dimension, key=lambda each: (each.dimension == 256, each.dimension))
    if ours not in results.methods:
        raise UnknownName("method among the results", ours, results.methods)
    width = f"{results.dimension} dimensions"
    parts = [
        f"## Accuracy, {width}\n\nOn test nodes, in percent: mean and deviation; {results.seeds()} seeds.",
        grid(results, results.methods, lambda graph, method: _spread(results.values(graph, method, "test"))),
        f"## {ours} and the best baseline\n\nThe best of {len(FREE)} without training, by test accuracy; points.",
        against_best(results, ours),
        "## By dimension",
        by_width(by_dimension, ours),
        f"## What tells which method is best, {width}\n\nRank correlation with test accuracy over the "
        "methods of a graph, mean over graphs; and points\nlost on the mean by taking the method that is best by it, against "
        "the best one.",
        correlations(results, ours),
        *uses(results, ours),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head; what is too wide becomes several, with the first column in each."""
    head, *lines = rows
    return pipe_table(head, lines)


def grid(results: Results, methods: Iterable[str], cell: Callable[[str, str], str], graphs: Sequence[str] = ()) -> str:
    """Methods by graphs, one table for each kind of graph."""
    made = []
    for number in range(len(KINDS)):
        some = [graph for graph in graphs or results.graphs if kind(graph) == number]
        rows = [[method, *(cell(graph, method) for graph in some)] for method in methods]
        if some:
            made.append(markdown([["", *some], *(row for row in rows if any(row[1:]))]))
    return "\n\n".join(made)


def against_best(results: Results, ours: str) -> str:
    rows = [["graph", "best baseline", "its accuracy", "ours", "difference"]]
    for graph in results.graphs:
        best = results.best_free(graph)
        if best is not None:
            numbers = results.mean(graph, best), results.mean(graph, ours)
            rows.append([graph, best, *(_number(each) for each in numbers), _signed(results.difference(graph, ours))])
    return markdown([*rows, *_summaries([[results.difference(graph, ours) for graph in results.graphs]], 3)])


def by_width(by_dimension: Sequence[Results], ours: str) -> str:
    """Ours and its difference from the best baseline, for each width."""
    graphs = list(dict.fromkeys(graph for results in by_dimension for graph in results.graphs))
    heads = [head for results in by_dimension for head in (f"ours, {results.dimension}", "difference")]
    rows = [["graph", *heads]]
    for graph in graphs:
        pairs = [(_number(each.mean(graph, ours)), _signed(each.difference(graph, ours))) for each in by_dimension]
        rows.append([graph, *(cell for pair in pairs for cell in pair)])
    # Means over the graphs that all widths have.
    common = [graph for graph in graphs if all(not math.isnan(each.difference(graph, ours)) for each in by_dimension)]
    return markdown([*rows, *_summaries([[each.difference(graph, ours) for graph in common] for each in by_dimension], 1)])


def _summaries(columns: Sequence[Sequence[float]], before: int) -> list[list[str]]:
    """Rows with the mean and the worst of some columns, each after so many empty cells."""
    known = [[value for value in column if not math.isnan(value)] for column in columns]
    return [
        [name, *(cell for column in known for cell in [*[""] * before, _signed(reduce(column)) if column else ""])]
        for name, reduce in (("mean", statistics.fmean), ("worst", min))
    ]


def correlations(results: Results, ours: str) -> str:
    """For each measure, over graphs: the mean rank correlation, and what choosing by it loses."""
    rows = [["", "all", *KINDS, "lowest", "highest", "points lost"]]
    methods = [method for method in results.methods if method not in (RAW.name, NODE2VEC)]
    for measure, (name, sign) in MEASURES.items():
        found: dict[str, float] = {}
        lost = []
        for graph in results.graphs:
            some = [each for each in methods if results.values(graph, each, measure) and results.values(graph, each, "test")]
            if len(some) < 3:
                continue
            tests = {each: results.mean(graph, each) for each in some}
            measured = {each: results.mean(graph, each, measure) for each in some}
            found[graph] = float(spearmanr(list(measured.values()), list(tests.values())).statistic)
            lost.append(max(tests.values()) - tests[max(some, key=lambda each: sign * measured[each])])
        found = {graph: value for graph, value in found.items() if not math.isnan(value)}
        if found:
            by_kind = [[value for graph, value in found.items() if kind(graph) == number] for number in range(len(KINDS))]
            cells = [_mean(list(found.values())), *(_mean(each) for each in by_kind)]
            extremes = [f"{reduce(found.values()):+.2f}" for reduce in (min, max)]
            rows.append([name, *cells, *extremes, _number(statistics.fmean(lost))])
    of_ours = [
        max(results.mean(graph, each) for each in methods if results.values(graph, each, "test")) - results.mean(graph, ours)
        for graph in results.graphs
        if results.values(graph, ours, "test")
    ]
    if of_ours:
        rows.append([f"always {ours}", *[""] * 6, _number(statistics.fmean(of_ours))])
    return markdown(rows) if len(rows) > 1 else ""


def uses(results: Results, ours: str) -> list[str]:
    """Links, clusters and nearest neighbours, on the graphs that node2vec was run on, if any."""
    walked = [graph for graph in results.graphs if results.values(graph, NODE2VEC, "test")]
    names = dict.fromkeys((ours, NODE2VEC, "CLNR", *FREE, RAW.name, CHANCE))
    made = []
    for measure, (title, scale, digits) in USES.items():

        def cell(graph: str, method: str, measure: str = measure, scale: int = scale, digits: int = digits) -> str:
            name, wanted = (ours, f"{measure}_chance") if method == CHANCE else (method, measure)
            return _number(scale * results.mean(graph, name, wanted), digits)

        made += [f"## {title}, {results.dimension} dimensions", grid(results, names, cell, walked)]
    return made


def _number(value: float, digits: int = 1) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def _signed(value: float) -> str:
    return "" if math.isnan(value) else f"{value:+.1f}"


def _mean(values: list[float]) -> str:
    return f"{statistics.fmean(values):+.2f}" if values else ""


def _spread(values: list[float]) -> str:
    return f"{statistics.fmean(values):.1f}±{statistics.pstdev(values):.1f}" if values else ""
