"""run(): the whole line, from a name to a result. Read this first.

load -> Graph -> views -> encoder -> postprocess -> objective -> fit -> embed -> evaluate -> Run
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from clnr.nn.objectives import StepContext, Supervision
from clnr.support import environment, memory
from clnr.support.arguments import check_int, check_list, check_type
from clnr.training.loop import CheckpointCallback, ProgressCallback, TrainingResult, advice, fit_all

LARGEST_SEED = 2**63 - 1


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
) -> Run:
    """Train a method on a data set and evaluate what it learned.

    >>> from clnr import recipe_for, run
    >>> quick = recipe_for("CLNR", "toy").but(epochs=3, hidden=32, dimension=32, probe_steps=50)
    >>> result = run("CLNR", "toy", seed=0, recipe=quick)
    >>> result.method, result.epochs, 30 < result.strict < 100
    ('CLNR', 3, True)

    Args:
        method: A method, or its name.
        dataset: A data set's name, or a graph with labels.
        seed: Decides everything random: split, initial weights, views, sampled nodes.
        recipe: All numbers; those shipped for this method and data set where not given, else for this method and any graph.
        device: ``auto``, ``cpu`` or ``cuda``.
        precision: Of training: ``auto`` (bfloat16 on a GPU, else float32), ``float32`` or ``bfloat16``.
        data_root: Folder with raw data, looked into first.
        watch: Told the number of epochs done and the latest loss known, now and then.
        measures: What to measure beside the usual, kept in ``Run.extra_metrics``: ``clusters``, ``points``, ``time``.
    """
    where: dict[str, Any] = {"device": device, "precision": precision, "data_root": data_root}
    (made,) = runs(method, dataset, [seed], recipe=recipe, progress=progress, extra_metrics=extra_metrics, **where)
    return made


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
) -> Iterator[Run]:
    """``run`` for many seeds, each the run that it would be alone; on a GPU they are trained side by side.

    >>> from clnr import Recipe, runs
    >>> [run.seed for run in runs("Raw", "toy", range(3), recipe=Recipe(probe_steps=10))]
    [0, 1, 2]

    The arguments are those of ``run``, and ``together``: how many are trained side by side at most, if fewer than the device
    would have; with 1, times are those of one alone. No seed may come twice. What is returned is an iterator: runs come in the
    order of seeds as they end, and an error of one is raised after the others of its group have come.
    """
    method, graph, recipe = _resolve(method, dataset, recipe, data_root)
    if graph.labels is None:
        advice = "" if method.supervised else "; embed() needs none"
        raise DataError(f"{graph.name} has no labels, so there is nothing to evaluate by{advice}")
    engine, wanted, more = choose(device, precision), _seeds(seeds), find_extra_metrics(extra_metrics)
    most = engine.parallel_seeds if parallel_seeds is None else max(1, check_int("parallel_seeds", parallel_seeds))
    count = min(most, engine.parallel_seeds)
    groups = (wanted[begin : begin + count] for begin in range(0, len(wanted), count))
    return (run for group in groups for run in _as_memory_allows(method, graph, group, recipe, engine, progress, more))


def _as_memory_allows(
    method: Method,
    graph: Graph,
    seeds: list[int],
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None,
    more: ExtraMetrics,
) -> Iterator[Run]:
    """Runs of some seeds side by side; where memory is too short for all, of one half and then the other."""
    made: list[Run | TrainingError] = []
    try:
        with memory.enough_memory():
            made = _runs(method, graph, seeds, recipe, engine, progress, more)
    except OutOfMemory:
        if len(seeds) == 1:
            raise
    if not made:
        half = len(seeds) // 2
        for part in (seeds[:half], seeds[half:]):
            yield from _as_memory_allows(method, graph, part, recipe, engine, progress, more)
    yield from (each for each in made if isinstance(each, Run))
    for each in made:
        if isinstance(each, TrainingError):
            raise each


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
) -> Array:
    """Train a method on a graph and return its embedding: one row per node, float32.

    >>> from clnr import embed, load, recipe_for
    >>> graph = load("toy")
    >>> embed("CLNR", graph, recipe=recipe_for("CLNR", "toy").but(epochs=3, hidden=32, dimension=16)).shape
    (2400, 16)

    No labels are needed, nor looked at, but by a method that is taught by them; its embedding is its logits. The arguments are
    those of ``run``, which evaluates the same embedding.
    """
    method, graph, recipe = _resolve(method, dataset, recipe, data_root)
    return learn(method, graph, seed, recipe, choose(device, precision), progress).z.cpu().numpy()


def learn(
    method: Method,
    graph: Graph,
    seed: int,
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None = None,
    checkpoint: CheckpointCallback | None = None,
) -> TrainedEmbedding:
    """Train a method on a graph: parameters, and the embedding that they give. A keeper lets it go on after a stop."""
    with memory.enough_memory():
        (learned,) = _learn(method, graph, [check_seed(seed)], recipe, engine, progress, checkpoint)
    if isinstance(learned, TrainingError):
        raise learned
    return learned


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
    """A method, or that of a name."""
    found = methods.find(method) if isinstance(method, str) else method
    if not isinstance(found, Method):
        raise MethodError(f"a method is a Method or a name, not a {type(method).__name__}; it comes before the data set")
    return found


def _seeds(seeds: Iterable[int]) -> list[int]:
    wanted = [check_seed(seed) for seed in check_list("seeds", seeds, object, "a seed, as in range(20)")]
    if len(set(wanted)) < len(wanted):
        raise RecipeError(f"seed {max(wanted, key=wanted.count)} is there twice, and would be the same run")
    return wanted


def check_seed(seed: object) -> int:
    """A seed, if it is one."""
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
) -> list[TrainedEmbedding | TrainingError]:
    """The part of runs that sees no label but those of a lesson, because no other is there to be seen."""
    check_type("progress", progress, Callable | None, "a function of the epochs done and the loss, or None")
    taught: dict[Recipe, dict[int, Supervision | None]] = {}
    for seed in seeds:
        supervision, own = None, recipe
        if method.supervised:
            supervision, classes = supervision_of(graph, seed, engine.device)
            own = recipe.but(dimension=classes)
        taught.setdefault(own, {})[seed] = supervision
    seen = graph.without_labels()
    device_graph = engine.to_device(seen)
    learned: dict[int, TrainedEmbedding | TrainingError] = {}
    for own, supervisions in taught.items():
        model = method.build(own)
        noise = own.edge_noise
        training_graphs = {
            seed: engine.to_device(datasets.with_noise(seen, noise, seed)) if noise else device_graph for seed in supervisions
        }
        starts = [
            StepContext(engine, training_graphs[seed], seed, 0, own.epochs, supervision)
            for seed, supervision in supervisions.items()
        ]
        for seed, fitted in zip(supervisions, fit_all(model, own, starts, progress, checkpoint), strict=True):
            learned[seed] = _embedded(model, engine, seed, own, device_graph, fitted)
    return [learned[seed] for seed in seeds]


def _embedded(
    model: Model, engine: Engine, seed: int, recipe: Recipe, device_graph: DeviceGraph, fitted: TrainingResult | TrainingError
) -> TrainedEmbedding | TrainingError:
    if isinstance(fitted, TrainingError):
        return fitted
    z = model.embed(fitted.parameters, engine.float32, View(device_graph))
    if not z.isfinite().all():
        return TrainingError(f"the embedding is not finite after {len(fitted.losses)} epochs; {advice(recipe)}")
    return TrainedEmbedding(seed, recipe, device_graph, fitted, z)


def supervision_of(graph: Graph, seed: int, device: torch.device) -> tuple[Supervision, int]:
    """What a supervised method may know, of training and validation nodes alone, and the number of classes in it.

    Classes are counted up to the largest of a training node; validation nodes of classes beyond can teach nothing.
    """
    if graph.labels is None:
        raise DataError(f"{graph.name} has no labels, and a supervised method is taught by them")
    split = datasets.split_of(graph, seed)
    classes = int(graph.labels[split.train].max()) + 1
    validation = split.validation[graph.labels[split.validation] < classes]
    if not len(validation):
        raise DataError(f"{graph.name} has no validation node of a class that is among the training nodes")
    arrays = (split.train, graph.labels[split.train], validation, graph.labels[validation])
    return Supervision(*(torch.tensor(array, device=device) for array in arrays)), classes


def _runs(
    method: Method,
    graph: Graph,
    seeds: list[int],
    recipe: Recipe,
    engine: Engine,
    progress: ProgressCallback | None,
    more: ExtraMetrics,
) -> list[Run | TrainingError]:
    assert graph.labels is not None
    began = time.perf_counter()
    splits = {seed: datasets.split_of(graph, seed) for seed in seeds}
    meter = memory.MemoryMeter(engine.device)
    learned = _learn(method, graph, seeds, recipe, engine, progress)
    labels = torch.tensor(graph.labels, device=engine.device)
    good = [own for own in learned if isinstance(own, TrainedEmbedding)]
    if method.supervised:
        measured = [predictions(own.z, labels, splits[own.seed]) for own in good]
    else:
        rate, decay = recipe.probe_learning_rate, recipe.probe_weight_decay
        measured = probes([Task(own.z, splits[own.seed], rate, decay) for own in good], labels, recipe.probe_steps)
    shapes = [geometry_metrics(method, engine.float32, own, splits[own.seed]) for own in good]
    further = [
        {name: measure(method, engine.float32, own, splits[own.seed], labels) for name, measure in more.items()} for own in good
    ]
    peak, seconds = meter.peak(), (time.perf_counter() - began) / len(seeds)
    made = {
        own.seed: Run(
            method=method.name,
            dataset=graph.name,
            seed=own.seed,
            strict=accuracy.strict,
            paper=accuracy.paper,
            validation=accuracy.validation,
            **form,
            epochs=len(own.fitted.losses),
            train_seconds=own.fitted.seconds,
            epoch_ms=own.fitted.epoch_ms,
            parallel_seeds=own.fitted.parallel_seeds,
            peak_memory_bytes=peak,
            device=engine.device.type,
            engine=engine.name,
            precision=engine.precision,
            content=graph.digest,
            recipe=own.recipe.to_dict(),
            versions=environment.versions(),
            machine=environment.describe(engine.device),
            seconds=seconds,
            extra_metrics=other,
        )
        for own, accuracy, form, other in zip(good, measured, shapes, further, strict=True)
    }
    return [made[own.seed] if isinstance(own, TrainedEmbedding) else own for own in learned]


def recipe_for(method: Method | str, dataset: Graph | str) -> Recipe:
    """The shipped recipe for a method on a data set: what ``run`` takes where it is given none. Vary it with ``but``.

    For a graph of one's own, whatever its name, it is the method's for any graph.
    """
    return preset(method_of(method), dataset.dataset if isinstance(dataset, Graph) else datasets.find(dataset).name).recipe
