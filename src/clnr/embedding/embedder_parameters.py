"""The parameters of ``NodeEmbedder``: the settings that they ask for, and where an unknown one belongs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

from clnr.embedding.defaults import choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.job import as_begun
from clnr.engine import choose
from clnr.errors import did_you_mean
from clnr.methods.recipe import recipe_keys
from clnr.support.arguments import check_path
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.storage import resolve_path
from clnr.tables.table_arguments import TableArguments

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
# Parameters that are settings of the same name.
_SAME_NAME = ("recipe", "seed", "hold_out", "resume", "evaluate")


def embedder_settings(parameters: Mapping[str, Any], workers: Workers = ALONE) -> Settings:
    """The settings that parameters of an embedder ask for, for a training that ``workers`` share."""
    shortcuts = {name: parameters[name] for name in ("dimension", "epochs") if parameters[name] is not None}
    checkpoint = parameters["checkpoint"]
    settings = Settings(
        **choose_method(*(parameters[name] for name in ("method", "effort", "purpose", "encoder"))),
        engine=choose(parameters["device"], parameters["precision"], parameters["threads"]),
        changes=shortcuts,
        checkpoint=None if checkpoint is None else resolve_path(check_path("checkpoint", checkpoint)),
        baselines=parameters["evaluate"],
        workers=workers,
        **{name: parameters[name] for name in _SAME_NAME},
    )
    return as_begun(settings)


def names_unknown(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """A method of NodeEmbedder whose error names an unknown argument, with where it belongs."""
    known, method = inspect.signature(function).parameters, function.__qualname__.removesuffix(".__init__")
    anything = any(each.kind is each.VAR_KEYWORD for each in known.values())

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        for name, value in kwargs.items():
            if name not in known and not anything:
                owner = args[0] if isinstance(args[0], type) else type(args[0])
                where = _where(name, value, list(known), inspect.signature(owner).parameters)
                raise TypeError(f"{method} has no argument {name!r}; {where or f'see help({method})'}")
        return function(*args, **kwargs)

    return call


def _where(name: str, value: object, known: list[str], constructor: Iterable[str]) -> str:
    of_tables = [field.name for field in fields(TableArguments)]
    if name in of_tables:
        return f"pass it to read_tables: fit(read_tables(edges, nodes, {name}={value!r:.80}))"
    if name in constructor:
        return f"pass it to the constructor: NodeEmbedder({name}={value!r:.80})"
    if name in recipe_keys():
        return f"hyper-parameters are those of a recipe: NodeEmbedder(recipe={{{name!r}: {value!r:.80}}})"
    return did_you_mean(name, known).rstrip() or did_you_mean(name, [*constructor, *of_tables]).rstrip()
