"""A command that several workers run: each joins the others, one of them speaks, and all end together."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from clnr.cli.app import say
from clnr.errors import ClnrError, LostWorker
from clnr.support.launch import LOST, USER_ERROR, Place, end_with_parent, launch, launched_here

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
    from clnr.engine.worker_group import join

    if launched_here():
        end_with_parent()
    if place.rank:
        warnings.simplefilter("ignore")
    group = None
    try:
        group = join(device, timeout)
        yield
        group.leave()
    except LostWorker as error:
        # To a process that launched this one, the exit code tells all.
        if not launched_here() and (place.rank == 0 if group is None else group.claim()):
            say(str(error))
        raise typer.Exit(LOST) from None
    except (ClnrError, OSError, MemoryError) as error:
        if not (place.rank == 0 if group is None else group.claim()):
            raise typer.Exit(USER_ERROR) from None
        if place.rank and isinstance(error, ClnrError):
            raise ClnrError(f"worker {place.rank} of {place.size}: {error}") from None
        raise
