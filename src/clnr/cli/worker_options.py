"""The options of a command that several workers run, and who starts them: this process, torchrun or Ray."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from clnr.cli.app import print_stderr
from clnr.cli.options import settings_of
from clnr.errors import ClnrError, LostWorker, command_line
from clnr.support.humanize import describe_error
from clnr.support.optional import import_optional
from clnr.support.processes.launch import FAILED, RESUME, STOPPED, Place, launch, launched_here

_CONNECT_SECONDS = 20.0

NumWorkers = Annotated[
    int,
    typer.Option(min=1, help="Processes on this machine that share sampled steps and, from files, the embedding."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Start the workers on this Ray cluster instead (extra ray); or auto."),
]


def by_workers(check: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with these options, run by as many processes as ``workers`` says, or as torchrun has started.

    ``check`` has the same parameters. It is called before torch is imported, which takes seconds, or a process
    is started.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**options: Any) -> None:
            place = Place.from_environment()
            starts_workers = (options["ray"] is not None or options["workers"] > 1) and not options["dry_run"]
            if starts_workers and place is not None and not launched_here():
                raise ClnrError("torchrun has started workers already: leave out --workers and --ray")
            if place is None or place.size == 1:
                check(**options)
                if not starts_workers:
                    command(**options)
                elif options["ray"] is not None:
                    raise typer.Exit(run_on_ray(command, options))
                else:
                    raise typer.Exit(launch([sys.executable, *sys.orig_argv[1:]], options["workers"], print_stderr))
                return
            from clnr.engine.distributed.worker_session import session

            with session(place, _device(options), print_stderr):
                check(**options)
                command(**options)

        return run

    return decorate


def _device(options: Mapping[str, Any]) -> str:
    """The device that the options of a command ask for."""
    return settings_of(options["assign"])[2].get("device", "auto")


# -- Ray --


def run_on_ray(command: Callable[..., None], options: Mapping[str, Any]) -> int:
    """Run a command with these options by workers of a Ray cluster; returns the exit code.

    Only its name and the options go there: clnr must be installed, and files must have the same paths. If a
    worker fails or is lost, Ray Train stops the others.
    """
    ray, train, train_torch = (import_optional(f"ray{part}", "--ray", "ray") for part in ("", ".train", ".train.torch"))
    try:
        # Where nobody listens, Ray itself would try for minutes.
        host, _, port = options["ray"].removeprefix("ray://").rpartition(":")
        if host and port.isdigit():
            socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
        # Ray prints the traceback of every error, also of a user's.
        ray.init(options["ray"], logging_level="warning", log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ClnrError(f"no Ray cluster was found at '{options['ray']}': {describe_error(error)}") from None
    use_gpu = _device(options) != "cpu" and ray.cluster_resources().get("GPU", 0) >= options["workers"]
    of_each = {"use_gpu": use_gpu, "resources_per_worker": {"CPU": settings_of(options["assign"])[2].get("threads") or 1}}
    given = {"name": (command.__module__, command.__name__), "options": {**options, "ray": None, "workers": 1}}
    with tempfile.TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as folder:
        trainer = train_torch.TorchTrainer(
            work_on_ray,
            train_loop_config={**given, "folder": str(Path.cwd())},
            torch_config=train_torch.TorchConfig(backend="cpu:gloo,cuda:nccl" if use_gpu else "gloo"),
            scaling_config=train.ScalingConfig(num_workers=options["workers"], **of_each),
            run_config=train.RunConfig(storage_path=folder),
        )
        try:
            sys.stdout.write(trainer.fit().return_value)
        except train.TrainingFailedError as error:
            for each in getattr(error, "worker_failures", {}).values():
                if isinstance(each, ClnrError) and not isinstance(each, LostWorker):
                    raise ClnrError(str(each)) from None
            print_stderr(f"a worker was lost: {describe_error(error)}; {RESUME}")
            return FAILED
        except KeyboardInterrupt:
            print_stderr(f"stopped; {RESUME}")
            return STOPPED
        finally:
            ray.shutdown()
    return 0


def work_on_ray(config: Mapping[str, Any]) -> str:
    """What each worker does; returns what it has printed."""
    from clnr.engine.distributed.worker_session import joined, named

    place, options, printed = Place.from_environment(), config["options"], io.StringIO()
    assert place is not None
    module, name = config["name"]
    with command_line(), contextlib.redirect_stdout(printed):
        try:
            os.chdir(config["folder"])
            with joined(_device(options)):
                # Without what reads the options of a command line.
                inspect.unwrap(getattr(importlib.import_module(module), name))(**options)
        except Exception as error:
            raise (LostWorker if isinstance(error, LostWorker) else ClnrError)(str(named(error, place))) from None
    return printed.getvalue()
