"""What was embedded: similar, report."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clnr.cli.app import Json, app, out, say, tell
from clnr.errors import ClnrError, DataError
from clnr.support.atomic_io import resolve_path, write_atomic
from clnr.support.console import Table

if TYPE_CHECKING:
    from clnr.embedding.fitting import EmbeddingResult
    from clnr.graph.csr import CSR

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
    from clnr.embedding.artifact import load_folder
    from clnr.embedding.neighbors import Neighbours

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
    names = outcome.read.names_of(near.nodes[0])
    found = [
        {
            "id": ids[j],
            **({"name": names[place] or None} if names else {}),
            "cosine": round(float(near.cosine[0, place]), 6),
            "linked": int(j) in linked,
            **_label(outcome, int(j)),
        }
        for place, j in enumerate(near.nodes[0])
    ]
    if as_json:
        print(json.dumps(found))
        return
    titles = [*(["name"] if any(names) else []), "id", "cosine", "linked", *(["label"] if graph.labels is not None else [])]
    table = Table(*titles, box=None, pad_edge=False)
    for row in found:
        told = {**row, "cosine": f"{row['cosine']:.4f}", "linked": "yes" if row["linked"] else ""}
        table.add_row(*(str(told[title] or "") for title in titles))
    out.print(table)


def _joined(edges: CSR, i: int) -> list[int]:
    return edges.indices[edges.indptr[i] : edges.indptr[i + 1]].tolist()


def _label(outcome: EmbeddingResult, j: int) -> dict[str, Any]:
    labels = outcome.read.graph.labels
    if labels is None:
        return {}
    return {"label": None if labels[j] < 0 else outcome.read.class_name(int(labels[j]))}


@app.command()
def report(
    folder: Folder,
    name: Annotated[str | None, typer.Option(help="Column of nodes' names from now on; that of ids for none.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the report of an embedding anew: one HTML file with facts, scores and a map to explore."""
    from clnr.embedding.artifact import REPORT, load_folder, name_nodes
    from clnr.embedding.report_data import html

    outcome = load_folder(folder)
    if name is not None:
        outcome = name_nodes(outcome, name, folder)
    path = write_atomic(folder / REPORT, html(outcome, resolve_path(folder).name))
    tell(str(path))
    if show and not webbrowser.open(path.absolute().as_uri()):
        say(f"no browser could be opened; open {path.absolute()}")
