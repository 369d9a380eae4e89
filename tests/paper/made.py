"""Runs that were never trained, for tests of what is made of them."""

from __future__ import annotations

from clnr.experiments.results import Run
from clnr.experiments.run_cache import RunCache
from clnr.paper.paper_runs.scope import Batch
from clnr.support.machine import code_digest, environment


def made(batch: Batch, seed: int = 0, **changes) -> Run:
    values = {
        "method": batch.method.name,
        "dataset": batch.dataset,
        "seed": seed,
        "strict": 80.0 + seed,
        "paper": 81.0 + seed,
        "validation": 79.0,
        "alignment": 0.3,
        "uniformity": -3.0,
        "effective_rank": 100.0,
        "epochs": batch.recipe.epochs,
        "train_seconds": 1.0,
        "epoch_ms": 3.5,
        "parallel_seeds": 1,
        "peak_memory_bytes": 2**30,
        "device": "cpu",
        "engine": "cpu",
        "precision": "float32",
        "content": "c" * 64,
        "recipe": batch.recipe.to_dict(),
        "versions": {
            "clnr": "0.1.0",
            "code": code_digest.code_version(),
            "torch": environment.versions()["torch"],
            "python": "3.11.0",
        },
        "machine": "a processor",
        "seconds": 2.0,
    }
    return Run(**(values | changes))


def cache_of(*runs: Run) -> RunCache:
    """The test's own run cache, with some runs in it."""
    run_cache = RunCache()
    for index, run in enumerate(runs):
        run_cache.add(f"{index}", run)
    return run_cache
