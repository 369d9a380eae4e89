"""Training on a user's graph, and scores that need no labels."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch

from clnr import datasets, evaluation, rng
from clnr.engine import Engine, View, unit_rows
from clnr.errors import DataError
from clnr.evaluation import LinkSplit, Task, geometry, link_scores, predictions, probes
from clnr.evaluation.metrics import TrainedEmbedding, geometry_metrics
from clnr.experiments.run import learn
from clnr.graph import Graph, Split
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.support.memory import enough_memory
from clnr.tables import TableGraph
from clnr.tables.structural import degree_features
from clnr.training.loop import CheckpointCallback, ProgressCallback

HOLD_OUT = 0.05
"""The default share of edges that are held out of training, to score by."""
_MEASURED_NODES = 2048
_COLLAPSED_RANK = 1.5


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A trained method: everything needed to embed a graph.

    Attributes:
        method: The method.
        seed: The seed that it was trained with.
        recipe: Its hyper-parameters.
        parameters: What it learned, on the CPU.
        features: How many features a node must have.
    """

    method: Method
    seed: int
    recipe: Recipe
    parameters: Parameters
    features: int

    def embed(self, graph: Graph, engine: Engine) -> Array:
        """One row for each node of a graph, which need not be the one it was trained on."""
        if graph.num_features != self.features:
            raise DataError(
                f"{graph.name} has {graph.num_features:,} features per node, and this model takes {self.features:,}"
            )
        with enough_memory():
            model = self.method.build(self.recipe)
            parameters = {name: value.to(engine.device) for name, value in self.parameters.items()}
            device_graph = engine.to_device(model.prepare(parameters, graph.without_labels(), engine))
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
    """

    model: FittedModel
    table_graph: TableGraph
    z: Array
    losses: tuple[float, ...]
    scores: dict[str, float]
    warnings: tuple[str, ...] = ()


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
    """
    graph, warnings = table_graph.graph, []
    split = evaluation.hold_out(graph, hold_out, seed) if hold_out else None
    if hold_out and split is None:
        warnings.append("too few edges, or too few pairs without an edge, to hold some out: no link scores")
    seen = graph if split is None else training_graph(table_graph, split.graph)
    trained = learn(method, seen, seed, recipe, engine, progress, checkpoint)
    model = FittedModel(
        method=method,
        seed=seed,
        recipe=trained.recipe,
        parameters={name: value.detach().cpu() for name, value in trained.fitted.parameters.items()},
        features=graph.num_features,
    )
    z = trained.z.cpu().numpy() if split is None else model.embed(graph, engine)
    scores = _unsupervised_scores(method, engine, trained, split)
    if scores["effective_rank"] < _COLLAPSED_RANK and z.shape[1] > 1:
        warnings.append("the embedding has collapsed: it uses hardly more than one dimension, so nodes are hardly told apart")
    if evaluate and graph.labels is not None:
        try:
            scores |= _label_scores(method, graph, trained.recipe, seed, torch.tensor(z, device=engine.device))
        except DataError as error:
            warnings.append(f"no accuracy was measured: {error}")
    return EmbeddingResult(model, table_graph, z, tuple(trained.fitted.losses.tolist()), scores, tuple(warnings))


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


def _unsupervised_scores(
    method: Method, engine: Engine, trained: TrainedEmbedding, split: LinkSplit | None
) -> dict[str, float]:
    """Scores that need no labels, measured on the graph without the held-out edges."""
    scores: dict[str, float] = {}
    if split is not None:
        scores |= {f"link_{name}": value for name, value in link_scores(unit_rows(trained.z), split).items()}
        scores["links_held_out"] = float(split.positives.shape[1])
    count = trained.z.shape[0]
    if method.objective is None:
        return scores | {"effective_rank": geometry.effective_rank(trained.z)}
    some = rng.permute(rng.key(trained.seed, "measured"), torch.arange(min(count, _MEASURED_NODES)), count).numpy()
    empty = np.empty(0, np.int64)
    return scores | geometry_metrics(method, engine.float32, trained, Split(empty, np.sort(some), empty))


def _label_scores(method: Method, graph: Graph, recipe: Recipe, seed: int, z: torch.Tensor) -> dict[str, float]:
    """Accuracy by the strict protocol: the test set is read once."""
    split = datasets.split_of(graph, seed)
    labels = torch.tensor(graph.labels, device=z.device)
    if len(torch.unique(labels[torch.tensor(split.train)])) < 2:
        raise DataError("the training nodes are of one class")
    if method.supervised:
        accuracy = predictions(z, labels, split)
    else:
        task = Task(z, split, recipe.probe_learning_rate, recipe.probe_weight_decay)
        (accuracy,) = probes([task], labels, recipe.probe_steps)
    return {"strict_accuracy": accuracy.strict, "validation_accuracy": accuracy.validation}
