"""The options of a command that several workers run, and who starts them: this process, torchrun, or a Ray cluster."""

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

from clnr.cli.app import exits, print_stderr
from clnr.errors import ClnrError, command_line
from clnr.support.humanize import describe_error
from clnr.support.lazy import import_optional
from clnr.support.processes.launch import FAILED, LOST, RESTARTS_VARIABLE, STOPPED, Place, launch, launched_here

_CONNECT_SECONDS = 20.0

NumWorkers = Annotated[
    int, typer.Option(min=1, help="Processes on this machine that share sampled steps and, from files, the embedding.")
]
RayAddress = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Start the workers on this Ray cluster instead (extra ray); or auto.")
]
MaxRestarts = Annotated[
    int, typer.Option(min=0, help="With --workers: restarts from the last checkpoint after a worker is lost.")
]
WorkerTimeout = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="Seconds after which a silent worker counts as lost.")
]


def by_workers(check: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with these options, run by as many processes as ``workers`` says, or as torchrun has started.

    ``check`` has the same parameters. It is called before torch is imported, which takes seconds, or a process is started.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(*arguments: Any, **given: Any) -> None:
            bound = inspect.signature(command).bind(*arguments, **given)
            bound.apply_defaults()
            options, place = bound.arguments, Place.from_environment()
            alone = place is None or place.size == 1
            if alone:
                check(**options)
            if options["ray"] is not None and not options["dry_run"]:
                raise typer.Exit(run_on_ray(command, options))
            if options["workers"] > 1 and not launched_here() and not options["dry_run"]:
                if place is not None:
                    raise ClnrError("torchrun has started workers already: leave out --workers")
                words = [sys.executable, *sys.orig_argv[1:]]
                raise typer.Exit(launch(words, options["workers"], options["max_restarts"], print_stderr))
            if place is None or alone:
                command(**options)
                return
            from clnr.engine.distributed.worker_session import session

            with session(place, options["device"], options["worker_timeout"], print_stderr), exits():
                check(**options)
                command(**options)

        return run

    return decorate


# -- Ray --------------------------------------------------------------------------------------------------------------------


class _Board:
    """What the process that started the workers learns from them: an actor of the cluster."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._error, self._printed = "", ""

    def start(self, rank: int) -> int:
        """How often a worker of this rank has been started before."""
        self._starts[rank] = self._starts.get(rank, -1) + 1
        return self._starts[rank]

    def fail(self, error: str) -> None:
        self._error = self._error or error

    def done(self, printed: str) -> None:
        self._printed = printed

    def result(self) -> tuple[str, str]:
        return self._error, self._printed


def run_on_ray(command: Callable[..., None], options: Mapping[str, Any]) -> int:
    """Run a command with these options by workers of a Ray cluster; returns the exit code.

    Nothing is sent there but the options and the command's name: clnr must be installed on the cluster, in the same version,
    and files must have the same paths.
    """
    ray = import_optional("ray", "--ray", "ray")
    import_optional("ray.train", "--ray", "ray")
    if Place.from_environment() is not None:
        raise ClnrError("torchrun has started workers already: leave out --ray")
    if ray.is_initialized():
        raise ClnrError("this process is connected to a Ray cluster already")
    try:
        _check_reachable(options["ray"])
        ray.init(address=options["ray"], logging_level="warning", log_to_driver=_is_shown(options))
    except (OSError, ValueError, RuntimeError) as error:
        raise ClnrError(f"no Ray cluster was found at '{options['ray']}': {describe_error(error)}") from None
    try:
        return _run(ray, command, options)
    except KeyboardInterrupt:
        print_stderr("stopped; run the same command with --resume to continue from the last checkpoint, if there is one")
        return STOPPED
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Fail at once where nobody listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()


def _run(ray: Any, command: Callable[..., None], options: Mapping[str, Any]) -> int:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    workers, threads = options["workers"], options["threads"] or 1
    resources = ray.cluster_resources()
    use_gpu = options["device"] != "cpu" and resources.get("GPU", 0) >= workers
    asked, given = workers * threads, resources.get("CPU", 0)
    if given < asked:
        print_stderr(f"{workers} workers ask for {asked} CPUs, and the cluster has {given:g}: waiting for more")
    board = ray.remote(num_cpus=0)(_Board).remote()
    with tempfile.TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as folder:
        trainer = TorchTrainer(
            work,
            train_loop_config={
                "board": board,
                "command": (command.__module__, command.__name__),
                "options": {name: value for name, value in options.items() if name not in ("ray", "workers")},
                "folder": str(Path.cwd()),
                "words": sys.argv[1:],
            },
            torch_config=TorchConfig(
                backend="cpu:gloo,cuda:nccl" if use_gpu else "gloo", timeout_s=int(options["worker_timeout"])
            ),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=use_gpu, resources_per_worker={"CPU": threads}),
            run_config=RunConfig(storage_path=folder, failure_config=FailureConfig(max_failures=options["max_restarts"])),
        )
        lost = ""
        try:
            trainer.fit()
        except Exception as error:
            lost = " ".join(str(error).split())[:300]
    failed, printed = ray.get(board.result.remote())
    if failed:
        raise ClnrError(failed)
    if lost:
        print_stderr(f"given up: {lost}; --resume continues from the last checkpoint")
        return FAILED
    sys.stdout.write(printed)
    return 0


def _is_shown(options: Mapping[str, Any]) -> bool:
    """Whether Ray shows what workers print, each line with its worker; if not, only the result is printed, as it is."""
    return not (options["quiet"] or options["as_json"])


def work(config: Mapping[str, Any]) -> None:
    """What each worker does."""
    import ray
    import torch.distributed as dist

    from clnr.engine.distributed.worker_session import session

    board, options, place = config["board"], config["options"], Place.from_environment()
    assert place is not None
    if ray.get(board.result.remote())[0]:
        # An error was told, which Ray took for a lost worker.
        return
    os.environ[RESTARTS_VARIABLE] = str(ray.get(board.start.remote(place.rank)))
    module, name = config["command"]
    # Without what reads the options of a command line.
    command: Callable[..., None] = inspect.unwrap(getattr(importlib.import_module(module), name))
    printed = io.StringIO()
    try:
        if not Path(config["folder"]).is_dir():
            raise ClnrError(f"worker {place.rank} of {place.size}: its host lacks the working directory {config['folder']}")
        os.chdir(config["folder"])
        silent = contextlib.nullcontext() if _is_shown(options) else contextlib.redirect_stdout(printed)
        shared = session(place, options["device"], options["worker_timeout"], print_stderr)
        with command_line(config["words"]), silent, shared, exits():
            command(**options, workers=1)
    except SystemExit as end:
        if end.code == LOST and not ray.get(board.result.remote())[0]:
            raise RuntimeError(f"worker {place.rank} of {place.size} lost another one") from None
        return
    except (ClnrError, OSError, MemoryError) as error:
        ray.get(board.fail.remote(str(error) or type(error).__name__))
        # The others wait for this one no more.
        if dist.is_initialized():
            dist.destroy_process_group()
        return
    if place.rank == 0:
        ray.get(board.done.remote(printed.getvalue()))
