"""A worker of a command: it joins the others, one of them speaks, and all end together."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clnr.engine.distributed.worker_group import is_loss, join
from clnr.errors import ClnrError
from clnr.support.processes.launch import LOST, USER_ERROR, Place, launched_here


@contextmanager
def session(place: Place, device: str, timeout: float, report: Callable[[str], None]) -> Iterator[None]:
    """Be one of the workers. Where another one is lost, or tells of an error, the process ends with an exit code.

    ``report`` is told of a lost worker, unless the process that launched this one sees it by the exit code.
    """
    if place.rank:
        warnings.simplefilter("ignore")
    group = None

    def tells() -> bool:
        return place.rank == 0 if group is None else group.claim()

    try:
        group = join(device, timeout)
        yield
        group.leave()
    except Exception as error:
        if is_loss(error):
            # To a process that launched this one, the exit code tells all.
            if not launched_here() and tells():
                report(str(error))
            sys.exit(LOST)
        if not tells():
            sys.exit(USER_ERROR)
        if not isinstance(error, (ClnrError, OSError, MemoryError)):
            raise ClnrError(f"worker {place.rank} of {place.size} failed: {describe(error)}") from error
        if place.rank and isinstance(error, ClnrError):
            raise ClnrError(f"worker {place.rank} of {place.size}: {error}") from None
        raise


def describe(error: Exception) -> str:
    """An error that is nobody's mistake but ours: what it is, and where it came up."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
