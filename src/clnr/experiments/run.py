"""run(): the whole pipeline, from the name of a data set to a result. Read this first.

load -> Graph -> views -> encoder -> postprocess -> objective -> fit -> embed -> evaluate -> Run
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clnr import datasets, methods
from clnr.engine import DeviceGraph, Engine, View, choose
from clnr.errors import DataError, MethodError, OutOfMemory, RecipeError, TrainingError
from clnr.evaluation import Task, predictions, probes
from clnr.evaluation.metrics import ExtraMetrics, TrainedEmbedding, find_extra_metrics, geometry_metrics
from clnr.experiments.results import Run
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.model import Model
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.nn.objectives import StepContext, Supervision
from clnr.support.arguments import check_int, check_list, check_type
from clnr.support.deprecation import renamed_arguments
from clnr.support.machine import environment, memory
from clnr.support.processes.workers import ALONE, Workers
from clnr.training.loop import CheckpointCallback, ProgressCallback, TrainingResult, advice, fit_all, train_all

LARGEST_SEED = 2**63 - 1


@renamed_arguments(watch="progress", measures="extra_metrics")
def run(
    method: Method | str = methods.CLNR,
    dataset: Graph | str = "toy",
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    device: str = "auto",
    precision: str = "auto",
    data_root: str | Path | None = None,
    progress: ProgressCallback | None = None,
    extra_metrics: Iterable[str] = (),
    threads: int | None = None,
) -> Run:
    """Train a method on a data set and evaluate its embedding.

    >>> from clnr import recipe_for, run
    >>> quick = recipe_for("CLNR", "toy").but(epochs=3, hidden=32, dimension=32, probe_steps=50)
    >>> result = run("CLNR", "toy", seed=0, recipe=quick)
    >>> result.method, result.epochs, 30 < result.strict < 100
    ('CLNR', 3, True)

    Args:
        method: A method, or its name.
        dataset: A data set's name, the path of a graph folder (``clnr ingest``), or a graph; with labels.
        seed: Decides everything random: split, initial weights, views, sampled nodes.
        recipe: All hyper-parameters; if not given, the preset for this method and data set, or for this method on any graph.
        device: ``auto``, ``cpu`` or ``cuda``.
        precision: Of training: ``auto`` (bfloat16 on a GPU, and on a CPU with AMX), ``float32`` or ``bfloat16``.
        data_root: Folder with raw data, looked into first.
        progress: Called now and then with the number of epochs done and the latest known loss.
        extra_metrics: Metrics to compute besides the usual ones, for ``Run.extra_metrics``: ``clusters``, ``points``, ``time``.
        threads: How many threads of the CPU to take; None for as many as the work of a step is worth.
    """
    where: dict[str, Any] = {"device": device, "precision": precision, "data_root": data_root, "threads": threads}
    (made,) = runs(method, dataset, [seed], recipe=recipe, progress=progress, extra_metrics=extra_metrics, **where)
    return made


@renamed_arguments(watch="progress", measures="extra_metrics", together="parallel_seeds")
def runs(
    method: Method | str = methods.CLNR,
    dataset: Graph | str = "toy",
    seeds: Iterable[int] = range(20),
    *,
    recipe: Recipe | None = None,
    device: str = "auto",
    precision: str = "auto",
    data_root: str | Path | None = None,
    progress: ProgressCallback | None = None,
    extra_metrics: Iterable[str] = (),
    parallel_seeds: int | None = None,
    threads: int | None = None,
) -> Iterator[Run]:
    """``run`` for many seeds, each with the result that it has alone; on a GPU they are trained in parallel.

    >>> from clnr import Recipe, runs
    >>> [run.seed for run in runs("Raw", "toy", range(3), recipe=Recipe(probe_steps=10))]
    [0, 1, 2]

    The arguments are those of ``run``, and ``parallel_seeds``: how many seeds are trained in parallel at most, if fewer than
    the device allows; with 1, times are those of a single training. Seeds must be distinct. Returns an iterator: runs come in
    the order of seeds as they finish, and an error of one is raised after the other runs of its group.
    """
    method, graph, recipe = _resolve(method, dataset, recipe, data_root)
    if graph.labels is None:
        advice = "" if method.supervised else "; embed() needs none"
        raise DataError(f"{graph.name} has no labels, so there is nothing to evaluate by{advice}")
    engine, wanted, metrics = choose(device, precision, threads), _seeds(seeds), find_extra_metrics(extra_metrics)
    most = engine.parallel_seeds if parallel_seeds is None else max(1, check_int("parallel_seeds", parallel_seeds))
    count = min(most, engine.parallel_seeds)
    groups = (wanted[begin : begin + count] for begin in range(0, len(wanted), count))
    return (run for group in groups for run in _within_memory(method, graph, group, recipe, engine, progress, metrics))


def _within_memory(
    method: Method,
    graph: Graph,
    seeds: list[int],
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None,
    extra_metrics: ExtraMetrics,
) -> Iterator[Run]:
    """Runs of some seeds in parallel; if memory is too small for all of them, one half after the other."""
    made: list[Run | TrainingError] = []
    try:
        with memory.enough_memory(), engine.use_threads():
            made = _runs(method, graph, seeds, recipe, engine, progress, extra_metrics)
    except OutOfMemory:
        if len(seeds) == 1:
            raise
    if not made:
        half = len(seeds) // 2
        for part in (seeds[:half], seeds[half:]):
            yield from _within_memory(method, graph, part, recipe, engine, progress, extra_metrics)
    yield from (each for each in made if isinstance(each, Run))
    for each in made:
        if isinstance(each, TrainingError):
            raise each


@renamed_arguments(watch="progress")
def embed(
    method: Method | str = methods.CLNR,
    dataset: Graph | str = "toy",
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    device: str = "auto",
    precision: str = "auto",
    data_root: str | Path | None = None,
    progress: ProgressCallback | None = None,
    threads: int | None = None,
) -> Array:
    """Train a method on a graph and return its embedding: one row per node, float32.

    >>> from clnr import embed, load, recipe_for
    >>> graph = load("toy")
    >>> embed("CLNR", graph, recipe=recipe_for("CLNR", "toy").but(epochs=3, hidden=32, dimension=16)).shape
    (2400, 16)

    No labels are needed or read, except by a supervised method, whose embedding is its logits. The arguments are those of
    ``run``, which evaluates the same embedding.
    """
    method, graph, recipe = _resolve(method, dataset, recipe, data_root)
    return learn(method, graph, seed, recipe, choose(device, precision, threads), progress).z.cpu().numpy()


def learn(
    method: Method,
    graph: Graph,
    seed: int,
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None = None,
    checkpoint: CheckpointCallback | None = None,
    workers: Workers = ALONE,
    embedders: Workers = ALONE,
) -> TrainedEmbedding:
    """Train a method on a graph: parameters and embedding. With a checkpoint, a stopped training can be resumed.

    Where ``workers`` share the training alone, this is for the first, and the others call ``learn_along``. Where they are also
    ``embedders``, who share the embedding, all of them call this.
    """
    with memory.enough_memory(), engine.use_threads():
        (learned,) = _learn(method, graph, [check_seed(seed)], recipe, engine, progress, checkpoint, workers, embedders)
    if isinstance(learned, TrainingError):
        raise learned
    return learned


def learn_along(method: Method, graph: Graph, seed: int, recipe: Recipe, engine: Engine, workers: Workers) -> None:
    """Do this worker's share of what the first one's ``learn`` trains."""
    with memory.enough_memory():
        prepared = _Prepared(method.build(recipe), graph.without_labels(), engine, engine)
        train_all(prepared.model, recipe, [prepared.start(recipe, seed, None, workers)])


def _resolve(
    method: Method | str, dataset: Graph | str, recipe: Recipe | None, data_root: str | Path | None
) -> tuple[Method, Graph, Recipe]:
    method = method_of(method)
    graph = datasets.load(dataset, data_root) if isinstance(dataset, str) else dataset
    if not isinstance(graph, Graph):
        raise DataError(f"a data set is a Graph or a name, not a {type(dataset).__name__}; the method comes first")
    if recipe is None:
        recipe = preset(method, graph.dataset).recipe
    if not isinstance(recipe, Recipe):
        raise RecipeError(f"a recipe is a Recipe, not a {type(recipe).__name__}; vary one with recipe_for(...).but(...)")
    return method, graph, recipe.of_method(method)


def method_of(method: Method | str) -> Method:
    """The method itself, or the one of this name."""
    found = methods.find(method) if isinstance(method, str) else method
    if not isinstance(found, Method):
        raise MethodError(f"a method is a Method or a name, not a {type(method).__name__}; it comes before the data set")
    return found


def _seeds(seeds: Iterable[int]) -> list[int]:
    wanted = [check_seed(seed) for seed in check_list("seeds", seeds, object, "a seed, as in range(20)")]
    if len(set(wanted)) < len(wanted):
        raise RecipeError(f"seed {max(wanted, key=wanted.count)} is given twice, and would be the same run")
    return wanted


def check_seed(seed: object) -> int:
    """The seed, if it is valid."""
    number = int(seed) if isinstance(seed, numbers.Integral) else -1
    if not 0 <= number <= LARGEST_SEED:
        raise RecipeError(f"a seed must be a whole number from 0 to {LARGEST_SEED}, not {seed!r}")
    return number


def _learn(
    method: Method,
    graph: Graph,
    seeds: Sequence[int],
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None,
    checkpoint: CheckpointCallback | None = None,
    workers: Workers = ALONE,
    embedders: Workers = ALONE,
) -> list[TrainedEmbedding | TrainingError]:
    """The training part of runs. It sees no labels but those of a supervision: the graph here has none."""
    check_type("progress", progress, Callable | None, "a function of the epochs done and the loss, or None")
    by_recipe: dict[Recipe, dict[int, Supervision | None]] = {}
    for seed in seeds:
        supervision, own = None, recipe
        if method.supervised:
            supervision, classes = supervision_of(graph, seed, engine.device)
            own = recipe.but(dimension=classes)
        by_recipe.setdefault(own, {})[seed] = supervision
    seen = graph.without_labels()
    learned: dict[int, TrainedEmbedding | TrainingError] = {}
    shared = engine.among(embedders)
    for own, supervisions in by_recipe.items():
        prepared = _Prepared(method.build(own), seen, engine, shared)
        spent = prepared.seconds / len(supervisions)
        starts = [prepared.start(own, seed, supervision, workers) for seed, supervision in supervisions.items()]
        fitted = fit_all(prepared.model, own, starts, progress, checkpoint, shared)
        for seed, each in zip(supervisions, fitted, strict=True):
            learned[seed] = _embedded(prepared.model, shared, seed, own, prepared.device_graph, prepared.inputs, spent, each)
    return [learned[seed] for seed in seeds]


class _Prepared:
    """A model and a graph whose features are those that its encoder is given."""

    def __init__(self, model: Model, graph: Graph, engine: Engine, shared: Engine):
        if not graph.num_nodes:
            raise DataError("the graph has no nodes")
        began = time.perf_counter()
        self.model, self._engine = model, engine
        self.inputs = model.fit_inputs(graph, shared)
        self._graph = model.prepare(self.inputs, graph, shared)
        self.seconds = time.perf_counter() - began
        self.device_graph = engine.to_device(self._graph)

    def start(self, recipe: Recipe, seed: int, supervision: Supervision | None, workers: Workers) -> StepContext:
        """The context of the first step of a training."""
        noise = recipe.edge_noise if self.model.objective else 0
        graph = self._engine.to_device(datasets.with_noise(self._graph, noise, seed)) if noise else self.device_graph
        return StepContext(self._engine, graph, seed, 0, recipe.epochs, supervision, workers)


def _embedded(
    model: Model,
    engine: Engine,
    seed: int,
    recipe: Recipe,
    device_graph: DeviceGraph,
    inputs: Parameters,
    spent: float,
    fitted: TrainingResult | TrainingError,
) -> TrainedEmbedding | TrainingError:
    if isinstance(fitted, TrainingError):
        return fitted
    parameters = inputs | fitted.parameters
    if not engine.workers.alone:
        # The same bits for all who share the rows, whatever machine they are on.
        parameters = {name: value.contiguous() for name, value in parameters.items()}
        engine.workers.broadcast(list(parameters.values()))
    fitted = replace(fitted, parameters=parameters, seconds=fitted.seconds + spent)
    z = model.embed(fitted.parameters, engine.float32, View(device_graph))
    if not z.isfinite().all():
        return TrainingError(f"the embedding is not finite after {len(fitted.losses)} epochs; {advice(recipe)}")
    return TrainedEmbedding(seed, recipe, device_graph, fitted, z)


def supervision_of(graph: Graph, seed: int, device: torch.device) -> tuple[Supervision, int]:
    """The labels that a supervised method may see, of training and validation nodes only, and the number of classes.

    Classes are counted up to the largest label of a training node; validation nodes of larger labels are left out.
    """
    if graph.labels is None:
        raise DataError(f"{graph.name} has no labels, which a supervised method needs")
    split = datasets.split_of(graph, seed)
    classes = int(graph.labels[split.train].max()) + 1
    validation = split.validation[graph.labels[split.validation] < classes]
    if not len(validation):
        raise DataError(f"{graph.name} has no validation node of a class that a training node has")
    arrays = (split.train, graph.labels[split.train], validation, graph.labels[validation])
    return Supervision(*(torch.tensor(array, device=device) for array in arrays)), classes


def _runs(
    method: Method,
    graph: Graph,
    seeds: list[int],
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None,
    extra_metrics: ExtraMetrics,
) -> list[Run | TrainingError]:
    """Train, evaluate, and put the results together; a seed that failed has its error in place of a run."""
    assert graph.labels is not None
    began = time.perf_counter()
    splits = {seed: datasets.split_of(graph, seed) for seed in seeds}
    meter = memory.MemoryMeter(engine.device)
    results = _learn(method, graph, seeds, recipe, engine, progress)
    labels = torch.tensor(graph.labels, device=engine.device)
    trained = [each for each in results if isinstance(each, TrainedEmbedding)]
    if method.supervised:
        accuracies = [predictions(each.z, labels, splits[each.seed]) for each in trained]
    else:
        rate, decay = recipe.probe_learning_rate, recipe.probe_weight_decay
        accuracies = probes([Task(each.z, splits[each.seed], rate, decay) for each in trained], labels, recipe.probe_steps)
    geometry = [geometry_metrics(method, engine.float32, each, splits[each.seed]) for each in trained]
    extra = [
        {name: metric(method, engine.float32, each, splits[each.seed], labels) for name, metric in extra_metrics.items()}
        for each in trained
    ]
    peak, seconds = meter.peak(), (time.perf_counter() - began) / len(seeds)
    made = {
        each.seed: Run(
            method=method.name,
            dataset=graph.name,
            seed=each.seed,
            strict=accuracy.strict,
            paper=accuracy.paper,
            validation=accuracy.validation,
            **shape,
            epochs=len(each.fitted.losses),
            train_seconds=each.fitted.seconds,
            epoch_ms=each.fitted.epoch_ms,
            parallel_seeds=each.fitted.parallel_seeds,
            peak_memory_bytes=peak,
            device=engine.device.type,
            engine=engine.name,
            precision=engine.precision,
            content=graph.digest,
            recipe=each.recipe.to_dict(),
            versions=environment.versions(),
            machine=environment.describe(engine.device),
            seconds=seconds,
            extra_metrics=more,
            threads=each.fitted.threads,
        )
        for each, accuracy, shape, more in zip(trained, accuracies, geometry, extra, strict=True)
    }
    return [made[each.seed] if isinstance(each, TrainedEmbedding) else each for each in results]


def recipe_for(method: Method | str, dataset: Graph | str) -> Recipe:
    """The preset recipe for a method on a data set, which ``run`` uses by default. Vary it with ``but``.

    For your own graph, whatever its name, it is the preset of the method for any graph.
    """
    return preset(method_of(method), dataset.dataset if isinstance(dataset, Graph) else datasets.name_of(dataset)).recipe
