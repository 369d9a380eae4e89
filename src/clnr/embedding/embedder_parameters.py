"""The parameters of ``NodeEmbedder``: the settings that they ask for, and the words of its errors."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

from clnr.embedding.defaults import choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.job import as_begun
from clnr.engine import choose
from clnr.errors import ClnrError, RecipeError, did_you_mean
from clnr.methods.recipe import recipe_keys
from clnr.support.arguments import check_int, check_path
from clnr.support.processes.launch import Place
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.storage.atomic_io import resolve_path
from clnr.tables.table_arguments import TableArguments

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
# Parameters that are settings of the same name.
_SAME_NAME = ("recipe", "seed", "hold_out", "tune", "checkpoint_every", "resume", "evaluate", "ignore_memory_check")

# Options in a message, each with its value and the argument of Python beside it; those of a whole command stay as they are.
_OPTION = re.compile(
    r"(?<![\w-])--(?P<name>[a-z-]+)(?: (?P<value>'[^']*'|\"[^\"]*\"|(?!(?:and|does|is|must|or|with)\b)\w[^\s,;)]*))?"
    r"(?: \([a-z_]+(?:=\w*)?\))?"
)
_COMMAND = re.compile(r"(\bclnr [a-z]+ [^;,]*)")
_FLAGS = {"allow-disjoint", "allow-missing-columns", "approximate", "directed", "drop-empty", "force"}
_FLAGS |= {"ignore-memory-check", "resume", "unlinked"}
_ARGUMENTS = {"for": "purpose", "as": "types", "set": "recipe", "name": "names", "format": "formats", "standalone": "transform"}


def embedder_settings(parameters: Mapping[str, Any], group: Workers = ALONE) -> Settings:
    """The settings that parameters of an embedder ask for, for a training that a group of workers shares."""
    shortcuts = {name: parameters[name] for name in ("dimension", "epochs") if parameters[name] is not None}
    checkpoint = parameters["checkpoint"]
    settings = Settings(
        **choose_method(*(parameters[name] for name in ("method", "effort", "purpose", "encoder"))),
        engine=choose(parameters["device"], parameters["precision"], parameters["threads"]),
        changes=shortcuts,
        checkpoint=None if checkpoint is None else resolve_path(check_path("checkpoint", checkpoint)),
        baselines=parameters["evaluate"],
        workers=group,
        **{name: parameters[name] for name in _SAME_NAME},
    )
    workers = check_int("workers", parameters["workers"])
    if workers < 1:
        raise RecipeError(f"workers must be 1 or more, not {workers}")
    if workers == 1:
        return as_begun(settings)
    if Place.from_environment() is not None:
        raise ClnrError("this process is one of several workers already (torchrun): leave out workers")
    if settings.tune:
        raise RecipeError("tune tries recipes with one worker: leave out workers, or tune")
    # Workers that are started find out themselves what a checkpoint was begun with.
    return settings


def speaks_python(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """A method of NodeEmbedder whose errors name arguments: an unknown one with where it belongs, options as keywords."""
    known, method = inspect.signature(function).parameters, function.__qualname__.removesuffix(".__init__")
    anything = any(each.kind is each.VAR_KEYWORD for each in known.values())

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        for name, value in kwargs.items():
            if name not in known and not anything:
                owner = args[0] if isinstance(args[0], type) else type(args[0])
                where = _where(name, value, list(known), inspect.signature(owner).parameters)
                raise TypeError(f"{method} has no argument {name!r}; {where or f'see help({method})'}")
        try:
            return function(*args, **kwargs)
        except ClnrError as error:
            error.args = (in_python(error.message), *error.args[1:])
            raise

    return call


def in_python(text: str) -> str:
    """A sentence with arguments in place of options: ``--hold-out 0`` is ``hold_out=0``."""
    parts = _COMMAND.split(re.sub(r" \(--[a-z-]+(?: [A-Z=]+)?\)", "", text))
    parts[::2] = [_OPTION.sub(_argument, part) for part in parts[::2]]
    several = re.sub(r"(=(?:'[^']*'|[\w.]+|\{[^}]*\})) (?=[a-z_]+=)", r"\1, ", "".join(parts))
    return several.replace("}, recipe={", ", ")


def _argument(option: re.Match[str]) -> str:
    name, value = option["name"], option["value"]
    argument = _ARGUMENTS.get(name, name.replace("-", "_"))
    if name in _FLAGS:
        return f"{argument}=True{f' {value}' if value else ''}"
    if value is None:
        return f"{argument[3:]}=False" if argument.startswith("no_") else argument
    key, equals, last = value.strip("'\"").partition("=")
    if argument not in ("recipe", "types"):
        key, last = "", f"{key}{equals}{last}"
    literal = last if re.fullmatch(r"[\d.]+", last) else repr(last)
    return f"{argument}={{{key!r}: {literal}}}" if key else f"{argument}={literal}"


def _where(name: str, value: object, known: list[str], constructor: Iterable[str]) -> str:
    of_tables = [field.name for field in fields(TableArguments)]
    if name in of_tables:
        return f"pass it to read_tables: fit(read_tables(edges, nodes, {name}={value!r:.80}))"
    if name in constructor:
        return f"pass it to the constructor: NodeEmbedder({name}={value!r:.80})"
    if name in recipe_keys():
        return f"hyper-parameters are those of a recipe: NodeEmbedder(recipe={{{name!r}: {value!r:.80}}})"
    return did_you_mean(name, known).rstrip() or did_you_mean(name, [*constructor, *of_tables]).rstrip()
