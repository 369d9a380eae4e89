"""Tables as a graph folder: ingest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from clnr.cli.app import Json, Quiet, app, out


@app.command()
def ingest(
    edges: Annotated[str | None, typer.Option(help="Edge table: a CSV, Parquet or JSON file, or a quoted glob.")] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Node table, one row per node. Without it, features come from the structure.")
    ] = None,
    edges_query: Annotated[
        str | None, typer.Option(metavar="SQL", help="Instead of --edges: one SELECT (DuckDB) over files.")
    ] = None,
    nodes_query: Annotated[
        str | None, typer.Option(metavar="SQL", help="Instead of --nodes: one SELECT (DuckDB) over files.")
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="The graph folder to write.")] = None,
    verify: Annotated[
        Path | None, typer.Option("--verify", metavar="FOLDER", help="Instead: read a graph folder, and check every file.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Column of edge sources; found by name, such as source or from, if not given.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of edge targets; likewise.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of edge weights; likewise.")] = None,
    key: Annotated[str | None, typer.Option("--id", help="Column of node ids; likewise.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of class labels; never a feature.")] = None,
    name: Annotated[str | None, typer.Option(help="Column of display names; features stay the same.")] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column of timestamps, left out of the features.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Treat edges as directed.")] = False,
    dtype: Annotated[str, typer.Option(help="How features are stored: float32, float16 or bfloat16.")] = "float32",
    memory: Annotated[str, typer.Option(help="How much memory may be used; the rest is done on disk.")] = "4 GB",
    force: Annotated[bool, typer.Option("--force", help="Overwrite --out, if clnr ingest wrote it.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write tables of edges and nodes as a graph folder, in bounded memory whatever their size; for: clnr embed --graph."""
    from clnr.errors import ClnrError
    from clnr.graph.graph_folder import GraphFolder
    from clnr.support.progress import progress_bar
    from clnr.tables.folder_ingest import ingest as write

    with progress_bar(quiet) as bar:
        if verify is not None:
            graph = GraphFolder.open(verify)
            graph.verify(lambda file: bar.note(f"reading {file}"))
        else:
            if not (edges or edges_query):
                raise ClnrError("missing --edges FILE (or --edges-query); see: clnr ingest --help")
            if folder is None:
                raise ClnrError("missing --out FOLDER; see: clnr ingest --help")
            tables: dict[str, Any] = {
                "edges": edges,
                "nodes": nodes,
                "edges_query": edges_query,
                "nodes_query": nodes_query,
                "source": source,
                "target": target,
                "weight": weight,
                "id": key,
                "label": label,
                "time": time,
                "names": name,
                "directed": directed or None,
            }
            graph = write(**tables, out=folder, dtype=dtype, memory=memory, force=force, progress=bar.note)
    size = sum(info.bytes for info in graph.files.values())
    if as_json:
        counts = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        print(json.dumps({**counts, "classes": graph.num_classes, "bytes": size, "folder": str(graph.path)}))
    else:
        out.print(_sentence(graph, size))


def _sentence(graph: Any, size: int) -> str:
    from clnr.support.humanize import gigabytes, plural

    kind = f"{'sparse' if graph.sparse else 'dense'} features in {graph.feature_type}"
    return (
        f"{graph.path}: {plural(graph.num_nodes, 'node')}, {plural(graph.num_edges, 'directed edge')}, "
        f"{graph.num_features:,} {kind}, {gigabytes(size)}"
    )
