"""The plan of a graph in memory: facts, warnings about its tables, chosen hyper-parameters, and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from clnr.embedding.defaults import check_labels
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.graph_facts import graph_counts, kind_weights, table_warnings
from clnr.embedding.planning.job_plan import SMALL_BYTES, Plan
from clnr.embedding.scoring.judges import check_purpose
from clnr.errors import OutOfMemory
from clnr.experiments.training_memory import LIBRARY_BYTES, training_memory
from clnr.graph import Graph
from clnr.methods.recipe import Recipe, check_used, untrained
from clnr.nn.hyper_parameters import declared
from clnr.support.humanize import gigabytes
from clnr.support.machine import memory
from clnr.tables import TableGraph
from clnr.tables.ingest_report import column_lines
from clnr.training.step_work import Size


@dataclass(frozen=True, repr=False)
class MemoryPlan(Plan):
    """The plan of a graph in memory.

    Columns, warnings and kinds are lines: how tables were read, odd things in them, and what kinds of edges weigh. The hint,
    if any, comes first. ``program_bytes`` of the memory are what Python and torch take, and ``free_memory`` is of the device,
    if known.
    """

    columns: tuple[str, ...]
    warnings: tuple[str, ...]
    kinds: tuple[str, ...]
    hint: str
    program_bytes: float
    free_memory: int | None

    @property
    def read(self) -> tuple[str, ...]:
        return *self.columns, *(each for each in self.warnings if each != self.hint)

    @property
    def lines(self) -> list[str]:
        return [*([self.hint] if self.hint else []), *super().lines]

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "columns": list(self.columns),
            "warnings": [*self.warnings, *self.kinds],
            "free_memory_bytes": self.free_memory,
        }

    def check_memory(self) -> None:
        """Raise OutOfMemory if training needs more memory than is free, unless the graph is small."""
        free = self.free_memory
        if free is None or self.memory <= free or self.memory - self.program_bytes <= SMALL_BYTES:
            return
        raise OutOfMemory(
            f"training needs about {gigabytes(self.memory)} of memory, and {gigabytes(free)} are free; on a graph folder, "
            "which clnr ingest writes, clnr embed --graph trains from its files"
        )


def plan(table_graph: TableGraph, settings: Settings, workers: int | None = None) -> tuple[Recipe, MemoryPlan]:
    """The recipe for a graph, and everything that can be known before training; refuses what cannot work.

    ``workers`` would share the training on this machine; None for those of the settings.
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
    counts, device = graph_counts(graph), settings.engine.device
    # How many processes share the memory of the device.
    processes = beside if device.type == "cpu" else 1
    encoder, weighted = method.build(recipe).encoder, graph.incoming.weight is not None
    return recipe, MemoryPlan(
        settings,
        recipe,
        total,
        processes * training_memory(method, recipe, size_of(graph), settings.engine),
        counts,
        tuple(each for each in choices if getattr(recipe, each.key) == each.value and each.key not in unused),
        (*untrained(method, recipe), *encoder.notes(weighted)),
        tuple(column_lines(table_graph.ingest_report.columns)),
        tuple(table_warnings(graph, table_graph.info)),
        tuple(kind_weights(table_graph.info)),
        table_graph.ingest_report.hint,
        processes * LIBRARY_BYTES,
        memory.free_memory(device),
    )


def size_of(graph: Graph) -> Size:
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)
