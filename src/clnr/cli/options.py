"""Options that several commands share: those of tables, made from their declarations, and what ``--set`` gives."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from clnr.errors import ClnrError, option_name
from clnr.support.arguments import check_hold_out, check_seed
from clnr.support.machine.devices import check_device, check_precision, check_threads
from clnr.tables.table_arguments import TableArguments

MethodName = Annotated[str | None, typer.Argument(metavar="METHOD", help="CLNR if not given; list: clnr ls methods.")]
DatasetName = Annotated[
    str | None,
    typer.Argument(metavar="DATASET", help="toy if not given; list: clnr ls datasets; or a folder of clnr ingest with labels."),
]
# Callbacks check what they can before a command imports torch, which takes seconds.
Device = Annotated[str, typer.Option(callback=check_device, help="auto (a GPU if there is one), cpu or cuda.")]
_PRECISION = "Training precision: auto (bfloat16 on a GPU or a CPU with AMX), float32 or bfloat16."
Precision = Annotated[str, typer.Option(callback=check_precision, help=_PRECISION)]
_THREADS = "CPU threads; default: by the amount of work. The last bits of results depend on their number."
Threads = Annotated[int | None, typer.Option(metavar="N", callback=check_threads, help=_THREADS)]
_MATRIX_ENDINGS = (".npy", ".npz")
_ASSIGN = "Set a hyper-parameter, such as epochs=200; repeatable. Names: clnr recipe."
Assign = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_ASSIGN)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result: no progress, no notes.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output; docs/json.md has its keys.")]


# -- help --


TABLE_PANELS = {
    "Tables": ("header", "encoding"),
    "Columns": (
        *("source", "target", "weight", "until", "directed", "unknown_ends"),
        *("id", "names", "features", "ignore", "types"),
    ),
}
"""The panels of options of tables, but for those that most runs need."""
OUTPUT_PANEL = "Output"


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """Write the parameters of a command into its help: by its panels, if it has some; the others come after them."""
    parameters = {each.name: each for each in command.get_params(context)}
    panels = dict(getattr(command.callback, "panels", {}))
    for each in parameters.values():
        if not any(each.name in names for names in panels.values()):
            title = f"{each.param_type_name.capitalize()}s"
            panels[title] = *panels.get(title, ()), each.name
    for title, names in panels.items():
        with formatter.section(title):
            formatter.write_dl([parameters[name].get_help_record(context) for name in names if name in parameters])


# -- --set --


def settings_of(assign: list[str] | None) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What ``--set`` gives: hyper-parameters; method, seed and hold_out; device, precision and threads."""
    from clnr.methods.recipe import parse

    recipe, job, engine = list[str](), dict[str, Any](), dict[str, Any]()
    for each in assign or []:
        key, _, value = (part.strip() for part in each.partition("="))
        if key in _OF_ENGINE:
            engine[key] = _OF_ENGINE[key](value)
        elif key in _OF_JOB:
            job[key] = _OF_JOB[key](value)
        else:
            recipe.append(each)
    return parse(recipe), job, engine


def _number(key: str, kind: type, value: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ClnrError(f"{key} must be a {'whole ' if kind is int else ''}number, not '{value}'") from None


_OF_ENGINE: dict[str, Callable[[str], Any]] = {
    "device": check_device,
    "precision": check_precision,
    "threads": lambda value: check_threads(_number("threads", int, value)),
}
_OF_JOB: dict[str, Callable[[str], Any]] = {
    "method": str,
    "seed": lambda value: check_seed(_number("seed", int, value)),
    "hold_out": lambda value: check_hold_out(_number("hold_out", float, value)),
}


# -- tables --


def reads_tables(panels: Mapping[str, Sequence[str]], *without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the options of tables, but for some, beside its own; what they give is its argument ``tables``.

    In its help, all options stand in these panels, in this order.
    """
    tables = {name: each for name, each in TableArguments.options().items() if name not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(tables=_table_arguments({name: given.pop(name, None) for name in tables}), **given)

        signature = inspect.signature(command, eval_str=True)
        parameters = [each for each in signature.parameters.values() if each.name != "tables"]
        for name, each in tables.items():
            kind, option = each.type | None, typer.Option(each.flags or option_name(name), metavar=each.metavar, help=each.help)
            parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            parameters.append(parameter.replace(annotation=Annotated[kind, option]))
        # Typer makes options of these.
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
        run.panels = panels  # type: ignore[attr-defined]
        return run

    return decorate


def _table_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``read_tables`` that are given, always with ``edges`` and ``nodes``."""
    tables = {role: tables_by_name(f"--{role}", given.pop(role)) for role in ("edges", "nodes")}
    named = {argument: value for argument, value in given.items() if value is not None and value != []}
    if "types" in named:
        named["types"] = _types(named["types"])
    if matrices := [each for each in named.get("features", ()) if each.endswith(_MATRIX_ENDINGS)]:
        if len(matrices) > 1:
            raise ClnrError(f"--features takes one matrix, not {' and '.join(matrices)}")
        columns = [each for each in named.pop("features") if each not in matrices]
        named |= {"feature_matrix": matrices[0]} | ({"features": columns} if columns else {})
    return {**tables, **named}


def tables_by_name(option: str, given: list[str] | None) -> Any:
    """A file; or files by the names of their kinds, NAME=FILE, where user,bought,item is a name of three parts."""
    named = [_split_name(each) for each in given or []]
    if len(named) < 2 and not any(name for name, _ in named):
        return named[0][1] if named else None
    tables: dict[Any, str] = {}
    for name, path in named:
        if name is None:
            raise ClnrError(f"each of several {option} needs a name, NAME={path}; files of one table are a quoted glob")
        parts = tuple(part.strip() for part in name.split(","))
        key = parts[0] if len(parts) == 1 else parts
        if key in tables:
            raise ClnrError(f"two {option} are called '{name}'; choose two names, or give both files as one glob")
        tables[key] = path
    return tables


def _split_name(given: str) -> tuple[str | None, str]:
    """The name in NAME=FILE, and the file; the name is None for a query, or where a path has its = in or after a folder."""
    from clnr.tables.io.open import is_query

    name, sign, path = given.partition("=")
    if is_query(given) or not sign or any(separator in name for separator in "/\\"):
        return None, given
    return name, path


def _types(given: list[str]) -> dict[str, str]:
    types = {}
    for each in given:
        column, _, kind = each.rpartition("=")
        if not (column and kind):
            raise ClnrError(f"--as must be COLUMN=TYPE, such as year=number, not '{each}'")
        types[column] = kind
    return types
