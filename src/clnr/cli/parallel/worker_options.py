"""The options of a command that several workers run, and who starts them: this process, torchrun, or a Ray cluster."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from clnr.cli.app import exits, print_stderr
from clnr.errors import ClnrError
from clnr.support.processes.launch import Place, launch, launched_here

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
            from clnr.cli.parallel.ray_workers import run_on_ray

            raise typer.Exit(run_on_ray(command, options))
        if options["workers"] > 1 and not launched_here() and not options["dry_run"]:
            if place is not None:
                raise ClnrError("torchrun has started workers already: leave out --workers")
            words = [sys.executable, *sys.orig_argv[1:]]
            raise typer.Exit(launch(words, options["workers"], options["max_restarts"], print_stderr))
        if place is None or place.size == 1:
            command(**options)
            return
        from clnr.engine.distributed.worker_session import session

        with session(place, options["device"], options["worker_timeout"], print_stderr), exits():
            command(**options)

    return run
