"""The plan of a graph in files: what its stages take, and whether it fits in memory after all."""

from __future__ import annotations

import dataclasses
import functools
import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from clnr.embedding.defaults import Choice
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.graph_facts import facts_in_words, folder_counts
from clnr.embedding.planning.job_plan import JobSizes, PassColumns, Plan
from clnr.embedding.planning.remedies import SMALL_BYTES, Remedy, refusal, remedies
from clnr.embedding.scoring import judges
from clnr.embedding.scoring.held_out import MOST_PAIRS
from clnr.embedding.stages.block_passes import rows_of
from clnr.errors import DataError, MethodError, OutOfMemory
from clnr.evaluation.logistic_regression import MOST_NODES
from clnr.experiments.cost import FROM_FILES, Cost, ModelWork, Size, Work, evaluating, training, writing
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.stored_arrays import RESIDENT
from clnr.methods import CLNR, CLNR_MIX
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe, check_used
from clnr.nn.edge_information import MOST_COMPARED
from clnr.nn.readout_blocks import FITTED_NODES
from clnr.support.humanize import gigabytes
from clnr.support.machine import memory
from clnr.support.storage.atomic_io import resolve_path
from clnr.tables.table_graph import read_table_info
from clnr.training.step_work import StepWork, step_work

MOST_FEATURES = 4096
"""The most features that a read-out takes: their rows are dense in files, those of a sample also in memory."""
_FLOAT_BYTES = 4
# Python and torch.
_PROGRAM_BYTES = 7.5e8
# No more memory than this is offered.
_MOST_OFFERED = 1e12
# How often the features that a view reads are in memory, those of the next step or block among them; and the rows that a step
# computes: activations and gradients of two views.
_INPUT_COPIES = 5
_ROW_COPIES = 12
_LEAST_BLOCK_ROWS = 1 << 12
_BLOCKS_PER_WORKER = 8
# The model, its read-out and the report.
_MODEL_BYTES = 20_000_000
# The share of memory that pages of files may take.
_PAGES_SHARE = 0.25
# The nodes of held-out edges and non-edges.
_LINK_NODES = 4 * MOST_PAIRS


def for_files(folder: GraphFolder, settings: Settings, bound: int | None, workers: int | None = None) -> Settings:
    """Settings to train from files: CLNR alone takes the place of the default method where that cannot work.

    Only where an effort has chosen the method, and that one trains. The arguments are those of ``plan``.
    """
    if settings.effort is None or settings.purpose or settings.method.objective is None:
        return settings
    try:
        plan(folder, settings, bound, workers)
    except (MethodError, OutOfMemory):
        return dataclasses.replace(settings, method=CLNR, effort={**settings.effort, "structure": 0})
    return settings


def fits_memory(folder: GraphFolder, settings: Settings, bound: int | None, workers: int | None = None) -> bool:
    """Whether a graph folder can be loaded, and trained on in memory; the arguments are those of ``plan``."""
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


def _size(folder: GraphFolder) -> Size:
    entries = folder.arrays["features.values"].shape
    held_bytes = 2 * _FLOAT_BYTES * float(np.prod(entries))
    return Size(folder.num_nodes, folder.num_edges, folder.num_features, held_bytes)


def _cost(folder: GraphFolder, settings: Settings, recipe: Recipe) -> Cost:
    return training(settings.method, recipe, _size(folder), settings.engine)


@dataclass(frozen=True)
class FileSizes(JobSizes):
    """The sizes of a job over a graph in files.

    Each worker may use ``usable`` bytes of memory.
    """

    folder: GraphFolder
    model: Model
    usable: float

    @property
    def size(self) -> Size:
        return _size(self.folder)

    def with_recipe(self, recipe: Recipe) -> FileSizes:
        return replace(self, recipe=recipe, model=self.settings.method.build(recipe))

    @functools.cached_property
    def features(self) -> int:
        """How many features the encoder is given."""
        return self.model.input_width(self.folder.num_features)

    @functools.cached_property
    def columns(self) -> PassColumns:
        return PassColumns.of(self.settings, self.model, self.recipe, self.features)

    @functools.cached_property
    def resident(self) -> int:
        """Bytes of files that may be mapped into memory at a time."""
        return int(max(RESIDENT / self.local_workers, _PAGES_SHARE * self.usable))

    @functools.cached_property
    def fixed(self) -> float:
        """Bytes of memory that every stage takes."""
        mapped = self.disk + sum(each.bytes for each in self.folder.arrays.values())
        return _PROGRAM_BYTES + min(self.resident, mapped) + 2 * _FLOAT_BYTES * self.folder.num_nodes

    @property
    def sampled_nodes(self) -> int:
        """The nodes whose rows the read-out is fitted to, scored by and chosen by."""
        chosen_by = judges.MOST_NODES if self.settings.purpose and self.settings.tried else 0
        return min(self.folder.num_nodes, FITTED_NODES + _LINK_NODES + chosen_by)

    @functools.cached_property
    def disk(self) -> float:
        """Bytes on disk, at most."""
        columns, count = self.columns, self.folder.num_nodes
        sample = columns.fitted * self.sampled_nodes + columns.compared * min(count, MOST_COMPARED)
        return _MODEL_BYTES + _FLOAT_BYTES * max(columns.made * count + sample, columns.written * count)

    @property
    def _row_bytes(self) -> int:
        width = max(self.recipe.hidden, self.recipe.dimension, self.columns.widest)
        return _FLOAT_BYTES * _INPUT_COPIES * max(width, self.features)

    @property
    def block_rows(self) -> int:
        """How many rows a block of nodes may have while it is embedded: as memory allows, but each worker has some blocks."""
        all_rows = rows_of(self.folder.num_nodes, self.folder.num_edges, self.settings.engine.gathers_rows)
        rows = min((self.usable - self.fixed) / 2 / self._row_bytes, all_rows / (_BLOCKS_PER_WORKER * self.workers))
        return max(_LEAST_BLOCK_ROWS, int(rows))

    @property
    def needed(self) -> float:
        """Bytes of memory without which it cannot work: blocks of nodes take what is left."""
        computed = _ROW_COPIES * max(self.recipe.hidden, self.recipe.dimension) * self._step.rows
        step = _FLOAT_BYTES * (_INPUT_COPIES * self.features * self._step.nodes + computed)
        # By one of the workers, while the others wait.
        fitted = 2 * _FLOAT_BYTES * self.columns.fitted * self.sampled_nodes / self.local_workers
        return self.fixed + max(step, fitted)

    @property
    def memory(self) -> float:
        # A block of many edges has the row of a node once.
        blocks = min(self.usable / 4, self._row_bytes * min(self.block_rows, self.folder.num_nodes))
        return min(max(self.usable, self.needed), max(self.needed, self.fixed + blocks))

    @functools.cached_property
    def _step(self) -> StepWork:
        share = self.recipe.but(sampled_nodes=math.ceil(self.recipe.sampled_nodes / self.workers))
        views, objective = len(self.settings.method.views), self.model.objective
        return step_work(views, objective, share, self.size._replace(features=self.features))

    @property
    def step_bytes(self) -> float:
        """Bytes that each worker reads from files in a step."""
        folder = self.folder
        row_bytes, edge_bytes = (
            folder.arrays[name].bytes / max(1, count)
            for name, count in (("features.values", folder.num_nodes), ("incoming.indices", folder.num_edges))
        )
        return 2 * (self._step.nodes * row_bytes + self._step.edges * edge_bytes)

    @property
    def passes_bytes(self) -> float:
        """Bytes of the rows that passes over all edges gather."""
        return float(_FLOAT_BYTES * self.folder.num_edges * self.columns.gathered)

    def seconds(self) -> dict[str, float]:
        settings, recipe, folder = self.settings, self.recipe, self.folder
        classes = folder.num_classes if settings.evaluate else 0
        nodes = min(MOST_NODES, folder.num_nodes // 10)
        passes = Work(folder.num_edges * self.columns.gathered, FITTED_NODES * self.columns.fitted**2)
        return self.with_fixed(
            {
                "train": _cost(folder, settings, recipe).seconds,
                "fit the read-out": FROM_FILES * self.took(passes),
                "embed": FROM_FILES * self.took(ModelWork(self.model, recipe, self.size).embed()) / self.workers,
                "score": evaluating(nodes, classes, recipe.dimension),
                "baselines": evaluating(nodes, classes, self.features),
                "write": writing(_FLOAT_BYTES * folder.num_nodes * recipe.dimension),
            }
        )


@dataclass(frozen=True, repr=False)
class FilePlan(Plan):
    """The plan of a graph in files."""

    sizes: FileSizes

    @property
    def _method_words(self) -> str:
        return f"{super()._method_words}, from files"

    @property
    def _bytes_words(self) -> str:
        return f"{gigabytes(self.sizes.local_workers * self.memory)} of memory, {gigabytes(self.sizes.disk)} of disk"

    @property
    def takes(self) -> list[str]:
        workers, passes = self.sizes.workers, self.sizes.columns.passes
        shared = (
            f"; {workers} workers: each takes {gigabytes(self.memory)} of memory, and sends about "
            f"{self.sent_per_step / 1e6:.2g} MB a step"
        )
        gathered = gigabytes(self.sizes.passes_bytes)
        half = ", about half of that with --hold-out 0" if self.sizes.settings.hold_out else ""
        read_out = (
            f"structural features and read-out: {passes} passes over all edges read {gathered}{half}; with --method CLNR "
            "--set structure=0, none"
        )
        step = f"a step reads up to {gigabytes(self.sizes.step_bytes)}; the time assumes that the files stay in the page cache"
        lines = [f"{step}{shared if workers > 1 else ''}", *([read_out] if passes else [])]
        if self.memory > self.sizes.usable:
            program = f"Python and torch alone take {gigabytes(_PROGRAM_BYTES)} in each process"
            lines.append(
                f"memory: more than the {gigabytes(self.sizes.local_workers * self.sizes.usable)} that may be used: {program}"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {
            "graph": self.counts,
            "choices": [choice._asdict() for choice in self.choices],
            "seconds": self.seconds(),
            "stage_seconds": self.estimate,
            "train_seconds": self.seconds("train"),
            "memory_bytes": self.sizes.local_workers * self.memory,
            "worker_memory_bytes": self.memory,
            "workers": self.sizes.workers,
            "sent_bytes_per_step": self.sent_per_step,
            "step_bytes": self.sizes.step_bytes,
            "disk_bytes": self.sizes.disk,
            "passes": self.sizes.columns.passes,
            "passes_bytes": self.sizes.passes_bytes,
        }

    def check_disk(self, out: Path, there: int = 0) -> None:
        """Raise if the disk of a folder is too small for its shards and layers, of which ``there`` bytes are written."""
        needed, free = self.sizes.disk, shutil.disk_usage(resolve_path(out).parent).free + there
        passes = self.sizes.columns.passes
        if needed > free:
            raise DataError(
                f"the disk is too small for {out}: about {gigabytes(needed)} are needed, and {gigabytes(free)} are free; a "
                f"smaller dimension and hidden (--set) need less{', and so does --method CLNR' if passes else ''}"
            )


def plan(folder: GraphFolder, settings: Settings, bound: int | None, workers: int | None = None) -> tuple[Recipe, FilePlan]:
    """The recipe for a graph folder, and what training and embedding from its files take; refuses what cannot work.

    ``bound`` is bytes of memory on a machine, None for what is free; ``workers`` are on this machine, None for those of the
    settings.
    """
    check_used(settings.method, settings.fixed)
    recipe, choices = settings.recipe_for(cast(Any, folder), read_table_info(folder).feature_encoder)
    settings.method.check(recipe)
    judges.check_purpose(settings, cast(Any, folder))
    model = settings.method.build(recipe)
    _check_from_files(folder, settings, recipe, model)
    total, beside = workers or settings.workers.size, workers or settings.workers.local_size
    settings.check_size(total, recipe, folder.num_nodes)
    usable = _usable(bound, 1 << 32) / beside
    sizes = FileSizes(settings, recipe, total, beside, folder, model, usable)
    if sizes.needed > max(usable, _PROGRAM_BYTES + SMALL_BYTES):
        raise _refusal(sizes, bound)
    kept = tuple(choice for choice in choices if getattr(recipe, choice.key) == choice.value)
    if settings.effort is not None and settings.method == CLNR:
        reason = f"{CLNR_MIX.name} does not work from files here; to see why: --method {CLNR_MIX.name}"
        kept = (Choice("method", CLNR.name, reason, matters=True), *kept)
    counts = folder_counts(folder)
    return recipe, FilePlan(sizes, facts_in_words(counts, folder.feature_type), counts, kept)


def _refusal(sizes: FileSizes, bound: int | None) -> OutOfMemory:
    """Says that a graph needs more memory than may be used, and what would do."""
    workers, total = sizes.local_workers, sizes.local_workers * sizes.usable

    def fits(tried: FileSizes, total: float = total) -> bool:
        tried = replace(tried, usable=total / tried.local_workers)
        return tried.needed <= tried.usable

    found = []
    if bound is not None:
        most = min(_usable(None, math.inf), _MOST_OFFERED)
        amounts = (half * 5e8 for half in range(math.ceil(total / 5e8), int(most / 5e8) + 1))
        found += [Remedy({"--memory": f"{amount / 1e9:g} GB"}, {}) for amount in amounts if fits(sizes, amount)][:1]
    return refusal(
        f"training from files{' by each worker' if workers > 1 else ''}",
        sizes.needed,
        _PROGRAM_BYTES,
        f"{gigabytes(sizes.usable)} may be used",
        [*found, *remedies(sizes, fits)],
        "a machine with more memory would do",
    )


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
    if not judges.JUDGES[settings.purpose].from_files:
        reason = "--for links scores by held-out edges"
    if reason is not None:
        advice = "--method CLNR with its defaults works, and so does more memory"
        if settings.method == CLNR and folder.num_nodes <= recipe.sampled_nodes:
            half = f"--set moments=sampled --set sampled_nodes={max(1, folder.num_nodes // 2)}"
            advice = f"the graph is small, so leave out --from-files, or add {half}"
        raise MethodError(f"{folder.path}: {needs}: {reason}; {advice}")
