"""What it takes to train on a graph folder from its files and to embed it, and whether that is needed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch

from clnr.embedding.defaults import Choice
from clnr.embedding.fit_settings import Settings
from clnr.embedding.preflight import edges_in_words
from clnr.embedding.scoring.stored_links import MOST_PAIRS
from clnr.embedding.stages.pass_columns import PassColumns
from clnr.embedding.stages.stored_readout import FITTED_NODES, MOST_FEATURES
from clnr.errors import MethodError, OutOfMemory
from clnr.experiments.cost import Cost, Size, sent, training
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.stored_arrays import RESIDENT
from clnr.methods import CLNR, CLNR_MIX
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe, check_used
from clnr.support.humanize import duration, gigabytes
from clnr.support.machine import memory
from clnr.tables.folder_read import read_table_info
from clnr.training.step_work import step_work

_NUMBER = 4
# The program itself; how often the features that a view reads are in memory, those of the next step or block among them; and
# the rows that a step computes: activations and gradients of two views.
_BASE = 7.5e8
_INPUTS = 5
_COPIES = 12
_LEAST_ROWS = 1 << 12
# Bytes of the model, its read-out and the report.
_MODEL = 20_000_000
# The share of memory that pages of files may take.
_PAGES = 0.25
# The nodes of held-out edges and non-edges.
_LINK_NODES = 4 * MOST_PAIRS


def for_files(folder: GraphFolder, settings: Settings, bound: int | None, workers: int | None = None) -> Settings:
    """Settings to train from files: CLNR alone takes the place of the default method where that cannot work.

    Only where an effort has chosen the method, and that one trains. The arguments are those of ``plan``.
    """
    if settings.effort is None or settings.auto or settings.method.objective is None:
        return settings
    try:
        plan(folder, settings, bound, workers)
    except (MethodError, OutOfMemory):
        return dataclasses.replace(settings, method=CLNR, effort={**settings.effort, "structure": 0})
    return settings


def fits_memory(folder: GraphFolder, settings: Settings, bound: int | None, workers: int | None = None) -> bool:
    """Whether a graph folder can be loaded, and trained on in memory.

    Args:
        folder: The graph.
        settings: How to train.
        bound: Bytes of main memory that may be used; None for what is free.
        workers: How many processes would each load it, if not as the settings say.
    """
    recipe, _ = settings.recipe_for(cast(Any, folder), read_table_info(folder).feature_encoder)
    beside, most, device = workers or settings.workers.local_size, _usable(bound, float("inf")), settings.engine.device
    needed = _cost(folder, settings, recipe).memory
    if device.type == "cpu":
        return beside * needed <= most
    return beside * folder.loaded_bytes <= most and needed <= (memory.free_memory(device) or 0)


def _usable(bound: int | None, default: float) -> float:
    """Bytes of main memory that may be used: what is free, and no more than the bound; ``default`` where neither is known."""
    known = (bound, memory.free_memory(torch.device("cpu")))
    return min((each for each in known if each is not None), default=default)


def _cost(folder: GraphFolder, settings: Settings, recipe: Recipe) -> Cost:
    sizes = folder.num_nodes, folder.num_edges, folder.num_features
    entries = folder.arrays["features.values"].shape
    return training(settings.method, recipe, Size(*sizes, 2 * _NUMBER * float(np.prod(entries))), settings.engine)


@dataclass(frozen=True)
class DiskPlan:
    """What is known before a graph folder is trained on and embedded from its files; ``print`` shows it in lines.

    Attributes:
        facts: Of the graph: values by name.
        choices: Hyper-parameters that follow from the graph, with their reasons.
        seconds: Estimated seconds of training, if pages that were read stay in the system's cache.
        memory: Estimated peak of memory in bytes, of each worker; the first takes more for the read-out, while others wait.
        step_bytes: Bytes that each worker reads from files in a step.
        disk: Bytes of the shards, and of the rows that are on disk while they are written.
        block_rows: How many rows a block of nodes may gather while it is embedded.
        resident: Bytes of files that may be mapped into memory at a time.
        workers: How many processes share training and embedding.
        local_workers: How many of them are on this machine.
        sent_per_step: Bytes that each worker sends in a step.
        passes: How often all edges are read to put walks beside the features and for the read-out.
        passes_bytes: Bytes of rows that these passes gather.
        counts: The facts as numbers.
    """

    facts: dict[str, str]
    choices: tuple[Choice, ...]
    seconds: float
    memory: float
    step_bytes: float
    disk: float
    block_rows: int
    resident: int
    workers: int = 1
    local_workers: int = 1
    sent_per_step: float = 0.0
    passes: int = 0
    passes_bytes: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        total = f"{gigabytes(self.local_workers * self.memory)} of memory, {gigabytes(self.disk)} of disk"
        shared = [
            f"{self.workers} workers: each takes {gigabytes(self.memory)} of memory, and in a step reads up to "
            f"{gigabytes(self.step_bytes)} and sends about {self.sent_per_step / 1e6:.2g} MB"
        ]
        read_out = [
            f"walks and read-out: {self.passes} passes over all edges, which gather {gigabytes(self.passes_bytes)} of rows; "
            "with --hold-out 0 walks are done once instead of twice, and --method CLNR --set structure=0 takes none"
        ]
        return [
            "; ".join(f"{name}: {value}" for name, value in self.facts.items()),
            *(f"- {choice.key}={choice.value}: {choice.reason}" for choice in self.choices),
            f"from files: a step reads up to {gigabytes(self.step_bytes)}; rough estimate: {duration(self.seconds)} to train "
            f"if the system caches it, {total}",
            *(shared if self.workers > 1 else []),
            *(read_out if self.passes else []),
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""
        return {
            "graph": self.counts,
            "choices": [choice._asdict() for choice in self.choices],
            "train_seconds": self.seconds,
            "memory_bytes": self.local_workers * self.memory,
            "worker_memory_bytes": self.memory,
            "workers": self.workers,
            "sent_bytes_per_step": self.sent_per_step,
            "step_bytes": self.step_bytes,
            "disk_bytes": self.disk,
            "passes": self.passes,
            "passes_bytes": self.passes_bytes,
        }


def plan(folder: GraphFolder, settings: Settings, bound: int | None, workers: int | None = None) -> tuple[Recipe, DiskPlan]:
    """The recipe for a graph folder, and what training and embedding from its files take; refuses what cannot work.

    Args:
        folder: The graph.
        settings: How to train.
        bound: Bytes of memory that may be used on a machine; None for what is free.
        workers: How many processes would share it, if not as the settings say; all on this machine.
    """
    check_used(settings.method, settings.fixed)
    recipe, choices = settings.recipe_for(cast(Any, folder), read_table_info(folder).feature_encoder)
    settings.method.check(recipe)
    model = settings.method.build(recipe)
    _check_from_files(folder, settings, recipe, model)
    total, beside = workers or settings.workers.size, workers or settings.workers.local_size
    settings.check_workers(total, recipe, folder.num_nodes)
    most = _usable(bound, 1 << 32) / beside
    features = model.input_width(folder.num_features)
    rows = PassColumns.of(settings, model, recipe, features)
    width = max(recipe.hidden, recipe.dimension, rows.widest)
    size = Size(folder.num_nodes, folder.num_edges, folder.num_features, 0)
    share = recipe.but(sampled_nodes=math.ceil(recipe.sampled_nodes / total))
    one_view = step_work(len(settings.method.views), model.objective, share, size._replace(features=features))
    disk = _MODEL + _NUMBER * folder.num_nodes * rows.kept
    resident = int(max(RESIDENT / beside, _PAGES * most))
    mapped = disk + sum(each.bytes for each in folder.arrays.values())
    fixed = _BASE + min(resident, mapped) + 2 * _NUMBER * folder.num_nodes
    step = _NUMBER * (_INPUTS * features * one_view.nodes + _COPIES * max(recipe.hidden, recipe.dimension) * one_view.rows)
    # By one of the workers, while the others wait.
    fitted = 2 * _NUMBER * rows.fitted * min(folder.num_nodes, FITTED_NODES + _LINK_NODES) / beside
    if (need := fixed + max(step, fitted)) > most:
        raise OutOfMemory(
            f"training from files needs about {gigabytes(need)}{' for each worker' if beside > 1 else ''}, and "
            f"{gigabytes(most)} may be used; {'fewer workers, ' if beside > 1 else ''}fewer sampled_nodes, max_neighbors=10 or "
            "a smaller hidden (--set) need less"
        )
    row = _NUMBER * _INPUTS * max(width, features)
    block = max(_LEAST_ROWS, int((most - fixed) / 2 / row))
    # A block of many edges has the row of a node once.
    blocks = min(most / 4, row * min(block, folder.num_nodes))
    row_bytes, edge_bytes = (
        folder.arrays[name].bytes / max(1, count)
        for name, count in (("features.values", folder.num_nodes), ("incoming.indices", folder.num_edges))
    )
    step_bytes = 2 * (one_view.nodes * row_bytes + one_view.edges * edge_bytes)
    kept = tuple(choice for choice in choices if getattr(recipe, choice.key) == choice.value)
    if settings.effort is not None and settings.method == CLNR:
        reason = f"the default does not work from files here; --method {CLNR_MIX.name} --dry-run says why"
        kept = (Choice("method", CLNR.name, reason), *kept)
    seconds = _cost(folder, settings, recipe).seconds
    peak = min(most, fixed + max(step, fitted, blocks))
    sent_per_step = sent(settings.method, recipe, size, total) if total > 1 else 0.0
    facts, counts = folder_facts(folder), folder_counts(folder)
    gathered = _NUMBER * folder.num_edges * rows.gathered
    sizes = seconds, peak, step_bytes, disk, block, resident, total, beside, sent_per_step
    return recipe, DiskPlan(facts, kept, *sizes, rows.passes, gathered, counts)


def _check_from_files(folder: GraphFolder, settings: Settings, recipe: Recipe, model: Model) -> None:
    """Fail if a method must see all of the graph at once, with advice."""
    needs = f"{gigabytes(_cost(folder, settings, recipe).memory)} would be needed in memory, and it cannot work from files"
    if not settings.engine.reads_files:
        raise MethodError(f"{folder.path}: {needs}: that needs numba, and on a GPU also Triton")
    reason = model.whole_graph_reason(folder.num_nodes)
    if reason is None and model.readout is not None and model.input_width(folder.num_features) > MOST_FEATURES:
        reason = f"its read-out takes at most {MOST_FEATURES:,} features from files"
    if recipe.edge_noise:
        reason = "edge_noise changes edges"
    if settings.tune or settings.auto:
        reason = "tuning and --method auto score by held-out edges"
    if reason is not None:
        advice = "--method CLNR with its defaults works, and so does more memory"
        if settings.method == CLNR and folder.num_nodes <= recipe.sampled_nodes:
            half = f"--set moments=sampled --set sampled_nodes={max(1, folder.num_nodes // 2)}"
            advice = f"the graph is small, so leave out --from-files, or say: {half}"
        raise MethodError(f"{folder.path}: {needs}: {reason}; {advice}")


def folder_counts(folder: GraphFolder) -> dict[str, Any]:
    """Counts of a graph folder, as numbers."""
    return {
        "nodes": folder.num_nodes,
        "edges": folder.num_edges if folder.directed else folder.num_edges // 2,
        "directed": folder.directed,
        "weighted": "incoming.weight" in folder.arrays,
        "median_weight": folder.median_weight,
        "features": folder.num_features,
        "sparse": folder.sparse,
        **({"classes": folder.num_classes} if folder.num_classes else {}),
    }


def folder_facts(folder: GraphFolder) -> dict[str, str]:
    """The same in words."""
    counts = folder_counts(folder)
    return {
        "nodes": f"{folder.num_nodes:,}",
        "edges": f"{counts['edges']:,} {edges_in_words(counts)}",
        "features": f"{folder.num_features:,} {'sparse' if folder.sparse else 'dense'}, {folder.feature_type}",
        **({"classes": f"{folder.num_classes:,}"} if folder.num_classes else {}),
    }
