"""The folder of vectors, model and report that a result is written to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clnr.embedding.reporting.report_data import report_html
from clnr.embedding.reporting.report_file import write_report_file
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.store.artifact import load_result, name_nodes, save_folder, save_names
from clnr.embedding.store.artifact_files import OWN_FILES
from clnr.embedding.store.export import EXPORT_FORMATS
from clnr.support.stage_clock import stage
from clnr.support.storage import check_folder, reserve_folder, resolve_path, temporary_path, write_folder


@dataclass(frozen=True)
class Output:
    """Where a result is written; with ``force``, a folder that clnr wrote may be overwritten."""

    folder: Path
    force: bool = False
    report: bool = False

    @property
    def title(self) -> str:
        return resolve_path(self.folder).name


def write_result(result: EmbeddingResult, output: Output) -> None:
    """Write a result to a folder, complete or not at all."""
    with reserve_folder(output.folder):
        check_folder(output.folder, output.force, OWN_FILES)
        write_reserved(result, output)


def write_reserved(result: EmbeddingResult, output: Output) -> None:
    """Write a result to a folder that is reserved."""
    html = None
    if output.report:
        with stage("draw"):
            html = report_html(result, output.title)
    with write_folder(output.folder, output.force, OWN_FILES) as part:
        save_folder(result, part)
        if html is not None:
            write_report_file(part, output.title, html)


def write_formats(folder: Path, formats: list[str]) -> list[Path]:
    """Add export formats to a finished folder, all of them or none; returns their files."""
    result = load_result(folder)
    with reserve_folder(folder):
        part = temporary_path(resolve_path(folder), "part")
        part.mkdir()
        for name in formats:
            file, write = EXPORT_FORMATS[name]
            write(result, part / file)
        files = [EXPORT_FORMATS[name][0] for name in formats]
        return [(part / file).replace(folder / file) for file in files]


def write_report(folder: Path, name: str | None = None, colour: str | None = None) -> Path:
    """Write the report of a folder again, and return its path.

    The folder remembers the column of names; None for no change.
    """
    result = load_result(folder)
    if name is not None:
        result = name_nodes(result, name)
    title = resolve_path(folder).name
    html = report_html(result, title, colour)
    if name is not None:
        save_names(result, folder)
    return write_report_file(folder, title, html)
