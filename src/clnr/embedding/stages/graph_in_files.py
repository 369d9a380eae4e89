"""A graph in files, as the stages of a job see it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.scoring.held_out import link_ends, training_files
from clnr.embedding.scoring.job_scores import Samples, Scores
from clnr.embedding.scoring.sampled_scores import file_samples
from clnr.embedding.stages.block_embedding import BlockEmbedding
from clnr.embedding.stages.block_passes import Passes, ShardFiles
from clnr.embedding.stages.job_graph import Job, JobGraph
from clnr.embedding.stages.stored_readout import StoredReadout, fit_inputs, prepared
from clnr.embedding.store.shards import Shards
from clnr.embedding.store.stored_nodes import StoredNodes
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, add_prefix
from clnr.support.machine import memory
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.progress import Bar
from clnr.support.stage_clock import stage
from clnr.tables.table_graph import read_table_info
from clnr.training.loop import CheckpointCallback, ProgressCallback, fit

_ALL, _SEEN = "all", "seen"


class GraphInFiles(JobGraph):
    """A graph in files, trained on by sampled steps and embedded layer by layer, into shards.

    These go to ``work``, and so do rows that a later stage reads; all workers see it. The other arguments are of ``Passes``.
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
        settings, inputs, graph = self.settings, Parameters(), self._seen
        if not all(part.changes_nothing for part in self._model.inputs):
            with memory.enough_memory(), settings.engine.use_threads(), stage("prepare"):
                inputs, graph = fit_inputs(self._model, self._seen_passes())
        with memory.enough_memory():
            model, engine = dataclasses.replace(self._model, readout=None), settings.engine
            given = (engine, graph, recipe, settings.seed, progress)
            fitted = fit(model, *given, checkpoint=checkpoint if settings.workers.first else None, workers=settings.workers)
        parameters = {name: value.detach().cpu() for name, value in (inputs | fitted.parameters).items()}
        provenance = Provenance.of(settings.hold_out, engine, fitted.threads)
        of_graph = self.folder.num_features, provenance, self.folder.loop_weight
        return FittedModel(settings.method, settings.seed, recipe, parameters, *of_graph), tuple(fitted.losses.tolist())

    def _seen_passes(self, workers: Workers | None = None) -> Passes:
        """Passes over the graph without the held-out edges, by all workers or by some."""
        settings = self.settings if workers is None else dataclasses.replace(self.settings, workers=workers)
        work = self._work / (_ALL if self._links is None else _SEEN)
        return Passes(self._seen, settings, work, self._block_rows, self._bar)

    # -- the read-out -------------------------------------------------------------------------------------------------

    def fit_readout(self, model: FittedModel) -> tuple[FittedModel, Array | None]:
        if self._model.readout is None:
            return model, None
        readout = StoredReadout(model, self._seen_passes())
        learned, link_rows = readout.fit(link_ends(self._links))
        if self._links is not None:
            readout.remove()
        return dataclasses.replace(model, parameters=model.parameters | add_prefix("readout", learned)), link_rows

    # -- vectors ------------------------------------------------------------------------------------------------------

    def embed(self, model: FittedModel | None) -> Shards:
        assert model is not None
        whole = self.settings.engine.to_device(cast(Any, self.folder))
        passes = Passes(whole, self.settings, self._work / _ALL, self._block_rows, self._bar)
        sink = ShardFiles(self._work, self.folder, passes.blocks)
        if self._model.readout is not None:
            dimension = StoredReadout(model, passes).embed(sink)
        else:
            with memory.enough_memory():
                graph = prepared(self._model, model.parameters, passes)
            dimension = BlockEmbedding(model, passes, graph, sink).run()
        return self.shards(dimension, len(passes.blocks))

    def shards(self, dimension: int, count: int) -> Shards:
        """The shards of all vectors, of which so many are written."""
        return Shards(self._work, self.num_nodes, dimension, count, (self.folder.path, self.digest))

    def result(self, job: Job) -> EmbeddingResult:
        assert job.model is not None
        shards = self.shards(0, 0) if job.vectors is None else job.vectors
        nodes = StoredNodes(shards, read_table_info(self.folder), self.folder)
        return EmbeddingResult(job.model, nodes, job.vectors, job.losses, *(job.scored or Scores({}, (), {})))

    # -- scores -------------------------------------------------------------------------------------------------------

    def samples(self, model: FittedModel, vectors: Shards, link_rows: Array | None, baselines: Collection[Method]) -> Samples:
        passes = self._seen_passes(ALONE)
        passes.log("scoring samples")
        given = prepared(self._model, model.parameters, passes)
        sampled = self._seen, self._links, given, vectors.rows, self._block_rows, vectors.dimension, link_rows
        return file_samples(model, self.settings, *sampled, bool(baselines))
