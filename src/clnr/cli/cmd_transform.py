"""New tables by the model of an earlier embedding: transform."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from clnr.cli.app import app, print_stderr
from clnr.cli.cmd_embed import print_result, show_plan
from clnr.cli.options import OUTPUT_PANEL, TABLE_PANELS, Device, Json, Precision, Quiet, Threads, reads_tables
from clnr.errors import ClnrError

PANELS = {
    "Arguments": ("model",),
    "What most runs need": ("edges", "nodes", "label", "folder", "alone", "dry_run"),
    **TABLE_PANELS,
    OUTPUT_PANEL: ("force", "report", "as_json", "quiet"),
    "This machine": ("device", "precision", "threads"),
}


@app.command()
@reads_tables(PANELS, "features", "types")
def transform(
    tables: dict[str, Any],
    model: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that clnr embed wrote of tables.")],
    folder: Annotated[Path | None, typer.Option("--out", help="Output folder; needed unless --dry-run.")] = None,
    alone: Annotated[bool, typer.Option("--alone", help="Embed the tables as a graph of their own.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what was read, and stop.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out, if clnr wrote it.")] = False,
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Embed new nodes and edges with an earlier model. Nothing is trained."""
    from clnr.embedding.result.artifact_files import check_artifact, check_output
    from clnr.tables.table_arguments import check_files

    if tables["edges"] is None and tables["nodes"] is None:
        raise ClnrError("missing --edges FILE, --nodes FILE or both; see: clnr transform --help")
    if folder is None and not dry_run:
        raise ClnrError("missing --out FOLDER; see: clnr transform --help")
    check_artifact(model)
    check_files(**tables)
    if folder is not None and not dry_run:
        check_output(folder, force, resume=False)

    from clnr.embedding.extend import extend, read_extension
    from clnr.embedding.result.artifact import Output, load_result
    from clnr.engine import choose
    from clnr.support.progress import progress_bar

    if folder is None or dry_run:
        extension = read_extension(load_result(model), tables, alone=alone)
        show_plan(extension.facts if as_json else extension.lines)
        return
    if force and folder.resolve() == model.resolve():
        print_stderr(f"{folder} is the folder of the model itself: its graph and vectors are replaced by the extended ones")
    began = perf_counter()
    output, engine = Output(folder, force, report), choose(device, precision, threads)
    with progress_bar(quiet) as bar:
        result = extend(load_result(model), tables, engine, alone=alone, output=output, bar=bar)
    print_result(result, folder, perf_counter() - began, as_json, trained=False)
