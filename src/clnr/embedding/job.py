"""One job: a graph becomes vectors, scores, a folder and a report. Every worker calls what is here, with the same arguments."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

from clnr.embedding.embed import embed_graph
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.plan import make_plan
from clnr.embedding.result.artifact import Output, load_result, write_reserved
from clnr.embedding.result.artifact_files import check_output
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.shards import Shards
from clnr.embedding.workspace import Workspace
from clnr.engine import choose_again
from clnr.errors import DataError, option
from clnr.graph import Graph
from clnr.support.machine.memory import enough_memory
from clnr.support.progress import QUIET, Bar
from clnr.support.stage_clock import stage
from clnr.support.storage import errors_name, reserve_folder
from clnr.training.checkpoint import begun_with, check_checkpoint
from clnr.training.fingerprint import CHOSEN_HERE, Fingerprint, differences


def as_begun(settings: Settings, out: Path | None = None) -> Settings:
    """Settings with the engine that a run which is resumed was begun with, except for what is asked for."""
    if not settings.resume:
        return settings
    where = settings.checkpoint if out is None else Workspace.of_output(out).folder
    assert where is not None
    begun = begun_with(where) if out is None else Workspace.of_output(out).about.get("choices")
    begun = settings.workers.broadcast_object(begun)
    if begun is None:
        return settings
    with errors_name(where):
        engine = choose_again(settings.engine.asked, begun, settings.workers.alone)
    return dataclasses.replace(settings, engine=engine)


def embed(
    read: Callable[[], Graph],
    settings: Settings,
    *,
    limit: float | None = None,
    output: Output | None = None,
    bar: Bar = QUIET,
) -> EmbeddingResult | None:
    """Read, plan, train, embed, score and write. Without an output nothing is written, but for what memory does not hold.

    Where workers share it, all of them call this; all but the first return None, and so does the first if the output was
    finished already.

    Args:
        read: Gives the graph, once the output folder is reserved.
        settings: How it is done.
        limit: The bytes of memory that may be used on this machine; None for what is free.
        output: Where the result is written; None for nowhere.
        bar: Shows progress.
    """
    workers = settings.workers
    settings.engine.wake()
    with _reserved(output, settings) as finished:
        with stage("read"):
            graph = read()
        with stage("plan"):
            plan = make_plan(graph, settings, limit)
        fingerprint = settings.fingerprint(graph.digest, plan.recipe)
        workers.check_same_on_all_ranks(lambda: fingerprint)
        done = finished and output is not None and _is_finished(settings, fingerprint, output)
        if done and output is not None:
            # A process that was killed at the very end may have left it.
            Workspace.of_output(output.folder).remove()
        if workers.broadcast_object(done):
            return None
        for line in plan.lines:
            bar.note(line)
        if output is not None:
            workspace = Workspace.of_output(output.folder, workers, plan.block_rows)
        elif plan.block_rows is None:
            workspace = Workspace(None, workers)
        else:
            workspace = Workspace.temporary(workers, plan.block_rows)
        workspace.begin(fingerprint, settings.engine.choices, settings.resume)
        if workers.first and workspace.has_kept("model"):
            bar.note("training is complete; continuing with the embedding")
        graph = graph if plan.block_rows is not None else graph.in_memory()
        result = embed_graph(graph, plan.recipe, settings, workspace, settings.compared, bar)
        if output is not None:
            if result is not None:
                with stage("write"), enough_memory():
                    write_reserved(result, output)
            workspace.remove()
        if result is None or output is None or not isinstance(result.z, Shards):
            return result
        return load_result(output.folder)


@contextlib.contextmanager
def _reserved(output: Output | None, settings: Settings) -> Iterator[bool]:
    """Reserve the output folder, as the first worker; returns whether an earlier process has finished it."""
    if settings.checkpoint is not None:
        check_checkpoint(settings.checkpoint)
    if output is None or not settings.workers.first:
        yield False
        return
    with reserve_folder(output.folder):
        finished = check_output(output.folder, output.force, settings.resume)
        Workspace.of_output(output.folder).check_left(settings.resume, output.force)
        yield finished


def _is_finished(settings: Settings, now: Fingerprint, output: Output) -> bool:
    """Whether the output already is what is asked for; if it is something else, it must be free to overwrite."""
    earlier = load_result(output.folder)
    # What was chosen for the machine may be otherwise on another one.
    wanted = {name: value for name, value in now.items() if name not in CHOSEN_HERE}
    asked = settings.engine.asked._asdict().items()
    wanted |= {name: value for name, value in asked if value not in ("auto", None)}
    differs = []
    if not earlier.fingerprint:
        differs.append("it was extended")
    elif changed := differences({**earlier.model.provenance._asdict(), **earlier.fingerprint}, wanted):
        differs.append(changed)
    if differs and not output.force:
        cure = f"overwrite it with {option('force', True)}"
        raise DataError(f"{output.folder} is finished with other settings: {'; '.join(differs)}; {cure}")
    return not differs
