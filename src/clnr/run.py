"""run(): the whole line, from a name to a result. Read this first.

load -> Graph -> views -> encoder -> postprocess -> objective -> fit -> embed -> evaluate -> Run
"""

from __future__ import annotations

import math
import numbers
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from clnr import data, geometry, machine, methods
from clnr.edges import Array
from clnr.engine import Engine, Placed, View, choose, unit_rows
from clnr.errors import DataError, MethodError, RecipeError, TrainingError
from clnr.evaluate import predictions, probe
from clnr.graph import Graph
from clnr.layers import Parameters
from clnr.methods import DROP, Method
from clnr.objectives import Lesson
from clnr.recipe import Recipe, Shelved, shelved
from clnr.train import Fitted, Watch, advice, fit

LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Run:
    """One training and its evaluation. Accuracies in percent; ``paper`` is the authors' optimistic rule.

    ``epochs`` is how many were trained, which early stopping may make fewer than the recipe's; ``epoch_ms`` is None where
    there were none. ``validation`` is the accuracy by which ``strict`` chose its step; ``seconds`` counts everything but the
    loading of data.
    """

    method: str
    dataset: str
    seed: int
    strict: float
    paper: float
    validation: float
    alignment: float
    uniformity: float
    effective_rank: float
    epochs: int
    train_seconds: float
    epoch_ms: float | None
    peak_memory_bytes: int
    device: str
    engine: str
    precision: str
    content: str
    recipe: dict[str, Any]
    versions: dict[str, str]
    machine: str
    seconds: float


def run(
    method: Method | str = methods.CLNR,
    dataset: Graph | str = "embedded",
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    device: str = "auto",
    data_root: str | Path | None = None,
    watch: Watch | None = None,
) -> Run:
    """Train a method on a data set and evaluate what it learned.

    Args:
        method: A method, or its name.
        dataset: A data set's name, or a graph with labels.
        seed: Decides everything random: split, initial weights, views, sampled nodes.
        recipe: All numbers; the shelf's for this method and data set where not given.
        device: ``auto``, ``cpu`` or ``cuda``.
        data_root: Folder with raw data, looked into first.
        watch: Told the number of epochs done and the latest loss known, now and then.
    """
    method, graph, recipe = _resolve(method, dataset, recipe, data_root)
    if graph.labels is None:
        advice = "" if method.supervised else "; embed() needs none"
        raise DataError(f"{graph.name} has no labels, so there is nothing to evaluate by{advice}")
    with machine.enough_memory():
        return _run(method, graph, _seed(seed), recipe, choose(device), watch)


def embed(
    method: Method | str = methods.CLNR,
    dataset: Graph | str = "embedded",
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    device: str = "auto",
    data_root: str | Path | None = None,
    watch: Watch | None = None,
) -> Array:
    """Train a method on a graph and return its embedding: one row per node, float32.

    No labels are needed, nor looked at, but by a method that is taught by them; its embedding is its logits. The arguments are
    those of ``run``, which evaluates the same embedding.
    """
    method, graph, recipe = _resolve(method, dataset, recipe, data_root)
    with machine.enough_memory():
        return _learn(method, graph, _seed(seed), recipe, choose(device), watch).z.cpu().numpy()


def _resolve(
    method: Method | str, dataset: Graph | str, recipe: Recipe | None, data_root: str | Path | None
) -> tuple[Method, Graph, Recipe]:
    method = _method(method)
    graph = data.load(dataset, data_root) if isinstance(dataset, str) else dataset
    if not isinstance(graph, Graph):
        raise DataError(f"a data set is a Graph or a name, not a {type(dataset).__name__}; the method comes first")
    if recipe is None:
        recipe = shelf(method, graph.name).recipe
    if not isinstance(recipe, Recipe):
        raise RecipeError(f"a recipe is a Recipe, not a {type(recipe).__name__}; vary one with recipe_for(...).but(...)")
    return method, graph, recipe


def _method(method: Method | str) -> Method:
    found = methods.find(method) if isinstance(method, str) else method
    if not isinstance(found, Method):
        raise MethodError(f"a method is a Method or a name, not a {type(method).__name__}; it comes before the data set")
    return found


def _seed(seed: object) -> int:
    number = int(seed) if isinstance(seed, numbers.Integral) else -1
    if not 0 <= number <= LARGEST_SEED:
        raise RecipeError(f"a seed must be a whole number from 0 to {LARGEST_SEED}, not {seed!r}")
    return number


class _Learned(NamedTuple):
    recipe: Recipe
    placed: Placed
    fitted: Fitted
    z: torch.Tensor


def _learn(method: Method, graph: Graph, seed: int, recipe: Recipe, engine: Engine, watch: Watch | None) -> _Learned:
    """The part of a run that sees no label but those of a lesson, because no other is there to be seen."""
    lesson = None
    if method.supervised:
        lesson, classes = lesson_of(graph, seed, engine.device)
        recipe = recipe.but(dimension=classes)
    model, placed = method.build(recipe), engine.place(graph.without_labels())
    fitted = fit(model, engine, placed, recipe, seed, watch, lesson)
    z = model.embed(fitted.parameters, engine, View(placed))
    if not z.isfinite().all():
        raise TrainingError(f"the embedding is not finite after {len(fitted.losses)} epochs; {advice(recipe)}")
    return _Learned(recipe, placed, fitted, z)


def lesson_of(graph: Graph, seed: int, device: torch.device) -> tuple[Lesson, int]:
    """What a supervised method may know, of training and validation nodes alone, and the number of classes in it.

    Classes are counted up to the largest of a training node; validation nodes of classes beyond can teach nothing.
    """
    if graph.labels is None:
        raise DataError(f"{graph.name} has no labels, and a supervised method is taught by them")
    split = data.split_of(graph, seed)
    classes = int(graph.labels[split.train].max()) + 1
    validation = split.validation[graph.labels[split.validation] < classes]
    if not len(validation):
        raise DataError(f"{graph.name} has no validation node of a class that is among the training nodes")
    arrays = (split.train, graph.labels[split.train], validation, graph.labels[validation])
    return Lesson(*(torch.tensor(array, device=device) for array in arrays)), classes


def _run(method: Method, graph: Graph, seed: int, recipe: Recipe, engine: Engine, watch: Watch | None) -> Run:
    assert graph.labels is not None
    began = time.perf_counter()
    split = data.split_of(graph, seed)
    meter = machine.MemoryMeter(engine.device)
    recipe, placed, fitted, z = _learn(method, graph, seed, recipe, engine, watch)
    labels = torch.tensor(graph.labels, device=z.device)
    if method.supervised:
        measured = predictions(z, labels, split)
    else:
        measured = probe(z, labels, split, recipe.probe_steps, recipe.probe_learning_rate, recipe.probe_weight_decay)
    nodes = torch.tensor(split.validation, device=z.device)
    u, v = (unit_rows(rows) for rows in fresh_views(method, recipe, fitted.parameters, engine, placed, seed, nodes))
    return Run(
        method=method.name,
        dataset=graph.name,
        seed=seed,
        strict=measured.strict,
        paper=measured.paper,
        validation=measured.validation,
        alignment=geometry.alignment(u, v),
        uniformity=(geometry.uniformity(u) + geometry.uniformity(v)) / 2,
        effective_rank=geometry.effective_rank(z),
        epochs=len(fitted.losses),
        train_seconds=fitted.seconds,
        epoch_ms=fitted.epoch_ms,
        peak_memory_bytes=meter.peak(),
        device=engine.device.type,
        engine=engine.name,
        precision=engine.precision,
        content=graph.digest,
        recipe=recipe.to_dict(),
        versions=machine.versions(),
        machine=machine.describe(engine.device),
        seconds=time.perf_counter() - began,
    )


@torch.no_grad()
def fresh_views(
    method: Method, recipe: Recipe, parameters: Parameters, engine: Engine, placed: Placed, seed: int, nodes: torch.Tensor
) -> list[torch.Tensor]:
    """Rows of some nodes in two views that training never saw: what the geometry is measured on.

    As the objective sees them, where the method draws two views alike; else the embeddings of two views with CLNR's changes,
    at the recipe's rates.
    """
    model = method.build(recipe)
    if method.twins:
        return model.project(parameters, engine, model.look(placed, seed, "measure", 0), nodes)[:2]
    views = method.but(method.name, method.summary, views=(DROP, DROP)).build(recipe).look(placed, seed, "measure", 0)
    return [model.embed(parameters, engine, view)[nodes] for view in views]


def without_nan(value: Any) -> Any:
    """For JSON, which has no NaN: None in its place."""
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def recipe_for(method: Method | str, dataset: Graph | str) -> Recipe:
    """The shipped recipe for a method on a data set: what ``run`` takes where it is given none. Vary it with ``but``."""
    return shelf(_method(method), dataset.name if isinstance(dataset, Graph) else data.find(dataset).name).recipe


def shelf(method: Method, dataset: str) -> Shelved:
    """The shipped recipe for a method on a data set, with its sources and the published result."""
    return shelved(dataset, method.lineage)


@dataclass(frozen=True)
class Summary:
    """Several runs that differ in their seed alone.

    Accuracies are lists by seed with mean and population standard deviation; ``epoch_ms`` is the median, the peak of memory
    the largest, and all else the mean over seeds.
    """

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Summary:
        return cls(tuple(sorted(runs, key=lambda run: run.seed)))

    def mean(self, measure: str) -> float:
        return statistics.fmean(getattr(run, measure) for run in self.runs)

    def accuracy(self, protocol: str) -> dict[str, Any]:
        values = [getattr(run, protocol) for run in self.runs]
        return {"mean": statistics.fmean(values), "std": statistics.pstdev(values), "runs": values}

    @property
    def epoch_ms(self) -> float | None:
        known = [run.epoch_ms for run in self.runs if run.epoch_ms is not None]
        return statistics.median(known) if known else None

    @property
    def peak_memory_bytes(self) -> int:
        return max(run.peak_memory_bytes for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """What ``clnr run --json`` prints."""
        first = self.runs[0]
        told = {
            "method": first.method,
            "dataset": first.dataset,
            "seeds": len(self.runs),
            "strict": self.accuracy("strict"),
            "paper": self.accuracy("paper"),
            **{
                measure: self.mean(measure)
                for measure in ("alignment", "uniformity", "effective_rank", "epochs", "train_seconds")
            },
            "epoch_ms": self.epoch_ms,
            "peak_memory_bytes": self.peak_memory_bytes,
            "device": first.device,
            "machine": first.machine,
            "recipe": first.recipe,
            "versions": first.versions,
        }
        return dict(without_nan(told))
