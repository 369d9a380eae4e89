"""What to say of an argument that NodeEmbedder does not have, since it belongs elsewhere."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import ParamSpec, TypeVar

from clnr.errors import did_you_mean
from clnr.methods.recipe import recipe_keys
from clnr.tables.table_arguments import TableArguments

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_OF_TABLES = frozenset(field.name for field in fields(TableArguments))


def explains_unknown(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """The constructor of NodeEmbedder, whose error for an unknown argument says where it belongs."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        for name, value in kwargs.items():
            if name not in known:
                raise TypeError(f"NodeEmbedder has no argument {name!r}; {_where(name, value, list(known))}")
        return function(*args, **kwargs)

    return call


def _where(name: str, value: object, known: list[str]) -> str:
    if name in _OF_TABLES:
        return f"how tables are read is said to read_tables: fit(read_tables(edges, nodes, {name}={value!r:.80}))"
    if name in recipe_keys():
        return f"hyper-parameters are those of a recipe: NodeEmbedder(recipe={{{name!r}: {value!r:.80}}})"
    return did_you_mean(name, known).rstrip() or "see help(NodeEmbedder)"
