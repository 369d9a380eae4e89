"""Making the runs of a plan: here, or in several processes that share the record."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch

from clnr import data
from clnr.engine import choose
from clnr.errors import ClnrError, TrainingError
from clnr.graph import Graph
from clnr.paper.archive import Archive, Terms
from clnr.paper.plan import Job
from clnr.record import Record, run_key
from clnr.run import runs
from clnr.train import Watch

_WARM_UP = 5


@dataclass(frozen=True)
class Place:
    """Where runs are made and kept; small, so that it can be sent to another process."""

    record: Path
    terms: Terms
    data_root: Path | None = None

    def load(self, dataset: str) -> Graph:
        return _graph(dataset, self.data_root)


@dataclass(frozen=True)
class Done:
    """A job that has ended: how many of its runs are there now, and what went wrong with the others."""

    job: Job
    runs: int
    failure: str | None = None


@lru_cache(maxsize=2)
def _graph(dataset: str, root: Path | None) -> Graph:
    return data.load(dataset, root)


def do(job: Job, place: Place, watch: Watch | None = None) -> Done:
    """Make a job's runs, but those that another process has made by now; each is recorded as soon as it is there."""
    record, batch = Record(place.record), job.batch
    there = Archive(record, place.terms, of=batch).seeds(batch)
    seeds = [seed for seed in job.seeds if seed not in there]
    engine = choose(place.terms.device, place.terms.precision)
    count = len(job.seeds) - len(seeds)
    if not seeds:
        return Done(job, count)
    try:
        graph = place.load(batch.dataset)
        make = partial(runs, batch.method, graph, device=place.terms.device, precision=place.terms.precision)
        if batch.timed:
            # What is done once in a process, as the loading of kernels, is not to be on the first seed's bill.
            next(make([seeds[0]], recipe=batch.recipe.but(epochs=min(_WARM_UP, batch.recipe.epochs), probe_steps=1)))
        together = 1 if batch.timed else None
        for run in make(seeds, recipe=batch.recipe, watch=watch, measures=batch.measures, together=together):
            record.add(run_key(graph, batch.method, batch.recipe, run.seed, engine), run)
            count += 1
    except TrainingError as error:
        return Done(job, count, str(error))
    return Done(job, count)


def do_all(jobs: tuple[Job, ...], place: Place, workers: int) -> Iterator[Done]:
    """Make all jobs in so many processes, those that are timed after the others and one at a time."""
    shared = [job for job in jobs if not job.batch.timed]
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // workers)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(threads,)) as pool:
        with _deaf():
            waiting = [pool.submit(do, job, place) for job in shared]
        try:
            yield from (done.result() for done in as_completed(waiting))
        except BrokenProcessPool:
            raise ClnrError("a process was stopped from outside, for want of memory perhaps; try fewer --jobs") from None
        finally:
            # At the end they have nothing to do; after Ctrl-C nobody waits for what they do.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
    yield from (do(job, place) for job in jobs if job.batch.timed)


@contextmanager
def _deaf() -> Iterator[None]:
    """What is started here never hears Ctrl-C: who started it does, and ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(threads: int) -> None:
    """In a process that works for another: share the cores, and end when it ends."""
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
