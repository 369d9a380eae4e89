"""``NodeEmbedder.fit`` by one process or several, of a graph in memory or in files; and ``transform`` from files.

Processes that are started run a module of this package and never the caller's script, so that this needs no
``if __name__ == "__main__"``.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clnr import errors
from clnr.embedding import job
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fit_worker import ERROR_FILE, RESULT_FILE, TASK_FILE, Task
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.planning import file_plan
from clnr.embedding.planning.memory_plan import plan
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.embedding.store.artifact import load_result
from clnr.embedding.store.artifact_files import SHARDS
from clnr.embedding.store.row_files import remove_rows
from clnr.embedding.store.shards import Shards, TemporaryFolder
from clnr.errors import DataError, LostWorker, MethodError
from clnr.graph.graph_folder import GraphFolder
from clnr.support.processes.launch import STOPPED, launch
from clnr.support.progress import Bar, logger
from clnr.tables import TableGraph

_RESTARTS = 3
_START = "import sys; sys.path[:] = {path!r}; from clnr.embedding.fit_worker import main; main({folder!r})"


def fit_in_memory(
    table_graph: TableGraph, settings: Settings, parameters: Mapping[str, Any], bar: Bar | None
) -> EmbeddingResult:
    """Train on a graph in memory; several workers receive the parameters of the embedder."""
    workers = parameters["workers"]
    if workers > 1:
        plan(table_graph, settings, workers)
        return EmbeddingResult.of(table_graph=table_graph, **_share(parameters, table_graph))
    result = job.fit(table_graph, settings, bar)
    assert result is not None
    return result


def fit_from_files(folder: GraphFolder, settings: Settings, parameters: Mapping[str, Any], bar: Bar | None) -> EmbeddingResult:
    """Train on a graph folder that does not fit in memory, and embed it into a temporary folder."""
    workers, temporary = parameters["workers"], TemporaryFolder()
    out = temporary.path / "embedding"
    settings = file_plan.for_files(folder, settings, None, workers)
    if workers > 1:
        file_plan.plan(folder, settings, None, workers)
        _share(parameters, folder.path, out)
    else:
        job.embed_folder(folder, out, settings, bar=bar)
    return load_result(out, temporary)


def embed_files(model: FittedModel, folder: GraphFolder, settings: Settings) -> Shards:
    """A graph folder that does not fit in memory, embedded with a model into a temporary folder."""
    if folder.num_features != model.features:
        raise DataError(f"{folder.path} has {folder.num_features:,} features per node, and this model takes {model.features:,}")
    _, planned = file_plan.plan(folder, settings, None)
    temporary = TemporaryFolder()
    (temporary.path / SHARDS).mkdir()
    # Nothing is trained, so that no edge is held out.
    alone = replace(settings, hold_out=0.0)
    shards = GraphInFiles(folder, alone, model.recipe, temporary.path, planned.block_rows).embed(model)
    folder.check_unchanged()
    remove_rows(temporary.path)
    return replace(shards, temporary=temporary)


# -- several processes ------------------------------------------------------------------------------------------------------


def _share(parameters: Mapping[str, Any], graph: TableGraph | Path, out: Path | None = None) -> dict[str, Any]:
    """Run a ``Task`` in several processes on this machine; for a graph in memory, returns the fitted attributes."""
    task = Task({**parameters, "graph": None, "workers": 1}, graph, out)
    with TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            (folder / TASK_FILE).write_bytes(pickle.dumps(task))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise MethodError(f"the arguments cannot be pickled for workers: {error}") from None
        command = [sys.executable, "-c", _START.format(path=sys.path, folder=name)]
        code = launch(command, parameters["workers"], _RESTARTS, logger.warning, folder)
        if code == STOPPED:
            raise KeyboardInterrupt
        if (folder / ERROR_FILE).is_file():
            kind, message = (folder / ERROR_FILE).read_text(encoding="utf-8").split("\n", 1)
            raise getattr(errors, kind)(message)
        if code:
            raise LostWorker(f"workers failed or were lost {_RESTARTS + 1} times; see their output")
        return pickle.loads((folder / RESULT_FILE).read_bytes()) if out is None else {}
