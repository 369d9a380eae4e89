"""A graph folder that does not fit in memory: trained by sampled steps over its files, embedded layer by layer into shards."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from clnr.embedding import pipeline
from clnr.embedding.artifact import load_metrics, load_model, metrics_jsonl, save_model
from clnr.embedding.artifact_files import DIGESTS, METRICS, OWNED_FILES, SHARDS, SOURCE, ArtifactFiles, digests_json
from clnr.embedding.defaults import Choice
from clnr.embedding.fitting import FittedModel
from clnr.embedding.pipeline import Settings
from clnr.embedding.shards import shard_path, source_json, write_shard
from clnr.engine import View
from clnr.engine.layer_pass import LayerEndError, LayerOperators
from clnr.engine.mapped import RESIDENT, read_rows
from clnr.errors import DataError, MethodError, OutOfMemory, TrainingError
from clnr.experiments.cost import Cost, Size, training
from clnr.graph.csr import Array
from clnr.graph.graph_folder import ArrayInfo, GraphFolder, MappedArray
from clnr.methods.recipe import Recipe
from clnr.support import memory
from clnr.support.atomic_io import check_folder, move_folder, reserve_folder, resolve_path, temporary_name
from clnr.support.checked_files import errors_name, parse_json
from clnr.support.humanize import duration, gigabytes
from clnr.support.progress import Bar
from clnr.tables.folder_ingest import read_table_info
from clnr.tables.table_info import TABLES
from clnr.training.checkpoint import check_checkpoint, remove_checkpoint
from clnr.training.loop import advice, fit
from clnr.training.step_work import step_work

_ABOUT = "about.json"
_NUMBER = 4
# The program itself; how often the features that a view reads are in memory, and the rows that a step computes: activations
# and gradients of two views.
_BASE = 6.5e8
_INPUTS = 3
_COPIES = 12
_MOST_NODES = 1 << 17
_LEAST_ROWS = 1 << 12


def fits_memory(folder: GraphFolder, settings: Settings, bound: int | None) -> bool:
    """Whether a graph folder can be loaded, and trained on in memory.

    Args:
        folder: The graph.
        settings: How to train.
        bound: Bytes that may be used; None for what is free.
    """
    recipe, _ = settings.recipe_for(cast(Any, folder))
    free = memory.free_memory(settings.engine.device)
    most = min((each for each in (bound, free) if each is not None), default=None)
    return most is None or _cost(folder, settings, recipe).memory <= most


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
        memory: Estimated peak of memory in bytes.
        step_bytes: Bytes that a step reads from files.
        disk: Bytes of the shards, and of the two layers that are on disk while they are written.
        block_rows: How many rows a block of nodes may gather while it is embedded.
    """

    facts: dict[str, str]
    choices: tuple[Choice, ...]
    seconds: float
    memory: float
    step_bytes: float
    disk: float
    block_rows: int

    @property
    def lines(self) -> list[str]:
        return [
            "; ".join(f"{name}: {value}" for name, value in self.facts.items()),
            *(f"- {choice.key}={choice.value}: {choice.reason}" for choice in self.choices),
            f"from files: a step reads up to {gigabytes(self.step_bytes)}; rough estimate: {duration(self.seconds)} to train "
            f"if the system caches it, {gigabytes(self.memory)} of memory, {gigabytes(self.disk)} of disk",
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""
        return {
            "graph": self.facts,
            "choices": [choice._asdict() for choice in self.choices],
            "train_seconds": self.seconds,
            "memory_bytes": self.memory,
            "step_bytes": self.step_bytes,
            "disk_bytes": self.disk,
        }


def plan(folder: GraphFolder, settings: Settings, bound: int | None) -> tuple[Recipe, DiskPlan]:
    """The recipe for a graph folder, and what training and embedding from its files take; refuses what cannot work.

    Args:
        folder: The graph.
        settings: How to train.
        bound: Bytes of memory that may be used; None for what is free.
    """
    recipe, choices = settings.recipe_for(cast(Any, folder))
    settings.method.check(recipe)
    needs = f"{gigabytes(_cost(folder, settings, recipe).memory)} would be needed in memory, and it cannot work from files"
    if settings.engine.name != "cpu":
        raise MethodError(f"{folder.path}: {needs}: only the CPU, with numba, reads graphs from files (--device cpu)")
    reason = settings.method.build(recipe).whole_graph_reason(folder.num_nodes)
    if recipe.edge_noise:
        reason = "edge_noise changes edges"
    if settings.tune or settings.auto:
        reason = "tuning and --method auto score by held-out edges"
    if not settings.workers.alone:
        raise MethodError(f"{folder.path}: {needs} by several workers; leave out --workers, or use more memory")
    if reason is not None:
        raise MethodError(f"{folder.path}: {needs}: {reason}; --method CLNR with its defaults works, and so does more memory")
    free = memory.free_memory(settings.engine.device)
    most = min((each for each in (bound, free) if each is not None), default=1 << 32)
    width, features = max(recipe.hidden, recipe.dimension), folder.num_features
    size = Size(folder.num_nodes, folder.num_edges, features, 0)
    one_view = step_work(len(settings.method.views), settings.method.build(recipe).objective, recipe, size)
    fixed = _BASE + RESIDENT + _NUMBER * folder.num_nodes
    step = _NUMBER * (_INPUTS * features * one_view.nodes + _COPIES * width * one_view.rows)
    if (need := fixed + step) > most:
        raise OutOfMemory(
            f"training from files needs about {gigabytes(need)}, and {gigabytes(most)} may be used; fewer sampled_nodes, "
            "max_neighbors=10 or a smaller hidden (--set) need less"
        )
    block = max(_LEAST_ROWS, int((most - fixed) / 2 / (_NUMBER * _INPUTS * max(width, features))))
    row_bytes, edge_bytes = (
        folder.arrays[name].bytes / max(1, count)
        for name, count in (("features.values", folder.num_nodes), ("incoming.indices", folder.num_edges))
    )
    step_bytes = 2 * (one_view.nodes * row_bytes + one_view.edges * edge_bytes)
    disk = _NUMBER * folder.num_nodes * (2 * recipe.hidden + recipe.dimension)
    kept = tuple(choice for choice in choices if getattr(recipe, choice.key) == choice.value)
    seconds = _cost(folder, settings, recipe).seconds
    return recipe, DiskPlan(_facts(folder), kept, seconds, min(most, fixed + max(step, most / 4)), step_bytes, disk, block)


def _facts(folder: GraphFolder) -> dict[str, str]:
    kind = "directed" if folder.directed else "undirected, both directions counted"
    return {
        "nodes": f"{folder.num_nodes:,}",
        "edges": f"{folder.num_edges:,} {kind}{', weighted' if 'incoming.weight' in folder.arrays else ''}",
        "features": f"{folder.num_features:,} {'sparse' if folder.sparse else 'dense'}, {folder.feature_type}",
        **({"classes": f"{folder.num_classes:,}"} if folder.num_classes else {}),
    }


@dataclass(frozen=True)
class ShardedEmbedding:
    """What ``embed_folder`` has written.

    Attributes:
        model: The fitted model.
        nodes: Number of nodes.
        dimension: Numbers of a vector.
        shards: Number of shards.
        losses: One per epoch.
    """

    model: FittedModel
    nodes: int
    dimension: int
    shards: int
    losses: tuple[float, ...]


def embed_folder(
    folder: GraphFolder, out: Path, settings: Settings, bound: int | None = None, *, force: bool = False, bar: Bar | None = None
) -> ShardedEmbedding:
    """From a graph folder to a folder with a model and shards of vectors, in bounded memory.

    Args:
        folder: The graph.
        out: Where to write.
        settings: How to train; with ``resume`` also an embedding that was stopped goes on, from its last block.
        bound: Bytes of memory that may be used; None for what is free.
        force: Whether a folder that clnr wrote may be overwritten.
        bar: Shows progress; None for none.
    """
    log = (bar or Bar(None, quiet=True)).note
    with reserve_folder(out, OWNED_FILES):
        check_folder(out, force, OWNED_FILES)
        if settings.checkpoint is not None and settings.uses_checkpoint:
            check_checkpoint(settings.checkpoint)
        recipe, disk_plan = plan(folder, settings, bound)
        for line in disk_plan.lines:
            log(line)
        _check_disk(out, disk_plan)
        work = _Work(resolve_path(out), folder, settings, recipe)
        earlier = work.resumed()
        if earlier is None:
            model, losses = _train(folder, settings, recipe, bar)
            work.save(model, losses, disk_plan.block_rows)
        else:
            model, losses = earlier
            log("training is complete: embedding goes on")
        dimension, shards = BlockEmbedding(model, folder, settings, work.path, work.block_rows, bar).run()
        work.finish(dimension, shards, force)
        if settings.checkpoint is not None:
            remove_checkpoint(settings.checkpoint)
    return ShardedEmbedding(model, folder.num_nodes, dimension, shards, losses)


def _train(folder: GraphFolder, settings: Settings, recipe: Recipe, bar: Bar | None) -> tuple[FittedModel, tuple[float, ...]]:
    engine, seed = settings.engine, settings.seed
    checkpoint = pipeline.checkpoint_of(folder.digest, settings, recipe)
    with pipeline.shown(settings, recipe, folder.num_nodes, bar) as progress, memory.enough_memory():
        device_graph = engine.to_device(cast(Any, folder))
        fitted = fit(settings.method.build(recipe), engine, device_graph, recipe, seed, progress, checkpoint=checkpoint)
    parameters = {name: value.detach().cpu() for name, value in fitted.parameters.items()}
    return FittedModel(settings.method, seed, recipe, parameters, folder.num_features), tuple(fitted.losses.tolist())


def _check_disk(out: Path, disk_plan: DiskPlan) -> None:
    free = shutil.disk_usage(resolve_path(out).parent).free
    if disk_plan.disk > free:
        raise DataError(
            f"the disk is too small for {out}: about {gigabytes(disk_plan.disk)} are needed, and {gigabytes(free)} are free; a "
            "smaller dimension and hidden (--set) need less"
        )


class _Work:
    """The folder beside the output in which it is made; what a stopped process left of it can be resumed."""

    def __init__(self, out: Path, folder: GraphFolder, settings: Settings, recipe: Recipe):
        self.path = out.with_name(temporary_name(out.name, "work"))
        self._out, self._folder, self._resume = out, folder, settings.resume
        about = {"graph": folder.digest, "method": settings.method.name, "seed": int(settings.seed), "recipe": recipe.to_dict()}
        # As it will be read back.
        self._about = json.loads(json.dumps(about))

    def resumed(self) -> tuple[FittedModel, tuple[float, ...]] | None:
        """Model and losses of a process that was stopped after training; None if there are none, and the folder is empty."""
        if self._resume and (self.path / DIGESTS).is_file():
            files = ArtifactFiles.open(self.path)
            with errors_name(self.path / _ABOUT):
                same = self._saved()["about"] == self._about
            if same:
                return load_model(files), load_metrics(files)[0]
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / SHARDS).mkdir(parents=True)
        return None

    def save(self, model: FittedModel, losses: tuple[float, ...], block_rows: int) -> None:
        save_model(model, self.path)
        remark = "embedded from files, in blocks: no edges were held out, and there are no scores"
        (self.path / METRICS).write_bytes(metrics_jsonl(losses, {}, (remark,), {}).encode())
        (self.path / TABLES).write_bytes(read_table_info(self._folder).to_json())
        content = {"about": self._about, "block_rows": block_rows}
        (self.path / _ABOUT).write_text(json.dumps(content), encoding="utf-8")
        (self.path / DIGESTS).write_bytes(digests_json(self.path))

    def _saved(self) -> dict[str, Any]:
        return parse_json((self.path / _ABOUT).read_text(encoding="utf-8"))

    @property
    def block_rows(self) -> int:
        """How many rows a block may gather: the same for all blocks, also after a resume with more or less memory."""
        return int(self._saved()["block_rows"])

    def finish(self, dimension: int, shards: int, force: bool) -> None:
        (self.path / SOURCE).write_bytes(source_json(self._folder, dimension, shards))
        (self.path / DIGESTS).write_bytes(digests_json(self.path))
        (self.path / _ABOUT).unlink()
        move_folder(self.path, self._out, force, OWNED_FILES)


class BlockEmbedding:
    """A graph embedded one layer after the other, each in blocks of nodes; at most two layers are on disk.

    What is there of an earlier run is kept: complete layers, the blocks of an unfinished one, and shards.

    Args:
        model: Embeds.
        folder: The graph.
        settings: Whose engine computes.
        work: Where layers and shards are written.
        block_rows: How many rows a block may gather: its nodes and the sources of their edges. A node with more edges is a
            block by itself, and takes more.
        bar: Shows progress; None for none.
    """

    def __init__(
        self, model: FittedModel, folder: GraphFolder, settings: Settings, work: Path, block_rows: int, bar: Bar | None = None
    ):
        self._fitted, self._folder, self._work, self._block_rows = model, folder, work, block_rows
        self._model, self._engine = model.method.build(model.recipe), settings.engine.float32
        self._device_graph = self._engine.to_device(cast(Any, folder))
        self._log = (bar or Bar(None, quiet=True)).note

    def run(self) -> tuple[int, int]:
        """Write all shards; returns the numbers of a vector, and of shards."""
        with memory.enough_memory(), torch.no_grad():
            for layer in itertools.count(self._complete_layers()):
                blocks = list(self._blocks())
                rows, is_last = self._compute(layer, blocks[0])
                if is_last:
                    self._write_shards(layer, blocks)
                    self._remove_layers(layer)
                    return rows.shape[1], len(blocks)
                self._write_layer(layer, blocks, rows.shape[1])
                self._remove_layers(layer)
        raise AssertionError

    def _blocks(self) -> Iterator[slice]:
        indptr = self._folder.map("incoming.indptr").values
        start, count = 0, self._folder.num_nodes
        while start < count:
            ends = indptr[start : min(start + _MOST_NODES, count) + 1]
            gathered = ends - ends[0] + np.arange(len(ends))
            stop = start + max(1, int(np.searchsorted(gathered, self._block_rows, "right")) - 1)
            yield slice(start, stop)
            start = stop

    def _compute(self, layer: int, block: slice) -> tuple[Array, bool]:
        """The rows of a block after a layer, and whether it is the last one."""
        stored = self._layer(layer)
        nodes = torch.arange(block.start, block.stop)
        read = None if stored is None else lambda some: torch.from_numpy(read_rows(stored, some))
        operators = LayerOperators(View(self._device_graph), self._engine, nodes, layer, read)
        try:
            rows, is_last = self._model.embed_layer(self._fitted.parameters, operators), True
        except LayerEndError as end:
            rows, is_last = end.rows, False
        if not rows.isfinite().all():
            raise TrainingError(f"the embedding is not finite; {advice(self._fitted.recipe)}")
        return rows.float().numpy(), is_last

    # -- layers on disk -----------------------------------------------------------------------------------------------

    def _files(self, layer: int) -> list[Path]:
        """The file with what a layer is given, whose name tells how many numbers a row has; none for the first layer."""
        return list(self._work.glob(f"layer-{layer}-*.bin"))

    def _complete_layers(self) -> int:
        return max((int(path.name.split("-")[1]) for path in self._work.glob("layer-*.bin")), default=0)

    def _layer(self, layer: int) -> MappedArray | None:
        if layer == 0:
            return None
        (path,) = self._files(layer)
        width = int(path.stem.split("-")[2])
        return MappedArray.open(path, ArrayInfo("float32", (self._folder.num_nodes, width)))

    def _write_layer(self, layer: int, blocks: list[slice], width: int) -> None:
        path = self._work / f"layer-{layer + 1}-{width}.unfinished"
        row = _NUMBER * width
        done = path.stat().st_size // row if path.is_file() else 0
        begun = max((block.stop for block in blocks if block.stop <= done), default=0)
        with path.open("ab") as file:
            file.truncate(begun * row)
            for block in self._shown(f"layer {layer + 1}", blocks):
                if block.start >= begun:
                    file.write(np.ascontiguousarray(self._compute(layer, block)[0], "<f4").data)
                    file.flush()
        path.rename(path.with_suffix(".bin"))

    def _remove_layers(self, layer: int) -> None:
        """Remove what layers up to this one were given."""
        for each in range(1, layer + 1):
            for path in self._files(each):
                path.unlink()

    def _write_shards(self, layer: int, blocks: list[slice]) -> None:
        for number, block in enumerate(self._shown("vectors", blocks)):
            path = shard_path(self._work, number)
            if not path.is_file():
                write_shard(path, self._folder.ids(block.start, block.stop), self._compute(layer, block)[0])

    def _shown(self, what: str, blocks: list[slice]) -> Iterator[slice]:
        shown = -1
        for block in blocks:
            yield block
            if (percent := 100 * block.stop // self._folder.num_nodes) // 10 > shown // 10:
                self._log(f"embedding, {what}: {percent} %")
                shown = percent
