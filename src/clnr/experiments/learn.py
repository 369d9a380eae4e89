"""The training part of a run: from a graph and a recipe to parameters and an embedding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch

from clnr.datasets.noise import with_noise
from clnr.datasets.splits import split_of
from clnr.engine import DeviceGraph, Engine, View
from clnr.errors import DataError, MethodError, RecipeError, TrainingError
from clnr.evaluation.metrics import TrainedEmbedding
from clnr.graph import Graph
from clnr.graph.csr import median_weight
from clnr.methods import Method
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import StepContext, Supervision
from clnr.support.arguments import check_list, check_seed, check_type
from clnr.support.machine import memory
from clnr.support.stage_clock import stage
from clnr.training.loop import ProgressCallback, advice, fit_all


def learn(
    method: Method,
    graph: Graph,
    seed: int,
    recipe: Recipe,
    engine: Engine,
    device_graph: DeviceGraph | None = None,
) -> TrainedEmbedding:
    """Train a method on a graph: parameters and embedding.

    Methods that are given the same ``device_graph``, that graph without labels on the engine's device, share what they compute.
    """
    with memory.enough_memory(), engine.use_threads():
        (learned,) = learn_seeds(method, graph, [check_seed(seed)], recipe, engine, device_graph=device_graph)
    if isinstance(learned, TrainingError):
        raise learned
    return learned


def learn_seeds(
    method: Method,
    graph: Graph,
    seeds: Sequence[int],
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None = None,
    device_graph: DeviceGraph | None = None,
) -> list[TrainedEmbedding | TrainingError]:
    """The training part of runs. It sees no labels but those of a supervision: the graph here has none."""
    check_type("progress", progress, Callable | None, "a function of the epochs done and the loss, or None")
    by_recipe: dict[Recipe, dict[int, Supervision | None]] = {}
    for seed in seeds:
        supervision, adapted = supervision_for(method, graph, seed, recipe, engine)
        by_recipe.setdefault(adapted, {})[seed] = supervision
    seen = device_graph or _without_labels(graph, engine)
    learned: dict[int, TrainedEmbedding | TrainingError] = {}
    for adapted, supervisions in by_recipe.items():
        began = time.perf_counter()
        with stage("prepare"):
            model = method.build(adapted)
            inputs, given = model.fit_inputs(seen, engine)
        seconds = (time.perf_counter() - began) / len(supervisions)
        width = model.encoder.width(given.num_features)
        if method.supervised and width < adapted.dimension:
            raise MethodError(f"{method.name}: the encoder gives {width} columns, and there are {adapted.dimension} classes")
        graphs = {seed: with_edge_noise(model, adapted, given, engine, seed) for seed in supervisions}
        starts = [StepContext(engine, graphs[seed], seed, 0, adapted.epochs, each) for seed, each in supervisions.items()]
        for seed, fitted in zip(supervisions, fit_all(model, adapted, starts, progress), strict=True):
            if isinstance(fitted, TrainingError):
                learned[seed] = fitted
                continue
            fitted = replace(fitted, parameters=inputs | fitted.parameters, seconds=fitted.seconds + seconds)
            with stage("embed"):
                z = model.embed(fitted.parameters, engine.float32, View(given))
            learned[seed] = TrainedEmbedding(seed, adapted, given, fitted, z)
            if not z.isfinite().all():
                failure = f"the embedding is not finite after {len(fitted.losses)} epochs; {advice(adapted)}"
                learned[seed] = TrainingError(failure)
    return [learned[seed] for seed in seeds]


def _without_labels(graph: Graph, engine: Engine) -> DeviceGraph:
    if not graph.num_nodes:
        raise DataError("the graph has no nodes")
    # Loops weigh the median of edges, so that the unit of weights has no effect.
    return engine.to_device(graph.without_labels(), median_weight(graph.incoming.weight))


def with_edge_noise(model: Model, recipe: Recipe, graph: DeviceGraph, engine: Engine, seed: int) -> DeviceGraph:
    """The graph that a model is trained on: with noise in its edges, if the recipe asks for that."""
    if not recipe.edge_noise or model.objective is None:
        return graph
    return engine.to_device(with_noise(graph.graph, recipe.edge_noise, seed), graph.loop_weight)


def supervision_for(
    method: Method, graph: Graph, seed: int, recipe: Recipe, engine: Engine
) -> tuple[Supervision | None, Recipe]:
    """The labels that a method may see, if it is supervised, and its recipe, which then is as wide as there are classes."""
    if not method.supervised:
        return None, recipe
    supervision, classes = supervision_of(graph, seed, engine.device)
    return supervision, recipe.but(dimension=classes)


def supervision_of(graph: Graph, seed: int, device: torch.device) -> tuple[Supervision, int]:
    """The labels that a supervised method may see, of training and validation nodes only, and the number of classes.

    Classes are counted up to the largest label of a training node; validation nodes of larger labels are left out.
    """
    if graph.labels is None:
        raise DataError(f"{graph.name} has no labels, which a supervised method needs")
    split = split_of(graph, seed)
    classes = int(graph.labels[split.train].max()) + 1
    validation = split.validation[graph.labels[split.validation] < classes]
    if not len(validation):
        raise DataError(f"{graph.name} has no validation node of a class that a training node has")
    arrays = (split.train, graph.labels[split.train], validation, graph.labels[validation])
    return Supervision(*(torch.tensor(array, device=device) for array in arrays)), classes


def check_seeds(seeds: Iterable[int]) -> list[int]:
    """The seeds, if all are valid and no two are alike."""
    wanted = [check_seed(seed) for seed in check_list("seeds", seeds, object, "a seed, as in range(20)")]
    if len(set(wanted)) < len(wanted):
        raise RecipeError(f"seed {max(wanted, key=wanted.count)} is given twice: both runs would be the same")
    return wanted
