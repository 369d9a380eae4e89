"""Runs of many seeds: from the run cache if they are there, else made now and added to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clnr.engine import Engine
from clnr.errors import RunCacheError
from clnr.experiments.results import Run, Summary
from clnr.experiments.run import runs
from clnr.experiments.run_cache import RunCache, run_key
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe, untrained
from clnr.support.progress import Bar


@dataclass(frozen=True, eq=False)
class Runner:
    """Makes runs of several seeds, 0, 1, 2 ..., on an engine, with a run cache; with ``rerun`` also those that are there."""

    seeds: int
    engine: Engine
    run_cache: RunCache
    rerun: bool
    bar: Bar

    def runs(self, method: Method, graph: Graph, recipe: Recipe) -> tuple[Summary, RunCacheError | None]:
        """Runs of all seeds: from the run cache if they are there, else made now and added to it.

        A run that cannot be added is returned all the same, together with the error.
        """
        keys = {seed: run_key(graph, method, recipe, seed, self.engine) for seed in range(self.seeds)}
        runs = {seed: cached_run for seed, key in keys.items() if not self.rerun and (cached_run := self.run_cache.find(key))}
        if runs:
            cached = f"{len(runs)} of {self.seeds} from the run cache ({self.run_cache.path})"
            self.bar.note(f"{method.name}: {cached}; --rerun makes them again")
        missing = [seed for seed in keys if seed not in runs]
        failure: RunCacheError | None = None
        for begin in range(0, len(missing), self.engine.parallel_seeds):
            for run in self.make(method, graph, missing[begin : begin + self.engine.parallel_seeds], recipe):
                runs[run.seed] = run
                try:
                    self.run_cache.add(keys[run.seed], run, self.rerun)
                except RunCacheError as error:
                    failure = error
        return Summary.of(list(runs.values())), failure

    def make(self, method: Method, graph: Graph, seeds: list[int], recipe: Recipe) -> Iterator[Run]:
        """Make runs now, in parallel as far as the engine allows, and do not add them to the run cache."""
        epochs = recipe.epochs if method.objective else 0
        for line in untrained(method, recipe):
            self.bar.note(line)
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
        what = f"{method.name} on {graph.name}, {which}"
        with self.bar.training(what, epochs) as progress:
            engine, device = self.engine, self.engine.device.type
            where: dict[str, Any] = {"device": device, "precision": engine.precision, "threads": engine.threads}
            yield from runs(method, graph, seeds, recipe=recipe, progress=progress, **where)
