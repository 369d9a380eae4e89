"""Making the runs of a plan: in this process, or in several that share the run cache."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch

from clnr import datasets
from clnr.engine import choose
from clnr.errors import ClnrError, TrainingError
from clnr.experiments.run import runs
from clnr.experiments.run_cache import RunCache, run_key
from clnr.support.storage.atomic_io import file_lock
from clnr.training.loop import ProgressCallback
from reproduce.paper_runs.plan import Job
from reproduce.paper_runs.run_index import RunFilter, RunIndex

_WARM_UP_EPOCHS = 5


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker process needs to know: small, since it is pickled and sent there."""

    run_cache: Path
    run_filter: RunFilter
    data_root: Path | None = None


@dataclass(frozen=True)
class JobResult:
    """A finished job: how many of its runs there are now, and the error that stopped the others.

    Or a job that was not started, since another process is ``busy`` with it.
    """

    job: Job
    runs: int
    failure: str | None = None
    busy: bool = False


_loaded = lru_cache(maxsize=2)(datasets.load)


def run_job(job: Job, config: WorkerConfig, progress: ProgressCallback | None = None, wait: bool = False) -> JobResult:
    """Make the runs of a job that no other process has made by now; each is cached as soon as it is finished.

    A job that another process is working on is skipped, or with ``wait`` waited for.
    """
    working = config.run_cache.parent / "working" / job.digest
    working.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(file_lock(working, wait))
        except ClnrError:
            return JobResult(job, 0, busy=True)
        return _run_job(job, config, progress)


def _run_job(job: Job, config: WorkerConfig, progress: ProgressCallback | None) -> JobResult:
    run_cache, batch = RunCache(config.run_cache), job.batch
    cached = RunIndex(run_cache, config.run_filter, of=batch).seeds(batch)
    seeds = [seed for seed in job.seeds if seed not in cached]
    engine = choose(config.run_filter.device, config.run_filter.precision)
    count = len(job.seeds) - len(seeds)
    if not seeds:
        return JobResult(job, count)
    try:
        graph = _loaded(batch.dataset, config.data_root)
        make = partial(runs, batch.method, graph, device=config.run_filter.device, precision=config.run_filter.precision)
        if batch.timed:
            # What is done once in a process, as the loading of kernels, must not count as time of the first seed.
            next(make([seeds[0]], recipe=batch.recipe.but(epochs=min(_WARM_UP_EPOCHS, batch.recipe.epochs), probe_steps=1)))
        parallel_seeds = 1 if batch.timed else None
        for run in make(
            seeds, recipe=batch.recipe, progress=progress, extra_metrics=batch.extra_metrics, parallel_seeds=parallel_seeds
        ):
            run_cache.add(run_key(graph, batch.method, batch.recipe, run.seed, engine), run)
            count += 1
    except TrainingError as error:
        return JobResult(job, count, str(error))
    return JobResult(job, count)


def run_jobs(
    jobs: Sequence[Job], config: WorkerConfig, workers: int, progress_of: Callable[[Job], ProgressCallback] | None = None
) -> Iterator[JobResult]:
    """Run all jobs in ``workers`` processes; timed jobs come after the others, one at a time.

    Jobs that another command with the same run cache is working on come last: they may be finished by then.
    """

    def here(job: Job, wait: bool) -> JobResult:
        return run_job(job, config, progress_of(job) if progress_of else None, wait)

    timed = [job for job in jobs if job.batch.timed]
    shared = [job for job in jobs if not job.batch.timed]
    first = _in_parallel(shared, config, workers) if workers > 1 and shared else (here(job, False) for job in shared)
    busy = []
    for done in itertools.chain(first, (here(job, False) for job in timed)):
        if done.busy:
            busy.append(done.job)
        else:
            yield done
    yield from (here(job, True) for job in busy)


def _in_parallel(jobs: Sequence[Job], config: WorkerConfig, workers: int) -> Iterator[JobResult]:
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // workers)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(threads,)) as pool:
        with _ignore_sigint():
            waiting = [pool.submit(run_job, job, config) for job in jobs]
        try:
            yield from (done.result() for done in as_completed(waiting))
        except BrokenProcessPool:
            raise ClnrError("a worker process was killed, perhaps for lack of memory; try fewer --jobs") from None
        finally:
            # Nothing is left to do at the end, and after Ctrl-C nobody waits for the rest.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()


@contextmanager
def _ignore_sigint() -> Iterator[None]:
    """Processes started here ignore Ctrl-C; this process handles it and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_worker(threads: int) -> None:
    """Start of a worker process: share the cores, and end with the parent process."""

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    torch.set_num_threads(threads)
    threading.Thread(target=end_with_parent, daemon=True).start()
