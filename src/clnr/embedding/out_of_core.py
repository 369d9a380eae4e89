"""A graph folder that does not fit in memory: trained by sampled steps over its files, embedded layer by layer into shards."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from clnr.embedding import pipeline
from clnr.embedding.artifact import load_metrics, load_model, metrics_jsonl, save_model, with_zeros
from clnr.embedding.artifact_files import (
    DIGESTS,
    METRICS,
    OWNED_FILES,
    SHARDS,
    SOURCE,
    ArtifactFiles,
    digests_json,
)
from clnr.embedding.disk_plan import DiskPlan, plan
from clnr.embedding.file_stages import FileStages
from clnr.embedding.fitting import FittedModel
from clnr.embedding.pipeline import Settings
from clnr.embedding.report_file import write_report_file
from clnr.embedding.sample_report import sample_report_html
from clnr.embedding.sampled_scores import SampledScores, score_files
from clnr.embedding.shards import Shards, source_json
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.support import memory
from clnr.support.atomic_io import check_folder, move_folder, reserve_folder, resolve_path, temporary_name, write_atomic
from clnr.support.checked_files import errors_name, parse_json
from clnr.support.humanize import gigabytes
from clnr.support.progress import Bar
from clnr.tables.folder_ingest import read_table_info
from clnr.tables.table_info import TABLES
from clnr.training.checkpoint import check_checkpoint, remove_checkpoint

_ABOUT, _SEEN, _READ_OUT = "about.json", "seen-by-all", "read-out.safetensors"
_ROWS = "rows"
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
        block_rows = workers.from_first(work.begin(workers.least(disk_plan.block_rows)))
        stages = FileStages(folder, settings, recipe, work.path, block_rows, bar)
        if workers.from_first(earlier is not None):
            assert earlier is not None
            model, losses = earlier
            log("training is complete: embedding goes on")
        else:
            model, losses = _train(stages, settings, recipe, bar)
            work.save(model, losses)
        read_out = work.read_out
        if workers.from_first(stages.has_readout and read_out is None):
            read_out = stages.fit_readout(model)
            work.save_read_out(*read_out)
        model = replace(model, parameters=model.parameters | read_out[0]) if read_out else model
        embedded = work.embedded
        if workers.from_first(embedded is None):
            embedded = stages.embed(model)
            work.save_embedded(*embedded)
        assert embedded is not None
        log("scoring samples, and drawing the map for the report" if report else "scoring samples")
        stored = work.shards(*embedded)
        with memory.enough_memory(), settings.engine.use_threads():
            given, link_rows = stages.training_features(model), read_out[1] if read_out else None
            scored = score_files(model, folder, settings, stored.rows, block_rows, given, link_rows)
            html = sample_report_html(model, folder, stored, losses, scored, resolve_path(out).name) if report else None
        stages.remove()
        work.finish(model, *embedded, losses, scored, html, force)
        _remove_checkpoint(settings)
    return ShardedEmbedding(model, folder.num_nodes, *embedded, losses, scored)


def _work_along(folder: GraphFolder, out: Path, settings: Settings, bound: int | None) -> None:
    """Do a worker's share of the first one's ``embed_folder``."""
    workers = settings.workers
    folder, recipe, disk_plan, work = _begin(folder, out, settings, bound)
    if workers.from_first(False):
        return
    work.check_seen()
    workers.least(disk_plan.block_rows)
    stages = FileStages(folder, settings, recipe, work.path, workers.from_first(0))
    if not workers.from_first(False):
        stages.train_along()
    # Told when the first one has written the model.
    if workers.from_first(False):
        model, _ = work.load()
        stages.fit_readout(model)
    # Told when the first one has written the read-out.
    if workers.from_first(False):
        model, _ = work.load()
        read_out = work.read_out
        model = replace(model, parameters=model.parameters | read_out[0]) if read_out else model
        stages.embed(model)


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


def _train(stages: FileStages, settings: Settings, recipe: Recipe, bar: Bar | None) -> tuple[FittedModel, tuple[float, ...]]:
    nodes, digest, note = stages.folder.num_nodes, stages.folder.digest, (bar or Bar(None, quiet=True)).note
    checkpoint = pipeline.checkpoint_of(digest, settings, recipe, note)
    with pipeline.shown(settings, recipe, nodes, bar) as progress:
        return stages.train(progress, checkpoint)


def _remove_checkpoint(settings: Settings) -> None:
    if settings.checkpoint is not None:
        remove_checkpoint(settings.checkpoint)


def check_disk(out: Path, disk_plan: DiskPlan) -> None:
    """Raise if the disk of a folder is too small for its shards and layers."""
    free = shutil.disk_usage(resolve_path(out).parent).free
    if disk_plan.disk > free:
        raise DataError(
            f"the disk is too small for {out}: about {gigabytes(disk_plan.disk)} are needed, and {gigabytes(free)} are free; a "
            f"smaller dimension and hidden (--set) need less{', and so does --method CLNR' if disk_plan.passes else ''}"
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
        """Model and losses of a process that was stopped after training; None if there are none.

        What a process has left that made something else is removed.
        """
        if self._resume and (self.path / _ABOUT).is_file():
            with errors_name(self.path / _ABOUT):
                same = self._saved()["about"] == self._about
            if same:
                return self.load() if (self.path / DIGESTS).is_file() else None
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

    def begin(self, block_rows: int) -> int:
        """How many rows a block may gather: as given, or as before, if an earlier process has begun with blocks."""
        if not (self.path / _ABOUT).is_file():
            content = {"about": self._about, "block_rows": block_rows}
            write_atomic(self.path / _ABOUT, json.dumps(content).encode())
        return int(self._saved()["block_rows"])

    def save(self, model: FittedModel, losses: tuple[float, ...]) -> None:
        save_model(with_zeros(model), self.path)
        self._save_metrics(losses, SampledScores({}, (), {}))
        (self.path / TABLES).write_bytes(read_table_info(self._folder).to_json())
        (self.path / DIGESTS).write_bytes(digests_json(self.path))

    def save_read_out(self, parameters: Parameters, rows: Array) -> None:
        """Keep what the read-out has learned, and the vectors of held-out edges' nodes."""
        import safetensors.torch

        content = safetensors.torch.save(
            {name: value.contiguous() for name, value in parameters.items()} | {_ROWS: torch.from_numpy(rows)}
        )
        write_atomic(self.path / _READ_OUT, content)

    @property
    def read_out(self) -> tuple[Parameters, Array] | None:
        """The same, if it is fitted."""
        path = self.path / _READ_OUT
        if not path.is_file():
            return None
        import safetensors.torch

        with errors_name(path):
            parameters = safetensors.torch.load(path.read_bytes())
            return parameters, parameters.pop(_ROWS).numpy()

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

    def finish(
        self,
        model: FittedModel,
        dimension: int,
        shards: int,
        losses: tuple[float, ...],
        scored: SampledScores,
        report: bytes | None,
        force: bool,
    ) -> None:
        save_model(model, self.path)
        self._save_metrics(losses, scored)
        (self.path / SOURCE).write_bytes(source_json(self._folder, dimension, shards))
        (self.path / DIGESTS).write_bytes(digests_json(self.path))
        if report is not None:
            write_report_file(self.path, resolve_path(self._out).name, report)
        for name in (_READ_OUT, _ABOUT):
            (self.path / name).unlink(missing_ok=True)
        move_folder(self.path, self._out, force, OWNED_FILES)
