"""One of the processes that ``NodeEmbedder(workers=...)`` starts; see ``embedding/shared_fit.py``."""

from __future__ import annotations

from pathlib import Path

import typer

from clnr.cli.parallel.worker_session import describe, session
from clnr.errors import ClnrError
from clnr.support.processes.launch import STOPPED, USER_ERROR, Place, end_process, end_with_parent


def main(folder: str) -> None:
    """Do a worker's share of the task in a folder, and end the process."""
    end_with_parent()
    from clnr.embedding.shared_fit import tell_error

    try:
        _work(Path(folder))
    except typer.Exit as end:
        end_process(end.exit_code)
    except KeyboardInterrupt:
        end_process(STOPPED)
    except ClnrError as error:
        tell_error(error, Path(folder))
    except (OSError, MemoryError) as error:
        tell_error(ClnrError(str(error) or "out of memory; a smaller graph, hidden or dimension needs less"), Path(folder))
    except Exception as error:
        tell_error(ClnrError(f"a worker failed: {describe(error)}"), Path(folder))
    else:
        return
    end_process(USER_ERROR)


def _work(folder: Path) -> None:
    from clnr.embedding.estimator import NodeEmbedder
    from clnr.embedding.shared_fit import TIMEOUT, do_task, read_task
    from clnr.engine.distributed.worker_group import current_workers

    place = Place.from_environment()
    assert place is not None
    task = read_task(folder)
    with session(place, task.options["device"], TIMEOUT):
        do_task(task, NodeEmbedder(**task.options)._settings(current_workers()), folder)
