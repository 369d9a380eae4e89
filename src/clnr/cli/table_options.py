"""The options that say which tables are read and how: the same for every command that reads tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from clnr.errors import ClnrError
from clnr.tables.table_arguments import TableArguments


def option_of(argument: str) -> str:
    """The option that gives an argument of ``read_tables``, or of a command."""
    option = TableArguments.options().get(argument)
    return _written(argument) if option is None or option.flags is None else option.flags.partition("/")[0]


def _written(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of tables in front of its own; it is called with what they give as ``tables``."""
    others = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != "tables"]
    shared = [
        inspect.Parameter(
            argument,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                option.type | None,
                typer.Option(option.flags or _written(argument), metavar=option.metavar, help=option.help),
            ],
        )
        for argument, option in TableArguments.options().items()
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(_table_arguments({each.name: given.pop(each.name, None) for each in shared}), **given)

    signature = inspect.Signature([*shared, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in others)])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()} | {"return": None}
    return run


def _table_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``read_tables`` that are given, always with ``edges`` and ``nodes``."""
    tables = {role: tables_by_name(f"--{role}", given.pop(role)) for role in ("edges", "nodes")}
    named = {argument: value for argument, value in given.items() if value is not None and value != []}
    if "types" in named:
        named["types"] = _types(named["types"])
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
    if not sign or (alone and _is_path(given)) or any(separator in name for separator in "/\\"):
        return None, given
    return name, path


def _is_path(text: str) -> bool:
    import glob
    import os

    return os.path.exists(text) or bool(glob.glob(text, recursive=True))  # noqa: PTH110, PTH207


def _types(given: list[str]) -> dict[str, str]:
    pairs = [each.rpartition("=") for each in given]
    for each, (column, _, kind) in zip(given, pairs, strict=True):
        if not (column and kind):
            raise ClnrError(f"--as must be COLUMN=KIND, such as year=number, not '{each}'")
    return {column: kind for column, _, kind in pairs}
