"""Training on a user's graph, its scores, and those of baselines beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import torch

from clnr import evaluation, rng
from clnr.embedding.defaults import default_recipe
from clnr.embedding.fitted_model import UNKNOWN, FittedModel, Provenance
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.scoring.baseline_comparison import MOST_EDGES, score_warnings
from clnr.embedding.scoring.scoring import Scored, Scorer
from clnr.embedding.tuning import training_graph
from clnr.engine import Engine
from clnr.errors import ClnrError, DataError
from clnr.evaluation import geometry
from clnr.evaluation.metrics import TrainedEmbedding, geometry_metrics
from clnr.experiments.run import learn, learn_along
from clnr.graph import Graph, Split
from clnr.methods import RAW, Method
from clnr.methods.recipe import Recipe, untrained
from clnr.support.machine.memory import enough_memory
from clnr.support.processes.workers import ALONE, Workers
from clnr.tables import TableGraph
from clnr.training.loop import CheckpointCallback, ProgressCallback
from clnr.training.step_work import Size, sharing_pays

HOLD_OUT = 0.05
"""The default share of edges that are held out of training, to score by."""
MOST_NODES = 1_000_000
"""Baselines are not scored on a graph of more nodes."""
NO_LINKS = "too few edges, or too few pairs without an edge, to hold some out: no link scores"
_MEASURED_NODES = 2048
_COLLAPSED_RANK = 1.5


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
    return EmbeddingResult.of(model, table_graph, z, losses, scores, tuple(warnings), beside)


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


def _geometry_scores(method: Method, engine: Engine, trained: TrainedEmbedding) -> dict[str, float]:
    """Alignment, uniformity and effective rank, on the graph without the held-out edges."""
    count = trained.z.shape[0]
    if method.objective is None:
        return {"effective_rank": geometry.effective_rank(trained.z)}
    some = rng.permute(rng.key(trained.seed, "measured"), torch.arange(min(count, _MEASURED_NODES)), count).numpy()
    empty = np.empty(0, np.int64)
    return geometry_metrics(method, engine.float32, trained, Split(empty, np.sort(some), empty))
