"""The folder of vectors, model and report that a result is written to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT, check_layout
from clnr.embedding.reporting.report_data import report_html
from clnr.embedding.reporting.report_file import drawn_layout, write_report_file
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.store.artifact import load_result, name_nodes, save_folder, save_names
from clnr.embedding.store.artifact_files import DIGESTS, LOADED_FILES, OWNED_FILES, SHARDS
from clnr.embedding.store.export import EXPORT_FORMATS, check_formats
from clnr.errors import ClnrError
from clnr.support.storage.atomic_io import atomic_folder, check_folder, reserve_folder, resolve_path


def write_folder(
    result: EmbeddingResult,
    folder: Path,
    *,
    force: bool = False,
    formats: Collection[str] = (),
    layout: str | None = None,
) -> None:
    """Write a result to a folder, complete or not at all.

    Args:
        result: What to write.
        folder: Where to.
        force: Whether a folder that clnr wrote may be overwritten.
        formats: Further export formats, of an embedding in memory.
        layout: Of the map of report.html; None for no report.
    """
    if result.nodes.saved_in is None:
        check_formats(formats, result.table_graph.graph)
    elif formats:
        raise ClnrError(f"an embedding in files is saved as Parquet alone, not as {next(iter(formats))}: leave out formats")
    with reserve_folder(folder, OWNED_FILES):
        check_folder(folder, force, OWNED_FILES)
        write_reserved(result, folder, force, formats, layout)


def write_report(
    folder: Path, name: str | None = None, layout: str | None = None, log: Callable[[str], None] = lambda line: None
) -> Path:
    """Write the report of a folder again, and return its path.

    Args:
        folder: Written by ``clnr embed`` or ``NodeEmbedder.save``.
        name: The column of node names, which the folder remembers; None for no change.
        layout: Of the map; None for that of the report that is there.
        log: Is told how long it takes.
    """
    layout = check_layout(layout or drawn_layout(folder) or DEFAULT_LAYOUT)
    result = load_result(folder)
    if name is not None:
        result = name_nodes(result, name, folder)
        save_names(result, folder)
    title = resolve_path(folder).name
    return write_report_file(folder, title, report_html(result, title, layout, log))


def write_reserved(result: EmbeddingResult, folder: Path, force: bool, formats: Collection[str], layout: str | None) -> None:
    """Write a result to a folder that is reserved."""
    title = resolve_path(folder).name
    html = None if layout is None else report_html(result, title, layout)
    with atomic_folder(folder, force, OWNED_FILES) as part:
        if result.nodes.saved_in is None:
            save_folder(result, part)
        else:
            _link_files(result.nodes.saved_in, part)
        for name in formats:
            file, write = EXPORT_FORMATS[name]
            write(result.table_graph.graph, result.z, part / file, result.table_graph.kind_columns)
        if html is not None:
            write_report_file(part, title, html)


def _link_files(folder: Path, to: Path) -> None:
    """Put the files of a folder with shards into another one: linked, or copied."""
    (to / SHARDS).mkdir()
    others = (folder / name for name in (*LOADED_FILES, DIGESTS))
    for path in (*(folder / SHARDS).glob("part-*.parquet"), *(each for each in others if each.is_file())):
        target = to / path.relative_to(folder)
        try:
            target.hardlink_to(path)
        except OSError:
            shutil.copyfile(path, target)
