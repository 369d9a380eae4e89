"""From a user's tables to a folder of vectors, model and report: the straight line of ``clnr embed``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clnr.embedding.extension import extend
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planned_fit import fit_planned, fit_share, plan
from clnr.embedding.preflight import drawing_note
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT, check_layout
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.store.artifact import differences, load_folder, not_asked_for
from clnr.embedding.store.artifact_files import OWNED_FILES, RECIPE
from clnr.embedding.store.export import check_formats
from clnr.embedding.store.output_folder import write_reserved
from clnr.methods.recipe import Recipe, check_used
from clnr.support.progress import Bar
from clnr.support.storage.atomic_io import check_folder, reserve_folder
from clnr.tables import TableGraph, load_graph_folder, read_tables


def read_source(tables: Mapping[str, Any], bar: Bar | None = None) -> TableGraph:
    """The graph of tables, or of a graph folder: the arguments of ``read_tables``, or ``graph`` alone."""
    if tables.get("graph") is not None:
        return load_graph_folder(tables["graph"])
    return read_tables(**tables, progress=None if bar is None else bar.note)


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
    if not settings.workers.first:
        _work_along(tables, settings)
        return None
    with reserve_folder(folder, OWNED_FILES):
        finished = settings.resume and (folder / RECIPE).is_file()
        if force or not finished:
            check_folder(folder, force, OWNED_FILES)
        settings.check_checkpoint()
        if model is not None:
            result = extend(load_folder(model), tables, settings.engine, standalone=standalone, bar=bar)
        else:
            table_graph = read_source(tables, bar)
            recipe, preflight = plan(table_graph, settings, layout=drawn)
            settings.workers.check_same_on_all_ranks(lambda: settings.about(table_graph.graph.digest, recipe))
            finished = finished and _is_finished(folder, table_graph, settings, recipe, tables.get("names"), force)
            if settings.workers.broadcast_object(finished):
                settings.remove_checkpoint()
                return None
            settings.remove_stale_checkpoint()
            check_formats(formats, table_graph.graph)
            result = fit_planned(table_graph, settings, recipe, preflight, bar)
        if layout is not None and bar is not None:
            bar.note(drawing_note(result.z, layout))
        write_reserved(result, folder, force, formats, layout)
        settings.remove_checkpoint()
    return result


def _work_along(tables: Mapping[str, Any], settings: Settings) -> None:
    """Do a worker's share of the training in ``embed_tables``."""
    table_graph = read_source(tables)
    recipe, _ = plan(table_graph, settings)
    settings.workers.check_same_on_all_ranks(lambda: settings.about(table_graph.graph.digest, recipe))
    if not settings.workers.broadcast_object(False):
        fit_share(table_graph, settings, recipe)


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
