"""The options that say which tables are read and how: the same for every command that reads tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from clnr.errors import ClnrError

_OPTIONS = {"names": "--name", "types": "--as"}


def table_options(
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
    feature_matrix: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="More features: .npy, .npz (SciPy) or .mtx, a row for each of --nodes; without it, for 0, 1, 2 ...",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Column of edge sources; found by name, such as source or from, if not given.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column of edge targets; likewise.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of edge weights; likewise.")] = None,
    edge_type: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of kinds of edges: all kinds get the same total weight.")
    ] = None,
    edge_time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of edge times, dates or numbers.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="With --edge-time: the graph as of then, without later edges.")
    ] = None,
    half_life: Annotated[
        float | None, typer.Option(metavar="DAYS", help="With --edge-time: after so long, an edge weighs half.")
    ] = None,
    key: Annotated[str | None, typer.Option("--id", help="Column of node ids; likewise.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of class labels: to evaluate, and for supervised methods; never a feature.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Column of display names, for the report and search; features stay the same.")
    ] = None,
    time: Annotated[str | None, typer.Option("--time", help="Column of timestamps, left out of the features.")] = None,
    features: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Node columns that are features; if not given, all that can be.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Columns that are not used; repeatable, or with commas.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--as", metavar="COLUMN=KIND", help="What a node column holds: text, category, number, date, bool, tags or id."
        ),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether text files begin with names of columns, where that is not plain."),
    ] = None,
    edges_header: Annotated[
        bool | None, typer.Option("--edges-header/--no-edges-header", help="The same of the edge table alone.")
    ] = None,
    nodes_header: Annotated[
        bool | None, typer.Option("--nodes-header/--no-nodes-header", help="The same of the node table alone.")
    ] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Treat edges as directed.")] = False,
) -> dict[str, Any]:
    """The arguments of ``read_tables`` that are given, always with ``edges`` and ``nodes``."""
    given = {
        "edges_query": edges_query,
        "nodes_query": nodes_query,
        "feature_matrix": feature_matrix,
        "source": source,
        "target": target,
        "weight": weight,
        "edge_type": edge_type,
        "edge_time": edge_time,
        "until": until,
        "half_life": half_life,
        "id": key,
        "label": label,
        "names": name,
        "time": time,
        "features": features or None,
        "ignore": ignore or None,
        "types": _types(types) if types else None,
        "header": header,
        "edges_header": edges_header,
        "nodes_header": nodes_header,
        "directed": directed or None,
    }
    return {"edges": edges, "nodes": nodes, **{name: value for name, value in given.items() if value is not None}}


def option_of(argument: str) -> str:
    """The option that gives an argument of ``read_tables``."""
    return _OPTIONS.get(argument) or f"--{argument.replace('_', '-')}"


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options, in front of its own; it is called with what they give as ``tables``."""
    shared = inspect.signature(table_options, eval_str=True).parameters
    own = {name: each for name, each in inspect.signature(command, eval_str=True).parameters.items() if name != "tables"}

    @functools.wraps(command)
    def run(**given: Any) -> None:
        tables = table_options(**{name: given.pop(name) for name in shared if name in given})
        command(tables, **given)

    signature = inspect.Signature([*shared.values(), *own.values()])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()} | {"return": None}
    return run


def _types(given: list[str]) -> dict[str, str]:
    pairs = [each.rpartition("=") for each in given]
    for each, (column, _, kind) in zip(given, pairs, strict=True):
        if not (column and kind):
            raise ClnrError(f"--as must be COLUMN=KIND, such as year=number, not '{each}'")
    return {column: kind for column, _, kind in pairs}
