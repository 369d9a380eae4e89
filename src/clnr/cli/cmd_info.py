"""Commands that show something: ls, recipe, runs, env; an embedding: similar, clusters, export, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clnr.cli.app import OPTIMISTIC, app, choose_pair, out, print_json, print_stderr, print_stdout
from clnr.cli.options import DatasetName, Json, MethodName
from clnr.errors import ClnrError
from clnr.support.arguments import check_choice
from clnr.version import __version__


def _check_folder(folder: Path) -> Path:
    from clnr.embedding.result.artifact_files import check_artifact

    check_artifact(folder)
    return folder


_NAME_HELP = "Column of node names; the id column turns names off."
_COLOUR_HELP = "Colour by this column first; by default labels, a column of few values, or cluster."
_OPEN_HELP = "Open the report in the browser; draw it again only if something changed."
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", callback=_check_folder, help="A folder that clnr embed wrote.")]


@app.command(name="ls")
def list_command(
    what: Annotated[str, typer.Argument(help="What to list: methods or datasets.")],
    as_json: Json = False,
) -> None:
    """List the methods or the data sets."""
    from clnr.cli import console_tables

    tables = {"methods": console_tables.methods, "datasets": console_tables.datasets}
    check_choice("list", what, tables)
    if as_json:
        print_json(console_tables.listed(what))
    else:
        out.print(tables[what]())


@app.command()
def recipe(method: MethodName = None, dataset: DatasetName = None, as_json: Json = False) -> None:
    """Show the hyper-parameters of a method on a data set."""
    from clnr.cli import console_tables
    from clnr.methods.presets import preset

    chosen, name = choose_pair(method, dataset)
    shipped = preset(chosen, name)
    if as_json:
        published = None if shipped.published is None else shipped.published._asdict()
        values, sources = ({name: of[name] for name in chosen.keys} for of in (shipped.recipe.to_dict(), shipped.sources))
        print_json({"recipe": values, "sources": sources, "published": published})
        return
    inherited = f", which uses {shipped.row}'s recipe" if shipped.row not in (None, chosen.name) else ""
    out.print(f"{chosen.name} on {name}{inherited}", style="bold")
    out.print(console_tables.recipe(chosen, name))
    if shipped.published:
        result = shipped.published
        out.print(f"published: {result.accuracy:.1f} ± {result.spread:.1f} % ({result.source})")


@app.command()
def runs(
    method: Annotated[str | None, typer.Option(help="Only runs of this method.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only runs on this data set.")] = None,
    device: Annotated[str | None, typer.Option(help="Only runs on this device: cpu or cuda.")] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the latest N.")] = None,
    as_json: Json = False,
) -> None:
    """List the runs in the run cache."""
    from clnr import datasets, methods
    from clnr.cli import console_tables
    from clnr.experiments.run_cache import RunCache

    if method is not None:
        method = methods.find(method).name
    if dataset is not None:
        dataset = datasets.find(dataset).name
    if device is not None:
        check_choice("device", device, ("cpu", "cuda"))
    run_cache = RunCache()
    rows = run_cache.runs(method=method, dataset=dataset, device=device)
    rows = rows if last is None else rows[-last:]
    if as_json:
        print_json([{"made": made, **vars(each)} for made, each in rows])
    elif rows:
        out.print(console_tables.runs(rows))
        out.print(OPTIMISTIC, style="dim")
    else:
        print_stderr(f"no matching run in {run_cache.path} yet; to make one: clnr run")


@app.command()
def env(as_json: Json = False) -> None:
    """Show versions, hardware and folders, for a bug report."""
    import os
    import platform
    from importlib import metadata

    import torch

    from clnr.experiments.run_cache import RunCache
    from clnr.support.machine import environment, paths
    from clnr.support.machine.code_digest import code_version
    from clnr.support.machine.memory import total_memory

    cuda = "no usable GPU" if torch.version.cuda else "none (PyTorch built without it)"
    if torch.cuda.is_available():
        cuda = f"{torch.version.cuda}, {torch.cuda.get_device_name()}"
    total = total_memory()
    facts: dict[str, str] = {
        "clnr": f"{__version__} (code {code_version()})",
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": environment.describe(torch.device("cpu")),
        "memory": "unknown" if total is None else f"{total / 2**30:.1f} GiB",
        "cuda": cuda,
        "torch": str(torch.__version__),
    }
    for package in ("torch-geometric", "numpy", "scipy", "numba", "pyarrow", "typer", "rich", "triton"):
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    facts |= {"record": str(RunCache().path), "cache": str(paths.cache_folder())}
    facts |= {name: os.environ.get(name, "not set") for name in ("CLNR_DATA", "CLNR_HOME")}
    if as_json:
        print_json(facts)
    else:
        for name, value in facts.items():
            print_stdout(f"{name + ':':<17}{value}")


@app.command()
def similar(
    folder: Folder,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The id of a node, or its name.")],
    k: Annotated[int, typer.Option("-k", help="How many nodes to list.")] = 10,
    kind: Annotated[str | None, typer.Option(help="List only nodes of this kind, such as item: the items for a user.")] = None,
    unlinked: Annotated[bool, typer.Option("--unlinked", help="Leave out neighbours of the node in the graph.")] = False,
    as_json: Json = False,
) -> None:
    """Find the nodes whose vectors are most similar to a node's."""
    from clnr.embedding.result.neighbors import similar_nodes
    from clnr.support.console import Table

    answer = similar_nodes(folder, node, k, kind=kind, unlinked=unlinked)
    if answer.id.casefold() != node.casefold():
        print_stderr(f"'{node}' is the name of '{answer.id}'")
    keys = [*(["name"] if answer.has_names else []), "id", "cosine", "linked", *(["label"] if answer.label_column else [])]
    rows = [{key: getattr(each, key) for key in keys} for each in answer.nodes]
    if as_json:
        print_json([row | {"cosine": round(row["cosine"], 6)} for row in rows])
        return
    table = Table(*(answer.label_column or "" if key == "label" else key for key in keys), box=None, pad_edge=False)
    for row in rows:
        texts = row | {"cosine": f"{row['cosine']:.4f}", "linked": "yes" if row["linked"] else ""}
        table.add_row(*("" if text is None else str(text) for text in texts.values()))
    out.print(table)


@app.command()
def clusters(
    folder: Folder,
    k: Annotated[int | None, typer.Option("-k", help="How many clusters; by default chosen by their silhouette.")] = None,
    kind: Annotated[str | None, typer.Option(help="Cluster only nodes of this kind, such as item.")] = None,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write id and cluster of each node: .csv or .parquet.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find clusters, their typical nodes and what sets them apart."""
    if file is not None and file.suffix not in (".csv", ".parquet"):
        raise ClnrError(f"{file} must end in .csv or .parquet (--out)")

    from clnr.cli import console_tables
    from clnr.embedding.result.artifact import load_result
    from clnr.embedding.result.clusters import CLEAR_SILHOUETTE, USUAL_CLUSTERS, find_clusters
    from clnr.embedding.result.export import write_clusters

    result = load_result(folder)
    answer = find_clusters(result.z, result.nodes, k, kind)
    if file is not None:
        write_clusters(result.graph, answer.assignment, file)
    if as_json:
        print_json(answer.to_dict())
        return
    out.print(console_tables.clusters(answer))
    if len(answer.clusters) > 1:
        default = f"below {CLEAR_SILHOUETTE}, the default is {USUAL_CLUSTERS} clusters"
        out.print(f"silhouette {answer.silhouette:.2f}, from 0 (clusters overlap) to 1 (far apart); {default}")
    if file is not None:
        out.print(str(file), markup=False)


@app.command()
def export(
    folder: Folder,
    formats: Annotated[list[str], typer.Option("--format", help="Formats to write: csv, npy.")],
) -> None:
    """Write the vectors in other formats, beside embeddings.parquet."""
    from clnr.embedding.result.export import parse_formats

    names = parse_formats(formats)

    from clnr.embedding.result.artifact import write_formats

    for file in write_formats(folder, names):
        print_stdout(str(file))


@app.command()
def report(
    folder: Folder,
    name: Annotated[str | None, typer.Option(help=_NAME_HELP)] = None,
    colour: Annotated[str | None, typer.Option(metavar="COLUMN", help=_COLOUR_HELP)] = None,
    show: Annotated[bool, typer.Option("--open", help=_OPEN_HELP)] = False,
) -> None:
    """Draw the report of an embedding again, or open it."""
    import webbrowser

    from clnr.embedding.result.artifact_files import current_report

    path = current_report(folder) if show and name is None and colour is None else None
    if path is None:
        from clnr.embedding.result.artifact import write_report

        path = write_report(folder, name, colour)
    print_stdout(str(path))
    if show and not webbrowser.open(path.absolute().as_uri()):
        print_stderr(f"no browser could be opened; open {path.absolute()}")
