"""What was embedded: similar, report."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from clnr.cli.app import Json, app, out, say
from clnr.edges import Compressed
from clnr.errors import ClnrError, DataError
from clnr.own.folder import REPORT, load_folder
from clnr.own.learning import Outcome
from clnr.own.nearest import Neighbours
from clnr.own.story import html
from clnr.writing import write_whole

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What clnr embed wrote.")]


@app.command()
def similar(
    folder: Folder,
    node: Annotated[str, typer.Argument(metavar="ID", help="Of a node.")],
    k: Annotated[int, typer.Option("-k", help="How many.")] = 10,
    approximate: Annotated[bool, typer.Option("--approximate", help="By an index: for millions of nodes (usearch).")] = False,
    as_json: Json = False,
) -> None:
    """The nodes most similar to a node, by the cosine of their embeddings."""
    if k < 1:
        raise ClnrError(f"-k must be at least 1, not {k}")
    outcome = load_folder(folder)
    graph = outcome.read.graph
    ids = [str(each) for each in graph.node_ids.tolist()]
    if node not in ids:
        raise DataError(f"{folder}: there is no node '{node}'; such are {', '.join(repr(each) for each in ids[:3])}")
    i = ids.index(node)
    near = Neighbours(outcome.z).nearest([i], k, approximate)
    linked = {*_joined(graph.incoming, i), *_joined(graph.outgoing, i)}
    found = [
        {"id": ids[j], "cosine": round(float(cosine), 6), "linked": int(j) in linked, **_label(outcome, int(j))}
        for j, cosine in zip(near.nodes[0], near.cosine[0], strict=True)
    ]
    if as_json:
        print(json.dumps(found))
        return
    table = Table("id", "cosine", "linked", *(["label"] if graph.labels is not None else []), box=None, pad_edge=False)
    for row in found:
        more = [row["label"] or ""] if "label" in row else []
        table.add_row(str(row["id"]), f"{row['cosine']:.4f}", "yes" if row["linked"] else "", *more)
    out.print(table)


def _joined(edges: Compressed, i: int) -> list[int]:
    return edges.nodes[edges.start[i] : edges.start[i + 1]].tolist()


def _label(outcome: Outcome, j: int) -> dict[str, Any]:
    labels = outcome.read.graph.labels
    if labels is None:
        return {}
    return {"label": None if labels[j] < 0 else outcome.read.class_names[labels[j]]}


@app.command()
def report(
    folder: Folder,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the report of an embedding anew: one HTML file with facts, scores and a map to explore."""
    path = write_whole(folder / REPORT, html(load_folder(folder), folder.resolve().name))
    print(path)
    if show and not webbrowser.open(path.absolute().as_uri()):
        say(f"no browser could be opened; open {path.absolute()}")
