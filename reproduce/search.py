"""Grid search: choosing a recipe by validation accuracy, with the test labels hidden."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import numpy as np

import clnr
from clnr import datasets, runs
from clnr.datasets.splits import split_of
from clnr.errors import DataError, RecipeError, TrainingError
from clnr.graph import Graph, Split
from clnr.methods import Method
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe, check_used, parse
from reproduce.formats import pipe_table


class Trial(NamedTuple):
    """Changes to a recipe, and the runs made with it, whose test nodes are validation nodes; none if training failed."""

    changes: dict[str, Any]
    recipe: Recipe
    runs: tuple[clnr.Run, ...] = ()
    failure: str = ""

    @property
    def validation(self) -> float:
        """The mean of validation accuracies in percent; -1 if training failed."""
        return fmean(run.validation for run in self.runs) if self.runs else -1.0


def search(method: Method, dataset: str, assigned: list[str], words: list[str], seeds: int, **where: Any) -> str:
    """The ranking of a grid's recipes; each trial is said when it is finished."""
    planned, finished = trials(method, dataset, assigned, words), []
    for trial in try_all(method, datasets.load(dataset), planned, seeds, **where):
        changes = ", ".join(f"{key}={value}" for key, value in trial.changes.items())
        print(f"{changes}: {trial.failure or f'{trial.validation:.2f} %'}", file=sys.stderr)
        finished.append(trial)
    return ranking(finished)


def grid(words: Iterable[str]) -> list[dict[str, Any]]:
    """All combinations of ``key=a,b,c`` values."""
    axes: dict[str, list[dict[str, Any]]] = {}
    for word in words:
        name, _, listed = word.partition("=")
        if name in axes:
            raise RecipeError(f"{name} is in the grid twice; put all its values into one KEY=A,B")
        axes[name] = [parse([f"{name}={value}"]) for value in listed.split(",")]
    return [dict(itertools.chain(*map(dict.items, each))) for each in itertools.product(*axes.values())]


def trials(method: Method, dataset: str, assigned: list[str], words: Iterable[str]) -> list[Trial]:
    """The recipes of a grid around a preset with some changes."""
    combinations, changes = grid(words), parse(assigned)
    check_used(method, changes | combinations[0])
    if unused := [key for key in combinations[0] if key in method.measuring]:
        raise RecipeError(f"{unused[0]} affects only alignment and uniformity of {method.name}, not its training")
    recipe = preset(method, dataset).recipe.but(**changes)
    return [Trial(each, recipe.but(**each)) for each in combinations]


def hide_test_labels(graph: Graph, seed: int) -> Graph:
    """The graph with the split of a seed and no test labels: validation nodes take the place of test nodes."""
    if graph.labels is None:
        raise DataError(f"{graph.name} has no labels to choose a recipe by")
    train, validation, _ = split_of(graph, seed)
    labels = np.full_like(graph.labels, -1)
    for nodes in (train, validation):
        labels[nodes] = graph.labels[nodes]
    return dataclasses.replace(graph, labels=labels, split=Split(train, validation, validation))


def try_all(method: Method, graph: Graph, planned: Iterable[Trial], seeds: int, **where: Any) -> Iterator[Trial]:
    """Run every trial on every seed, those with the same split in parallel; each is yielded when it is finished."""
    wanted = list(range(seeds))
    groups = [wanted] if graph.split is not None else [[seed] for seed in wanted]
    hidden = [(hide_test_labels(graph, group[0]), group) for group in groups]
    for each in planned:
        try:
            made = [run for seen, group in hidden for run in runs(method, seen, group, recipe=each.recipe, **where)]
            yield each._replace(runs=tuple(made))
        except TrainingError as error:
            yield each._replace(failure=str(error))


def ranking(finished: Iterable[Trial]) -> str:
    """A table of trials, sorted by mean validation accuracy, ties in their order, failed ones last."""
    rows, ranked = [], sorted(finished, key=lambda trial: -trial.validation)
    for trial in ranked:
        changes = (f"{value:g}" if isinstance(value, float) else str(value) for value in trial.changes.values())
        cells = ["failed", "", "", ""]
        if trial.runs:
            spread = pstdev(run.validation for run in trial.runs)
            epochs, seconds = fmean(run.epochs for run in trial.runs), fmean(run.train_seconds for run in trial.runs)
            cells = [f"{trial.validation:.2f}", f"{spread:.2f}", f"{epochs:.1f}", f"{seconds:.1f}"]
        rows.append([*changes, *cells])
    names = list(ranked[0].changes)
    return pipe_table([*names, "validation %", "±", "epochs", "train s"], rows, len(names))
