"""A graph in files, as the stages of a job see it."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.reporting.report_data import report_html
from clnr.embedding.scoring.job_scores import Samples
from clnr.embedding.scoring.sampled_scores import file_samples, link_ends, training_files
from clnr.embedding.stages.block_embedding import BlockEmbedding
from clnr.embedding.stages.block_passes import ShardFiles, node_blocks
from clnr.embedding.stages.job_graph import Job, JobGraph, Output
from clnr.embedding.stages.stored_readout import StoredReadout, fit_inputs, passes_over, prepared
from clnr.embedding.store.artifact import stored_result
from clnr.embedding.store.shards import Shards
from clnr.engine import DeviceGraph
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, add_prefix
from clnr.support.machine import memory
from clnr.support.processes.workers import ALONE
from clnr.support.progress import Bar
from clnr.support.storage.atomic_io import resolve_path
from clnr.tables.table_graph import read_table_info
from clnr.training.loop import CheckpointCallback, ProgressCallback, fit

_ALL, _SEEN = "all", "seen"


class GraphInFiles(JobGraph[Shards]):
    """A graph in files, trained on by sampled steps and embedded layer by layer, into shards.

    Args:
        folder: The graph.
        settings: How to train.
        recipe: All hyper-parameters.
        work: Where rows are written that a later stage reads; all workers see it.
        block_rows: How many rows a block of nodes may gather.
        bar: Shows progress; None for none.
    """

    def __init__(
        self, folder: GraphFolder, settings: Settings, recipe: Recipe, work: Path, block_rows: int, bar: Bar | None = None
    ):
        self.folder, self.settings, self._work = folder, settings, work
        self.digest, self.num_nodes = folder.digest, folder.num_nodes
        self._block_rows, self._bar = block_rows, bar
        self._model = settings.method.build(recipe)
        folder.check_places()
        self._seen, self._links = training_files(folder, settings)

    # -- training -----------------------------------------------------------------------------------------------------

    def train(
        self, recipe: Recipe, progress: ProgressCallback | None, checkpoint: CheckpointCallback | None
    ) -> tuple[FittedModel | None, tuple[float, ...]]:
        """Train: the model, without its read-out, and its losses."""
        settings = self.settings
        inputs, graph = self._fit_inputs()
        with memory.enough_memory():
            model, engine = dataclasses.replace(self._model, readout=None), settings.engine
            given = (engine, graph, recipe, settings.seed, progress)
            fitted = fit(model, *given, checkpoint=checkpoint if settings.workers.first else None, workers=settings.workers)
        parameters = {name: value.detach().cpu() for name, value in (inputs | fitted.parameters).items()}
        made = Provenance.of(settings.hold_out, engine, fitted.threads)
        of_graph = self.folder.num_features, made, self.folder.loop_weight
        return FittedModel(settings.method, settings.seed, recipe, parameters, *of_graph), tuple(fitted.losses.tolist())

    def _fit_inputs(self) -> tuple[Parameters, DeviceGraph]:
        if all(part.changes_nothing for part in self._model.inputs):
            return {}, self._seen
        with memory.enough_memory(), self.settings.engine.use_threads():
            return fit_inputs(self._model, passes_over(self._seen, self.settings, self._seen_work, *self._blocks))

    def check_unchanged(self) -> None:
        # Arrays that were mapped before are those of the old one.
        if GraphFolder.open(self.folder.path).digest != self.digest:
            path = self.folder.path
            raise DataError(f"{path} has changed since this began: what was made of it may be of both; start anew")

    def _log(self, line: str) -> None:
        if self._bar is not None:
            self._bar.note(line)

    @property
    def _blocks(self) -> tuple[int, Bar | None]:
        return self._block_rows, self._bar

    @property
    def _seen_work(self) -> Path:
        return self._work / (_ALL if self._links is None else _SEEN)

    # -- the read-out -------------------------------------------------------------------------------------------------

    def fit_readout(self, model: FittedModel) -> tuple[FittedModel, Array | None]:
        if self._model.readout is None:
            return model, None
        readout = self._readout(model, self._seen, self._seen_work)
        learned, link_rows = readout.fit(link_ends(self._links))
        if self._links is not None:
            readout.remove()
        return dataclasses.replace(model, parameters=model.parameters | add_prefix("readout", learned)), link_rows

    def _readout(self, model: FittedModel, device_graph: DeviceGraph, work: Path) -> StoredReadout:
        return StoredReadout(model, self.folder, self.settings, device_graph, work, *self._blocks)

    # -- vectors ------------------------------------------------------------------------------------------------------

    def embed(self, model: FittedModel | None) -> Shards:
        assert model is not None
        whole, work = self.settings.engine.to_device(cast(Any, self.folder)), self._work / _ALL
        if self._model.readout is not None:
            shards = ShardFiles(self._work, self.folder, node_blocks(self.folder, self._block_rows))
            dimension, count = self._readout(model, whole, work).embed(shards)
        else:
            with memory.enough_memory():
                graph = prepared(self._model, model.parameters, passes_over(whole, self.settings, work, *self._blocks))
            dimension, count = BlockEmbedding(model, self.folder, self.settings, self._work, *self._blocks, graph).run()
        return Shards(self._work, self.num_nodes, dimension, count, (self.folder.path, self.digest))

    def remove(self) -> None:
        """Remove all files but the shards."""
        for name in (_ALL, _SEEN):
            shutil.rmtree(self._work / name, ignore_errors=True)

    def write(self, job: Job, output: Output) -> None:
        assert job.model is not None
        assert job.scored is not None
        assert job.work is not None
        html = None
        if output.layout is not None:
            self._log("drawing the map for the report")
            with memory.enough_memory(), self.settings.engine.use_threads():
                metrics = job.losses, *job.scored
                result = stored_result(job.model, job.vectors, read_table_info(self.folder), metrics, self.folder)
                html = report_html(result, resolve_path(output.folder).name, output.layout)
        self.remove()
        job.work.finish(job.model, job.vectors, job.losses, job.scored, html, output.force)

    # -- scores -------------------------------------------------------------------------------------------------------

    def samples(self, model: FittedModel, vectors: Shards, link_rows: Array | None, baselines: Collection[Method]) -> Samples:
        self._log("scoring samples")
        alone = dataclasses.replace(self.settings, workers=ALONE)
        passes = passes_over(self._seen, alone, self._seen_work, *self._blocks)
        given = prepared(self._model, model.parameters, passes)
        sampled = self._seen, self._links, given, vectors.rows, self._block_rows, vectors.dimension, link_rows
        return file_samples(model, self.settings, *sampled, bool(baselines))
