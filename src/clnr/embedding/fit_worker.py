"""One of the processes that ``NodeEmbedder(workers=...)`` starts; see ``embedding/embedder_fit.py``.

It watches for the end of the process that started it before it imports torch, which takes seconds.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr import errors
from clnr.errors import ClnrError, MethodError
from clnr.support.processes.launch import STOPPED, USER_ERROR, Place, end_process, end_with_parent, restarted
from clnr.support.progress import log_progress

if TYPE_CHECKING:
    from clnr.embedding.fit_settings import Settings
    from clnr.tables import TableGraph

TIMEOUT_SECONDS = 1800.0
"""Seconds after which a silent worker counts as lost."""
TASK_FILE, RESULT_FILE, ERROR_FILE, CHECKPOINT_FILE = "task", "result", "error", "state.checkpoint"
"""What is in the folder of a task."""


class Task(NamedTuple):
    """What a worker process needs to know.

    A graph is in memory; or it is the path of a graph folder, which is trained on from files into ``out``.
    """

    parameters: Mapping[str, Any]
    graph: TableGraph | Path
    out: Path | None = None


def main(folder: str) -> None:
    """Do a worker's share of the task in a folder, and end the process."""
    end_with_parent()
    try:
        _work(Path(folder))
    except SystemExit as end:
        end_process(int(end.code or 0))
    except KeyboardInterrupt:
        end_process(STOPPED)
    except ClnrError as error:
        tell_error(error, Path(folder))
    except (OSError, MemoryError) as error:
        tell_error(ClnrError(str(error) or "out of memory; a smaller graph, hidden or dimension needs less"), Path(folder))
    except Exception as error:
        from clnr.engine.distributed.worker_session import describe

        tell_error(ClnrError(f"a worker failed: {describe(error)}"), Path(folder))
    else:
        return
    end_process(USER_ERROR)


def _work(folder: Path) -> None:
    from clnr.embedding.embedder_parameters import embedder_settings
    from clnr.engine.distributed.worker_group import current_workers
    from clnr.engine.distributed.worker_session import session

    place = Place.from_environment()
    assert place is not None
    task = read_task(folder)
    with session(place, task.parameters["device"], TIMEOUT_SECONDS, lambda line: None):
        do_task(task, embedder_settings(task.parameters, current_workers()), folder)


def read_task(folder: Path) -> Task:
    """Read the task of a worker from a folder."""
    try:
        return pickle.loads((folder / TASK_FILE).read_bytes())
    except (AttributeError, ImportError) as error:
        raise MethodError(
            f"workers do not run the script that starts them, and cannot load what it defines ({error}); put it in a module"
        ) from None


def do_task(task: Task, settings: Settings, folder: Path) -> None:
    """Do this worker's share; the first one leaves the result in the folder of the task."""
    from clnr.embedding import job
    from clnr.embedding.planning import file_plan
    from clnr.graph.graph_folder import GraphFolder

    # Workers that are started again go on from here.
    state = settings.checkpoint or folder / CHECKPOINT_FILE
    settings = dataclasses.replace(settings, checkpoint=state, resume=settings.resume or restarted())
    with log_progress(bool(task.parameters["verbose"]) and settings.workers.first) as bar:
        if isinstance(task.graph, Path):
            assert task.out is not None
            graph = GraphFolder.open(task.graph)
            job.embed_folder(graph, task.out, file_plan.for_files(graph, settings, None), force=True, bar=bar)
            return
        result = job.fit(task.graph, settings, bar)
    if result is not None:
        # The caller has the graph.
        learned = {each.name: getattr(result, each.name) for each in dataclasses.fields(result) if each.name != "nodes"}
        (folder / RESULT_FILE).write_bytes(pickle.dumps(learned))


def tell_error(error: ClnrError, folder: Path) -> None:
    """Leave an error for the process that asked."""
    kind = type(error).__name__ if getattr(errors, type(error).__name__, None) is type(error) else ClnrError.__name__
    kind = ClnrError.__name__ if isinstance(error, errors.UnknownName) else kind
    (folder / ERROR_FILE).write_text(f"{kind}\n{error}", encoding="utf-8")
