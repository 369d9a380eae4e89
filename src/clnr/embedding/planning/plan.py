"""A plan: what was read, what will be done, and a bound of the memory that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from clnr.embedding.defaults import Choice, check_labels
from clnr.embedding.fit_settings import Settings
from clnr.embedding.graph_facts import counts_of, kind_weights, summary
from clnr.embedding.planning.memory_bound import (
    PROGRAM_BYTES,
    block_rows,
    loaded_bytes,
    needs_in_blocks,
    needs_in_memory,
    size_of,
)
from clnr.embedding.scoring.judges import check_purpose
from clnr.errors import MethodError, OutOfMemory, option
from clnr.graph import Graph
from clnr.methods.recipe import Recipe, check_used, untrained
from clnr.nn.hyper_parameters import declared
from clnr.support.humanize import gigabytes, plural
from clnr.support.machine import memory
from clnr.tables.column_report import column_lines

SMALL_BYTES = 2.5e8
"""A graph that takes no more beside Python and torch is small: no setting would change much, and it is never refused."""


@dataclass(frozen=True, repr=False, eq=False)
class Plan:
    """What is known before a job runs; ``print`` shows its ``lines``.

    Attributes:
        graph: The graph, and how tables became it.
        settings: How the job is done.
        recipe: All hyper-parameters.
        workers: How many processes share the training.
        memory: A bound of the memory in bytes, of all processes on this machine.
        block_rows: From files, the rows of a block; None if the graph is loaded.
        choices: The hyper-parameters that follow from the graph.
        notes: What else to know of what will be done, a line each.
    """

    graph: Graph
    settings: Settings
    recipe: Recipe
    workers: int
    memory: float
    block_rows: int | None
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]

    @cached_property
    def counts(self) -> dict[str, Any]:
        """Facts of the graph as numbers, by name."""
        return counts_of(self.graph)

    @property
    def warnings(self) -> list[str]:
        """Odd things in the tables, a line each."""
        return [*self.graph.info.notes]

    @property
    def lines(self) -> list[str]:
        """What was read, what will be done, and the memory that it takes: a line each, with bullets below."""
        read = *column_lines(self.graph.info.columns), *self.warnings
        groups = (
            (f"read: {summary(self.counts)}", read),
            (f"plan: {self._method_words}", (*(str(each) for each in self.choices if each.matters), *self.notes)),
            (f"memory: at most {gigabytes(self.memory)}", ()),
        )
        return [line for heading, more in groups for line in (heading, *(f"- {each}" for each in more))]

    @property
    def _method_words(self) -> str:
        method, recipe = self.settings.method, self.recipe
        width = f", {recipe.dimension} dimensions" if "dimension" in method.keys else ""
        shared = f", {self.workers} workers" if self.workers > 1 else ""
        trained = "no training" if method.objective is None else plural(recipe.epochs, "epoch")
        where = "" if self.block_rows is None else ", from files"
        return f"{method.name}{width}, {trained}{shared}{where}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""
        return {
            "graph": self.counts,
            "choices": [choice._asdict() for choice in self.choices],
            "notes": list(self.notes),
            "columns": column_lines(self.graph.info.columns),
            "warnings": [*self.warnings, *kind_weights(self.graph.info)],
            "memory_bytes": self.memory,
            "workers": self.workers,
            "from_files": self.block_rows is not None,
        }

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def make_plan(graph: Graph, settings: Settings, limit: float | None = None, workers: int | None = None) -> Plan:
    """Everything that can be known before training; refuses what cannot work. All workers call it.

    Args:
        graph: The graph, in memory or in a folder.
        settings: How the job is done.
        limit: The bytes of memory that may be used on this machine; None for what is free.
        workers: How many would share the training on this machine; None for those of the settings.
    """
    method = settings.method
    check_labels(method, graph.labels is not None)
    check_purpose(settings, graph)
    check_used(method, settings.fixed)
    recipe, choices = settings.recipe_for(graph)
    method.check(recipe)
    total, beside = workers or settings.workers.size, workers or settings.workers.local_size
    settings.check_size(total, recipe, graph.num_nodes)
    bound, rows = blocks_of(graph, settings, recipe, limit, total, beside)
    # Without training, views are never drawn.
    unused = declared(part for view in method.views for part in view) if method.objective is None else {}
    chosen = tuple(each for each in choices if getattr(recipe, each.key) == each.value and each.key not in unused)
    notes = *untrained(method, recipe), *method.build(recipe).encoder.notes(graph.incoming.weight is not None)
    return Plan(graph, settings, recipe, total, bound, rows, chosen, notes)


def blocks_of(
    graph: Graph, settings: Settings, recipe: Recipe, limit: float | None = None, total: int = 1, beside: int = 1
) -> tuple[float, int | None]:
    """A bound of the memory, and the rows of a block; None for these if the graph is loaded.

    It stays in files if one of the workers, ``beside`` each other on this machine, cannot load it.
    """
    usable = _usable(limit)
    needed = needs_in_memory(settings.method, recipe, size_of(graph), settings.engine).peak(graph.num_nodes)
    # Processes share the memory of a CPU.
    bound = needed if settings.engine.device.type != "cpu" else beside * needed
    if settings.workers.all_reduce_min(int(fits_memory(graph, settings, needed, limit, beside))):
        return bound, None
    if graph.stored is None:
        raise OutOfMemory(
            f"training needs about {gigabytes(bound)} of memory, and {gigabytes(usable)} may be used; on a graph folder, "
            "which clnr ingest writes, clnr embed --graph trains from its files"
        )
    whole_graph_reason = settings.method.build(recipe).whole_graph_reason(graph.num_nodes)
    if reason := "edge_noise changes edges" if recipe.edge_noise else whole_graph_reason:
        needs = f"{settings.method.name} needs {gigabytes(bound)} in memory, and cannot work from files"
        raise MethodError(f"{graph.stored.path}: {needs}: {reason}")
    # Where nothing is known, 4 GiB.
    share = (usable if usable < float("inf") else 1 << 32) / beside
    each = needs_in_blocks(graph, settings, recipe, total, beside)
    if each.peak() > max(share, PROGRAM_BYTES + SMALL_BYTES):
        shared = f" in each of {beside} processes" if beside > 1 else ""
        raise OutOfMemory(
            f"training from files needs about {gigabytes(each.peak())} of memory{shared}, and {gigabytes(share)} may be "
            f"used; {option('memory')} sets how much"
        )
    rows = block_rows(each, share, graph, settings.engine.gathers_rows, total)
    return beside * min(max(share, each.peak()), each.peak(min(rows, graph.num_nodes))), rows


def _usable(limit: float | None) -> float:
    """Bytes of main memory that may be used: what is free, and no more than the limit."""
    known = limit, memory.free_memory(torch.device("cpu"))
    return min((each for each in known if each is not None), default=float("inf"))


def fits_memory(graph: Graph, settings: Settings, needed: float, limit: float | None, beside: int) -> bool:
    """Whether processes beside each other can load a graph, and train on it in memory, of which each needs so much."""
    device = settings.engine.device
    if limit is None and needed - PROGRAM_BYTES <= SMALL_BYTES:
        return True
    if device.type == "cpu":
        return beside * needed <= _usable(limit)
    return beside * loaded_bytes(graph) <= _usable(limit) and needed <= (memory.free_memory(device) or needed)
