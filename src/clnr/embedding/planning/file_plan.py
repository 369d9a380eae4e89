"""The plan of a graph in files: the memory that it takes, and whether it fits in memory after all."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clnr.embedding.defaults import LINKS, Choice
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.graph_facts import folder_counts
from clnr.embedding.planning.job_plan import SMALL_BYTES, Plan
from clnr.embedding.rows import rows_of
from clnr.embedding.scoring import judges
from clnr.errors import MethodError, OutOfMemory, option
from clnr.evaluation.held_out import MOST_NEIGHBOURS, MOST_PAIRS, MOST_PAIRS_OF_KINDS
from clnr.experiments.training_memory import training_memory
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import CLNR, CLNR_MIX
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe, check_used
from clnr.nn.inputs import STEPS
from clnr.nn.readout_blocks import FITTED_NODES, ITERATED_NEIGHBORS, ITERATED_NODES, Source
from clnr.support.humanize import gigabytes
from clnr.support.machine import memory
from clnr.tables.table_graph import read_table_info
from clnr.training.step_work import Size, step_work

_FLOAT_BYTES = 4
# Python and torch.
_PROGRAM_BYTES = 7.5e8
# How often the features that a view reads are in memory, those of the next step or block among them; and the rows that a step
# computes: activations and gradients of two views.
_INPUT_COPIES = 5
_ROW_COPIES = 12
_LEAST_BLOCK_ROWS = 1 << 12
_BLOCKS_PER_WORKER = 8


def for_files(folder: Graph, settings: Settings, bound: int | None, workers: int | None = None) -> Settings:
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


def fits_memory(folder: Graph, settings: Settings, bound: int | None, workers: int | None = None) -> bool:
    """Whether a graph folder can be loaded, and trained on in memory; the arguments are those of ``plan``."""
    recipe, _ = settings.recipe_for(folder, read_table_info(folder).feature_encoder)
    beside, most, device = workers or settings.workers.local_size, _usable(bound, float("inf")), settings.engine.device
    needed = _in_memory(folder, settings, recipe)
    if device.type == "cpu":
        return beside * needed <= most
    return beside * loaded_bytes(folder) <= most and needed <= (memory.free_memory(device) or 0)


def _usable(bound: int | None, default: float) -> float:
    """Bytes of main memory that may be used: what is free, and no more than the bound; ``default`` where neither is known."""
    known = (bound, memory.free_memory(torch.device("cpu")))
    return min((each for each in known if each is not None), default=default)


def _in_memory(folder: Graph, settings: Settings, recipe: Recipe) -> float:
    """Bytes of memory that a training in memory takes."""
    return training_memory(settings.method, recipe, _size(folder), settings.engine)


def stored_features(graph: Graph) -> Array:
    """The numbers of the features that are stored."""
    return graph.features.data if graph.sparse else graph.features


def loaded_bytes(graph: Graph) -> int:
    """The memory that a graph in a folder takes once all of it is loaded."""
    features = (2 if graph.sparse else 1) * _FLOAT_BYTES * stored_features(graph).size
    return features + sum(part.nbytes for way in graph.edges_by_end for part in way if part is not None)


def _size(folder: Graph) -> Size:
    held_bytes = 2 * _FLOAT_BYTES * float(stored_features(folder).size)
    return Size(folder.num_nodes, folder.num_edges, folder.num_features, held_bytes)


@dataclass(frozen=True)
class FileMemory:
    """The memory of a job over a graph in files: each of its workers may use ``usable`` bytes."""

    folder: Graph
    settings: Settings
    recipe: Recipe
    model: Model
    workers: int
    local_workers: int
    usable: float

    @functools.cached_property
    def _features(self) -> int:
        """How many features the encoder is given."""
        return self.model.input_width(self.folder.num_features)

    @functools.cached_property
    def _readout_rows(self) -> set[tuple[Source, int]]:
        """The rows that the read-out is fitted to, and how often each is propagated; all outputs of the encoder are in one."""
        if self.model.readout is None:
            return set()
        products = [product for _, product in self.model.readout.products({}, self.model.encoder.num_outputs)]
        return {(each.source if each.source.encoder is None else Source(encoder=0), each.hops) for each in products}

    def _width(self, source: Source) -> int:
        """Columns of the rows of a source before they are propagated."""
        if source.encoder is not None:
            return self.model.encoder.width(self._features) * self.model.encoder.num_outputs
        if source.walk_columns or self.model.readout is None:
            return source.walk_columns
        return self.model.readout.feature_columns(self._features)

    @functools.cached_property
    def _fixed(self) -> float:
        """Bytes that every stage takes."""
        return _PROGRAM_BYTES + 3 * _FLOAT_BYTES * self.folder.num_nodes

    @property
    def _link_nodes(self) -> int:
        """The nodes of held-out edges and non-edges, and the neighbours that nodes of several kinds are compared by."""
        kinds = read_table_info(self.folder).ingest_report.node_kinds
        return 4 * (MOST_PAIRS if len(kinds) < 2 else MOST_PAIRS_OF_KINDS * (1 + MOST_NEIGHBOURS))

    @property
    def _fitted_nodes(self) -> int:
        """The nodes whose rows the read-out is fitted to, scored by and chosen by."""
        chosen_by = judges.MOST_NODES if self.settings.purpose and self.settings.tried else 0
        return min(self.folder.num_nodes, FITTED_NODES + self._link_nodes + chosen_by)

    @property
    def _row_bytes(self) -> int:
        """Bytes of a row of a block, with those that it gathers."""
        walks = [part.walk_columns for part in self.model.inputs]
        propagated = [self._width(source) for source, hops in self._readout_rows if hops or source.walk_columns]
        widest = max(self.recipe.hidden, self.recipe.dimension, self._features, *walks, *propagated)
        return _FLOAT_BYTES * _INPUT_COPIES * widest

    @property
    def block_rows(self) -> int:
        """How many rows a block of nodes may have while it is embedded: as memory allows, but each worker has some blocks."""
        all_rows = rows_of(self.folder.num_nodes, self.folder.num_edges, self.settings.engine.gathers_rows)
        rows = min((self.usable - self._fixed) / 2 / self._row_bytes, all_rows / (_BLOCKS_PER_WORKER * self.workers))
        return max(_LEAST_BLOCK_ROWS, int(rows))

    @functools.cached_property
    def needed(self) -> float:
        """Bytes without which it cannot work: blocks of nodes take what is left."""
        recipe, views = self.recipe, len(self.settings.method.views)
        share = recipe.but(sampled_nodes=math.ceil(recipe.sampled_nodes / self.workers))
        work = step_work(views, self.model.objective, share, _size(self.folder)._replace(features=self._features))
        computed = _ROW_COPIES * max(recipe.hidden, recipe.dimension) * work.rows
        step = _FLOAT_BYTES * (_INPUT_COPIES * self._features * work.nodes + computed)
        columns = sum(self._width(source) * (len(STEPS) if source.walk_columns else 1) for source, _ in self._readout_rows)
        # By one of the workers, while the others wait.
        fitted = 2 * _FLOAT_BYTES * columns * self._fitted_nodes / self.local_workers
        return self._fixed + max(step, fitted, self._directions / self.local_workers)

    @property
    def _directions(self) -> float:
        """Bytes to find the directions of many features: of the rows that they are found by, and of products with these."""
        columns, size = self._width(Source()), _size(self.folder)
        if columns in (0, self._features):
            return 0
        own = self._features == size.features
        row = size.bytes / size.nodes if own else 2 * _FLOAT_BYTES * self._features
        rows = min(size.nodes, ITERATED_NODES * (1 + ITERATED_NEIGHBORS))
        return rows * (row + 2 * _FLOAT_BYTES * columns) + 6 * _FLOAT_BYTES * columns * self._features

    @property
    def peak(self) -> float:
        """Estimated peak of each worker; the first takes more for the read-out, while others wait."""
        # A block of many edges has the row of a node once.
        blocks = min(self.usable / 4, self._row_bytes * min(self.block_rows, self.folder.num_nodes))
        return min(max(self.usable, self.needed), max(self.needed, self._fixed + blocks))


@dataclass(frozen=True, repr=False)
class FilePlan(Plan):
    """The plan of a graph in files: also the rows of a block.

    ``usable`` bytes of memory may be used on this machine.
    """

    block_rows: int
    usable: float

    @property
    def _method_words(self) -> str:
        return f"{super()._method_words}, from files"

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "from_files": True}

    @property
    def memory_notes(self) -> tuple[str, ...]:
        if self.memory <= self.usable:
            return ()
        program = f"Python and torch alone take {gigabytes(_PROGRAM_BYTES)} in each process"
        return (f"more than the {gigabytes(self.usable)} that may be used: {program}",)


def plan(folder: Graph, settings: Settings, bound: int | None, workers: int | None = None) -> tuple[Recipe, FilePlan]:
    """The recipe for a graph folder, and what training and embedding from its files take; refuses what cannot work.

    ``bound`` is bytes of memory on a machine, None for what is free; ``workers`` are on this machine, None for those of the
    settings.
    """
    check_used(settings.method, settings.fixed)
    recipe, choices = settings.recipe_for(folder, read_table_info(folder).feature_encoder)
    settings.method.check(recipe)
    judges.check_purpose(settings, folder)
    model = settings.method.build(recipe)
    _check_from_files(folder, settings, recipe, model)
    total, beside = workers or settings.workers.size, workers or settings.workers.local_size
    settings.check_size(total, recipe, folder.num_nodes)
    usable = _usable(bound, 1 << 32)
    each = FileMemory(folder, settings, recipe, model, total, beside, usable / beside)
    if each.needed > max(each.usable, _PROGRAM_BYTES + SMALL_BYTES):
        shared = f" in each of {beside} processes" if beside > 1 else ""
        limit = "" if bound is None else f" ({option('memory')})"
        raise OutOfMemory(
            f"training from files needs about {gigabytes(each.needed)} of memory{shared}, and {gigabytes(each.usable)} may be "
            f"used{limit}"
        )
    kept = tuple(choice for choice in choices if getattr(recipe, choice.key) == choice.value)
    if settings.effort is not None and settings.method == CLNR:
        reason = f"{CLNR_MIX.name} does not work from files here; to see why: {option('method', CLNR_MIX.name)}"
        kept = (Choice("method", CLNR.name, reason, matters=True), *kept)
    counts = folder_counts(folder)
    peak = beside * each.peak
    return recipe, FilePlan(settings, recipe, total, peak, counts, kept, (), each.block_rows, usable)


def _path(folder: Graph) -> Path:
    assert folder.stored is not None
    return folder.stored.path


def _check_from_files(folder: Graph, settings: Settings, recipe: Recipe, model: Model) -> None:
    """Fail if a method must see all of the graph at once, with advice."""
    needs = f"{gigabytes(_in_memory(folder, settings, recipe))} would be needed in memory, and it cannot work from files"
    reason = model.whole_graph_reason(folder.num_nodes)
    if recipe.edge_noise:
        reason = "edge_noise changes edges"
    if not judges.JUDGES[settings.purpose].from_files:
        reason = f"{option('purpose', LINKS)} scores by held-out edges"
    if reason is not None:
        works = f"{option('method', CLNR.name)} with its defaults"
        if settings.method == CLNR and folder.num_nodes <= recipe.sampled_nodes:
            works = option("recipe", {"moments": "sampled", "sampled_nodes": max(1, folder.num_nodes // 2)})
        raise MethodError(f"{_path(folder)}: {needs}: {reason}; {works} works, and so does more memory")
