"""Choosing a recipe for a user's graph, by validation alone, with Optuna."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from clnr import datasets
from clnr.embedding.fitting import without
from clnr.engine import Engine, unit_rows
from clnr.errors import ClnrError, DataError, TrainingError
from clnr.evaluation import hold_out, link_scores, probe
from clnr.experiments.grid_search import hide_test_labels
from clnr.experiments.run import learn
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.tables import TableGraph

# What is worth trying, of what a method has: the range of each number, and whether it is by factors.
_SPACE: Mapping[str, tuple[float, float, bool]] = {
    "learning_rate": (1e-4, 1e-2, True),
    "edge_drop": (0.1, 0.8, False),
    "feature_mask": (0.0, 0.6, False),
    "temperature": (0.1, 1.0, True),
}
_LAYERS = (1, 2, 3)
_EPOCHS = (0.5, 1.0, 2.0, 4.0)


def tune(
    read: TableGraph,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    trials: int,
    share: float,
    set_by_user: Mapping[str, Any],
    said: Callable[[str], None],
) -> Recipe:
    """The best of some recipes, by accuracy on validation nodes, or without labels by edges held out for this alone.

    Neither test nodes nor the edges that the final score is by are seen: they are taken away before the first trial.

    Args:
        read: The graph.
        method: What is trained.
        recipe: Where to begin.
        seed: Of trainings and trials alike.
        engine: Where.
        trials: How many.
        share: Of the edges that the final score holds out.
        set_by_user: Keys that stay as they are.
        said: Told of each trial.
    """
    try:
        import optuna
    except ImportError:
        raise ClnrError("--tune needs Optuna: pip install 'clnr[tune]'") from None
    score, what = _judge(read, method, seed, engine, share)

    def objective(trial: optuna.Trial) -> float:
        tried = recipe.but(**_suggested(trial, method, recipe, set_by_user))
        try:
            value = score(tried)
        except TrainingError:
            value = 0.0
        changed = {name: number for name, number in tried.to_dict().items() if number != getattr(recipe, name)}
        told = ", ".join(f"{name}={number:.3g}" for name, number in changed.items()) or "as it was"
        said(f"trial {trial.number + 1} of {trials}: {what} {value:.4g} with {told}")
        return value

    with _quiet(optuna.logging):
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed % 2**32))
        # The first is the recipe as it is, so that nothing worse can be chosen.
        study.enqueue_trial(_as_it_is(method, recipe, set_by_user))
        study.optimize(objective, n_trials=trials)
    return recipe.but(**_values(study.best_params, recipe))


@contextmanager
def _quiet(logging: ModuleType) -> Iterator[None]:
    """Optuna's own words only where something fails, in here; its verbosity is the whole process's."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _judge(read: TableGraph, method: Method, seed: int, engine: Engine, share: float) -> tuple[Callable[[Recipe], float], str]:
    """What a recipe is worth, and what to call that."""
    graph = read.graph
    held = hold_out(graph, share, seed) if share else None
    seen = graph if held is None else without(read, held.graph)
    if graph.labels is not None:
        labelled = hide_test_labels(graph, seed)
        labels, split = torch.tensor(labelled.labels, device=engine.device), datasets.split_of(labelled, seed)

        def by_labels(recipe: Recipe) -> float:
            z = learn(method, _labelled(seen, labelled), seed, recipe, engine).z
            rate, decay = recipe.probe_learning_rate, recipe.probe_weight_decay
            return probe(z, labels, split, recipe.probe_steps, rate, decay).validation

        return by_labels, "validation accuracy"
    inner = hold_out(seen, max(share, 0.05), seed + 1)
    if inner is None:
        raise DataError(f"{graph.name} has neither labels nor enough edges to tune by")
    left = without(read, inner.graph)
    return lambda recipe: link_scores(unit_rows(learn(method, left, seed, recipe, engine).z), inner)["auc"], "AUC of edges"


def _labelled(seen: Graph, labelled: Graph) -> Graph:
    return dataclasses.replace(seen, labels=labelled.labels, split=labelled.split)


def _free(method: Method, set_by_user: Mapping[str, Any]) -> list[str]:
    return [name for name in (*_SPACE, "layers", "epochs") if name in method.keys and name not in set_by_user]


def _suggested(trial: Any, method: Method, recipe: Recipe, set_by_user: Mapping[str, Any]) -> dict[str, Any]:
    drawn = {}
    for name in _free(method, set_by_user):
        if name in _SPACE:
            low, high, factors = _SPACE[name]
            drawn[name] = trial.suggest_float(name, low, high, log=factors)
        else:
            drawn[name] = trial.suggest_categorical(
                name, {"layers": sorted({*_LAYERS, recipe.layers}), "epochs": _EPOCHS}[name]
            )
    return _values(drawn, recipe)


def _values(drawn: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Epochs are drawn as a factor."""
    return {name: max(1, round(value * recipe.epochs)) if name == "epochs" else value for name, value in drawn.items()}


def _as_it_is(method: Method, recipe: Recipe, set_by_user: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: 1.0 if name == "epochs" else getattr(recipe, name) for name in _free(method, set_by_user)}
    return {
        name: min(max(value, _SPACE[name][0]), _SPACE[name][1]) if name in _SPACE else value for name, value in values.items()
    }
