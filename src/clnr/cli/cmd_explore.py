"""Looking at an embedding: similar, report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clnr.cli.app import Json, app, out, print_stderr, print_stdout

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Written by clnr embed.")]


@app.command()
def similar(
    folder: Folder,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The id of a node, or its name.")],
    k: Annotated[int, typer.Option("-k", help="How many nodes to list.")] = 10,
    approximate: Annotated[
        bool,
        typer.Option("--approximate", help="Search an index (usearch): the first search builds it, and it is kept."),
    ] = False,
    kind: Annotated[str | None, typer.Option(help="List only nodes of this kind, such as item: the items for a user.")] = None,
    unlinked: Annotated[
        bool, typer.Option("--unlinked", help="Leave out nodes that are linked with it: only new ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The nodes most similar to a node, by the cosine similarity of their embeddings."""
    from clnr.embedding.search.similar import similar_nodes
    from clnr.support.console import Table
    from clnr.support.progress import log_progress

    with log_progress(verbose=True):
        answer = similar_nodes(folder, node, k, approximate=approximate, kind=kind, unlinked=unlinked)
    if answer.id != node:
        print_stderr(f"'{node}' is the name of '{answer.id}'")
    if as_json:
        known = [*(["name"] if answer.has_names else []), "cosine", "linked", *(["label"] if answer.has_labels else [])]
        rows = [each._asdict() | {"cosine": round(each.cosine, 6)} for each in answer.nodes]
        print(json.dumps([{title: row[title] for title in ("id", *known)} for row in rows]))
        return
    named = any(each.name for each in answer.nodes)
    titles = [*(["name"] if named else []), "id", "cosine", "linked", *(["label"] if answer.has_labels else [])]
    table = Table(*titles, box=None, pad_edge=False)
    for each in answer.nodes:
        texts = each._asdict() | {"cosine": f"{each.cosine:.4f}", "linked": "yes" if each.linked else ""}
        table.add_row(*(str(texts[title] or "") for title in titles))
    out.print(table)


@app.command()
def report(
    folder: Folder,
    name: Annotated[
        str | None, typer.Option(help="Column of node names, remembered from now on; the column of ids for none.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="Layout of the map: fast, tsne or umap; that of the report there, if not given.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Open it in the browser; it is written again only if something changed.")
    ] = False,
) -> None:
    """Write the report of an embedding again: one HTML file with facts, scores and a map to explore."""
    import webbrowser

    from clnr.embedding.reporting.map_layouts import check_layout
    from clnr.embedding.reporting.report_file import current_report

    if layout is not None:
        check_layout(layout)
    path = current_report(folder, layout) if show and name is None else None
    if path is None:
        from clnr.embedding.store.output_folder import write_report

        path = write_report(folder, name, layout, print_stderr)
    print_stdout(str(path))
    if show and not webbrowser.open(path.absolute().as_uri()):
        print_stderr(f"no browser could be opened; open {path.absolute()}")
