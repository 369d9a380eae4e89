"""A command that several workers run: each joins the others, one of them speaks, and all end together."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from clnr.cli.app import say
from clnr.errors import ClnrError
from clnr.support.processes.launch import LOST, USER_ERROR, Place, launch, launched_here

NumWorkers = Annotated[
    int, typer.Option(min=1, help="Processes on this machine that share sampled steps and, from files, the embedding.")
]
RayAddress = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Start the workers on this Ray cluster instead (extra ray); or auto.")
]
MaxRestarts = Annotated[
    int, typer.Option(min=0, help="With --workers: how often all start again, from the last checkpoint, when one is lost.")
]
WorkerTimeout = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="After which a worker that does not answer is given up.")
]


def by_workers(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options, run by as many processes as ``workers`` says, or as torchrun has started."""

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        bound = inspect.signature(command).bind(*arguments, **given)
        bound.apply_defaults()
        options, place = bound.arguments, Place.from_environment()
        if options["ray"] is not None and not options["dry_run"]:
            from clnr.cli.ray_workers import run_on_ray

            raise typer.Exit(run_on_ray(options))
        if options["workers"] > 1 and not launched_here() and not options["dry_run"]:
            if place is not None:
                raise ClnrError("torchrun has started workers already: leave out --workers")
            words = [sys.executable, *sys.orig_argv[1:]]
            raise typer.Exit(launch(words, options["workers"], options["max_restarts"], say))
        if place is None or place.size == 1:
            command(**options)
            return
        with session(place, options["device"], options["worker_timeout"]):
            command(**options)

    return run


@contextmanager
def session(place: Place, device: str, timeout: float) -> Iterator[None]:
    """Be one of the workers."""
    from clnr.engine.distributed.worker_group import is_loss, join

    if place.rank:
        warnings.simplefilter("ignore")
    group = None

    def tells() -> bool:
        return place.rank == 0 if group is None else group.claim()

    try:
        group = join(device, timeout)
        yield
        group.leave()
    except typer.Exit:
        raise
    except Exception as error:
        if is_loss(error):
            # To a process that launched this one, the exit code tells all.
            if not launched_here() and tells():
                say(str(error))
            raise typer.Exit(LOST) from None
        if not tells():
            raise typer.Exit(USER_ERROR) from None
        if not isinstance(error, (ClnrError, OSError, MemoryError)):
            raise ClnrError(f"worker {place.rank} of {place.size} failed: {describe(error)}") from error
        if place.rank and isinstance(error, ClnrError):
            raise ClnrError(f"worker {place.rank} of {place.size}: {error}") from None
        raise


def describe(error: Exception) -> str:
    """An error that is nobody's mistake but ours: what it is, and where it came up."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
