"""One job: a graph, in memory or in files, becomes vectors, scores, a folder and a report.

Every worker calls what is here, with the same arguments. What only the first may do is marked where it is done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clnr.embedding.defaults import check_labels
from clnr.embedding.fit_settings import Settings
from clnr.embedding.job_sources import Extension, InFiles, InMemory, Source
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.stages.stages import run_stages
from clnr.embedding.store.artifact import load_result
from clnr.embedding.store.artifact_files import check_output
from clnr.embedding.store.output_folder import Output
from clnr.embedding.store.work_folder import begun_choices, raise_left, work_path
from clnr.engine import choose_again
from clnr.errors import DataError, option
from clnr.graph import Graph
from clnr.methods.recipe import check_used
from clnr.support.progress import Bar
from clnr.support.stage_clock import stage
from clnr.support.storage import errors_name, reserve_folder
from clnr.tables import TableGraph, load_graph_folder, read_tables
from clnr.training.checkpoint import begun_with, checkpoint_path
from clnr.training.fingerprint import CHOSEN_HERE, Fingerprint, differences


def as_begun(settings: Settings, out: Path | None = None) -> Settings:
    """Settings with the engine that a run which is resumed was begun with, except for what is asked for."""
    if not settings.resume or settings.checkpoint is None:
        return settings
    begun, where = None, settings.checkpoint
    if out is not None and (begun := begun_choices(out)) is not None:
        where = work_path(out)
    else:
        begun = begun_with(settings.checkpoint)
    begun = settings.workers.broadcast_object(begun)
    if begun is None:
        return settings
    with errors_name(where):
        engine = choose_again(settings.engine.asked, begun, settings.workers.alone)
    return replace(settings, engine=engine)


def read_source(tables: Mapping[str, Any], bar: Bar | None = None) -> TableGraph:
    """The graph of tables, or of a graph folder: the arguments of ``read_tables``, or ``graph`` alone."""
    if tables.get("graph") is not None:
        return load_graph_folder(tables["graph"])
    return read_tables(**tables, progress=None if bar is None else bar.note)


# -- the job ----------------------------------------------------------------------------------------------------------------


def embed(
    open_source: Callable[[], Source], settings: Settings, output: Output | None = None, bar: Bar | None = None
) -> EmbeddingResult | None:
    """Plan, check, train, embed, score and write: whatever source, settings and output ask for.

    Where workers share it, all of them call this; all but the first return None, and so does the first if the output was
    finished already.

    The source is opened when the output folder is reserved; without an output, which a graph in files needs, nothing is
    written.
    """
    workers, shown = settings.workers, bar or Bar(None, quiet=True)
    settings.engine.wake()
    with _reserved(output, settings) as finished:
        with stage("read"):
            source = open_source()
        with stage("plan"):
            recipe, planned = source.plan(settings)
        fingerprint = settings.fingerprint(source.digest, recipe)
        workers.check_same_on_all_ranks(lambda: fingerprint)
        done = finished and output is not None and _is_finished(source, settings, fingerprint, output)
        if workers.broadcast_object(done):
            settings.remove_checkpoint()
            return None
        for line in planned.lines:
            shown.note(line)
        job = source.begin(settings, recipe, planned, output, bar)
        run_stages(job, source.stages)
        return None if job.scored is None else source.result(job)


def fit(table_graph: TableGraph, settings: Settings, bar: Bar | None = None) -> EmbeddingResult | None:
    """``embed`` of a graph in memory, of which nothing is written."""
    return embed(lambda: InMemory(table_graph), settings, bar=bar)


def embed_tables(
    tables: Mapping[str, Any],
    folder: Path,
    settings: Settings,
    *,
    force: bool = False,
    report: bool = True,
    bar: Bar | None = None,
) -> EmbeddingResult | None:
    """``embed`` from the arguments of ``read_tables``, or a ``graph`` folder, to a folder of vectors, model and report."""
    check_labels(settings.method, any(tables.get(name) is not None for name in ("nodes", "graph")))
    check_used(settings.method, settings.fixed)
    output = Output(folder, force, report)
    return embed(lambda: InMemory(read_source(tables, bar), tables.get("names")), settings, output, bar)


def transform_tables(
    model: Path,
    tables: Mapping[str, Any],
    folder: Path,
    settings: Settings,
    *,
    alone: bool = False,
    force: bool = False,
    report: bool = True,
    bar: Bar | None = None,
) -> EmbeddingResult | None:
    """Embed tables with the model of an earlier folder: added to its graph, or ``alone``. Nothing is trained."""
    return embed(lambda: Extension(load_result(model), tables, alone), settings, Output(folder, force, report), bar)


def embed_folder(
    folder: Graph,
    out: Path,
    settings: Settings,
    bound: int | None = None,
    *,
    force: bool = False,
    report: bool = False,
    bar: Bar | None = None,
) -> EmbeddingResult | None:
    """``embed`` from a graph folder to a folder with a model and shards of vectors, in ``bound`` bytes of memory.

    With ``settings.resume``, also an embedding that was stopped goes on, from its last pass or shard. A report is of a sample
    of nodes.
    """
    return embed(lambda: InFiles(folder, bound), settings, Output(out, force, report), bar)


@contextlib.contextmanager
def _reserved(output: Output | None, settings: Settings) -> Iterator[bool]:
    """Reserve the output folder, as the first worker; returns whether an earlier process has finished it."""
    if output is None or not settings.workers.first:
        settings.check_checkpoint()
        yield False
        return
    with reserve_folder(output.folder):
        finished = check_output(output.folder, output.force, settings.resume)
        settings.check_checkpoint()
        beside = checkpoint_path(output.folder)
        if settings.checkpoint == beside and beside.is_file() and not (settings.resume or output.force):
            raise_left(beside)
        yield finished


def _is_finished(source: Source, settings: Settings, now: Fingerprint, output: Output) -> bool:
    """Whether the output already is what is asked for; if it is something else, it must be free to overwrite."""
    earlier = load_result(output.folder)
    # What was chosen for the machine may be otherwise on another one.
    wanted = {name: value for name, value in now.items() if name not in CHOSEN_HERE}
    asked = settings.engine.asked._asdict().items()
    wanted |= {name: value for name, value in asked if value not in ("auto", None)}
    differs = source.differences(earlier, output)
    if not earlier.fingerprint:
        differs.append("it was extended")
    elif changed := differences({**earlier.model.provenance._asdict(), **earlier.fingerprint}, wanted):
        differs.append(changed)
    if differs and not output.force:
        cure = f"overwrite it with {option('force', True)}"
        raise DataError(f"{output.folder} is finished with other settings: {'; '.join(differs)}; {cure}")
    return not differs
