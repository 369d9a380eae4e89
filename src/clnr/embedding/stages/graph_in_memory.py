"""A graph in memory, as the stages of a job see it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np
import torch

from clnr import rng
from clnr.embedding.defaults import default_recipe
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.scoring.baseline_comparison import MOST_EDGES
from clnr.embedding.scoring.job_scores import BaselineRows, Samples, cosines_of
from clnr.embedding.scoring.judges import JUDGES, Judge, settle
from clnr.embedding.stages.job_graph import Job, JobGraph
from clnr.engine import DeviceGraph, Engine, View
from clnr.errors import ClnrError
from clnr.evaluation import HeldOutPairs, geometry, hold_out, without_pairs
from clnr.evaluation.metrics import TrainedEmbedding, geometry_metrics
from clnr.experiments.learn import learn, learn_shared
from clnr.graph import Graph, Split
from clnr.graph.csr import Array, median_weight
from clnr.methods import RAW, Method
from clnr.methods.recipe import Recipe, untrained
from clnr.support.machine.memory import enough_memory, release_freed
from clnr.support.processes.workers import ALONE
from clnr.support.stage_clock import stage
from clnr.tables import TableGraph
from clnr.tables.columns.structural import degree_features
from clnr.training.checkpoint import Checkpoint
from clnr.training.loop import ProgressCallback

MOST_NODES = 1_000_000
"""Baselines are not scored on a graph of more nodes."""
_MEASURED_NODES = 2048


class GraphInMemory(JobGraph):
    """A graph in memory. The read-out is fitted, and rows without the held-out edges are computed, with the training.

    All methods share what they compute from the graph without the held-out edges, and then from the whole graph: each is on the
    device once, and not while the other is.
    """

    def __init__(self, table_graph: TableGraph, settings: Settings):
        self.table_graph, self.settings = table_graph, settings
        self.digest, self.num_nodes = table_graph.graph.digest, table_graph.graph.num_nodes
        # Loops weigh the median of edges, so that the unit of weights has no effect.
        self._loop_weight = median_weight(table_graph.graph.incoming.weight)
        self._recipe: Recipe | None = None
        self._split: HeldOutPairs | None = None
        self._seen = table_graph.graph
        self._on_device: DeviceGraph | None = None
        self._vectors: Array | None = None
        self._cosines: Array | None = None
        self._geometry: dict[str, float] = {}
        self._beside: dict[Method, BaselineRows | ClnrError] = {}
        self._judge: Judge | None = None
        self._outcomes: dict[Method, Array] = {}

    def beside(self, method: Method, recipe: Recipe) -> tuple[GraphInMemory, Recipe]:
        same_width = recipe_beside(method, self.settings.method, recipe, self.table_graph.graph)
        # By the worker that has the scores, alone.
        settings = dataclasses.replace(self.settings, method=method, purpose=None, workers=ALONE)
        return GraphInMemory(self.table_graph, settings), same_width

    def train(
        self, recipe: Recipe, progress: ProgressCallback | None, checkpoint: Checkpoint | None
    ) -> tuple[FittedModel | None, tuple[float, ...]]:
        settings, method, engine = self.settings, self.settings.method, self.settings.engine
        self._recipe = recipe
        with stage("prepare"):
            graph, kinds = self.table_graph.graph, self.table_graph.kind_numbers
            held = hold_out(graph, settings.hold_out, settings.seed, kinds) if settings.hold_out else None
            self._seen = graph if held is None else training_graph(self.table_graph, without_pairs(graph, held.positives))
            purpose = JUDGES[settings.purpose]
            judge, self._split = purpose.judge(self.table_graph.graph, held, settings.seed)
            self._judge = judge if purpose.taken or settings.tried else None
            self._on_device = engine.to_device(self._seen.without_labels(), self._loop_weight) if self._seen.num_nodes else None
            release_freed()
        given = progress, checkpoint, settings.workers, self._on_device
        trained = learn_shared(method, self._seen, settings.seed, recipe, engine, *given)
        if trained is None:
            return None, ()
        if self._judge is not None:
            with stage("fit the read-out"), enough_memory(), engine.use_threads():
                trained = self._choose(trained, self._judge)
        provenance = Provenance.of(settings.hold_out, engine, trained.fitted.threads, settings.purpose)
        model = _fitted(method, trained, self._seen, provenance)
        # With the graph that it was trained on, which takes as much memory as the one that is embedded next.
        with stage("score"):
            self._geometry = _geometry_scores(method, engine, trained)
            self._cosines = cosines_of(trained.z, self._split)
        if self._split is None:
            self._vectors = trained.z.cpu().numpy()
        return model, tuple(trained.fitted.losses.tolist())

    def _choose(self, trained: TrainedEmbedding, judge: Judge) -> TrainedEmbedding:
        """The embedding with the read-out that the purpose chooses; the encoders stay as they are."""
        method, recipe, parameters = self.settings.method, trained.recipe, trained.fitted.parameters
        engine, view = self.settings.engine.float32, View(trained.device_graph)
        nodes = torch.from_numpy(judge.nodes).to(engine.device)
        others = [method.build(recipe.but(**each)) for each in self.settings.tried]
        with torch.no_grad():
            tried = method.build(recipe).try_readouts(parameters, engine, view, others, nodes)
            changes, self._outcomes[method], self.told = settle(self.settings, judge, trained.z[nodes], tried)
        if not changes or not JUDGES[self.settings.purpose].taken:
            return trained
        recipe = recipe.but(**changes)
        model = method.build(recipe)
        parameters = model.fit_readout(parameters, engine, view)
        fitted = dataclasses.replace(trained.fitted, parameters=parameters)
        return trained._replace(recipe=recipe, fitted=fitted, z=model.embed(parameters, engine, view))

    def better_baseline(self) -> tuple[Method, str] | None:
        """The baseline that is better for the purpose than the method, if there is one, and by how much."""
        others, method = dict(self._outcomes), self.settings.method
        if self._judge is None or method not in others:
            return None
        usual = others.pop(method)
        best = self._judge.best(usual, others)
        if best is None:
            return None
        who = JUDGES[self.settings.purpose].who
        return best, f"{who} choose {best.name}: {self._judge.told(others[best], usual, method.name)}"

    def fit_baselines(self, model: FittedModel, baselines: Collection[Method]) -> None:
        scored = self._split is not None or (self.table_graph.graph.labels is not None and self.settings.evaluate)
        if baselines and scored and not self._too_large:
            self._beside = {each: self._fit_baseline(each, model) for each in (RAW, *baselines) if each != model.method}

    def _fit_baseline(self, baseline: Method, model: FittedModel) -> BaselineRows | ClnrError:
        """What makes the rows of a baseline, at the width of the model."""
        graph, engine = self.table_graph.graph, self.settings.engine
        if baseline == RAW:
            # As they are: sparse features stay sparse.
            return BaselineRows(lambda: cosines_of(self._seen.features, self._split), lambda: graph.features)
        assert self._recipe is not None
        recipe = recipe_beside(baseline, model.method, self._recipe, graph)
        try:
            trained = learn(baseline, self._seen, model.seed, recipe, engine, device_graph=self._on_device)
            cosines = cosines_of(trained.z, self._split)
            fitted = _fitted(baseline, trained, self._seen, model.provenance)
            if self._judge is not None:
                nodes = torch.from_numpy(self._judge.nodes).to(trained.z.device)
                self._outcomes[baseline] = self._judge.outcome(trained.z[nodes])
        except ClnrError as error:
            return error
        return BaselineRows(lambda: cosines, lambda: fitted.embed_on(self._whole(fitted), engine))

    def embed(self, model: FittedModel | None) -> Array | None:
        if self._split is not None:
            self._on_device = None
            release_freed()
        if model is None:
            return None
        if self._vectors is not None:
            return self._vectors
        with enough_memory():
            return model.embed_on(self._whole(model), self.settings.engine).cpu().numpy()

    def _whole(self, model: FittedModel) -> DeviceGraph:
        if self._on_device is None:
            self._on_device = model.to_device(self.table_graph.graph, self.settings.engine)
        return self._on_device

    def result(self, job: Job) -> EmbeddingResult:
        assert job.model is not None
        assert job.scored is not None
        made = job.vectors, job.losses, *job.scored
        return EmbeddingResult.of(job.model, self.table_graph, *made, fingerprint=job.fingerprint)

    # -- scores -------------------------------------------------------------------------------------------------------

    @property
    def _too_large(self) -> bool:
        return self.num_nodes > MOST_NODES or self.table_graph.graph.num_edges > MOST_EDGES

    def samples(self, model: FittedModel, vectors: Array, link_rows: Array | None, baselines: Collection[Method]) -> Samples:
        graph = self.table_graph.graph
        assert self._recipe is not None
        reason = f"baselines were not scored: the graph has more than {MOST_NODES:,} nodes or {MOST_EDGES:,} edges"
        return Samples(
            graph=graph,
            labelled=graph,
            links=self._split,
            cosines=lambda: self._cosines,
            rows=lambda: vectors,
            geometry=lambda: self._geometry,
            width=vectors.shape[1],
            baselines=self._beside,
            no_baselines=reason if baselines and self._too_large else None,
            notes=[*untrained(model.method, self._recipe), *self.told],
        )


def recipe_beside(baseline: Method, method: Method, recipe: Recipe, graph: Graph) -> Recipe:
    """A baseline's recipe for a graph, as wide as that of a method."""
    usual, _ = default_recipe(baseline, graph)
    same_width = "dimension" in baseline.keys and ("dimension" in method.keys or method.own_encoder is not None)
    return usual.but(dimension=recipe.dimension) if same_width else usual


def training_graph(table_graph: TableGraph, seen: Graph) -> Graph:
    """A graph without its held-out edges; structural features are computed again, so that they do not leak those edges."""
    structure = None if table_graph.feature_encoder is None else table_graph.feature_encoder.structure
    if structure is None:
        return seen
    source, target, _ = seen.edges()
    degrees = degree_features(source, target, seen.num_nodes)
    return dataclasses.replace(seen, features=structure.features(degrees))


def _fitted(method: Method, trained: TrainedEmbedding, graph: Graph, provenance: Provenance) -> FittedModel:
    return FittedModel(
        method=method,
        seed=trained.seed,
        recipe=trained.recipe,
        parameters={name: value.detach().cpu() for name, value in trained.fitted.parameters.items()},
        features=graph.num_features,
        provenance=provenance,
        loop_weight=trained.device_graph.loop_weight,
    )


def _geometry_scores(method: Method, engine: Engine, trained: TrainedEmbedding) -> dict[str, float]:
    """Alignment, uniformity and effective rank, on the graph without the held-out edges."""
    count = trained.z.shape[0]
    if method.objective is None:
        return {"effective_rank": geometry.effective_rank(trained.z)}
    some = rng.permute(rng.key(trained.seed, "measured"), torch.arange(min(count, _MEASURED_NODES)), count).numpy()
    empty = np.empty(0, np.int64)
    return geometry_metrics(method, engine.float32, trained, Split(empty, np.sort(some), empty))
