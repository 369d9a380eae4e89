"""Runs that were never trained, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from reproduce.paper_runs.run_index import ResultSet, RunFilter, RunIndex
from reproduce.paper_runs.scope import Batch

from clnr.experiments.results import Run
from clnr.experiments.run_cache import RunCache
from clnr.support.machine import code_digest, environment
from tests.experiments.test_run_cache import made as made_with


def made(batch: Batch, seed: int = 0, **changes: Any) -> Run:
    """A run of a batch by this code and torch."""
    torch = environment.versions()["torch"]
    values = {"method": batch.method.name, "dataset": batch.dataset, "recipe": batch.recipe.to_dict()}
    values |= {"strict": 80.0 + seed, "paper": 81.0 + seed, "validation": 79.0, "alignment": 0.3, "uniformity": -3.0}
    values |= {"epochs": batch.recipe.epochs, "train_seconds": 1.0, "seconds": 2.0, "peak_memory_bytes": 2**30}
    values |= {"versions": {"clnr": "0.1.0", "code": code_digest.code_version(), "torch": torch, "python": "3.11.0"}}
    values |= {"machine": "a processor", "threads": None}
    return made_with(seed, **(values | changes))


def cache_of(*runs: Run) -> RunCache:
    """The test's own run cache, with some runs in it."""
    run_cache = RunCache()
    for index, run in enumerate(runs):
        run_cache.add(f"{index}", run)
    return run_cache


def results_of(*runs: Run, **more: Any) -> ResultSet:
    """What tables and figures are filled from, with some runs of this code."""
    return ResultSet(RunIndex(cache_of(*runs), RunFilter()), **more)
