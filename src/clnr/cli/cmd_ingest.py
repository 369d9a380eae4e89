"""Tables: demo writes some, ingest makes a graph folder of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from clnr.cli.app import app, out, print_json, print_stderr, print_stdout
from clnr.cli.options import OUTPUT_PANEL, TABLE_PANELS, Json, Quiet, reads_tables
from clnr.errors import ClnrError

PANELS = {
    "What most runs need": ("edges", "nodes", "label", "folder", "memory"),
    **TABLE_PANELS,
    OUTPUT_PANEL: ("dtype", "force", "verify", "as_json", "quiet"),
}


@app.command()
@reads_tables(PANELS)
def ingest(
    tables: dict[str, Any],
    folder: Annotated[Path | None, typer.Option("--out", help="The graph folder to write.")] = None,
    verify: Annotated[
        Path | None,
        typer.Option("--verify", metavar="FOLDER", help="Instead of writing: verify the checksums of a graph folder."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="How features are stored: float32 or float16.")] = "float32",
    memory: Annotated[str, typer.Option(help="Memory limit, such as '8 GB'; larger data spills to disk.")] = "4 GB",
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out, if clnr ingest wrote it.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write large tables as a graph folder, for: clnr embed --graph."""
    _check(tables, folder, verify, force)

    from clnr.graph.folder import open_graph
    from clnr.graph.folder import verify as verify_folder
    from clnr.support.progress import progress_bar
    from clnr.tables import ingest as write
    from clnr.tables.column_report import column_lines

    with progress_bar(quiet) as bar:
        if verify is not None:
            graph = open_graph(verify)
            verify_folder(verify, lambda file: bar.note(f"reading {file}"))
        else:
            assert folder is not None
            graph = write(**tables, out=folder, dtype=dtype, memory=memory, force=force, progress=bar.note)
        for line in (*column_lines(graph.info.columns), *graph.info.notes):
            bar.note(f"- {line}")
    for line in graph.info.notes if quiet else ():
        if line.startswith("warning: "):
            print_stderr(line)
    _show(graph, as_json)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite them.")] = False,
) -> None:
    """Write a small shop as tables, to try clnr on."""
    from clnr.datasets.demo import write_demo

    shop = write_demo(folder, force)
    out.print(f"{shop}: customers.csv, products.csv and orders.csv")
    tables = f"--nodes customer={shop}/customers.csv --nodes product={shop}/products.csv --label segment --out vectors"
    print_stdout(f"next:\n  clnr embed --edges customer,bought,product={shop}/orders.csv {tables}")


def _check(tables: dict[str, Any], folder: Path | None, verify: Path | None, force: bool) -> None:
    """Raise what can be wrong without reading a table, before anything heavy is imported."""
    from clnr.tables.table_arguments import check_arguments, check_files

    if verify is not None:
        if folder is not None or force or any(value is not None for value in tables.values()):
            raise ClnrError(f"--verify reads {verify} and writes nothing: leave out all other options")
        return
    if tables["edges"] is None:
        raise ClnrError("missing --edges FILE; see: clnr ingest --help")
    if folder is None:
        raise ClnrError("missing --out FOLDER; see: clnr ingest --help")
    check_arguments("ingest", **tables)
    check_files(**tables)


def _show(graph: Any, as_json: bool) -> None:
    from clnr.embedding.graph_facts import folder_counts, summary
    from clnr.support.humanize import gigabytes

    path, counts = graph.stored.path, folder_counts(graph)
    size = sum(each.stat().st_size for each in path.iterdir())
    if as_json:
        shown = {name: counts[name] for name in ("nodes", "edges", "directed", "features")}
        print_json({**shown, "classes": graph.num_classes, "bytes": size, "folder": str(path)})
    else:
        out.print(f"{path}: {summary(counts)}; features in {graph.features.dtype}, {gigabytes(size)}")
