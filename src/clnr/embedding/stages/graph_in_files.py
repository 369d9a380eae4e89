"""A graph in files, as the stages of a job see it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.rows import Passes, walk_widths
from clnr.embedding.scoring.job_scores import Samples, Scores
from clnr.embedding.scoring.judges import JUDGES, Judge, settle
from clnr.embedding.scoring.sampled_scores import file_samples, labelled_nodes, labels_alone
from clnr.embedding.search.node_ids import id_part
from clnr.embedding.search.nodes import Nodes, stored_kind_numbers
from clnr.embedding.stages.job_graph import Job, JobGraph
from clnr.embedding.stages.stored_readout import StoredReadout
from clnr.embedding.store.shards import Shards, shard_path, shard_schema, write_shard
from clnr.embedding.workspace import Workspace
from clnr.engine import DeviceGraph
from clnr.engine.blocks import in_blocks
from clnr.evaluation.held_out import HeldOutPairs, hold_out, link_ends
from clnr.graph import Graph
from clnr.graph.csr import Array, edge_keys
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, add_prefix
from clnr.nn.readout import FittedRows, Readout
from clnr.nn.readout_blocks import fitted_nodes
from clnr.support.machine import memory
from clnr.support.processes.workers import ALONE
from clnr.support.progress import Bar
from clnr.support.stage_clock import stage
from clnr.training.checkpoint import Checkpoint
from clnr.training.loop import ProgressCallback, fit

_ALL, _SEEN = "all", "seen"


class GraphInFiles(JobGraph):
    """A graph in files, trained on by sampled steps and embedded layer by layer, into shards.

    These go to ``work``, and so do rows that a later stage reads; all workers see it. The other arguments are of ``Passes``.
    """

    def __init__(
        self,
        folder: Graph,
        settings: Settings,
        recipe: Recipe,
        work: Path,
        block_rows: int,
        loop_weight: float,
        bar: Bar | None = None,
    ):
        self.folder, self.settings, self._work = folder, settings, work
        self.digest, self.num_nodes = folder.digest, folder.num_nodes
        self._block_rows, self._loop_weight, self._bar = block_rows, loop_weight, bar
        self._model = settings.method.build(recipe)
        self._chosen: dict[str, Any] = {}
        self._judge = self._by_labels()
        self._seen, self._links = training_files(folder, settings, loop_weight)

    # -- training -----------------------------------------------------------------------------------------------------

    def train(
        self, recipe: Recipe, progress: ProgressCallback | None, checkpoint: Checkpoint | None
    ) -> tuple[FittedModel | None, tuple[float, ...]]:
        """Train: the model, without its read-out, and its losses."""
        settings, inputs, graph = self.settings, Parameters(), self._seen
        if not all(part.changes_nothing for part in self._model.inputs):
            with memory.enough_memory(), settings.engine.use_threads(), stage("prepare"):
                inputs, graph = self._seen_passes.fit_inputs(self._model)
        with memory.enough_memory():
            model, engine = dataclasses.replace(self._model, readout=None), settings.engine
            given = (engine, graph, recipe, settings.seed, progress)
            fitted = fit(model, *given, checkpoint=checkpoint if settings.workers.first else None, workers=settings.workers)
        parameters = {name: value.detach().cpu() for name, value in (inputs | fitted.parameters).items()}
        provenance = Provenance.of(settings.hold_out, engine, fitted.threads, settings.purpose)
        of_graph = self.folder.num_features, provenance, self._loop_weight
        return FittedModel(settings.method, settings.seed, recipe, parameters, *of_graph), tuple(fitted.losses.tolist())

    # -- passes over all nodes ----------------------------------------------------------------------------------------

    def _passes(self, device_graph: DeviceGraph, name: str, settings: Settings) -> Passes:
        return Passes(device_graph, settings, Workspace(self._work / name, settings.workers), self._block_rows, self._bar)

    @functools.cached_property
    def _whole_passes(self) -> Passes:
        """Passes over the graph with all edges."""
        whole = self._seen if self._links is None else in_blocks(self.folder, self._loop_weight)
        return self._passes(whole, _ALL, self.settings)

    @functools.cached_property
    def _seen_passes(self) -> Passes:
        """Passes over the graph without the held-out edges."""
        return self._whole_passes if self._links is None else self._passes(self._seen, _SEEN, self.settings)

    @property
    def _sample(self) -> Array:
        """The nodes that the read-out is fitted to, those of held-out edges, and those that it is chosen by."""
        nodes = np.union1d(fitted_nodes(self.num_nodes).numpy(), link_ends(self._links))
        return nodes if self._judge is None else np.union1d(nodes, self._judge[1])

    def _by_labels(self) -> tuple[Judge, Array] | None:
        """What chooses the read-out, and the nodes whose rows it looks at."""
        settings = self.settings
        if settings.purpose is None or not settings.tried:
            return None
        nodes, labels, _ = labelled_nodes(self.folder, settings.seed)
        judge, _ = JUDGES[settings.purpose].judge(labels_alone(labels, self.folder.name), None, settings.seed)
        return None if judge is None else (judge, nodes[judge.nodes])

    def _choose(self, model: FittedModel, usual: Readout, fitted: FittedRows, rows: list[Tensor]) -> Readout:
        """The read-out that the purpose chooses; what it changes in the recipe is kept."""
        assert self._judge is not None
        judge, judged = self._judge
        places = torch.from_numpy(np.searchsorted(self._sample, judged))
        others = [model.method.build(model.recipe.but(**each)).readout for each in self.settings.tried]
        tried = usual.try_rows(
            fitted, [usual, *(each for each in others if each)], [each[places] for each in rows], torch.device("cpu")
        )
        first = next(tried)
        assert first is not None
        self._chosen, _, self.told = settle(self.settings, judge, first, tried)
        chosen = model.method.build(model.recipe.but(**self._chosen)).readout
        assert chosen is not None
        return chosen

    # -- the read-out -------------------------------------------------------------------------------------------------

    def fit_readout(self, model: FittedModel) -> tuple[FittedModel, Array | None]:
        if self._model.readout is None:
            return model, None
        choose = None if self._judge is None else functools.partial(self._choose, model)
        learned, link_rows = StoredReadout(model, self._seen_passes).fit(self._sample, link_ends(self._links), choose)
        recipe = model.recipe.but(**self._chosen)
        return dataclasses.replace(
            model, recipe=recipe, parameters=model.parameters | add_prefix("readout", learned)
        ), link_rows

    # -- vectors ------------------------------------------------------------------------------------------------------

    def embed(self, model: FittedModel | None) -> Shards:
        assert model is not None
        passes = self._whole_passes
        if self._links is not None and self.settings.workers.first:
            # Scores of a sample read these walks again.
            self._seen_passes.workspace.clear([f"walk-{width}-" for width in walk_widths(self._model)])
        blocks, kinds = passes.blocks(), Nodes.of_folder(self.folder).kinds_of
        number_of = {block.start: number for number, block in enumerate(blocks)}

        def write(part: slice, rows: Array) -> None:
            path, nodes = shard_path(self._work, number_of[part.start]), np.arange(part.start, part.stop)
            write_shard(path, id_part(self.folder, part.start, part.stop), rows, kinds(nodes))

        def is_written(number: int) -> bool:
            return shard_path(self._work, number).is_file()

        if self._model.readout is not None:
            StoredReadout(model, passes).embed(write, is_written)
        else:
            passes.embed(model, write, is_written)
        dimension = shard_schema(shard_path(self._work, 0)).field("vector").type.list_size
        return self.shards(int(dimension), len(blocks))

    def shards(self, dimension: int, count: int) -> Shards:
        """The shards of all vectors, of which ``count`` are written."""
        return Shards(self._work, self.num_nodes, dimension, count)

    def result(self, job: Job) -> EmbeddingResult:
        assert job.model is not None
        scored, nodes = job.scored or Scores({}, (), {}), Nodes.of_folder(self.folder)
        return EmbeddingResult(job.model, nodes, job.vectors, job.losses, *scored, job.fingerprint)

    # -- scores -------------------------------------------------------------------------------------------------------

    def samples(self, model: FittedModel, vectors: Shards, link_rows: Array | None, baselines: Collection[Method]) -> Samples:
        passes = self._passes(
            self._seen, self._seen_passes.workspace.folder.name, dataclasses.replace(self.settings, workers=ALONE)
        )
        passes.log("scoring a sample of edges and nodes")
        given = passes.prepared(self._model, model.parameters)
        sampled = self._seen, self._links, given, vectors.rows, self._block_rows, vectors.dimension, link_rows
        return dataclasses.replace(file_samples(model, self.settings, *sampled, bool(baselines)), notes=[*self.told])


def training_files(folder: Graph, settings: Settings, loop_weight: float) -> tuple[DeviceGraph, HeldOutPairs | None]:
    """A graph in files without the edges that are held out, and those pairs with as many non-edges; None if none are."""
    kinds, share = stored_kind_numbers(folder), settings.hold_out
    links = hold_out(folder, share, settings.seed, kinds) if share else None
    keys = None if links is None else edge_keys(links.positives, folder.num_nodes)
    return in_blocks(folder, loop_weight, keys), links
