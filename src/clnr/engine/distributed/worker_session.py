"""A process that is one of several workers: all join, one of them reports an error, and all end together."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clnr.engine.distributed.worker_group import join
from clnr.errors import ClnrError, LostWorker
from clnr.support.processes.launch import FAILED, USER_ERROR, Place, launched_here
from clnr.support.processes.workers import ALONE, Workers

_current: list[Workers] = [ALONE]


def current_workers() -> Workers:
    """The workers that this process has joined."""
    return _current[-1]


@contextmanager
def joined(device: str) -> Iterator[Workers]:
    """Join the workers that were started with this process, until the block ends; if it fails, all end."""
    workers = join(device)
    _current.append(workers)
    try:
        yield workers
        workers.leave()
    except BaseException:
        workers.claim()
        raise
    finally:
        _current.pop()
        workers.close()


@contextmanager
def session(place: Place, device: str, report: Callable[[str], None]) -> Iterator[None]:
    """Be one of the workers of a command, and end the process where another one is lost or has failed.

    A lost worker is reported, unless the process that launched this one sees it by the exit code.
    """
    if place.rank:
        warnings.simplefilter("ignore")
    workers = None
    try:
        with joined(device) as workers:
            yield
    except Exception as error:
        reports = place.rank == 0 if workers is None else workers.claim()
        if isinstance(error, LostWorker):
            if reports and not launched_here():
                report(str(error))
            sys.exit(FAILED)
        if not reports:
            sys.exit(USER_ERROR)
        raise named(error, place) from None


def named(error: Exception, place: Place) -> Exception:
    """An error with the worker that had it, but for those of the first one and of the system."""
    who = f"worker {place.rank} of {place.size}"
    if not isinstance(error, (ClnrError, OSError, MemoryError)):
        where = traceback.extract_tb(error.__traceback__)[-1]
        place_in_code = f"{Path(where.filename).name}, line {where.lineno}"
        return ClnrError(f"{who} failed: {type(error).__name__}: {error} ({place_in_code})")
    return ClnrError(f"{who}: {error}") if place.rank and isinstance(error, ClnrError) else error
