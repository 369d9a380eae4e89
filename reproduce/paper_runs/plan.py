"""Before the runs: what is cached, what is to be run, and how much memory that takes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clnr.datasets import DATASETS
from clnr.engine import Engine
from clnr.experiments.training_memory import training_memory
from clnr.support.humanize import plural
from clnr.support.machine import environment
from clnr.training.step_work import Size
from reproduce.paper_runs.run_index import RunIndex
from reproduce.paper_runs.scope import Batch

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Job:
    """Runs of a batch that are made together."""

    batch: Batch
    seeds: tuple[int, ...]

    @property
    def digest(self) -> str:
        """A name for the job that is the same in every process."""
        parts = repr((self.batch.kind, sorted(self.batch.extra_metrics), self.seeds))
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        which = f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        return ", ".join([f"{self.batch.method.name} on {self.batch.dataset}", *self.batch.changed, which])


@dataclass(frozen=True)
class Plan:
    """Jobs in order, and the memory of the largest in bytes: measured where this machine has run its kind, else estimated.

    ``cached`` runs are in the run cache. Data sets that are not available are in ``without``, each with the reason.
    """

    jobs: tuple[Job, ...]
    cached: int
    memory: float
    without: dict[str, str]

    @property
    def runs(self) -> int:
        return sum(len(job.seeds) for job in self.jobs)

    def describe(self, workers: int) -> str:
        """The plan in a line or two."""
        text = f"{plural(self.runs, 'run')} to do, {self.cached:,} in the run cache"
        if self.jobs:
            text += f"; about {self.memory * workers / 2**30:.1f} GiB of memory"
        return "\n".join([text, *(f"no data for {name}: {reason}" for name, reason in self.without.items())])


def plan(batches: Iterable[Batch], run_index: RunIndex, engine: Engine, without: dict[str, str]) -> Plan:
    """What is to be run for some batches.

    Fast methods come first, in the order given. A run that several batches share is made once, with the most extra metrics.
    """
    wanted = [batch for batch in batches if batch.dataset not in without]
    there: dict[tuple[Any, ...], list[frozenset[str]]] = defaultdict(list)
    cached: set[tuple[Any, ...]] = set()
    missing: dict[int, list[int]] = {}
    # Batches with the most extra metrics come first, since their runs serve the others.
    for index in sorted(range(len(wanted)), key=lambda i: -len(wanted[i].extra_metrics)):
        batch = wanted[index]
        known = run_index.seeds(batch)
        cached |= {(*batch.kind, seed) for seed in known}
        missing[index] = []
        for seed in range(batch.seeds):
            serving = there[*batch.kind, seed]
            served = any(batch.extra_metrics <= extra_metrics for extra_metrics in serving)
            if seed not in known and not served:
                missing[index].append(seed)
                serving.append(batch.extra_metrics)
    jobs = []
    for index in sorted(missing, key=lambda i: wanted[i].slow):
        batch, seeds = wanted[index], missing[index]
        jobs += [Job(batch, tuple(seeds[i : i + engine.parallel_seeds])) for i in range(0, len(seeds), engine.parallel_seeds)]
    memory = max((_memory(job.batch, run_index, engine) for job in jobs), default=0.0)
    return Plan(jobs=tuple(jobs), cached=len(cached), memory=memory, without=without)


def _memory(batch: Batch, run_index: RunIndex, engine: Engine) -> float:
    """The peak of memory of a run in bytes: that of similar runs on this machine, else an estimate."""
    here = [run for run in run_index.like(batch) if run.machine == environment.describe(engine.device)]
    if here:
        return max(run.peak_memory_bytes for run in here)
    row = DATASETS[batch.dataset]
    size = Size(row.nodes, row.edges, row.features, _FLOAT_BYTES * row.nodes * min(row.features, 1000))
    return training_memory(batch.method, batch.recipe, size, engine)
