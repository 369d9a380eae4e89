"""Making the runs of a plan: here, or in several processes that share the record."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch

from clnr import datasets
from clnr.engine import choose
from clnr.errors import ClnrError, TrainingError
from clnr.experiments.run import runs
from clnr.experiments.run_cache import RunCache, run_key
from clnr.graph import Graph
from clnr.paper.plan import Job
from clnr.paper.run_index import Archive, Terms
from clnr.training.loop import ProgressCallback

_WARM_UP = 5


@dataclass(frozen=True)
class Site:
    """Where runs are made and kept; small, so that it can be sent to another process."""

    run_cache: Path
    terms: Terms
    data_root: Path | None = None

    def load(self, dataset: str) -> Graph:
        return _graph(dataset, self.data_root)


@dataclass(frozen=True)
class Done:
    """A job that has ended: how many of its runs are there now, and what went wrong with the others.

    Or one that was not begun, since another process is ``busy`` with it.
    """

    job: Job
    runs: int
    failure: str | None = None
    busy: bool = False


@lru_cache(maxsize=2)
def _graph(dataset: str, root: Path | None) -> Graph:
    return datasets.load(dataset, root)


def do(job: Job, site: Site, progress: ProgressCallback | None = None, wait: bool = False) -> Done:
    """Make a job's runs, but those that another process has made by now; each is recorded as soon as it is there.

    A job that another process is at is left to it, or waited for if so asked.
    """
    with _alone(site.run_cache.parent / "working" / job.digest, wait) as mine:
        return _do(job, site, progress) if mine else Done(job, 0, busy=True)


def _do(job: Job, site: Site, progress: ProgressCallback | None) -> Done:
    run_cache, batch = RunCache(site.run_cache), job.batch
    there = Archive(run_cache, site.terms, of=batch).seeds(batch)
    seeds = [seed for seed in job.seeds if seed not in there]
    engine = choose(site.terms.device, site.terms.precision)
    count = len(job.seeds) - len(seeds)
    if not seeds:
        return Done(job, count)
    try:
        graph = site.load(batch.dataset)
        make = partial(runs, batch.method, graph, device=site.terms.device, precision=site.terms.precision)
        if batch.timed:
            # What is done once in a process, as the loading of kernels, is not to be on the first seed's bill.
            next(make([seeds[0]], recipe=batch.recipe.but(epochs=min(_WARM_UP, batch.recipe.epochs), probe_steps=1)))
        parallel_seeds = 1 if batch.timed else None
        for run in make(seeds, recipe=batch.recipe, progress=progress, measures=batch.measures, parallel_seeds=parallel_seeds):
            run_cache.add(run_key(graph, batch.method, batch.recipe, run.seed, engine), run)
            count += 1
    except TrainingError as error:
        return Done(job, count, str(error))
    return Done(job, count)


def do_all(
    jobs: Sequence[Job], site: Site, workers: int, watching: Callable[[Job], ProgressCallback] | None = None
) -> Iterator[Done]:
    """Make all jobs, in so many processes, those that are timed after the others and one at a time.

    What another command with the same record is busy with comes last: by then it will have been made.
    """
    shared, timed = ([job for job in jobs if job.batch.timed is alone] for alone in (False, True))
    for wait in (False, True):
        left = []
        for done in itertools.chain(
            _side_by_side(shared, site, workers, watching, wait), _in_turn(timed, site, watching, wait)
        ):
            if done.busy:
                left.append(done.job)
            else:
                yield done
        shared, timed = [], left


def _in_turn(jobs: Sequence[Job], site: Site, watching: Callable[[Job], ProgressCallback] | None, wait: bool) -> Iterator[Done]:
    return (do(job, site, watching(job) if watching else None, wait) for job in jobs)


def _side_by_side(
    jobs: Sequence[Job], site: Site, workers: int, watching: Callable[[Job], ProgressCallback] | None, wait: bool
) -> Iterator[Done]:
    if workers == 1 or not jobs:
        yield from _in_turn(jobs, site, watching, wait)
        return
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // workers)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(threads,)) as pool:
        with _deaf():
            waiting = [pool.submit(do, job, site, None, wait) for job in jobs]
        try:
            yield from (done.result() for done in as_completed(waiting))
        except BrokenProcessPool:
            raise ClnrError("a process was stopped from outside, for want of memory perhaps; try fewer --jobs") from None
        finally:
            # At the end they have nothing to do; after Ctrl-C nobody waits for what they do.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()


@contextmanager
def _alone(path: Path, wait: bool) -> Iterator[bool]:
    """Whether this process alone holds a lock, which the system lifts even from a killed one; where it has none, always."""
    try:
        import fcntl
    except ImportError:
        yield True
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
        path.unlink(missing_ok=True)


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
