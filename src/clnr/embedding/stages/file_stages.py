"""What is made of a graph folder, one stage after the other: inputs, training, read-out, vectors."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any, cast

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.scoring.sampled_scores import link_ends, training_files
from clnr.embedding.stages.block_embedding import BlockEmbedding
from clnr.embedding.stages.block_passes import ShardFiles, node_blocks
from clnr.embedding.stages.stored_readout import StoredReadout, fit_inputs, passes_over, prepared
from clnr.engine import DeviceGraph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, add_prefix
from clnr.nn.objectives import StepContext
from clnr.support.machine import memory
from clnr.support.processes.workers import ALONE
from clnr.support.progress import Bar
from clnr.training.loop import CheckpointCallback, ProgressCallback, fit, train_all

_ALL, _SEEN = "all", "seen"


class FileStages:
    """The stages of one graph folder. Where workers share them, all call each, except for ``train`` and ``train_along``.

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
        self.folder, self._settings, self._recipe, self._work = folder, settings, recipe, work
        self._block_rows, self._bar = block_rows, bar
        self._model = settings.method.build(recipe)
        folder.check_places()
        self._seen, self._links = training_files(folder, settings)

    # -- training -----------------------------------------------------------------------------------------------------

    def train(
        self, progress: ProgressCallback | None, checkpoint: CheckpointCallback | None
    ) -> tuple[FittedModel, tuple[float, ...]]:
        """Train, as the first worker: the model, without its read-out, and its losses."""
        settings = self._settings
        inputs, graph = self._fit_inputs()
        with memory.enough_memory():
            model, engine = dataclasses.replace(self._model, readout=None), settings.engine
            given = (engine, graph, self._recipe, settings.seed, progress)
            fitted = fit(model, *given, checkpoint=checkpoint, workers=settings.workers)
        parameters = {name: value.detach().cpu() for name, value in (inputs | fitted.parameters).items()}
        made = Provenance.of(settings.hold_out, engine, fitted.threads)
        of_graph = self.folder.num_features, made, self.folder.loop_weight
        learned = FittedModel(settings.method, settings.seed, self._recipe, parameters, *of_graph)
        return learned, tuple(fitted.losses.tolist())

    def train_along(self) -> None:
        """Do another worker's share of ``train``."""
        settings = self._settings
        _, graph = self._fit_inputs()
        start = StepContext(settings.engine, graph, settings.seed, 0, self._recipe.epochs, workers=settings.workers)
        with memory.enough_memory():
            train_all(dataclasses.replace(self._model, readout=None), self._recipe, [start])

    def _fit_inputs(self) -> tuple[Parameters, DeviceGraph]:
        if all(part.changes_nothing for part in self._model.inputs):
            return {}, self._seen
        with memory.enough_memory(), self._settings.engine.use_threads():
            return fit_inputs(self._model, passes_over(self._seen, self._settings, self._seen_work, *self._blocks))

    @property
    def _blocks(self) -> tuple[int, Bar | None]:
        return self._block_rows, self._bar

    @property
    def _seen_work(self) -> Path:
        return self._work / (_ALL if self._links is None else _SEEN)

    # -- the read-out -------------------------------------------------------------------------------------------------

    @property
    def has_readout(self) -> bool:
        return self._model.readout is not None

    def fit_readout(self, model: FittedModel) -> tuple[Parameters, Array]:
        """What the read-out learns without the held-out edges, and the vectors of these edges' nodes; of the first worker."""
        readout = self._readout(model, self._seen, self._seen_work)
        found, rows = readout.fit(link_ends(self._links))
        if self._links is not None:
            readout.remove()
        return add_prefix("readout", found), rows

    def _readout(self, model: FittedModel, device_graph: DeviceGraph, work: Path) -> StoredReadout:
        return StoredReadout(model, self.folder, self._settings, device_graph, work, *self._blocks)

    # -- vectors ------------------------------------------------------------------------------------------------------

    def embed(self, model: FittedModel) -> tuple[int, int]:
        """Write the shards of all nodes; returns the numbers of a vector, and of shards."""
        whole, work = self._settings.engine.to_device(cast(Any, self.folder)), self._work / _ALL
        if self.has_readout:
            shards = ShardFiles(self._work, self.folder, node_blocks(self.folder, self._block_rows))
            return self._readout(model, whole, work).embed(shards)
        with memory.enough_memory():
            graph = prepared(self._model, model.parameters, passes_over(whole, self._settings, work, *self._blocks))
        return BlockEmbedding(model, self.folder, self._settings, self._work, *self._blocks, graph).run()

    def training_features(self, model: FittedModel) -> DeviceGraph:
        """The graph that was trained on, with the features that the encoder was given: for the first worker alone."""
        alone = dataclasses.replace(self._settings, workers=ALONE)
        return prepared(self._model, model.parameters, passes_over(self._seen, alone, self._seen_work, *self._blocks))

    def remove(self) -> None:
        """Remove all files but the shards."""
        for name in (_ALL, _SEEN):
            shutil.rmtree(self._work / name, ignore_errors=True)
