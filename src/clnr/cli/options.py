"""Options that several commands share: those of tables, made from their declarations, and what ``--set`` gives; and what to
say of an option that there is not."""

from __future__ import annotations

import copy
import functools
import glob
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, get_args

import typer

from clnr.errors import ClnrError, option_name, shorten
from clnr.support.arguments import check_int
from clnr.support.machine.devices import check_device, check_precision, check_threads
from clnr.tables.io.table_files import MATRIX_ENDINGS, is_query
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
_ASSIGN = "Set a hyper-parameter, such as epochs=200; repeatable. Names: clnr recipe."
Assign = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_ASSIGN)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result: no progress, no notes.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output; docs/json.md has its keys.")]


# -- help -------------------------------------------------------------------------------------------------------------------


TABLE_PANELS = {
    "Tables": ("header", "encoding"),
    "Columns": (
        *("source", "target", "weight", "edge_type", "until", "directed"),
        *("id", "names", "features", "ignore", "types"),
    ),
}
"""The panels of options of tables, but for those that most runs need."""
OUTPUT_PANEL = "Output"
# What the help calls the value of an option; any other is called as its option is.
_VALUES = {
    **dict.fromkeys(("--label", "--name"), "COLUMN"),
    **dict.fromkeys(("--out", "--graph", "--data-root"), "FOLDER"),
    **dict.fromkeys(("-k", "--seed", "--workers"), "N"),
    **dict.fromkeys(("--precision", "--dtype"), "TYPE"),
    "--memory": "AMOUNT",
    "--hold-out": "SHARE",
}


def name_values(command: Any, context: Any) -> None:
    """Have the help of a command name what its options take, in place of types of Python."""
    help_option = command.get_help_option(context)
    if OUTPUT_PANEL in (each.rich_help_panel for each in command.params):
        help_option.rich_help_panel = OUTPUT_PANEL
    for each in (*command.params, help_option):
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
        elif each.metavar is None:
            name = each.opts[0]
            each.metavar = "" if each.is_flag else _VALUES.get(name, name.strip("-").replace("-", "_").upper())


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the options of a command in panels, where there are no boxes."""
    panels: dict[str, list[Any]] = {}
    for each in command.get_params(ctx):
        title = each.rich_help_panel or ("Arguments" if each.param_type_name == "argument" else "Options")
        panels.setdefault(title, []).append(each.get_help_record(ctx))
    write_panels(panels, formatter)


def write_panels(panels: Mapping[str, Sequence[Any]], formatter: Any) -> None:
    for title, records in panels.items():
        with formatter.section(title):
            formatter.write_dl(records)


# -- --set -------------------------------------------------------------------------------------------------------------------


def settings_of(assign: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What ``--set`` gives: hyper-parameters, and ``precision`` and ``threads``, which are no part of a recipe."""
    from clnr.methods.recipe import parse

    engine: dict[str, Any] = {}
    recipe = []
    for each in assign or []:
        key, _, value = (part.strip() for part in each.partition("="))
        if key == "precision":
            engine[key] = check_precision(value)
        elif key == "threads":
            engine[key] = check_threads(int(value) if value.isdecimal() else check_int(key, value))
        else:
            recipe.append(each)
    return parse(recipe), engine


_UNNEEDED_OPTIONS = ("--delimiter", "--delim", "--separator", "--sep", "--quote", "--decimal")
"""Options that commands for tables have elsewhere."""
_OPTION_CHARACTERS = 80
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def refused_argument(error: Any) -> str:
    """What to say of an argument that the parser refuses: what was meant, or where the help is."""
    context = getattr(error, "ctx", None)
    command = "clnr" if context is None or context.parent is None else f"clnr {context.info_name}"
    parameters = [] if context is None else context.command.params
    known = [word for each in parameters for word in (*each.opts, *each.secondary_opts) if word.startswith("--")]
    if hasattr(error, "possibilities"):
        option = shorten(str(error.option_name), _OPTION_CHARACTERS)
        message = f"{command} has no option {option}"
        if "--edges" in known and option.casefold() in _UNNEEDED_OPTIONS:
            return f"{message}: delimiters, quotes and decimal commas are detected; leave it out"
        message = f"{message}; {_near_option(option, known)}"
    else:
        message = f"{error.format_message().rstrip('.')}; "
        if "--edges" in known and "unexpected extra argument" in message:
            tables = "tables are given by --edges and --nodes, and a glob in quotes: --edges 'trades-*.csv'; "
            message = shorten(message, _OPTION_CHARACTERS) + tables
    return f"{message}see: {command} --help"


def _near_option(option: str, known: Sequence[str]) -> str:
    """The option that was meant, or how to set a hyper-parameter; "" if that is not known."""
    from clnr.methods.recipe import recipe_keys

    meant = {word: word for word in (*known, "--help")}
    if "--set" in known:
        meant = {option_name(key): f"--set {key}=VALUE" for key in (*recipe_keys(), "precision", "threads")} | meant
    near = get_close_matches(option.casefold(), meant, n=1, cutoff=0.6)
    return f"did you mean {meant[near[0]]}? " if near else ""


# -- tables -----------------------------------------------------------------------------------------------------------------


def reads_tables(panels: Mapping[str, Sequence[str]], *without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the options of tables, but for some, beside its own; what they give is its argument ``tables``.

    In its help, all options stand in these panels, in this order.
    """
    panel_of = {name: panel for panel, names in panels.items() for name in names}
    order = {name: place for place, name in enumerate(panel_of)}
    tables = {name: each for name, each in TableArguments.options().items() if name not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(tables=_table_arguments({name: given.pop(name, None) for name in tables}), **given)

        keywords = dict(inspect.signature(command, eval_str=True).parameters)
        del keywords["tables"]
        for name, each in tables.items():
            kind = each.type | None
            option = typer.Option(each.flags or option_name(name), metavar=each.metavar, help=each.help)
            keywords[name] = inspect.Parameter(name, _KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])
        parameters = [placed(keywords[name]) for name in sorted(keywords, key=lambda name: order.get(name, len(order)))]
        # Typer makes options of these.
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
        return run

    def placed(parameter: inspect.Parameter) -> inspect.Parameter:
        kind, option = get_args(parameter.annotation)
        # Other commands have the same option in another place.
        option = copy.copy(option)
        option.rich_help_panel = panel_of.get(parameter.name)
        return parameter.replace(kind=_KEYWORD_ONLY, annotation=Annotated[kind, option])

    return decorate


def _table_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``read_tables`` that are given, always with ``edges`` and ``nodes``."""
    tables = {role: tables_by_name(f"--{role}", given.pop(role)) for role in ("edges", "nodes")}
    named = {argument: value for argument, value in given.items() if value is not None and value != []}
    if "types" in named:
        named["types"] = _types(named["types"])
    if matrices := [each for each in named.get("features", ()) if each.endswith(MATRIX_ENDINGS)]:
        if len(matrices) > 1:
            raise ClnrError(f"--features takes one matrix, not {' and '.join(matrices)}")
        columns = [each for each in named.pop("features") if each not in matrices]
        named |= {"feature_matrix": matrices[0]} | ({"features": columns} if columns else {})
    return {**tables, **named}


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
    is_path = sign and alone and (os.path.exists(given) or glob.glob(given, recursive=True))  # noqa: PTH110, PTH207
    if is_query(given) or not sign or is_path or any(separator in name for separator in "/\\"):
        return None, given
    return name, path


def _types(given: list[str]) -> dict[str, str]:
    # A comma may also be part of a name.
    given = [part for each in given for part in (each.split(",") if all("=" in part for part in each.split(",")) else [each])]
    pairs = [each.rpartition("=") for each in given]
    for each, (column, _, kind) in zip(given, pairs, strict=True):
        if not (column and kind):
            raise ClnrError(f"--as must be COLUMN=KIND, such as year=number, not '{each}'")
    return {column: kind for column, _, kind in pairs}
