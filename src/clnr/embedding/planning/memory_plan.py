"""The plan of a graph in memory: facts, warnings about its tables, chosen hyper-parameters, time and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import scipy.sparse as sp
import torch

from clnr.embedding.defaults import check_labels
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.graph_facts import facts_in_words, graph_counts, kind_weights, table_warnings
from clnr.embedding.planning.job_plan import JobSizes, Plan
from clnr.embedding.planning.remedies import SMALL_BYTES, refusal, remedies
from clnr.embedding.reporting.map_layouts import drawing_seconds
from clnr.embedding.scoring.baseline_comparison import MOST_EDGES as MOST_SCORED_EDGES
from clnr.embedding.scoring.judges import check_purpose
from clnr.embedding.stages.graph_in_memory import MOST_NODES as MOST_SCORED_NODES
from clnr.embedding.stages.graph_in_memory import recipe_beside
from clnr.errors import spoken
from clnr.evaluation.logistic_regression import MOST_NODES
from clnr.experiments.cost import (
    LIBRARY_BYTES,
    ModelWork,
    Size,
    Work,
    evaluating,
    holding_out,
    training,
    training_seconds,
    writing,
)
from clnr.graph import Graph
from clnr.methods.recipe import Recipe, check_used, untrained
from clnr.nn.hyper_parameters import declared
from clnr.support.humanize import duration, gigabytes
from clnr.support.machine import memory
from clnr.tables import TableGraph
from clnr.tables.ingest_report import column_lines

# In files, of a node's ids and columns, and of an edge.
_NODE_BYTES, _EDGE_BYTES = 32, 12
# A GPU is worth a hint if training takes longer than this, in seconds, and a GPU is this many times as fast.
_HINT_SECONDS = 120.0
_GPU_SPEEDUP = 4.0


@dataclass(frozen=True)
class MemorySizes(JobSizes):
    """The sizes of a job over a graph in memory."""

    graph: Graph
    layout: str | None

    @property
    def size(self) -> Size:
        return size_of(self.graph)

    @property
    def memory(self) -> float:
        return self._processes * training(self.settings.method, self.recipe, self.size, self.settings.engine).memory

    @property
    def _processes(self) -> int:
        """How many processes share the memory of the device."""
        return self.local_workers if self.settings.engine.device.type == "cpu" else 1

    @property
    def program_bytes(self) -> float:
        """What Python and torch take of the memory."""
        return self._processes * LIBRARY_BYTES

    def seconds(self) -> dict[str, float]:
        settings, recipe, size = self.settings, self.recipe, self.size
        device, again = settings.engine.device.type, bool(settings.hold_out)
        own = ModelWork(settings.method.build(recipe), recipe, size)
        links = Work(0, settings.hold_out * size.edges * recipe.dimension)
        stages = {
            "prepare": self.took(own.inputs()) + again * holding_out(size.edges),
            "train": training_seconds(settings.method, recipe, size, device),
            "fit the read-out": self.took(own.walks(), own.fit_readout()),
            "embed": self.took(own.embed()) + again * self.took(own.inputs(), own.walks(), own.embed()),
            "score": settings.evaluate * self._probe_seconds(recipe.dimension) + self.took(links),
            "baselines": self._baseline_seconds(),
            "draw": 0.0 if self.layout is None else drawing_seconds(size.nodes, recipe.dimension, self.layout),
            "write": writing(size.nodes * (4 * recipe.dimension + _NODE_BYTES) + size.bytes + _EDGE_BYTES * size.edges),
        }
        return self.with_fixed(stages)

    def _baseline_seconds(self) -> float:
        settings, graph, size = self.settings, self.graph, self.size
        if not settings.compared or graph.num_nodes > MOST_SCORED_NODES or graph.num_edges > MOST_SCORED_EDGES:
            return 0.0
        seconds = settings.evaluate * self._probe_seconds(size.bytes / 4 / max(1, size.nodes))
        graphs = 2 if settings.hold_out and graph.labels is not None else 1
        for method in settings.compared:
            recipe = recipe_beside(method, settings.method, self.recipe, graph)
            seconds += self.took(ModelWork(method.build(recipe), recipe, size).all(graphs))
            seconds += settings.evaluate * self._probe_seconds(recipe.dimension)
        return seconds

    def _probe_seconds(self, width: float) -> float:
        graph = self.graph
        if graph.labels is None:
            return 0.0
        train = int((graph.labels >= 0).sum()) // 10 if graph.split is None else len(graph.split.train)
        return evaluating(min(train, MOST_NODES), graph.num_classes, width)


@dataclass(frozen=True, repr=False)
class MemoryPlan(Plan):
    """The plan of a graph in memory.

    Columns, warnings and kinds are lines: how tables were read, odd things in them, and what kinds of edges weigh. The hint,
    if any, comes first.
    ``free_memory`` is of the device, if known.
    """

    sizes: MemorySizes
    columns: tuple[str, ...]
    warnings: tuple[str, ...]
    kinds: tuple[str, ...]
    hint: str
    free_memory: int | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What else to know, a line each: that nothing is trained, or that a GPU would help."""
        sizes, method = self.sizes, self.sizes.settings.method
        encoder, weighted = method.build(sizes.recipe).encoder, sizes.graph.incoming.weight is not None
        lines = [*untrained(method, sizes.recipe), *encoder.notes(weighted)]
        seconds = training_seconds(method, sizes.recipe, sizes.size, "cpu")
        on_gpu = training_seconds(method, sizes.recipe, sizes.size, "cuda")
        if sizes.settings.engine.device.type == "cpu" and seconds >= max(_HINT_SECONDS, _GPU_SPEEDUP * on_gpu):
            how = ": --device cuda" if torch.cuda.is_available() else ""
            took = f"training would take about {duration(on_gpu)} in place of {duration(seconds)}"
            lines = [*lines, f"a GPU would help: {took}{how}"]
        return tuple(map(spoken, lines))

    @property
    def read(self) -> tuple[str, ...]:
        return *self.columns, *(each for each in self.warnings if each != self.hint)

    @property
    def lines(self) -> list[str]:
        return [*([self.hint] if self.hint else []), *super().lines]

    @property
    def details(self) -> list[str]:
        return [*super().details, *(f"- {each}" for each in self.kinds)]

    @property
    def takes(self) -> list[str]:
        workers = self.sizes.workers
        return [f"{workers} workers: each sends about {self.sent_per_step / 1e6:.2g} MB a step"] if workers > 1 else []

    @property
    def _bytes_words(self) -> str:
        return f"{gigabytes(self.memory)} of memory"

    def to_dict(self) -> dict[str, Any]:
        return {
            "graph": self.counts,
            "columns": list(self.columns),
            "warnings": [*self.warnings, *self.kinds],
            "choices": [choice._asdict() for choice in self.choices],
            "notes": list(self.notes),
            "seconds": self.seconds(),
            "stage_seconds": self.estimate,
            "train_seconds": self.seconds("train"),
            "other_seconds": self.seconds() - self.seconds("train"),
            "memory_bytes": self.memory,
            "free_memory_bytes": self.free_memory,
            "workers": self.sizes.workers,
            "sent_bytes_per_step": self.sent_per_step,
        }

    def check_memory(self) -> None:
        """Raise OutOfMemory if training needs more memory than is free, unless the graph is small."""
        free, beside = self.free_memory, self.sizes.program_bytes
        if free is None or self.memory <= free or self.memory - beside <= SMALL_BYTES:
            return
        raise refusal(
            "training",
            self.memory,
            beside,
            f"{gigabytes(free)} are free (--ignore-memory-check trains anyway)",
            remedies(self.sizes, lambda tried: replace(self, sizes=tried).memory <= free),
            "clnr ingest writes tables as a graph folder, and clnr embed --graph trains from its files",
        )


def plan(
    table_graph: TableGraph, settings: Settings, workers: int | None = None, layout: str | None = None
) -> tuple[Recipe, MemoryPlan]:
    """The recipe for a graph, and everything that can be known before training; refuses what cannot work.

    ``workers`` would share the training on this machine; None for those of the settings. Without a layout, no map is drawn.
    """
    graph, method = table_graph.graph, settings.method
    check_labels(settings.method, graph.labels is not None)
    check_purpose(settings, graph)
    check_used(method, settings.fixed)
    recipe, choices = settings.recipe_for(graph, table_graph.feature_encoder)
    method.check(recipe)
    total, beside = workers or settings.workers.size, workers or settings.workers.local_size
    settings.check_size(total, recipe, graph.num_nodes)
    # Without training, views are never drawn.
    unused = declared(part for view in method.views for part in view) if method.objective is None else {}
    counts = graph_counts(graph)
    return recipe, MemoryPlan(
        MemorySizes(settings, recipe, total, beside, graph, layout),
        facts_in_words(counts),
        counts,
        tuple(each for each in choices if getattr(recipe, each.key) == each.value and each.key not in unused),
        tuple(column_lines(table_graph.ingest_report.columns)),
        tuple(table_warnings(table_graph)),
        tuple(kind_weights(table_graph)),
        table_graph.ingest_report.hint,
        memory.free_memory(settings.engine.device),
    )


def size_of(graph: Graph) -> Size:
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)
