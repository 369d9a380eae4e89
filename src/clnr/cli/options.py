"""Options that several commands share: those of tables, made from their declarations, and what ``--set`` gives; and what to
say of an option that there is not."""

from __future__ import annotations

import copy
import functools
import glob
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, get_args

import typer

from clnr.errors import ClnrError, shorten
from clnr.support.arguments import check_int
from clnr.support.machine.devices import check_precision, check_threads
from clnr.tables.io.table_files import MATRIX_ENDINGS, is_query
from clnr.tables.table_arguments import TableArguments

_UNNEEDED_OPTIONS = ("--delimiter", "--delim", "--separator", "--sep", "--quote", "--decimal")
"""Options that commands for tables have elsewhere."""
_OPTION_CHARACTERS = 80


def with_options(
    call: Callable[..., None], command: Callable[..., None], parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """``call``, with the name and the help of a command, and with parameters that Typer makes options of."""
    functools.update_wrapper(call, command)
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    call.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in keywords} | {"return": None}
    return call


def parameters_of(command: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(command, eval_str=True).parameters.values())


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


def option_of(argument: str) -> str:
    """The option that gives an argument of ``read_tables``, or of a command."""
    option = TableArguments.options().get(argument)
    return _written(argument) if option is None or option.flags is None else option.flags.partition("/")[0]


def _written(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


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
    "COLUMN": ("--label", "--name"),
    "FOLDER": ("--out", "--graph", "--data-root"),
    "N": ("-k", "--seed", "--seeds", "--jobs", "--workers"),
    "AMOUNT": ("--memory",),
    "SHARE": ("--hold-out",),
    "TYPE": ("--precision", "--dtype"),
}


def in_panels(panels: Mapping[str, Sequence[str]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose options stand in panels of its help, in this order."""
    panel_of = {name: panel for panel, names in panels.items() for name in names}
    order = {name: place for place, name in enumerate(panel_of)}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            command(**given)

        ordered = sorted(parameters_of(command), key=lambda each: order.get(each.name, len(order)))
        return with_options(run, command, map(placed, ordered))

    def placed(parameter: inspect.Parameter) -> inspect.Parameter:
        kind, option = get_args(parameter.annotation)
        # Other commands have the same option in another place.
        option = copy.copy(option)
        option.rich_help_panel = panel_of.get(parameter.name, option.rich_help_panel)
        return parameter.replace(annotation=Annotated[kind, option])

    return decorate


def name_values(command: Any, context: Any) -> None:
    """Have the help of a command name what its options take, in place of types of Python."""
    value_of = {option: value for value, options in _VALUES.items() for option in options}
    help_option = command.get_help_option(context)
    if OUTPUT_PANEL in (each.rich_help_panel for each in command.params):
        help_option.rich_help_panel = OUTPUT_PANEL
    for each in (*command.params, help_option):
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
        elif each.is_flag:
            each.metavar = ""
        elif each.metavar is None:
            each.metavar = value_of.get(each.opts[0], each.opts[0].strip("-").replace("-", "_").upper())


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the options of a command in panels, where there are no boxes."""
    panels: dict[str, list[Any]] = {}
    for each in command.get_params(ctx):
        title = each.rich_help_panel or ("Arguments" if each.param_type_name == "argument" else "Options")
        panels.setdefault(title, []).append(each.get_help_record(ctx))
    write_panels(panels, formatter)


def write_panels(panels: Mapping[str, Iterable[Any]], formatter: Any) -> None:
    for title, records in panels.items():
        with formatter.section(title):
            formatter.write_dl(list(records))


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


def refused_argument(error: Any) -> str:
    """What to say of an argument that the parser refuses: what was meant, or where the help is."""
    context = getattr(error, "ctx", None)
    name = "" if context is None or context.parent is None else f" {context.info_name}"
    parameters = context.command.params if context is not None else []
    known = [word for each in parameters for word in (*each.opts, *each.secondary_opts) if word.startswith("--")]
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        option = shorten(str(error.option_name), _OPTION_CHARACTERS)
        if "--edges" in known and option.casefold() in _UNNEEDED_OPTIONS:
            return f"clnr{name} has no option {option}: delimiters, quotes and decimal commas are detected; leave it out"
        message = f"clnr{name} has no option {option}; {_near_option(option, known)}"
    else:
        message = f"{error.format_message().rstrip('.')}; "
        if "--edges" in known and "unexpected extra argument" in message:
            tables = "tables are given by --edges and --nodes, and a glob in quotes: --edges 'trades-*.csv'; "
            message = shorten(message, _OPTION_CHARACTERS) + tables
    return f"{message}see: clnr{name} --help"


def _near_option(option: str, known: Sequence[str]) -> str:
    """The option that was meant, or how to set a hyper-parameter; "" if that is not known."""
    from clnr.methods.recipe import recipe_keys

    sets = {_written(key): f"--set {key}=VALUE" for key in (*recipe_keys(), "precision", "threads")}
    sets = sets if "--set" in known else {}
    meant = sets | {word: word for word in (*known, "--help")}
    near = get_close_matches(option.casefold(), meant, n=1, cutoff=0.6)
    return f"did you mean {meant[near[0]]}? " if near else ""


# -- tables -----------------------------------------------------------------------------------------------------------------


def reads_tables(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the options of tables, but for some, in front of its own; what they give is its first argument."""
    options = {name: each for name, each in TableArguments.options().items() if name not in without}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            command(_table_arguments({name: given.pop(name, None) for name in options}), **given)

        shared = (
            _parameter(name, each.type, typer.Option(each.flags or _written(name), metavar=each.metavar, help=each.help))
            for name, each in options.items()
        )
        return with_options(run, command, [*shared, *(each for each in parameters_of(command) if each.name != "tables")])

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
