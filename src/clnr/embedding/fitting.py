"""Training on a user's graph, its scores, and those of baselines beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from clnr import evaluation, rng
from clnr.embedding.defaults import default_recipe
from clnr.embedding.scoring.baseline_comparison import MOST_EDGES, score_warnings
from clnr.embedding.scoring.scoring import Scored, Scorer
from clnr.embedding.search.node_search import Texts
from clnr.engine import Engine, View
from clnr.errors import ClnrError, DataError
from clnr.evaluation import geometry
from clnr.evaluation.metrics import TrainedEmbedding, geometry_metrics
from clnr.experiments.learn import learn, learn_along
from clnr.graph import Graph, Split
from clnr.graph.csr import Array
from clnr.methods import RAW, Method
from clnr.methods.recipe import Recipe, untrained
from clnr.nn.layers import Parameters, sub_dict
from clnr.support.machine.memory import enough_memory
from clnr.support.processes.workers import ALONE, Workers
from clnr.tables import TableGraph
from clnr.tables.columns.structural import degree_features
from clnr.tables.roles.node_names import name_texts
from clnr.training.loop import CheckpointCallback, ProgressCallback
from clnr.training.step_work import Size, sharing_pays

HOLD_OUT = 0.05
"""The default share of edges that are held out of training, to score by."""
MOST_NODES = 1_000_000
"""Baselines are not scored on a graph of more nodes."""
NO_LINKS = "too few edges, or too few pairs without an edge, to hold some out: no link scores"
_MEASURED_NODES = 2048
_COLLAPSED_RANK = 1.5


class Provenance(NamedTuple):
    """What decided a training besides its graph, method, seed and recipe; None for what earlier versions did not record.

    Attributes:
        hold_out: The share of edges that training did not see.
        device: ``cpu`` or ``cuda``.
        precision: ``float32`` or ``bfloat16``.
        threads: How many threads of the CPU it took; None on a GPU, too.
    """

    hold_out: float | None = None
    device: str | None = None
    precision: str | None = None
    threads: int | None = None

    @classmethod
    def of(cls, hold_out: float, engine: Engine, threads: int | None) -> Provenance:
        return cls(float(hold_out), engine.device.type, engine.precision, threads)


UNKNOWN = Provenance()


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A trained method: everything needed to embed a graph.

    Attributes:
        method: The method.
        seed: The seed that it was trained with.
        recipe: Its hyper-parameters.
        parameters: What it learned, on the CPU.
        features: How many features a node must have.
        provenance: How it was trained.
        loop_weight: What a node itself weighs beside its edges: the median weight of the edges that it was trained on.
    """

    method: Method
    seed: int
    recipe: Recipe
    parameters: Parameters
    features: int
    provenance: Provenance = UNKNOWN
    loop_weight: float = 1.0

    def parameters_on(self, engine: Engine) -> Parameters:
        """What it learned, where an engine computes."""
        return {name: value.to(engine.device) for name, value in self.parameters.items()}

    def remarks(self) -> list[str]:
        """What a user should know of what its read-out learned, a line each."""
        readout = self.method.build(self.recipe).readout
        return [] if readout is None else readout.remarks(sub_dict(self.parameters, "readout"))

    def embed(self, graph: Graph, engine: Engine) -> Array:
        """One row for each node of a graph, which need not be the one it was trained on."""
        if graph.num_features != self.features:
            raise DataError(
                f"{graph.name} has {graph.num_features:,} features per node, and this model takes {self.features:,}"
            )
        with enough_memory(), engine.use_threads():
            model = self.method.build(self.recipe)
            parameters = self.parameters_on(engine)
            plain = dataclasses.replace(graph.without_labels(), loop_weight=self.loop_weight)
            device_graph = engine.to_device(model.prepare(parameters, plain, engine))
            z = model.embed(parameters, engine.float32, View(device_graph))
        return z.cpu().numpy()


@dataclass(frozen=True, eq=False)
class EmbeddingResult:
    """An embedded graph, the model that embeds it, and how its training went.

    Attributes:
        model: The fitted model.
        table_graph: The graph, and how it was read.
        z: The embedding, one row per node.
        losses: One per epoch.
        scores: Values by name.
        warnings: What a reader of the scores should know, a line each.
        baselines: Scores of methods that take no training, by name, scored on the same edges and nodes. Beside each stands the
            standard error of its difference from this embedding's: ``link_auc_error``, ``strict_accuracy_error``.
    """

    model: FittedModel
    table_graph: TableGraph
    z: Array
    losses: tuple[float, ...]
    scores: dict[str, float]
    warnings: tuple[str, ...] = ()
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" for one without; empty if no column holds names."""
        return self.table_graph.names_of(nodes)

    def linked(self, node: int) -> set[int]:
        """The neighbours of a node in the graph, in either direction."""
        ways = self.table_graph.graph.incoming, self.table_graph.graph.outgoing
        return {each for way in ways for each in way.indices[way.indptr[node] : way.indptr[node + 1]].tolist()}

    def name_texts(self) -> Texts | None:
        """The names of all nodes; None if no column holds names."""
        columns, column = self.table_graph.columns, self.table_graph.ingest_report.names
        return None if column is None else lambda: [name_texts(columns[column])]


def fit_graph(
    table_graph: TableGraph,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    *,
    hold_out: float = HOLD_OUT,
    progress: ProgressCallback | None = None,
    checkpoint: CheckpointCallback | None = None,
    evaluate: bool = True,
    baselines: Collection[Method] = (),
    workers: Workers = ALONE,
) -> EmbeddingResult:
    """Train on a graph without some of its edges, score by those edges, and embed the whole graph.

    Args:
        table_graph: The graph.
        method: What to train.
        recipe: Its hyper-parameters.
        seed: Decides everything random.
        engine: Where to compute.
        hold_out: The share of edges that training does not see; 0 for none, and no score by them.
        progress: Called with the number of epochs done and the latest loss.
        checkpoint: Saves the state of training, and resumes from it.
        evaluate: Whether to evaluate the embedding by labels, if there are any.
        baselines: Methods without an objective to score beside it.
        workers: Those that share the training, of which this is the first; the others call ``fit_along``.
    """
    graph, warnings = table_graph.graph, untrained(method, recipe)
    split, seen = _held_out(table_graph, hold_out, seed)
    if hold_out and split is None:
        warnings.append(NO_LINKS)
    embedders = _embedders(workers, recipe, seen)
    trained = learn(method, seen, seed, recipe, engine, progress, checkpoint, workers, embedders)
    model = _fitted(method, trained, seen, Provenance.of(hold_out, engine, trained.fitted.threads))
    shape = _geometry_scores(method, engine, trained)
    z_seen, losses = trained.z, tuple(trained.fitted.losses.tolist())
    # With the graph that it was trained on, which takes as much memory as the one that is embedded next.
    del trained
    z = z_seen.cpu().numpy() if split is None else model.embed(graph, engine.among(embedders))
    try:
        scorer = Scorer.of(graph, split, seed, evaluate)
    except DataError as error:
        warnings.append(f"no accuracy was measured: {error}")
        scorer = Scorer.of(graph, split, seed, by_labels=False)
    own = scorer.score(z_seen, z, logits=method.supervised)
    scores = own.scores | scorer.reference() | shape
    if split is not None:
        scores["links_held_out"] = float(split.positives.shape[1])
    warnings += [*model.remarks(), *collapse_warnings(scores, z.shape[1])]
    beside, skipped = _score_baselines(graph, seen, baselines, model, recipe, engine, scorer, own)
    warnings += [*own.warnings, *score_warnings(graph, method, scores, beside), *skipped]
    return EmbeddingResult(model, table_graph, z, losses, scores, tuple(warnings), beside)


def collapse_warnings(scores: Mapping[str, float], width: int) -> list[str]:
    """A line if an embedding of so many columns uses hardly more than one dimension."""
    if scores["effective_rank"] >= _COLLAPSED_RANK or width < 2:
        return []
    return ["the embedding has collapsed: it uses hardly more than one dimension, so nodes are hardly told apart"]


def fit_along(
    table_graph: TableGraph,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    *,
    hold_out: float = HOLD_OUT,
    workers: Workers,
) -> None:
    """Do this worker's share of what the first one's ``fit_graph`` trains and, where that pays, embeds."""
    split, seen = _held_out(table_graph, hold_out, seed)
    embedders = _embedders(workers, recipe, seen)
    if embedders.alone:
        learn_along(method, seen, seed, recipe, engine, workers)
        return
    trained = learn(method, seen, seed, recipe, engine, workers=workers, embedders=embedders)
    if split is not None:
        _fitted(method, trained, seen).embed(table_graph.graph, engine.among(embedders))


def _embedders(workers: Workers, recipe: Recipe, graph: Graph) -> Workers:
    """Those who embed a graph together: all workers where that is sooner done, else each by itself."""
    size = Size(graph.num_nodes, graph.num_edges, graph.num_features, 0)
    return workers if sharing_pays(workers.size, recipe, size) else ALONE


def _held_out(table_graph: TableGraph, share: float, seed: int) -> tuple[evaluation.LinkSplit | None, Graph]:
    """The edges that training does not see, if any, and the graph that it sees."""
    graph = table_graph.graph.with_median_loops()
    split = evaluation.hold_out(graph, share, seed, table_graph.kind_numbers) if share else None
    return split, graph if split is None else training_graph(table_graph, split.graph)


def _fitted(method: Method, trained: TrainedEmbedding, graph: Graph, provenance: Provenance = UNKNOWN) -> FittedModel:
    return FittedModel(
        method=method,
        seed=trained.seed,
        recipe=trained.recipe,
        parameters={name: value.detach().cpu() for name, value in trained.fitted.parameters.items()},
        features=graph.num_features,
        provenance=provenance,
        loop_weight=graph.loop_weight,
    )


def _score_baselines(
    graph: Graph,
    seen: Graph,
    baselines: Collection[Method],
    model: FittedModel,
    recipe: Recipe,
    engine: Engine,
    scorer: Scorer,
    own: Scored,
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Scores of raw features and of each baseline, at the width of a recipe; and what was left out, a line each."""
    if not (baselines and scorer.scores_anything):
        return {}, []
    if graph.num_nodes > MOST_NODES or graph.num_edges > MOST_EDGES:
        return {}, [f"baselines were not scored: the graph has more than {MOST_NODES:,} nodes or {MOST_EDGES:,} edges"]
    found: dict[str, dict[str, float]] = {}
    skipped = []
    for each in dict.fromkeys((RAW, *baselines)):
        if each == model.method:
            continue
        try:
            if each == RAW:
                # As they are: sparse features stay sparse.
                quick = scorer.is_quick(graph.features)
                if not quick:
                    skipped.append(
                        f"the accuracy of raw features was not measured: {graph.num_features:,} columns take too long"
                    )
                scored = scorer.score(seen.features, graph.features if quick else None)
            else:
                with enough_memory():
                    made = learn(each, seen, model.seed, recipe_beside(each, model.method, recipe, graph), engine)
                    rows = None if scorer.labels is None else _fitted(each, made, seen).embed(graph, engine)
                    scored = scorer.score(made.z, rows)
        except ClnrError as error:
            skipped.append(f"{each.name} was not scored: {error}")
        else:
            found[each.name] = scored.scores | scored.errors(own)
    return found, skipped


def recipe_beside(baseline: Method, method: Method, recipe: Recipe, graph: Graph) -> Recipe:
    """A baseline's recipe for a graph, as wide as that of a method."""
    own, _ = default_recipe(baseline, graph)
    same_width = "dimension" in baseline.keys and "dimension" in method.keys
    return own.but(dimension=recipe.dimension) if same_width else own


def embed_with(earlier: EmbeddingResult, table_graph: TableGraph, engine: Engine) -> EmbeddingResult:
    """Another graph embedded with the model of an earlier result; nothing is trained."""
    warnings = dict.fromkeys([*earlier.warnings, "loss and scores are those of the training, before these tables were added"])
    z = earlier.model.embed(table_graph.graph, engine)
    return dataclasses.replace(earlier, table_graph=table_graph, z=z, warnings=tuple(warnings))


def training_graph(table_graph: TableGraph, seen: Graph) -> Graph:
    """A graph without its held-out edges; structural features are computed again, so that they do not leak those edges."""
    structure = None if table_graph.feature_encoder is None else table_graph.feature_encoder.structure
    if structure is None:
        return seen
    source, target, _ = seen.edges()
    return dataclasses.replace(
        seen, features=structure.features(degree_features(source, target, seen.num_nodes), seen.node_ids)
    )


def _geometry_scores(method: Method, engine: Engine, trained: TrainedEmbedding) -> dict[str, float]:
    """Alignment, uniformity and effective rank, on the graph without the held-out edges."""
    count = trained.z.shape[0]
    if method.objective is None:
        return {"effective_rank": geometry.effective_rank(trained.z)}
    some = rng.permute(rng.key(trained.seed, "measured"), torch.arange(min(count, _MEASURED_NODES)), count).numpy()
    empty = np.empty(0, np.int64)
    return geometry_metrics(method, engine.float32, trained, Split(empty, np.sort(some), empty))
