"""Old names: they work for one version, with a warning that names the new one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from clnr.errors import ClnrError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class RenamedWarning(FutureWarning):
    """An old name was used."""


def renamed(kind: str, name: str, names: Mapping[str, str]) -> str:
    """The new name for an old one, with a warning; any other name as it is."""
    if name not in names:
        return name
    warnings.warn(
        f"{kind} '{name}' is now '{names[name]}'; the old name works in this version only", RenamedWarning, stacklevel=3
    )
    return names[name]


def renamed_arguments(**names: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A function that also takes its arguments by their old names: ``old="new"``."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            for old in names.keys() & kwargs.keys():
                new = renamed("argument", old, names)
                if new in kwargs:
                    raise ClnrError(f"{old} is the old name of {new}; leave out {old}")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
