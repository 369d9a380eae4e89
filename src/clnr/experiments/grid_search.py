"""Grid search: choosing a recipe by validation accuracy, with the test labels hidden."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from clnr import datasets
from clnr.errors import DataError, RecipeError, TrainingError
from clnr.experiments.results import Run, Summary
from clnr.experiments.runner import Runner
from clnr.graph import Graph, Split
from clnr.methods import Method
from clnr.methods.recipe import Recipe, parse


@dataclass(frozen=True)
class Trial:
    """The changes to a recipe, and the runs made with it; none if one of them failed.

    The test nodes of these runs are validation nodes.
    """

    changes: dict[str, Any]
    recipe: Recipe
    runs: tuple[Run, ...] = ()
    failure: str | None = None

    @property
    def validation(self) -> dict[str, Any] | None:
        return Summary(self.runs).accuracy("validation") if self.runs else None

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.changes.items())

    def to_dict(self) -> dict[str, Any]:
        """What ``clnr search --json`` prints for each trial."""
        facts = {"changes": self.changes, "validation": self.validation, "failure": self.failure}
        means = {name: Summary(self.runs).mean(name) if self.runs else None for name in ("epochs", "train_seconds")}
        return {**facts, **means, "recipe": self.recipe.to_dict()}


def grid(values: list[str]) -> list[dict[str, Any]]:
    """All combinations of ``key=a,b,c`` values, as in ``--grid``."""
    if not values:
        raise RecipeError("missing --grid key=a,b,c with the values to try; for the keys: clnr recipe METHOD DATASET")
    axes = []
    for word in values:
        name, equals, listed = word.partition("=")
        if not equals:
            raise RecipeError(f"--grid '{word}' is not of the form key=a,b,c")
        axes.append([parse([f"{name}={value}"]) for value in listed.split(",")])
    names = [next(iter(axis[0])) for axis in axes]
    if len(set(names)) < len(names):
        raise RecipeError(f"{max(names, key=names.count)} is in --grid twice; put all its values into one")
    return [{name: value for each in combination for name, value in each.items()} for combination in itertools.product(*axes)]


def some_of(combinations: list[dict[str, Any]], count: int | None) -> list[dict[str, Any]]:
    """A random sample of ``count`` combinations, the same at every call; all of them if None."""
    if count is None:
        return combinations
    if count < 1:
        raise RecipeError(f"--trials must be at least 1, not {count}")
    return random.Random(0).sample(combinations, min(count, len(combinations)))


def hide_test_labels(graph: Graph, seed: int) -> Graph:
    """The graph with the split of a seed and no test labels: validation nodes take the place of test nodes."""
    if graph.labels is None:
        raise DataError(f"{graph.name} has no labels to choose a recipe by")
    train, validation, _ = datasets.split_of(graph, seed)
    labels = np.full_like(graph.labels, -1)
    for nodes in (train, validation):
        labels[nodes] = graph.labels[nodes]
    return dataclasses.replace(graph, labels=labels, split=Split(train, validation, validation))


def try_all(runner: Runner, method: Method, graph: Graph, trials: list[Trial]) -> Iterator[Trial]:
    """Run every trial on every seed, those with the same split in parallel; each is yielded when it is finished."""
    seeds = list(range(runner.seeds))
    groups = [seeds] if graph.split is not None else [[seed] for seed in seeds]
    hidden = [(hide_test_labels(graph, group[0]), group) for group in groups]
    for trial in trials:
        try:
            runs = [run for seen, group in hidden for run in runner.make(method, seen, group, trial.recipe, str(trial))]
            yield dataclasses.replace(trial, runs=tuple(runs))
        except TrainingError as error:
            yield dataclasses.replace(trial, failure=str(error))


def best_first(trials: list[Trial]) -> list[Trial]:
    """Sorted by mean validation accuracy, ties in their order, failed trials last."""
    return sorted(trials, key=lambda trial: -trial.validation["mean"] if trial.validation else 1.0)
