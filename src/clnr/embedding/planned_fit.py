"""Training on a user's graph as settings ask for: plan, check memory, tune, train, take the best."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from math import isnan, nan

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitting import fit_along, fit_graph, recipe_beside
from clnr.embedding.preflight import Preflight
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.tuning import tune
from clnr.experiments.runner import first_use
from clnr.methods.recipe import Recipe, check_used
from clnr.support.progress import Bar
from clnr.tables import TableGraph
from clnr.training.loop import ProgressCallback


def plan(
    table_graph: TableGraph, settings: Settings, workers: int | None = None, layout: str = DEFAULT_LAYOUT
) -> tuple[Recipe, Preflight]:
    """The recipe for a graph before tuning, and everything that can be known before training.

    Args:
        table_graph: The graph.
        settings: How to train.
        workers: How many processes would share the training, if not as the settings say; all on this machine.
        layout: Of the report's map.
    """
    settings.check_labels(table_graph.graph.labels is not None)
    check_used(settings.method, settings.fixed)
    recipe, choices = settings.recipe_for(table_graph.graph, table_graph.feature_encoder)
    settings.method.check(recipe)
    size = workers or settings.workers.size
    settings.check_workers(size, recipe, table_graph.graph.num_nodes)
    judged = settings.evaluate * (1 + len(settings.compared))
    beside = workers or settings.workers.local_size
    more = (settings.tune, settings.fixed, layout)
    return recipe, Preflight.of(table_graph, settings.method, recipe, choices, settings.engine, judged, size, beside, *more)


def fit(table_graph: TableGraph, settings: Settings, bar: Bar | None = None) -> EmbeddingResult:
    """Plan, check memory, tune, train, and resume from a checkpoint: whatever the settings ask for.

    Args:
        table_graph: The graph.
        settings: How to train.
        bar: Shows progress; None for none.
    """
    recipe, preflight = plan(table_graph, settings)
    return fit_planned(table_graph, settings, recipe, preflight, bar)


def fit_along_others(table_graph: TableGraph, settings: Settings, bar: Bar | None = None) -> EmbeddingResult | None:
    """``fit`` by workers, all of which call this with the same graph; all but the first return None."""
    recipe, preflight = plan(table_graph, settings)
    settings.workers.check_same_on_all_ranks(lambda: settings.about(table_graph.graph.digest, recipe))
    if settings.workers.first:
        return fit_planned(table_graph, settings, recipe, preflight, bar)
    fit_share(table_graph, settings, recipe)
    return None


def fit_share(table_graph: TableGraph, settings: Settings, recipe: Recipe) -> None:
    """Do another worker's share of ``fit_planned``."""
    hold_out, workers = settings.hold_out, settings.workers
    fit_along(table_graph, settings.method, recipe, settings.seed, settings.engine, hold_out=hold_out, workers=workers)


def fit_planned(
    table_graph: TableGraph, settings: Settings, recipe: Recipe, preflight: Preflight, bar: Bar | None = None
) -> EmbeddingResult:
    """``fit`` after ``plan``, whose recipe and preflight these are."""
    log = (bar or Bar(None, quiet=True)).note
    method, engine, seed = settings.method, settings.engine, settings.seed
    for line in preflight.lines:
        log(line)
    if not settings.ignore_memory_check:
        preflight.check_memory()
    settings.check_checkpoint()
    if settings.tune:
        recipe = tune(table_graph, method, recipe, seed, engine, settings.tune, settings.hold_out, settings.fixed, log, bar)
    checkpoint = settings.checkpoint_of(table_graph.graph.digest, recipe, log)
    if checkpoint is not None and settings.resume:
        path = checkpoint.path
        log(f"resuming from {path}" if path.is_file() else f"there is no checkpoint {path}: training starts from scratch")
    with engine.use_threads(), shown(settings, recipe, table_graph.graph.num_nodes, bar) as progress:
        result = fit_graph(
            table_graph,
            method,
            recipe,
            seed,
            engine,
            hold_out=settings.hold_out,
            progress=progress,
            checkpoint=checkpoint,
            evaluate=settings.evaluate,
            baselines=settings.compared,
            workers=settings.workers,
        )
    if not settings.workers.alone:
        log(f"this worker sent {settings.workers.sent / 1e6:,.1f} MB to others")
    return _winner(result, settings, log) if settings.auto else result


def _winner(result: EmbeddingResult, settings: Settings, log: Callable[[str], None]) -> EmbeddingResult:
    """The result itself, or that of the baseline with the best score by validation nodes or, without labels, by edges."""
    measure = "validation_accuracy" if "validation_accuracy" in result.scores else "link_auc"
    own = result.scores.get(measure, nan)
    found = {result.model.method.name: own} | {
        name: scores[measure] for name, scores in result.baselines.items() if measure in scores
    }
    best = max(found, key=found.__getitem__)
    if isnan(found[best]) or best == result.model.method.name:
        return result
    log(f"{best} has the better {measure.replace('_', ' ')}, {found[best]:.4g} against {own:.4g}: it is taken")
    method = methods.find(best)
    recipe = recipe_beside(method, settings.method, result.model.recipe, result.table_graph.graph)
    with settings.engine.use_threads():
        taken = fit_graph(
            result.table_graph,
            method,
            recipe,
            settings.seed,
            settings.engine,
            hold_out=settings.hold_out,
            evaluate=settings.evaluate,
            baselines=[each for each in settings.compared if each != method],
        )
    scored = {name: value for name, value in result.scores.items() if name.startswith(("link_a", "strict", "validation"))}
    return dataclasses.replace(taken, baselines=taken.baselines | {result.model.method.name: scored})


@contextlib.contextmanager
def shown(settings: Settings, recipe: Recipe, nodes: int, bar: Bar | None) -> Iterator[ProgressCallback | None]:
    """The progress of training, on a bar if there is one."""
    if bar is None:
        yield None
        return
    epochs = recipe.epochs if settings.method.objective else 0
    what = f"{settings.method.name} on {nodes:,} nodes"
    with first_use(settings.engine, bar), bar.training(what, epochs) as progress:
        yield progress
