"""Before the work: what is there, what is to be done, and what that will take."""

from __future__ import annotations

import hashlib
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clnr.datasets import DATASETS
from clnr.engine import Engine
from clnr.experiments.cost import Size, training
from clnr.paper.run_index import Archive
from clnr.paper.scope import Batch
from clnr.support import environment
from clnr.support.humanize import duration, plural

# Seconds that evaluation takes, of no machine in particular.
_PROBE = {"cuda": 0.2, "cpu": 4.0}
_NUMBER = 4


@dataclass(frozen=True)
class Job:
    """Runs of a batch that are to be made, in one go."""

    batch: Batch
    seeds: tuple[int, ...]

    @property
    def digest(self) -> str:
        """A name for what it is of, the same in every process."""
        parts = repr((self.batch.kind, sorted(self.batch.measures), self.seeds))
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        which = f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        return ", ".join([f"{self.batch.method.name} on {self.batch.dataset}", *self.batch.changed, which])


@dataclass(frozen=True)
class Plan:
    """Jobs in their order, and what is known of them.

    Attributes:
        jobs: What is to be done.
        recorded: How many runs are there.
        seconds: That the jobs will take one after another, as far as one can tell.
        memory: Bytes that the largest will take, likewise.
        guessed: How many of the runs to do are of a kind that this machine has not run before, so that their time is a guess.
        without: Data sets that cannot be had, each with the reason.
    """

    jobs: tuple[Job, ...]
    recorded: int
    seconds: float
    memory: float
    guessed: int
    without: dict[str, str]

    @property
    def runs(self) -> int:
        return sum(len(job.seeds) for job in self.jobs)

    def told(self, workers: int) -> str:
        """In a line or two."""
        said = f"{plural(self.runs, 'run')} to do, {self.recorded:,} in the record"
        if self.jobs:
            said += f"; about {duration(self.seconds / workers)}, at most {self.memory * workers / 2**30:.1f} GiB"
        if self.guessed:
            said += f" (a rough guess for {self.guessed:,} of them, of kinds not run here before)"
        return "\n".join([said, *(f"no data for {name}: {reason}" for name, reason in self.without.items())])


def plan(batches: Iterable[Batch], archive: Archive, engine: Engine, without: dict[str, str]) -> Plan:
    """What of some batches is to be done.

    The quick methods come first, in the order given. A run that serves several batches is made once, for the most demanding.
    """
    wanted = [batch for batch in batches if batch.dataset not in without]
    there: dict[tuple[Any, ...], list[frozenset[str]]] = defaultdict(list)
    recorded: set[tuple[Any, ...]] = set()
    missing: dict[int, list[int]] = {}
    # The most demanding choose first, since what they make serves the others.
    for index in sorted(range(len(wanted)), key=lambda i: -len(wanted[i].measures)):
        batch = wanted[index]
        known = archive.seeds(batch)
        recorded |= {(*batch.kind, seed) for seed in known}
        missing[index] = []
        for seed in range(batch.seeds):
            serving = there[*batch.kind, seed]
            served = any(batch.measures <= measures for measures in serving)
            if seed not in known and not served:
                missing[index].append(seed)
                serving.append(batch.measures)
    jobs = []
    for index in sorted(missing, key=lambda i: wanted[i].slow):
        batch, seeds = wanted[index], missing[index]
        jobs += [Job(batch, tuple(seeds[i : i + engine.parallel_seeds])) for i in range(0, len(seeds), engine.parallel_seeds)]
    costs = [_cost(job.batch, archive, engine) for job in jobs]
    return Plan(
        jobs=tuple(jobs),
        recorded=len(recorded),
        seconds=sum(seconds * len(job.seeds) for job, (seconds, _, _) in zip(jobs, costs, strict=True)),
        memory=max((memory for _, memory, _ in costs), default=0.0),
        guessed=sum(len(job.seeds) for job, (_, _, known) in zip(jobs, costs, strict=True) if not known),
        without=without,
    )


def _cost(batch: Batch, archive: Archive, engine: Engine) -> tuple[float, float, bool]:
    """Seconds of a run, bytes that it takes at most, and whether they are known from runs of its kind on this machine."""
    here = [run for run in archive.like(batch) if run.machine == environment.describe(engine.device)]
    if not here:
        return (*_guess(batch, engine), False)
    an_epoch = statistics.fmean(run.train_seconds / max(1, run.epochs) for run in here)
    evaluated = statistics.fmean(run.seconds - run.train_seconds for run in here)
    return an_epoch * batch.recipe.epochs + evaluated, max(run.peak_memory_bytes for run in here), True


def _guess(batch: Batch, engine: Engine) -> tuple[float, float]:
    row = DATASETS[batch.dataset]
    size = Size(row.nodes, row.edges, row.features, _NUMBER * row.nodes * min(row.features, 1000))
    cost = training(batch.method, batch.recipe, size, engine)
    return cost.seconds + _PROBE[engine.device.type], cost.memory
