"""A graph folder that does not fit in memory: trained by sampled steps over its files, embedded layer by layer into shards."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from clnr.embedding.disk_plan import DiskPlan, plan
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.planned_fit import shown
from clnr.embedding.reporting.map_layouts import check_layout
from clnr.embedding.reporting.report_data import report_html
from clnr.embedding.scoring.sampled_scores import SampledScores, score_files
from clnr.embedding.stages.file_stages import FileStages
from clnr.embedding.store.artifact import stored_result
from clnr.embedding.store.artifact_files import OWNED_FILES, SOURCE
from clnr.embedding.store.work_folder import WorkFolder
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.support.humanize import gigabytes
from clnr.support.machine import memory
from clnr.support.progress import Bar
from clnr.support.storage.atomic_io import check_folder, reserve_folder, resolve_path
from clnr.support.storage.folder_locks import shared_folder
from clnr.tables.folder_ingest import read_table_info


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
    layout: str | None = None,
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
        layout: Of the map of report.html, of a sample of nodes; None for no report.
        bar: Shows progress; None for none.
    """
    if layout is not None:
        check_layout(layout)
    workers = settings.workers
    if not workers.first:
        with shared_folder(folder.path):
            _work_along(folder, out, settings, bound)
        return None
    log = (bar or Bar(None, quiet=True)).note
    with reserve_folder(out, OWNED_FILES), shared_folder(folder.path):
        finished = settings.resume and (out / SOURCE).is_file()
        if force or not finished:
            check_folder(out, force, OWNED_FILES)
        settings.check_checkpoint()
        folder, recipe, disk_plan, work = _begin(folder, out, settings, bound)
        if workers.broadcast_object(finished and work.is_finished(force)):
            settings.remove_checkpoint()
            return None
        for line in disk_plan.lines:
            log(line)
        check_disk(out, disk_plan, work.bytes_there)
        settings.remove_stale_checkpoint()
        earlier = work.resumed()
        work.check_seen()
        block_rows = workers.broadcast_object(work.begin(workers.all_reduce_min(disk_plan.block_rows)))
        if (of_old := work.remove_old_shards()) is not None:
            log(of_old)
        stages = FileStages(folder, settings, recipe, work.path, block_rows, bar)
        if workers.broadcast_object(earlier is not None):
            assert earlier is not None
            model, losses = earlier
            log("training is complete: embedding goes on")
        else:
            model, losses = _train(stages, settings, recipe, bar)
            _check_unchanged(folder)
            work.save(model, losses)
        read_out = work.read_out
        if workers.broadcast_object(stages.has_readout and read_out is None):
            read_out = stages.fit_readout(model)
            work.save_read_out(*read_out)
        model = _with_read_out(model, read_out)
        embedded = work.embedded
        if workers.broadcast_object(embedded is None):
            embedded = stages.embed(model)
            _check_unchanged(folder)
            work.save_embedded(*embedded)
        assert embedded is not None
        log("scoring samples, and drawing the map for the report" if layout is not None else "scoring samples")
        stored = work.shards(*embedded)
        with memory.enough_memory(), settings.engine.use_threads():
            given, link_rows = stages.training_features(model), read_out[1] if read_out else None
            scored = score_files(model, folder, settings, stored.rows, block_rows, given, link_rows)
            result = stored_result(model, stored, read_table_info(folder), (losses, *scored), folder)
            html = None if layout is None else report_html(result, resolve_path(out).name, layout)
        stages.remove()
        work.finish(model, *embedded, losses, scored, html, force)
        settings.remove_checkpoint()
    return ShardedEmbedding(model, folder.num_nodes, *embedded, losses, scored)


def _work_along(folder: GraphFolder, out: Path, settings: Settings, bound: int | None) -> None:
    """Do a worker's share of the first one's ``embed_folder``."""
    workers = settings.workers
    folder, recipe, disk_plan, work = _begin(folder, out, settings, bound)
    if workers.broadcast_object(False):
        return
    work.check_seen()
    workers.all_reduce_min(disk_plan.block_rows)
    stages = FileStages(folder, settings, recipe, work.path, workers.broadcast_object(0))
    if not workers.broadcast_object(False):
        stages.train_along()
    # Told when the first one has written the model.
    if workers.broadcast_object(False):
        stages.fit_readout(work.load()[0])
    # Told when the first one has written the read-out.
    if workers.broadcast_object(False):
        stages.embed(_with_read_out(work.load()[0], work.read_out))


def _begin(
    folder: GraphFolder, out: Path, settings: Settings, bound: int | None
) -> tuple[GraphFolder, Recipe, DiskPlan, WorkFolder]:
    """What all workers do first: plan, and agree on what is to be done."""
    recipe, disk_plan = plan(folder, settings, bound)

    def about() -> dict[str, object]:
        others = settings.about(folder.digest, recipe)
        return {"graph folder": others.pop("tables"), **others}

    settings.workers.check_same_on_all_ranks(about)
    folder = replace(folder, resident=disk_plan.resident, loop_weight=folder.median_weight)
    return folder, recipe, disk_plan, WorkFolder(resolve_path(out), folder, settings, recipe)


def _train(stages: FileStages, settings: Settings, recipe: Recipe, bar: Bar | None) -> tuple[FittedModel, tuple[float, ...]]:
    nodes, digest, note = stages.folder.num_nodes, stages.folder.digest, (bar or Bar(None, quiet=True)).note
    checkpoint = settings.checkpoint_of(digest, recipe, note)
    with shown(settings, recipe, nodes, bar) as progress:
        return stages.train(progress, checkpoint)


def _with_read_out(model: FittedModel, read_out: tuple[Parameters, Array] | None) -> FittedModel:
    return model if read_out is None else replace(model, parameters=model.parameters | read_out[0])


def _check_unchanged(folder: GraphFolder) -> None:
    """Raise if a graph folder was written anew since it was opened; arrays that were mapped before are those of the old one."""
    if GraphFolder.open(folder.path).digest != folder.digest:
        raise DataError(f"{folder.path} has changed since this began: what was made of it may be of both; start anew")


def check_disk(out: Path, disk_plan: DiskPlan, there: int = 0) -> None:
    """Raise if the disk of a folder is too small for its shards and layers, of which so many bytes are there."""
    free = shutil.disk_usage(resolve_path(out).parent).free + there
    if disk_plan.disk > free:
        raise DataError(
            f"the disk is too small for {out}: about {gigabytes(disk_plan.disk)} are needed, and {gigabytes(free)} are free; a "
            f"smaller dimension and hidden (--set) need less{', and so does --method CLNR' if disk_plan.passes else ''}"
        )
