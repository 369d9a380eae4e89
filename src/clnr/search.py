"""Choosing a recipe by validation accuracy, with the test labels taken away."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from clnr import data
from clnr.errors import DataError, RecipeError
from clnr.graph import Graph, Split
from clnr.methods import Method
from clnr.recipe import Recipe, parse
from clnr.run import Run, Summary
from clnr.session import Session


@dataclass(frozen=True)
class Trial:
    """What was changed in a recipe, and the runs that were made with it. Their test nodes are validation nodes."""

    changes: dict[str, Any]
    runs: tuple[Run, ...]

    @property
    def validation(self) -> dict[str, Any]:
        return Summary(self.runs).accuracy("validation")

    def to_dict(self) -> dict[str, Any]:
        """What ``clnr search --json`` prints of each."""
        means = {name: Summary(self.runs).mean(name) for name in ("epochs", "train_seconds")}
        return {"changes": self.changes, "validation": self.validation, **means, "recipe": self.runs[0].recipe}


def grid(over: list[str]) -> list[dict[str, Any]]:
    """All combinations of ``key=a,b,c`` words, as of ``--over``."""
    if not over:
        raise RecipeError("--over key=a,b,c says what to try; see: clnr show METHOD DATASET for the keys")
    axes = []
    for word in over:
        name, _, values = word.partition("=")
        axes.append([parse([f"{name}={value}"]) for value in values.split(",")])
    names = [next(iter(axis[0])) for axis in axes]
    if len(set(names)) < len(names):
        raise RecipeError(f"--over names {max(names, key=names.count)} twice; put all its values into one")
    return [{name: value for each in combination for name, value in each.items()} for combination in itertools.product(*axes)]


def blind(graph: Graph, seed: int) -> Graph:
    """The graph with a seed's split, in which no test label can be read: validation nodes stand where test nodes stood."""
    if graph.labels is None:
        raise DataError(f"{graph.name} has no labels to choose a recipe by")
    train, validation, _ = data.split_of(graph, seed)
    labels = np.full_like(graph.labels, -1)
    for nodes in (train, validation):
        labels[nodes] = graph.labels[nodes]
    return dataclasses.replace(graph, labels=labels, split=Split(train, validation, validation))


def try_all(session: Session, method: Method, graph: Graph, recipe: Recipe, trials: list[dict[str, Any]]) -> list[Trial]:
    """Every trial on every seed, the best by mean validation accuracy first, the first of equals before."""
    found = []
    for changes in trials:
        tried = recipe.but(**changes)
        runs = (session.run(method, blind(graph, seed), seed, tried) for seed in range(session.seeds))
        found.append(Trial(changes, tuple(runs)))
    return sorted(found, key=lambda trial: -trial.validation["mean"])
