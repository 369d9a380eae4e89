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
    edges: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Edge table: a CSV, Parquet or JSON file, or a quoted glob. Several kinds of edges: NAME=FILE for each; "
            "between kinds of nodes: user,bought,item=FILE.",
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Node table, one row per node. Without it, features come from the structure. Several kinds of nodes: "
            "NAME=FILE for each.",
        ),
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
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column of edge weights; likewise. Repeatable, for tables with other columns."),
    ] = None,
    negative_weights: Annotated[
        str | None,
        typer.Option(metavar="CHOICE", help="Negative edge weights: refuse (the default), drop, or kind: of their own."),
    ] = None,
    edge_type: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of kinds of edges: each kind is normalised by itself.")
    ] = None,
    edge_time: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column of edge times, dates or numbers. Repeatable, as --weight."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="With --edge-time: the graph as of then, without later edges.")
    ] = None,
    half_life: Annotated[
        float | None, typer.Option(metavar="DAYS", help="With --edge-time: after so long, an edge weighs half.")
    ] = None,
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out rows with an empty end, id, kind, weight or time; else refused.")
    ] = False,
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
        "weight": weight or None,
        "negative_weights": negative_weights,
        "edge_type": edge_type,
        "edge_time": edge_time,
        "until": until,
        "half_life": half_life,
        "drop_empty": drop_empty or None,
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
    tables = {"edges": tables_by_name("--edges", edges), "nodes": tables_by_name("--nodes", nodes)}
    return {**tables, **{name: value for name, value in given.items() if value is not None}}


def tables_by_name(option: str, given: list[str] | None) -> Any:
    """A file; or files by the names of their kinds, NAME=FILE, where user,bought,item is a name of three parts."""
    named = [_split_name(each, alone=len(given or []) == 1) for each in given or []]
    if len(named) < 2 and not any(name for name, _ in named):
        return named[0][1] if named else None
    tables: dict[Any, str] = {}
    for name, path in named:
        if name is None:
            raise ClnrError(
                f"each of several {option} needs a name: {option} NAME={path}; files of one table are a quoted glob"
            )
        parts = tuple(part.strip() for part in name.split(","))
        key = name.strip() if len(parts) == 1 else parts
        if key in tables:
            raise ClnrError(f"two {option} are called '{name}'; choose two names, or give both files as one glob")
        tables[key] = path
    return tables


def _split_name(given: str, alone: bool) -> tuple[str | None, str]:
    """The name in NAME=FILE, and the file; the name is None for a plain path, which may have a = in it if it is alone."""
    name, sign, path = given.partition("=")
    if not sign or (alone and _is_path(given)) or any(separator in name for separator in "/\\"):
        return None, given
    return name, path


def _is_path(text: str) -> bool:
    import glob
    import os

    return os.path.exists(text) or bool(glob.glob(text, recursive=True))  # noqa: PTH110, PTH207


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
