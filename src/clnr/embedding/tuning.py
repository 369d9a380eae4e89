"""Tuning a recipe for a user's graph with Optuna, by validation alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from statistics import mean
from types import ModuleType
from typing import Any

from clnr import datasets
from clnr.embedding.scoring.held_out import training_graph
from clnr.embedding.scoring.job_scores import cosines_of
from clnr.engine import Engine
from clnr.errors import ClnrError, DataError, TrainingError
from clnr.evaluation import hold_out, logistic_probe, score_cosines
from clnr.experiments.grid_search import hide_test_labels
from clnr.experiments.learn import learn
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.progress import Bar
from clnr.tables import TableGraph
from clnr.training.loop import ProgressCallback

# The search space: low, high, and whether to search on a log scale.
_SPACE: Mapping[str, tuple[float, float, bool]] = {
    "learning_rate": (1e-4, 1e-2, True),
    "edge_drop": (0.1, 0.8, False),
    "feature_mask": (0.0, 0.6, False),
    "temperature": (0.1, 1.0, True),
}
_LAYERS = (1, 2, 3)
_EPOCHS = (0.5, 1.0, 2.0, 4.0)


def tune(
    table_graph: TableGraph,
    method: Method,
    recipe: Recipe,
    seed: int,
    engine: Engine,
    trials: int,
    share: float,
    fixed: Collection[str],
    log: Callable[[str], None],
    bar: Bar | None = None,
) -> Recipe:
    """The best of several recipes: by accuracy on validation nodes or, without labels, by edges held out for tuning alone.

    Neither test nodes nor the edges of the final score, a ``share`` of all, are seen: they are removed before the first trial.
    That one has the recipe as it is. Hyper-parameters that are ``fixed`` are not tuned.
    """
    try:
        import optuna
    except ImportError:
        raise ClnrError("--tune needs Optuna: pip install 'clnr[tune]'") from None
    score, metric = _scorer(table_graph, method, seed, engine, share)

    def objective(trial: optuna.Trial) -> float:
        tried = recipe.but(**_values(_drawn(trial, method, recipe, fixed), recipe))
        what = f"trial {trial.number + 1} of {trials}"
        try:
            with (bar or Bar(None, quiet=True)).training(what, tried.epochs) as progress:
                value = score(tried, progress)
        except TrainingError:
            value = 0.0
        changed = {name: number for name, number in tried.to_dict().items() if number != getattr(recipe, name)}
        settings = ", ".join(f"{name}={number:.3g}" for name, number in changed.items()) or "the recipe as it was"
        log(f"{what}: {metric} {value:.4g} with {settings}")
        return value

    with _quiet(optuna.logging):
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed % 2**32))
        # The first trial is the recipe itself, so that nothing worse can be chosen.
        study.enqueue_trial(_initial(method, recipe, fixed))
        study.optimize(objective, n_trials=trials)
    return recipe.but(**_values(study.best_params, recipe))


@contextmanager
def _quiet(logging: ModuleType) -> Iterator[None]:
    """Only errors of Optuna are logged in this block; its verbosity is global, and is put back."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _scorer(
    table_graph: TableGraph, method: Method, seed: int, engine: Engine, share: float
) -> tuple[Callable[[Recipe, ProgressCallback | None], float], str]:
    """A function that scores a recipe, and the name of its metric."""
    graph = table_graph.graph.with_median_loops()
    kinds = table_graph.kind_numbers
    held = hold_out(graph, share, seed, kinds) if share else None
    seen = graph if held is None else training_graph(table_graph, held.graph)
    if graph.labels is not None:
        labelled = hide_test_labels(graph, seed)
        assert labelled.labels is not None
        labels, split = labelled.labels, datasets.split_of(labelled, seed)

        def by_labels(recipe: Recipe, progress: ProgressCallback | None) -> float:
            with_labels = dataclasses.replace(seen, labels=labels, split=labelled.split)
            z = learn(method, with_labels, seed, recipe, engine, progress).z
            return logistic_probe(z, labels, split, seed, engine.device).validation

        return by_labels, "validation accuracy"
    inner = hold_out(seen, max(share, 0.05), seed + 1, kinds)
    if inner is None:
        raise DataError(f"{graph.name} has neither labels nor enough edges to tune by")
    left = training_graph(table_graph, inner.graph)

    def by_edges(recipe: Recipe, progress: ProgressCallback | None) -> float:
        cosines = cosines_of(learn(method, left, seed, recipe, engine, progress).z, inner)
        assert cosines is not None
        return score_cosines(cosines)["auc"]

    return by_edges, "AUC of edges"


def _tunable(method: Method, fixed: Collection[str]) -> list[str]:
    return [name for name in (*_SPACE, "layers", "epochs") if name in method.keys and name not in fixed]


def mean_epochs(method: Method, fixed: Collection[str]) -> float:
    """How many times the epochs of the recipe a trial trains, on average."""
    return mean(_EPOCHS) if "epochs" in _tunable(method, fixed) else 1.0


def _drawn(trial: Any, method: Method, recipe: Recipe, fixed: Collection[str]) -> dict[str, Any]:
    drawn, choices = {}, {"layers": sorted({*_LAYERS, recipe.layers}), "epochs": _EPOCHS}
    for name in _tunable(method, fixed):
        if name in _SPACE:
            low, high, log = _SPACE[name]
            drawn[name] = trial.suggest_float(name, low, high, log=log)
        else:
            drawn[name] = trial.suggest_categorical(name, choices[name])
    return drawn


def _values(drawn: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Values of a recipe: epochs are drawn as a factor of the recipe's."""
    return {name: max(1, round(value * recipe.epochs)) if name == "epochs" else value for name, value in drawn.items()}


def _initial(method: Method, recipe: Recipe, fixed: Collection[str]) -> dict[str, Any]:
    values = {name: 1.0 if name == "epochs" else getattr(recipe, name) for name in _tunable(method, fixed)}
    return {
        name: min(max(value, _SPACE[name][0]), _SPACE[name][1]) if name in _SPACE else value for name, value in values.items()
    }
