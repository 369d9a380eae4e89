"""Before training: facts about the graph, warnings about its tables, chosen hyper-parameters, time and memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from clnr.embedding.defaults import Choice
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT, MAP_LAYOUTS
from clnr.embedding.tuning import mean_epochs
from clnr.engine import Engine
from clnr.errors import OutOfMemory
from clnr.evaluation.logistic_regression import MOST_NODES
from clnr.experiments.cost import Cost, Size, evaluating, searching, sent, training, training_seconds
from clnr.graph import Graph
from clnr.graph.csr import Array, median_weight
from clnr.methods import Method
from clnr.methods.recipe import Recipe, untrained
from clnr.nn.hyper_parameters import declared
from clnr.support.humanize import duration, one_line, plural
from clnr.support.machine import memory
from clnr.tables import TableGraph
from clnr.tables.columns.column_info import column_lines
from clnr.tables.edges.lost_edges import dangling_warning, loses_much

MOST = 100_000
"""The most nodes that a map shows."""
# A warning is a line of at most so many letters.
_LONGEST = 500
# A GPU is worth a hint if training takes longer than so many seconds, and a GPU so much shorter.
_LONG = 120.0
# A map that takes longer than so many seconds is announced with an estimate.
_SLOW = 15.0
_FASTER = 4.0
# From so many labelled nodes on, classes should have so many nodes each.
_LABELLED = 20
_NODES_OF_CLASS = 5


@dataclass(frozen=True)
class Preflight:
    """What is known before training; ``print`` shows it in lines.

    Attributes:
        facts: Of the graph: values by name.
        warnings: Odd things in the tables, and what was done about each, a line each.
        choices: Hyper-parameters that follow from the graph, with their reasons.
        cost: Estimated seconds and bytes of training.
        other_seconds: Estimated seconds of everything after training: evaluation by labels, neighbours and the map.
        free_memory: Free bytes on the device; None if that is not known.
        columns: How each column of the tables was read, a line each.
        workers: How many processes share the training.
        sent_per_step: Estimated bytes that each of them sends to others in a step.
        trials: How many recipes are tried before training.
        tune_seconds: Estimated seconds of that.
        notes: What else to know, a line each: that nothing is trained, or that a GPU would help.
        counts: The facts as numbers.
        trains: Whether the method learns by training.
    """

    facts: dict[str, str]
    warnings: tuple[str, ...]
    choices: tuple[Choice, ...]
    cost: Cost
    other_seconds: float
    free_memory: int | None
    columns: tuple[str, ...] = ()
    workers: int = 1
    sent_per_step: float = 0.0
    trials: int = 0
    tune_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)
    trains: bool = True

    @classmethod
    def of(
        cls,
        table_graph: TableGraph,
        method: Method,
        recipe: Recipe,
        chosen: list[Choice],
        engine: Engine,
        evaluated: int = 1,
        workers: int = 1,
        local_workers: int = 1,
        trials: int = 0,
        fixed: Collection[str] = (),
        layout: str = DEFAULT_LAYOUT,
    ) -> Preflight:
        """The preflight of training a method on a graph.

        Args:
            table_graph: The graph.
            method: What is to be trained.
            recipe: Its hyper-parameters.
            chosen: The choices of the default recipe; those that the recipe has changed are left out.
            engine: Where it is to be trained.
            evaluated: How many embeddings are to be evaluated by labels, if there are any: this one, and baselines.
            workers: How many processes share the training.
            local_workers: How many of them are on this machine.
            trials: How many recipes are tried before training.
            fixed: Hyper-parameters that are the same in all of them.
            layout: Of the map.
        """
        # Without training, views are never drawn.
        unused = declared(part for view in method.views for part in view) if method.objective is None else {}
        kept = tuple(each for each in chosen if getattr(recipe, each.key) == each.value and each.key not in unused)
        graph = table_graph.graph
        size = size_of(graph)
        cost = training(method, recipe, size, engine)
        if engine.device.type == "cpu":
            cost = cost._replace(memory=local_workers * cost.memory)
        sent_per_step = sent(method, recipe, size, workers) if workers > 1 else 0.0
        after, once = drawing_seconds(graph.num_nodes, recipe.dimension, layout), 0.0
        if graph.labels is not None:
            train = int((graph.labels >= 0).sum()) // 10 if graph.split is None else len(graph.split.train)
            fitted = min(train, MOST_NODES)
            once = evaluating(fitted, graph.num_classes, recipe.dimension)
        trainings = trials * mean_epochs(method, fixed)
        hint = _gpu_hint(
            engine, (1 + trainings) * cost.seconds, training_seconds(method, recipe, size, "cuda") * (1 + trainings)
        )
        counts = graph_counts(graph)
        return cls(
            _in_words(counts),
            tuple(table_warnings(table_graph)),
            kept,
            cost,
            after + evaluated * once,
            memory.free_memory(engine.device),
            tuple(column_lines(table_graph.ingest_report.columns)),
            workers,
            sent_per_step,
            trials,
            trainings * cost.seconds + trials * once,
            (*untrained(method, recipe), *hint),
            counts,
            method.objective is not None,
        )

    @property
    def lines(self) -> list[str]:
        """All of it, a line each."""
        seconds, memory = self.cost
        tuning = f"{duration(self.tune_seconds)} to try {plural(self.trials, 'recipe')}, " if self.trials else ""
        return [
            facts_line(self.facts),
            *(f"- {line}" for line in (*self.columns, *self.warnings)),
            *(f"- {choice.key}={choice.value}: {choice.reason}" for choice in self.choices),
            *(f"- {note}" for note in self.notes),
            f"rough estimate: {tuning}{duration(seconds)} to {'train' if self.trains else 'compute (nothing is trained)'}, "
            f"{duration(self.other_seconds)} to evaluate and draw, "
            f"{memory / 2**30:.1f} GiB of memory",
            *(
                [f"{self.workers} workers: each sends about {self.sent_per_step / 1e6:.2g} MB a step"]
                if self.workers > 1
                else []
            ),
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""
        return {
            "graph": self.counts,
            "columns": list(self.columns),
            "warnings": list(self.warnings),
            "choices": [choice._asdict() for choice in self.choices],
            "notes": list(self.notes),
            "tune_seconds": self.tune_seconds,
            "train_seconds": self.cost.seconds,
            "other_seconds": self.other_seconds,
            "memory_bytes": self.cost.memory,
            "free_memory_bytes": self.free_memory,
            "workers": self.workers,
            "sent_bytes_per_step": self.sent_per_step,
        }

    def check_memory(self) -> None:
        """Raise OutOfMemory if training needs more memory than is free."""
        if self.free_memory is not None and self.cost.memory > self.free_memory:
            raise OutOfMemory(
                f"training needs about {self.cost.memory / 2**30:.1f} GiB, and {self.free_memory / 2**30:.1f} GiB are free; a "
                "smaller dimension and hidden (--set dimension=64 --set hidden=64) need less; "
                "ignore_memory_check=True (--ignore-memory-check) trains anyway"
            )


def drawing_seconds(nodes: int, width: int, layout: str) -> float:
    """Estimated seconds of the map of an embedding: of neighbours, and of the layout."""
    shown = min(nodes, MOST)
    return searching(shown, width) + MAP_LAYOUTS[layout].seconds(shown)


def drawing_note(z: Array, layout: str) -> str:
    """What is said before the map of an embedding is drawn; with an estimate, if that takes long."""
    seconds = drawing_seconds(len(z), z.shape[1], layout)
    return f"drawing the map for the report{f' ({layout}): about {duration(seconds)}' if seconds > _SLOW else ''}"


def size_of(graph: Graph) -> Size:
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)


def _gpu_hint(engine: Engine, seconds: float, on_gpu: float) -> list[str]:
    """A line if training takes long, and would not on a GPU."""
    if engine.device.type != "cpu" or seconds < max(_LONG, _FASTER * on_gpu):
        return []
    how = ": --device cuda" if torch.cuda.is_available() else ""
    return [f"a GPU would help: training would take about {duration(on_gpu)} in place of {duration(seconds)}{how}"]


def graph_counts(graph: Graph) -> dict[str, Any]:
    """Counts of a graph's nodes, edges, features, components and classes, as numbers."""
    adjacency = graph.to_scipy()
    parts, of = connected_components(adjacency, directed=False)
    degree = degrees_of(graph)
    edges = graph.num_edges if graph.directed else (graph.num_edges + int((adjacency.diagonal() != 0).sum())) // 2
    counts = {
        "nodes": graph.num_nodes,
        "edges": edges,
        "directed": graph.directed,
        "weighted": graph.incoming.weight is not None,
        "median_weight": median_weight(graph.incoming.weight),
        "features": graph.num_features,
        "sparse": graph.sparse,
        "components": int(parts),
        "largest_component": int(np.bincount(of).max()) if graph.num_nodes else 0,
        "nodes_without_edges": int((degree == 0).sum()),
        "mean_degree": float(degree.mean()) if graph.num_nodes else 0.0,
        "max_degree": int(degree.max(initial=0)),
    }
    if graph.labels is not None:
        counts |= {"classes": graph.num_classes, "labelled_nodes": int((graph.labels >= 0).sum())}
    return counts


def graph_facts(graph: Graph) -> dict[str, str]:
    """The same counts in words."""
    return _in_words(graph_counts(graph))


def _in_words(counts: dict[str, Any]) -> dict[str, str]:
    some = counts["nodes"] > 0
    kind = edges_in_words(counts)
    largest, mean = plural(counts["largest_component"], "node"), f"{counts['mean_degree']:.1f} on average"
    facts = {
        "nodes": f"{counts['nodes']:,}",
        "edges": f"{counts['edges']:,} {kind}",
        "features": f"{counts['features']:,} {'sparse' if counts['sparse'] else 'dense'}",
        "components": f"{counts['components']:,}, the largest of {largest}" if some else "0",
        "nodes without edges": f"{counts['nodes_without_edges']:,}",
        "edges per node": f"{mean}, at most {counts['max_degree']:,}" if some else "0",
    }
    if "classes" in counts:
        facts["classes"] = f"{counts['classes']:,}, of {plural(counts['labelled_nodes'], 'node')}"
    return facts


def edges_in_words(counts: dict[str, Any]) -> str:
    """Whether edges are directed and weighted."""
    weighted = f", weighted ({counts['median_weight']:.3g} at the median)" if counts["weighted"] else ""
    return f"{'directed' if counts['directed'] else 'undirected'}{weighted}"


def facts_line(facts: dict[str, str]) -> str:
    """Facts in one line."""
    return "; ".join(f"{name}: {value}" for name, value in facts.items())


def degrees_of(graph: Graph) -> Array:
    """The number of edges of each node, in either direction."""
    return np.diff(graph.incoming.indptr) + (np.diff(graph.outgoing.indptr) if graph.directed else 0)


def _adds_weights(table_graph: TableGraph) -> bool:
    """Whether rows that repeat an edge add to its weight: not if its weight is only that of its kind."""
    report = table_graph.ingest_report
    given = [info.role for info in report.columns if info.table.startswith("edges")]
    return table_graph.graph.incoming.weight is not None and (not given or "weight" in given or report.fading != 1)


def table_warnings(table_graph: TableGraph) -> list[str]:
    """Odd things in the tables, and what was done about each, a line each."""
    report, encoder = table_graph.ingest_report, table_graph.feature_encoder
    lines: list[str] = []
    if dangling := dangling_warning(report):
        lines.append(f"warning: {dangling}" if loses_much(report) else dangling)
    if report.loops:
        lines.append(f"left out: {plural(report.loops, 'self-loop')}; every node's own features count anyway")
    if report.duplicates:
        how = "its weights are added" if _adds_weights(table_graph) else "it counts once"
        lines.append(f"merged: {plural(report.duplicates, 'row')} repeating an edge; {how}")
    if len(report.edge_types) > 1:
        kinds = ", ".join(f"{kind} by {factor:.3g}" for kind, factor in report.edge_types.items())
        lines.append(f"weights of each kind of edges, multiplied on average: {kinds}")
    labels, classes = table_graph.graph.labels, table_graph.graph.num_classes
    labelled = 0 if labels is None else int((labels >= 0).sum())
    if labelled >= _LABELLED and labelled < _NODES_OF_CLASS * classes:
        lines.append(f"labels: {plural(labelled, 'node')} in {classes:,} classes, few of each; are these classes?")
    if report.isolated:
        lines.append(f"embedded by features alone: {plural(report.isolated, 'node')} without edges")
    if encoder is not None and not report.columns:
        lines += [f"column '{column}' is not used: {reason}" for column, reason in encoder.dropped.items()]
    return [one_line(line, _LONGEST) for line in (*lines, *report.remarks)]
