"""One job: a graph, in memory or in files, becomes vectors, scores, a folder and a report.

Every worker calls what is here, with the same arguments. What only the first may do is marked where it is done.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clnr.embedding.extension import extend
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning import file_plan
from clnr.embedding.planning.file_plan import FilePlan
from clnr.embedding.planning.memory_plan import MemoryPlan, plan
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT, check_layout, drawing_note
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.embedding.stages.graph_in_memory import GraphInMemory
from clnr.embedding.stages.job_graph import Job, Output
from clnr.embedding.stages.stages import all_stages, run_stages
from clnr.embedding.store.artifact import differences, load_folder, load_result, not_asked_for
from clnr.embedding.store.artifact_files import OWNED_FILES, RECIPE, SOURCE
from clnr.embedding.store.export import check_formats
from clnr.embedding.store.output_folder import write_reserved
from clnr.embedding.store.work_folder import WorkFolder
from clnr.errors import DataError
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.recipe import Recipe, check_used
from clnr.support.humanize import gigabytes
from clnr.support.progress import Bar
from clnr.support.storage.atomic_io import check_folder, reserve_folder, resolve_path
from clnr.support.storage.folder_locks import shared_folder
from clnr.tables import TableGraph, load_graph_folder, read_tables


def read_source(tables: Mapping[str, Any], bar: Bar | None = None) -> TableGraph:
    """The graph of tables, or of a graph folder: the arguments of ``read_tables``, or ``graph`` alone."""
    if tables.get("graph") is not None:
        return load_graph_folder(tables["graph"])
    return read_tables(**tables, progress=None if bar is None else bar.note)


# -- a graph in memory ------------------------------------------------------------------------------------------------------


def embed_tables(
    tables: Mapping[str, Any],
    folder: Path,
    settings: Settings,
    *,
    model: Path | None = None,
    standalone: bool = False,
    force: bool = False,
    formats: Collection[str] = (),
    layout: str | None = DEFAULT_LAYOUT,
    bar: Bar | None = None,
) -> EmbeddingResult | None:
    """From tables to a folder of vectors, model and report, as ``clnr embed``; None if the folder was finished already.

    Where workers share the training, all of them call this; all but the first return None.

    Args:
        tables: The arguments of ``read_tables``; or ``graph``, the path of a graph folder.
        folder: Where to write.
        settings: How to train.
        model: An earlier folder to embed with, instead of training.
        standalone: With a model: the tables are a graph of their own, and are not added to the model's.
        force: Whether a folder that clnr wrote may be overwritten.
        formats: Further export formats.
        layout: Of the map of report.html; None for no report.
        bar: Shows progress; None for none.
    """
    labelled = any(tables.get(name) is not None for name in ("nodes", "nodes_query", "graph"))
    settings.check_labels(labelled or model is not None)
    check_used(settings.method, settings.fixed)
    drawn = check_layout(layout or DEFAULT_LAYOUT)
    with _reserved(folder, settings, force, RECIPE) as finished:
        output = Output(folder, force, formats, layout)
        if model is not None:
            result = extend(load_folder(model), tables, settings.engine, standalone=standalone, bar=bar)
            if layout is not None and bar is not None:
                bar.note(drawing_note(result.z, layout))
            write_reserved(result, folder, force, formats, layout)
            settings.remove_checkpoint()
            return result
        table_graph = read_source(tables, bar)
        recipe, planned = plan(table_graph, settings, layout=drawn)
        settings.workers.check_same_on_all_ranks(lambda: settings.about(table_graph.graph.digest, recipe))
        finished = finished and _is_finished(folder, table_graph, settings, recipe, tables.get("names"), force)
        if settings.workers.broadcast_object(finished):
            settings.remove_checkpoint()
            return None
        settings.remove_stale_checkpoint()
        check_formats(formats, table_graph.graph)
        return _run(table_graph, settings, recipe, planned, output, bar)


def fit(table_graph: TableGraph, settings: Settings, bar: Bar | None = None) -> EmbeddingResult | None:
    """Plan, check memory, tune, train, and resume from a checkpoint: whatever the settings ask for.

    Where workers share it, all of them call this; all but the first return None.

    Args:
        table_graph: The graph.
        settings: How to train.
        bar: Shows progress; None for none.
    """
    recipe, planned = plan(table_graph, settings)
    settings.workers.check_same_on_all_ranks(lambda: settings.about(table_graph.graph.digest, recipe))
    return _run(table_graph, settings, recipe, planned, None, bar)


def _run(
    table_graph: TableGraph, settings: Settings, recipe: Recipe, planned: MemoryPlan, output: Output | None, bar: Bar | None
) -> EmbeddingResult | None:
    """All stages over a graph in memory; the result, on the first worker."""
    graph = GraphInMemory(table_graph, settings)
    job = Job(graph, recipe, settings.compared, bar=bar)
    for line in planned.lines:
        job.log(line)
    if not settings.ignore_memory_check:
        planned.check_memory()
    settings.check_checkpoint()
    run_stages(job, all_stages(output))
    return None if job.scored is None else graph.result(job)


def _is_finished(
    folder: Path, table_graph: TableGraph, settings: Settings, recipe: Recipe, names: str | None, force: bool
) -> bool:
    """Whether a folder already holds what is asked for; if it holds something else, it must be free to overwrite."""
    earlier = load_folder(folder)
    # A tuned recipe is not known beforehand, nor which method wins.
    known = recipe if not (settings.tune or settings.auto) else None
    one_of = (settings.method, *settings.compared) if settings.auto else (settings.method,)
    method = earlier.model.method if earlier.model.method in one_of else settings.method
    differs = [] if earlier.table_graph.graph.digest == table_graph.graph.digest else ["it was made from other tables"]
    differs += differences(earlier.model, replace(settings, method=method), known)
    if names is not None and table_graph.ingest_report.names != earlier.table_graph.ingest_report.names:
        differs.append(f"its names are those of another column, which clnr report {folder} --name {names} changes")
    if differs and not force:
        raise not_asked_for(folder, differs)
    return not differs


# -- a graph in files -------------------------------------------------------------------------------------------------------


def embed_folder(
    folder: GraphFolder,
    out: Path,
    settings: Settings,
    bound: int | None = None,
    *,
    force: bool = False,
    layout: str | None = None,
    bar: Bar | None = None,
) -> EmbeddingResult | None:
    """From a graph folder to a folder with a model and shards of vectors, in bounded memory; None if it was there already.

    Where workers share it, all of them call this; all but the first return None.

    Args:
        folder: The graph.
        out: Where to write.
        settings: How to train; with ``resume`` also an embedding that was stopped goes on, from its last block.
        bound: Bytes of memory that may be used; None for what is free.
        force: Whether a folder that clnr wrote may be overwritten.
        layout: Of the map of report.html, of a sample of nodes; None for no report.
        bar: Shows progress; None for none.
    """
    if layout is not None:
        check_layout(layout)
    workers, log = settings.workers, (bar or Bar(None, quiet=True)).note
    with _reserved(out, settings, force, SOURCE) as finished, shared_folder(folder.path):
        recipe, planned = file_plan.plan(folder, settings, bound)
        about = settings.about(folder.digest, recipe)
        about = {"graph folder" if name == "tables" else name: value for name, value in about.items()}
        workers.check_same_on_all_ranks(lambda: about)
        folder = replace(folder, resident=planned.sizes.resident, loop_weight=folder.median_weight)
        work = WorkFolder(resolve_path(out), folder, settings, recipe)
        if workers.broadcast_object(finished and work.is_finished(force)):
            settings.remove_checkpoint()
            return None
        for line in planned.lines:
            log(line)
        if workers.first:
            check_disk(out, planned, work.bytes_there)
            settings.remove_stale_checkpoint()
        block_rows, remark = work.begin(planned.sizes.block_rows)
        if remark is not None:
            log(remark)
        graph = GraphInFiles(folder, settings, recipe, work.path, block_rows, bar)
        job = Job(graph, recipe, settings.compared, work, bar)
        if workers.first and work.has_model():
            log("training is complete: embedding goes on")
        run_stages(job, all_stages(Output(out, force, layout=layout)))
    return None if job.scored is None else load_result(out)


@contextlib.contextmanager
def _reserved(out: Path, settings: Settings, force: bool, mark: str) -> Iterator[bool]:
    """Reserve the output folder, as the first worker; tells whether an earlier process has finished it, by a file of it."""
    if not settings.workers.first:
        yield False
        return
    with reserve_folder(out, OWNED_FILES):
        finished = settings.resume and (out / mark).is_file()
        if force or not finished:
            check_folder(out, force, OWNED_FILES)
        settings.check_checkpoint()
        yield finished


def check_disk(out: Path, planned: FilePlan, there: int = 0) -> None:
    """Raise if the disk of a folder is too small for its shards and layers, of which so many bytes are there."""
    free = shutil.disk_usage(resolve_path(out).parent).free + there
    if planned.disk > free:
        raise DataError(
            f"the disk is too small for {out}: about {gigabytes(planned.disk)} are needed, and {gigabytes(free)} are free; a "
            f"smaller dimension and hidden (--set) need less{', and so does --method CLNR' if planned.passes else ''}"
        )
