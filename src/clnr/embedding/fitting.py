"""Training on a user's graph, and scores that need no labels."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch

from clnr import datasets, rng
from clnr.engine import Engine, View, unit_rows
from clnr.errors import DataError
from clnr.evaluation import LinkSplit, Task, geometry, hold_out, link_scores, predictions, probes
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

SHARE = 0.05
_MEASURED = 2048
_COLLAPSED = 1.5


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A method that has learned: all that it takes to embed a graph.

    Attributes:
        method: Which.
        seed: That it was trained with.
        recipe: Its numbers.
        parameters: What it learned, on the CPU.
        features: How many a node must have.
    """

    method: Method
    seed: int
    recipe: Recipe
    parameters: Parameters
    features: int

    def embed(self, graph: Graph, engine: Engine) -> Array:
        """One row for each node of a graph, which need not be the one it was trained on."""
        if graph.num_features != self.features:
            raise DataError(f"{graph.name} has {graph.num_features:,} features a node, and this model takes {self.features:,}")
        with enough_memory():
            device_graph = engine.to_device(graph.without_labels())
            own = {name: value.to(engine.device) for name, value in self.parameters.items()}
            z = self.method.build(self.recipe).embed(own, engine.float32, View(device_graph))
        return z.cpu().numpy()


@dataclass(frozen=True, eq=False)
class EmbeddingResult:
    """What training on a user's graph came to.

    Attributes:
        trained: What embeds.
        read: The graph, with how it was read.
        z: Its embedding, one row a node.
        losses: One an epoch.
        scores: Numbers by name.
        remarks: What a reader of the scores should know, a line each.
    """

    trained: FittedModel
    read: TableGraph
    z: Array
    losses: tuple[float, ...]
    scores: dict[str, float]
    remarks: tuple[str, ...] = ()


def learn_graph(
    read: TableGraph,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    *,
    share: float = SHARE,
    progress: ProgressCallback | None = None,
    checkpoint: CheckpointCallback | None = None,
    evaluate: bool = True,
) -> EmbeddingResult:
    """Train on a graph less some of its edges, score by those, and embed all of it.

    Args:
        read: The graph.
        method: What to train.
        recipe: By which numbers.
        seed: Decides everything random.
        engine: Where.
        share: Of the edges that training does not see; 0 for none, and no score by them.
        watch: Told of progress.
        keeper: Keeps the training's state.
        evaluate: Whether to judge the embedding by labels, where there are some.
    """
    graph, remarks = read.graph, []
    held = hold_out(graph, share, seed) if share else None
    if share and held is None:
        remarks.append("there are too few edges, or too few pairs without one, to hold some out: no score by them")
    learned = learn(method, graph if held is None else without(read, held.graph), seed, recipe, engine, progress, checkpoint)
    trained = FittedModel(
        method=method,
        seed=seed,
        recipe=learned.recipe,
        parameters={name: value.detach().cpu() for name, value in learned.fitted.parameters.items()},
        features=graph.num_features,
    )
    z = learned.z.cpu().numpy() if held is None else trained.embed(graph, engine)
    scores = _scores(method, engine, learned, held)
    if scores["effective_rank"] < _COLLAPSED and z.shape[1] > 1:
        remarks.append("nodes are hardly told apart: hardly more than one dimension is in use")
    if evaluate and graph.labels is not None:
        try:
            scores |= _by_labels(method, graph, learned.recipe, seed, torch.tensor(z, device=engine.device))
        except DataError as error:
            remarks.append(f"no accuracy was measured: {error}")
    return EmbeddingResult(trained, read, z, tuple(learned.fitted.losses.tolist()), scores, tuple(remarks))


def grown(kept: EmbeddingResult, read: TableGraph, engine: Engine) -> EmbeddingResult:
    """What was learned before, with another graph embedded by it."""
    remarks = dict.fromkeys([*kept.remarks, "loss and scores are of the training, from before these tables"])
    return dataclasses.replace(kept, read=read, z=kept.trained.embed(read.graph, engine), remarks=tuple(remarks))


def without(read: TableGraph, seen: Graph) -> Graph:
    """A graph less some edges, with features that do not tell of them: those from structure are made anew."""
    structure = None if read.feature_encoder is None else read.feature_encoder.structure
    if structure is None:
        return seen
    source, target, _ = seen.edges()
    return dataclasses.replace(
        seen, features=structure.features(degree_features(source, target, seen.num_nodes), seen.node_ids)
    )


def _scores(method: Method, engine: Engine, learned: TrainedEmbedding, held: LinkSplit | None) -> dict[str, float]:
    """What needs no labels, all of it measured without the held-out edges."""
    scores: dict[str, float] = {}
    if held is not None:
        of_links = link_scores(unit_rows(learned.z), held)
        scores |= {f"link_{name}": value for name, value in of_links.items()}
        scores["links_held_out"] = float(held.positives.shape[1])
    count = learned.z.shape[0]
    if method.objective is None:
        return scores | {"effective_rank": geometry.effective_rank(learned.z)}
    some = rng.permute(rng.key(learned.seed, "measured"), torch.arange(min(count, _MEASURED)), count).numpy()
    return scores | geometry_metrics(
        method, engine.float32, learned, Split(np.empty(0, np.int64), np.sort(some), np.empty(0, np.int64))
    )


def _by_labels(method: Method, graph: Graph, recipe: Recipe, seed: int, z: torch.Tensor) -> dict[str, float]:
    """The strict protocol: the test set is read once."""
    split = datasets.split_of(graph, seed)
    labels = torch.tensor(graph.labels, device=z.device)
    if len(torch.unique(labels[torch.tensor(split.train)])) < 2:
        raise DataError("the training nodes are of one class")
    if method.supervised:
        found = predictions(z, labels, split)
    else:
        task = Task(z, split, recipe.probe_learning_rate, recipe.probe_weight_decay)
        (found,) = probes([task], labels, recipe.probe_steps)
    return {"strict_accuracy": found.strict, "validation_accuracy": found.validation}
