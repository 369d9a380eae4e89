"""A graph folder that does not fit in memory: trained by sampled steps over its files, embedded layer by layer into shards."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clnr.embedding import pipeline
from clnr.embedding.artifact import load_metrics, load_model, metrics_jsonl, save_model
from clnr.embedding.artifact_files import (
    DIGESTS,
    METRICS,
    OWNED_FILES,
    SHARDS,
    SOURCE,
    ArtifactFiles,
    digests_json,
)
from clnr.embedding.block_embedding import BlockEmbedding
from clnr.embedding.disk_plan import DiskPlan, plan
from clnr.embedding.fitting import FittedModel
from clnr.embedding.pipeline import Settings
from clnr.embedding.report_file import write_report_file
from clnr.embedding.sample_report import sample_report_html
from clnr.embedding.sampled_scores import SampledScores, score_files, training_files
from clnr.embedding.shards import Shards, source_json
from clnr.errors import DataError
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import StepContext
from clnr.support import memory
from clnr.support.atomic_io import check_folder, move_folder, reserve_folder, resolve_path, temporary_name, write_atomic
from clnr.support.checked_files import errors_name, parse_json
from clnr.support.humanize import gigabytes
from clnr.support.progress import Bar
from clnr.tables.folder_ingest import read_table_info
from clnr.tables.table_info import TABLES
from clnr.training.checkpoint import check_checkpoint, remove_checkpoint
from clnr.training.loop import fit, train_all

_ABOUT, _SEEN = "about.json", "seen"
_LATEST, _POLL = 10.0, 0.2


@dataclass(frozen=True)
class ShardedEmbedding:
    """What ``embed_folder`` has written.

    Attributes:
        model: The fitted model.
        nodes: Number of nodes.
        dimension: Numbers of a vector.
        shards: Number of shards.
        losses: One per epoch.
        scored: Scores on samples, warnings, and the scores of raw features.
    """

    model: FittedModel
    nodes: int
    dimension: int
    shards: int
    losses: tuple[float, ...]
    scored: SampledScores


def embed_folder(
    folder: GraphFolder,
    out: Path,
    settings: Settings,
    bound: int | None = None,
    *,
    force: bool = False,
    report: bool = False,
    bar: Bar | None = None,
) -> ShardedEmbedding | None:
    """From a graph folder to a folder with a model and shards of vectors, in bounded memory; None if it was there already.

    Where workers share it, all of them call this; all but the first return None.

    Args:
        folder: The graph.
        out: Where to write.
        settings: How to train; with ``resume`` also an embedding that was stopped goes on, from its last block.
        bound: Bytes of memory that may be used; None for what is free.
        force: Whether a folder that clnr wrote may be overwritten.
        report: Whether to write report.html, of a sample of nodes.
        bar: Shows progress; None for none.
    """
    workers = settings.workers
    if not workers.first:
        _work_along(folder, out, settings, bound)
        return None
    log = (bar or Bar(None, quiet=True)).note
    with reserve_folder(out, OWNED_FILES):
        finished = settings.resume and (out / SOURCE).is_file()
        if force or not finished:
            check_folder(out, force, OWNED_FILES)
        if settings.checkpoint is not None and settings.uses_checkpoint:
            check_checkpoint(settings.checkpoint)
        folder, recipe, disk_plan, work = _begin(folder, out, settings, bound)
        if workers.from_first(finished and work.is_finished(force)):
            _remove_checkpoint(settings)
            return None
        for line in disk_plan.lines:
            log(line)
        check_disk(out, disk_plan)
        if not workers.alone and not settings.resume:
            # Workers that are started again go on from a checkpoint: it must be one of this training.
            _remove_checkpoint(settings)
        earlier = work.resumed()
        work.check_seen()
        block_rows = workers.least(disk_plan.block_rows)
        if workers.from_first(earlier is not None):
            assert earlier is not None
            model, losses = earlier
            log("training is complete: embedding goes on")
        else:
            model, losses = _train(folder, settings, recipe, bar)
            work.save(model, losses, block_rows)
        embedded = work.embedded
        if workers.from_first(embedded is None):
            embedded = BlockEmbedding(model, folder, settings, work.path, work.block_rows, bar).run()
            work.save_embedded(*embedded)
        assert embedded is not None
        log("scoring samples, and drawing the map for the report" if report else "scoring samples")
        stored = work.shards(*embedded)
        with memory.enough_memory(), settings.engine.use_threads():
            scored = score_files(model, folder, settings, stored.rows, work.block_rows)
            html = sample_report_html(model, folder, stored, losses, scored, resolve_path(out).name) if report else None
        work.finish(*embedded, losses, scored, html, force)
        _remove_checkpoint(settings)
    return ShardedEmbedding(model, folder.num_nodes, *embedded, losses, scored)


def _work_along(folder: GraphFolder, out: Path, settings: Settings, bound: int | None) -> None:
    """Do a worker's share of the first one's ``embed_folder``."""
    workers, engine = settings.workers, settings.engine
    folder, recipe, disk_plan, work = _begin(folder, out, settings, bound)
    if workers.from_first(False):
        return
    work.check_seen()
    workers.least(disk_plan.block_rows)
    if not workers.from_first(False):
        device_graph, _ = training_files(folder, settings)
        start = StepContext(engine, device_graph, settings.seed, 0, recipe.epochs, workers=workers)
        with memory.enough_memory():
            train_all(settings.method.build(recipe), recipe, [start])
    # Told when the first one has written the model.
    if workers.from_first(False):
        model, _ = work.load()
        BlockEmbedding(model, folder, settings, work.path, work.block_rows).run()


def _begin(
    folder: GraphFolder, out: Path, settings: Settings, bound: int | None
) -> tuple[GraphFolder, Recipe, DiskPlan, _Work]:
    """What all workers do first: plan, and agree on what is to be done."""
    recipe, disk_plan = plan(folder, settings, bound)

    def about() -> dict[str, object]:
        others = pipeline.training_about(folder.digest, settings, recipe)
        return {"graph folder": others.pop("tables"), **others}

    settings.workers.agree(about)
    folder = replace(folder, resident=disk_plan.resident)
    return folder, recipe, disk_plan, _Work(resolve_path(out), folder, settings, recipe)


def _train(folder: GraphFolder, settings: Settings, recipe: Recipe, bar: Bar | None) -> tuple[FittedModel, tuple[float, ...]]:
    engine, seed, workers = settings.engine, settings.seed, settings.workers
    checkpoint = pipeline.checkpoint_of(folder.digest, settings, recipe, (bar or Bar(None, quiet=True)).note)
    with pipeline.shown(settings, recipe, folder.num_nodes, bar) as progress, memory.enough_memory():
        device_graph, _ = training_files(folder, settings)
        model = settings.method.build(recipe)
        fitted = fit(model, engine, device_graph, recipe, seed, progress, checkpoint=checkpoint, workers=workers)
    parameters = {name: value.detach().cpu() for name, value in fitted.parameters.items()}
    learned = FittedModel(settings.method, seed, recipe, parameters, folder.num_features, fitted.threads)
    return learned, tuple(fitted.losses.tolist())


def _remove_checkpoint(settings: Settings) -> None:
    if settings.checkpoint is not None:
        remove_checkpoint(settings.checkpoint)


def check_disk(out: Path, disk_plan: DiskPlan) -> None:
    """Raise if the disk of a folder is too small for its shards and layers."""
    free = shutil.disk_usage(resolve_path(out).parent).free
    if disk_plan.disk > free:
        raise DataError(
            f"the disk is too small for {out}: about {gigabytes(disk_plan.disk)} are needed, and {gigabytes(free)} are free; a "
            "smaller dimension and hidden (--set) need less"
        )


def is_trained(out: Path) -> bool:
    """Whether a process that was stopped has left a model, so that only the embedding of ``embed_folder`` is left to do."""
    return (_work_path(resolve_path(out)) / DIGESTS).is_file()


def _work_path(out: Path) -> Path:
    return out.with_name(temporary_name(out.name, "work"))


class _Work:
    """The folder beside the output in which it is made; what a stopped process left of it can be resumed."""

    def __init__(self, out: Path, folder: GraphFolder, settings: Settings, recipe: Recipe):
        self.path = _work_path(out)
        self._out, self._folder, self._resume, self._workers = out, folder, settings.resume, settings.workers
        about = {"graph": folder.digest, "method": settings.method.name, "seed": int(settings.seed), "recipe": recipe.to_dict()}
        about["hold_out"] = float(settings.hold_out)
        # As it will be read back.
        self._about = json.loads(json.dumps(about))

    def resumed(self) -> tuple[FittedModel, tuple[float, ...]] | None:
        """Model and losses of a process that was stopped after training; None if there are none, and the folder is empty."""
        if self._resume and (self.path / DIGESTS).is_file():
            with errors_name(self.path / _ABOUT):
                same = self._saved()["about"] == self._about
            if same:
                return self.load()
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / SHARDS).mkdir(parents=True)
        return None

    def load(self) -> tuple[FittedModel, tuple[float, ...]]:
        """Model and losses of a training that is complete."""
        files = ArtifactFiles.open(self.path)
        return load_model(files), load_metrics(files)[0]

    def is_finished(self, force: bool) -> bool:
        """Whether the output already is what is asked for; if it is something else, it must be free to overwrite."""
        files = ArtifactFiles.open(self._out)
        earlier, (_, graph) = load_model(files), Shards.open(files).graph
        found = {"graph": graph, "method": earlier.method.name, "seed": earlier.seed, "recipe": earlier.recipe.to_dict()}
        same = found.items() <= self._about.items()
        if not (same or force):
            raise DataError(
                f"{self._out} is finished, but of another graph, method, seed or recipe; overwrite it with --force (force=True)"
            )
        return same

    def check_seen(self) -> None:
        """Fail on a worker that does not see what the first one writes to this folder."""
        workers, path = self._workers, self.path / _SEEN
        if workers.alone:
            return
        mark = workers.from_first(secrets.randbelow(1 << 60))
        if workers.first:
            path.write_text(str(mark), encoding="utf-8")
        workers.least(0)
        # A network file system may show it a little later.
        end = time.monotonic() + _LATEST
        while not (path.is_file() and path.read_text(encoding="utf-8") == str(mark)):
            if time.monotonic() > end:
                raise DataError(
                    f"{self.path.parent} is not the folder that the first worker writes to; on several hosts, --out must be on "
                    "a file system that all of them share"
                )
            time.sleep(_POLL)
        workers.least(0)
        if workers.first:
            path.unlink()

    def save(self, model: FittedModel, losses: tuple[float, ...], block_rows: int) -> None:
        save_model(model, self.path)
        self._save_metrics(losses, SampledScores({}, (), {}))
        (self.path / TABLES).write_bytes(read_table_info(self._folder).to_json())
        content = {"about": self._about, "block_rows": block_rows}
        (self.path / _ABOUT).write_text(json.dumps(content), encoding="utf-8")
        (self.path / DIGESTS).write_bytes(digests_json(self.path))

    def _save_metrics(self, losses: tuple[float, ...], scored: SampledScores) -> None:
        (self.path / METRICS).write_bytes(metrics_jsonl(losses, *scored).encode())

    def save_embedded(self, dimension: int, shards: int) -> None:
        """Remember that all shards are written."""
        write_atomic(self.path / _ABOUT, json.dumps(self._saved() | {"embedded": [dimension, shards]}).encode())

    @property
    def embedded(self) -> tuple[int, int] | None:
        """The numbers of a vector and of shards, if all of them are written."""
        dimension, shards = self._saved().get("embedded", (0, 0))
        return (int(dimension), int(shards)) if dimension else None

    def shards(self, dimension: int, shards: int) -> Shards:
        """The shards, all of which are written."""
        return Shards(self.path, self._folder.num_nodes, dimension, shards, (self._folder.path, self._folder.digest))

    def _saved(self) -> dict[str, Any]:
        return parse_json((self.path / _ABOUT).read_text(encoding="utf-8"))

    @property
    def block_rows(self) -> int:
        """How many rows a block may gather: the same for all blocks, also after a resume with more or less memory."""
        return int(self._saved()["block_rows"])

    def finish(
        self, dimension: int, shards: int, losses: tuple[float, ...], scored: SampledScores, report: bytes | None, force: bool
    ) -> None:
        self._save_metrics(losses, scored)
        (self.path / SOURCE).write_bytes(source_json(self._folder, dimension, shards))
        (self.path / DIGESTS).write_bytes(digests_json(self.path))
        if report is not None:
            write_report_file(self.path, resolve_path(self._out).name, report)
        (self.path / _ABOUT).unlink()
        move_folder(self.path, self._out, force, OWNED_FILES)
