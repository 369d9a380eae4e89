"""``NodeEmbedder.fit`` by several processes on this machine, started for it.

They run a module of this package and never the caller's script, so that this needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clnr import errors
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fit_worker import ERROR_FILE, GRAPH_FILE, RESULT_FILE, TASK_FILE, Learned, Task
from clnr.embedding.result import EmbeddingResult
from clnr.errors import ClnrError, LostWorker, MethodError, RecipeError
from clnr.graph.graph_folder import GraphFolder
from clnr.support.processes.launch import STOPPED, Place, launch
from clnr.support.progress import logger
from clnr.tables import TableGraph

_RESTARTS = 3
_START = "import sys; sys.path[:] = {path!r}; from clnr.embedding.fit_worker import main; main({folder!r})"


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
        _dump(table_graph, Path(folder) / GRAPH_FILE)
        _run(Task(options), Path(folder), workers)
        learned: Learned = pickle.loads((Path(folder) / RESULT_FILE).read_bytes())
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
    _dump(task, folder / TASK_FILE)
    command = [sys.executable, "-c", _START.format(path=sys.path, folder=str(folder))]
    code = launch(command, workers, _RESTARTS, logger.warning, folder)
    if code == STOPPED:
        raise KeyboardInterrupt
    if (folder / ERROR_FILE).is_file():
        kind, message = (folder / ERROR_FILE).read_text(encoding="utf-8").split("\n", 1)
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
