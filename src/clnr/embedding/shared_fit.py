"""``NodeEmbedder.fit`` by several processes on this machine, started for it.

They run a module of this package and never the caller's script, so that this needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from clnr import errors
from clnr.embedding import job
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.planning import file_plan
from clnr.embedding.result import EmbeddingResult
from clnr.errors import ClnrError, LostWorker, MethodError, RecipeError
from clnr.graph.graph_folder import GraphFolder
from clnr.support.processes.launch import STOPPED, Place, launch, restarted
from clnr.support.progress import log_progress, logger
from clnr.tables import TableGraph
from clnr.training.checkpoint import check_checkpoint

TIMEOUT = 1800.0
"""Seconds after which a worker that does not answer is given up."""
_RESTARTS = 3
_TASK, _GRAPH, _RESULT, _ERROR, _CHECKPOINT = "task", "graph", "result", "error", "state.checkpoint"
_START = "import sys; sys.path[:] = {path!r}; from clnr.cli.fit_worker import main; main({folder!r})"


class Task(NamedTuple):
    """What workers are told.

    Attributes:
        options: The parameters of the embedder.
        graph_folder: The graph, if it is to be trained on from files; else it is in a file of the task's folder.
        out: Where the vectors of a graph in files go.
    """

    options: Mapping[str, Any]
    graph_folder: Path | None = None
    out: Path | None = None


class _Learned(NamedTuple):
    """``EmbeddingResult`` without the graph, which the caller has."""

    model: FittedModel
    z: Any
    losses: tuple[float, ...]
    scores: dict[str, float]
    warnings: tuple[str, ...]
    baselines: dict[str, dict[str, float]]


# -- the process that asks --------------------------------------------------------------------------------------------------


def check_shared(workers: int, settings: Settings) -> None:
    """Fail if so many workers cannot be started."""
    if workers < 1:
        raise RecipeError(f"workers must be 1 or more, not {workers}")
    if workers > 1 and Place.from_environment() is not None:
        raise ClnrError("this process is one of several workers already (torchrun): leave out workers")
    if workers > 1 and settings.tune:
        raise RecipeError("tune tries recipes with one worker: leave out workers, or tune")


def fit_shared(table_graph: TableGraph, options: Mapping[str, Any], workers: int) -> EmbeddingResult:
    """``job.fit`` by so many workers.

    Args:
        table_graph: The graph.
        options: The parameters of the embedder.
        workers: How many processes.
    """
    with TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as folder:
        _dump(table_graph, Path(folder) / _GRAPH)
        _run(Task(options), Path(folder), workers)
        learned: _Learned = pickle.loads((Path(folder) / _RESULT).read_bytes())
    return EmbeddingResult.of(table_graph=table_graph, **learned._asdict())


def embed_shared(graph: GraphFolder, out: Path, options: Mapping[str, Any], workers: int) -> None:
    """``embed_folder`` by so many workers.

    Args:
        graph: The graph.
        out: Where the vectors go.
        options: The parameters of the embedder.
        workers: How many processes.
    """
    with TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as folder:
        _run(Task(options, graph.path, out), Path(folder), workers)


def _run(task: Task, folder: Path, workers: int) -> None:
    _dump(task, folder / _TASK)
    command = [sys.executable, "-c", _START.format(path=sys.path, folder=str(folder))]
    code = launch(command, workers, _RESTARTS, logger.warning, folder)
    if code == STOPPED:
        raise KeyboardInterrupt
    if (folder / _ERROR).is_file():
        kind, message = (folder / _ERROR).read_text(encoding="utf-8").split("\n", 1)
        raise getattr(errors, kind)(message)
    if code:
        raise LostWorker(
            f"a worker failed, or was lost again and again, {_RESTARTS + 1} times; what the workers have printed says more"
        )


def _dump(content: Any, path: Path) -> None:
    try:
        path.write_bytes(pickle.dumps(content))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise MethodError(f"workers cannot be given what cannot be pickled: {error}") from None


# -- a worker ---------------------------------------------------------------------------------------------------------------


def read_task(folder: Path) -> Task:
    """What a worker is told."""
    try:
        return pickle.loads((folder / _TASK).read_bytes())
    except (AttributeError, ImportError) as error:
        raise MethodError(
            f"workers do not run the script that starts them, and cannot load what it defines ({error}); put it in a module"
        ) from None


def do_task(task: Task, settings: Settings, folder: Path) -> None:
    """Do this worker's share.

    Args:
        task: What it was told.
        settings: Those of the embedder, with the workers that this process has joined.
        folder: The folder of the task, where the first one leaves the result.
    """
    # Workers that are started again go on from here.
    state = settings.checkpoint or folder / _CHECKPOINT
    settings = dataclasses.replace(settings, checkpoint=state, resume=settings.resume or restarted())
    with log_progress(bool(task.options["verbose"]) and settings.workers.first) as bar:
        if task.graph_folder is not None:
            assert task.out is not None
            graph = GraphFolder.open(task.graph_folder)
            chosen = file_plan.for_files(graph, settings, None)
            job.embed_folder(graph, task.out, chosen, force=True, bar=bar)
            return
        check_checkpoint(state)
        result = job.fit(pickle.loads((folder / _GRAPH).read_bytes()), settings, bar)
    if result is not None:
        learned = _Learned(result.model, result.z, result.losses, result.scores, result.warnings, result.baselines)
        (folder / _RESULT).write_bytes(pickle.dumps(learned))


def tell_error(error: ClnrError, folder: Path) -> None:
    """Leave an error for the process that asked."""
    kind = type(error).__name__ if getattr(errors, type(error).__name__, None) is type(error) else ClnrError.__name__
    kind = ClnrError.__name__ if isinstance(error, errors.UnknownName) else kind
    (folder / _ERROR).write_text(f"{kind}\n{error}", encoding="utf-8")
