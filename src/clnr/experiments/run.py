"""run(): the whole pipeline, from the name of a data set to a result. Read this first, then ``learn``, its training part.

load -> Graph -> views -> encoder -> postprocess -> objective -> fit -> embed -> evaluate -> Run
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from clnr import datasets, methods
from clnr.datasets.splits import split_of
from clnr.engine import Engine, choose
from clnr.errors import DataError, OutOfMemory, RecipeError, TrainingError
from clnr.evaluation import Task, predictions, probes
from clnr.evaluation.metrics import TrainedEmbedding, geometry_metrics
from clnr.experiments.learn import check_seeds, learn_seeds
from clnr.experiments.results import Run
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe
from clnr.methods.registry import method_of
from clnr.support.arguments import check_int
from clnr.support.machine import environment, memory
from clnr.training.loop import ProgressCallback


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
        threads: How many threads of the CPU to take; None for as many as the work of a step is worth.
    """
    where: dict[str, Any] = {"device": device, "precision": precision, "data_root": data_root, "threads": threads}
    (result,) = runs(method, dataset, [seed], recipe=recipe, progress=progress, **where)
    return result


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
        raise DataError(f"{graph.name} has no labels, so there is nothing to evaluate by")
    engine, wanted = choose(device, precision, threads), check_seeds(seeds)
    most = engine.parallel_seeds if parallel_seeds is None else max(1, check_int("parallel_seeds", parallel_seeds))
    count = min(most, engine.parallel_seeds)
    groups = (wanted[begin : begin + count] for begin in range(0, len(wanted), count))
    in_parallel = partial(_runs, method, graph, recipe, engine, progress)
    return (run for group in groups for run in _within_memory(in_parallel, engine, group))


def _within_memory(
    in_parallel: Callable[[list[int]], list[Run | TrainingError]], engine: Engine, seeds: list[int]
) -> Iterator[Run]:
    """Runs of some seeds in parallel; if memory is too small for all of them, one half after the other."""
    results: list[Run | TrainingError] = []
    try:
        with memory.enough_memory(), engine.use_threads():
            results = in_parallel(seeds)
    except OutOfMemory:
        if len(seeds) == 1:
            raise
    if not results:
        half = len(seeds) // 2
        for part in (seeds[:half], seeds[half:]):
            yield from _within_memory(in_parallel, engine, part)
    yield from (each for each in results if isinstance(each, Run))
    for each in results:
        if isinstance(each, TrainingError):
            raise each


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


def _runs(
    method: Method,
    graph: Graph,
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None,
    seeds: list[int],
) -> list[Run | TrainingError]:
    """Train, evaluate, and put the results together; a seed that failed has its error in place of a run."""
    assert graph.labels is not None
    began = time.perf_counter()
    splits = {seed: split_of(graph, seed) for seed in seeds}
    meter = memory.MemoryMeter(engine.device)
    results = learn_seeds(method, graph, seeds, recipe, engine, progress)
    labels = torch.tensor(graph.labels, device=engine.device)
    trained = [each for each in results if isinstance(each, TrainedEmbedding)]
    if method.supervised:
        accuracies = [predictions(each.z, labels, splits[each.seed]) for each in trained]
    else:
        rate, decay = recipe.probe_learning_rate, recipe.probe_weight_decay
        accuracies = probes([Task(each.z, splits[each.seed], rate, decay) for each in trained], labels, recipe.probe_steps)
    geometry = [geometry_metrics(method, engine.float32, each, splits[each.seed]) for each in trained]
    peak, seconds = meter.peak(), (time.perf_counter() - began) / len(seeds)
    by_seed = {
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
            threads=each.fitted.threads,
        )
        for each, accuracy, shape in zip(trained, accuracies, geometry, strict=True)
    }
    return [by_seed[each.seed] if isinstance(each, TrainedEmbedding) else each for each in results]


def recipe_for(method: Method | str, dataset: Graph | str) -> Recipe:
    """The preset recipe for a method on a data set, which ``run`` uses by default. Vary it with ``but``.

    For your own graph, whatever its name, it is the preset of the method for any graph.
    """
    return preset(method_of(method), dataset.dataset if isinstance(dataset, Graph) else datasets.name_of(dataset)).recipe
