"""Runs of many seeds: from the run cache if they are there, else made now and added to it."""

from __future__ import annotations

import warnings
from typing import Any

from clnr.engine import Engine
from clnr.errors import RunCacheError
from clnr.experiments.results import Summary
from clnr.experiments.run import runs
from clnr.experiments.run_cache import RunCache, run_key
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe, untrained
from clnr.support.progress import Bar


def find_or_make(
    method: Method, graph: Graph, recipe: Recipe, seeds: int, engine: Engine, run_cache: RunCache, rerun: bool, bar: Bar
) -> Summary:
    """Runs of several seeds, 0, 1, 2 ...: from the run cache if they are there, else made now and added to it.

    With ``rerun`` all are made. A run that cannot be added is part of the result all the same, with a warning.
    """
    keys = {seed: run_key(graph, method, recipe, seed, engine) for seed in range(seeds)}
    found = {seed: run for seed, key in keys.items() if not rerun and (run := run_cache.find(key))}
    if found:
        cached = f"{len(found)} of {seeds} from the run cache ({run_cache.path})"
        bar.note(f"{method.name}: {cached}; --rerun makes them again")
    missing = [seed for seed in keys if seed not in found]
    for line in untrained(method, recipe) if missing else ():
        bar.note(line)
    where: dict[str, Any] = {"device": engine.device.type, "precision": engine.precision, "threads": engine.threads}
    for begin in range(0, len(missing), engine.parallel_seeds):
        group = missing[begin : begin + engine.parallel_seeds]
        which = f"seed {group[0]}" if len(group) == 1 else f"{len(group)} seeds"
        with bar.training(f"{method.name} on {graph.name}, {which}", recipe.epochs if method.objective else 0) as progress:
            for run in runs(method, graph, group, recipe=recipe, progress=progress, **where):
                found[run.seed] = run
                try:
                    run_cache.add(keys[run.seed], run, rerun)
                except RunCacheError as error:
                    warnings.warn(str(error), stacklevel=2)
    return Summary.of(list(found.values()))
