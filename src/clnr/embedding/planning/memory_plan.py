"""The plan of a graph in memory: facts, warnings about its tables, chosen hyper-parameters, time and memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
import torch

from clnr.embedding.defaults import Choice
from clnr.embedding.planning.graph_facts import facts_line, graph_counts, in_words, table_warnings
from clnr.embedding.planning.job_plan import Plan, costs_of
from clnr.embedding.planning.stage_cost import JobSizes, StageCost
from clnr.embedding.reporting.drawing_time import drawing_seconds
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT
from clnr.embedding.tuning import mean_epochs
from clnr.engine import Engine
from clnr.errors import OutOfMemory
from clnr.evaluation.logistic_regression import MOST_NODES
from clnr.experiments.cost import Size, evaluating, sent, training, training_seconds
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe, untrained
from clnr.nn.hyper_parameters import declared
from clnr.support.humanize import duration, plural
from clnr.support.machine import memory
from clnr.tables import TableGraph
from clnr.tables.ingest_report import column_lines

# A GPU is worth a hint if training takes longer than so many seconds, and a GPU so many times shorter.
_HINT_SECONDS = 120.0
_GPU_SPEEDUP = 4.0


@dataclass(frozen=True)
class MemorySizes(JobSizes):
    """The sizes of a job over a graph in memory.

    Attributes:
        method: What is to be trained.
        recipe: Its hyper-parameters.
        engine: Where it is to be trained.
        graph: The graph.
        evaluated: How many embeddings are to be evaluated by labels, if there are any: this one, and baselines.
        local_workers: How many of the processes that share the training are on this machine.
        trials: How many recipes are tried before training.
        fixed: Hyper-parameters that are the same in all of them.
        layout: Of the map.
    """

    method: Method
    recipe: Recipe
    engine: Engine
    graph: Graph
    evaluated: int
    local_workers: int
    trials: int
    fixed: Collection[str]
    layout: str

    @property
    def trainings(self) -> float:
        """How many trainings all trials are worth."""
        return self.trials * mean_epochs(self.method, self.fixed)

    def tune(self) -> StageCost:
        return StageCost(self.trainings * self.train().seconds + self.trials * self._probe_seconds())

    def train(self) -> StageCost:
        cost = training(self.method, self.recipe, size_of(self.graph), self.engine)
        return StageCost(cost.seconds, (self.local_workers if self.engine.device.type == "cpu" else 1) * cost.memory)

    def score(self) -> StageCost:
        return StageCost(self.evaluated * self._probe_seconds())

    def draw(self) -> StageCost:
        return StageCost(drawing_seconds(self.graph.num_nodes, self.recipe.dimension, self.layout))

    def _probe_seconds(self) -> float:
        graph = self.graph
        if graph.labels is None:
            return 0.0
        train = int((graph.labels >= 0).sum()) // 10 if graph.split is None else len(graph.split.train)
        return evaluating(min(train, MOST_NODES), graph.num_classes, self.recipe.dimension)


@dataclass(frozen=True)
class MemoryPlan(Plan):
    """The plan of a graph in memory.

    Attributes:
        columns: How each column of the tables was read, a line each.
        warnings: Odd things in the tables, and what was done about each, a line each.
        notes: What else to know, a line each: that nothing is trained, or that a GPU would help.
        free_memory: Free bytes on the device; None if that is not known.
        trials: How many recipes are tried before training.
        trains: Whether the method learns by training.
    """

    columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    free_memory: int | None = None
    trials: int = 0
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
    ) -> MemoryPlan:
        """The plan of training a method on a graph.

        Args:
            table_graph: The graph.
            method: What is to be trained.
            recipe: Its hyper-parameters.
            chosen: The choices of the default recipe; those that the recipe has changed are left out.
            engine: Where it is to be trained.
            evaluated: How many embeddings are to be evaluated by labels.
            workers: How many processes share the training.
            local_workers: How many of them are on this machine.
            trials: How many recipes are tried before training.
            fixed: Hyper-parameters that are the same in all of them.
            layout: Of the map.
        """
        # Without training, views are never drawn.
        unused = declared(part for view in method.views for part in view) if method.objective is None else {}
        graph = table_graph.graph
        counts, size = graph_counts(graph), size_of(graph)
        sizes = MemorySizes(method, recipe, engine, graph, evaluated, local_workers, trials, fixed, layout)
        costs = costs_of(sizes)
        trainings, on_gpu = 1 + sizes.trainings, training_seconds(method, recipe, size, "cuda")
        hint = _gpu_hint(engine, trainings * costs["Train"].seconds, trainings * on_gpu)
        return cls(
            in_words(counts),
            counts,
            tuple(each for each in chosen if getattr(recipe, each.key) == each.value and each.key not in unused),
            costs,
            workers,
            sent(method, recipe, size, workers) if workers > 1 else 0.0,
            tuple(column_lines(table_graph.ingest_report.columns)),
            tuple(table_warnings(table_graph)),
            (*untrained(method, recipe), *hint),
            memory.free_memory(engine.device),
            trials,
            method.objective is not None,
        )

    @property
    def other_seconds(self) -> float:
        """Estimated seconds of everything after training: evaluation by labels, neighbours and the map."""
        return self.seconds(*(name for name in self.costs if name not in ("Tune", "Train")))

    @property
    def lines(self) -> list[str]:
        tuning = f"{duration(self.seconds('Tune'))} to try {plural(self.trials, 'recipe')}, " if self.trials else ""
        shared = f"{self.workers} workers: each sends about {self.sent_per_step / 1e6:.2g} MB a step"
        to_train = "to train" if self.trains else "to compute (nothing is trained)"
        return [
            facts_line(self.facts),
            *(f"- {line}" for line in (*self.columns, *self.warnings)),
            *self._choice_lines(),
            *(f"- {note}" for note in self.notes),
            f"rough estimate: {tuning}{duration(self.seconds('Train'))} {to_train}, {duration(self.other_seconds)} to evaluate "
            f"and draw, {self.memory / 2**30:.1f} GiB of memory",
            *([shared] if self.workers > 1 else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "graph": self.counts,
            "columns": list(self.columns),
            "warnings": list(self.warnings),
            "choices": [choice._asdict() for choice in self.choices],
            "notes": list(self.notes),
            "tune_seconds": self.seconds("Tune"),
            "train_seconds": self.seconds("Train"),
            "other_seconds": self.other_seconds,
            "memory_bytes": self.memory,
            "free_memory_bytes": self.free_memory,
            "workers": self.workers,
            "sent_bytes_per_step": self.sent_per_step,
        }

    def check_memory(self) -> None:
        """Raise OutOfMemory if training needs more memory than is free."""
        if self.free_memory is not None and self.memory > self.free_memory:
            raise OutOfMemory(
                f"training needs about {self.memory / 2**30:.1f} GiB, and {self.free_memory / 2**30:.1f} GiB are free; a "
                "smaller dimension and hidden (--set dimension=64 --set hidden=64) need less; "
                "ignore_memory_check=True (--ignore-memory-check) trains anyway"
            )


def size_of(graph: Graph) -> Size:
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)


def _gpu_hint(engine: Engine, seconds: float, on_gpu: float) -> list[str]:
    """A line if training takes long, and would not on a GPU."""
    if engine.device.type != "cpu" or seconds < max(_HINT_SECONDS, _GPU_SPEEDUP * on_gpu):
        return []
    how = ": --device cuda" if torch.cuda.is_available() else ""
    return [f"a GPU would help: training would take about {duration(on_gpu)} in place of {duration(seconds)}{how}"]
