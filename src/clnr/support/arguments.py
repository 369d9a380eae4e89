"""Checks of arguments that users pass: each returns the value, or raises an error that names the argument.

Arrays, labels and matrices are checked in ``graph.validation``.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clnr.errors import ClnrError, UnknownName


def check_choice(kind: str, name: Any, choices: Iterable[str]) -> str:
    """A name that must be one of ``choices``; ``kind`` says what it names."""
    choices = tuple(choices)
    if not (isinstance(name, str) and name in choices):
        raise UnknownName(kind, name, choices)
    return name


def check_type(argument: str, value: Any, types: Any, expected: str, error: type[ClnrError] = ClnrError) -> Any:
    """A value that must be of one of ``types``, which ``expected`` describes for the message."""
    if not isinstance(value, types):
        raise error(f"{argument} must be {expected}, not {_describe(value)}")
    return value


def check_list(argument: str, values: Any, types: Any, expected: str) -> list[Any]:
    """A list whose elements must be of one of ``types``; text is not a list of letters."""
    try:
        elements = None if isinstance(values, str | bytes) else list(values)
    except TypeError:
        elements = None
    if elements is None:
        raise ClnrError(f"{argument} must be a list, each {expected}, not {_describe(values)}")
    return [check_type(f"each of {argument}", element, types, expected) for element in elements]


def check_int(argument: str, value: Any) -> int:
    """A whole number; True and False are none."""
    if isinstance(value, bool):
        raise ClnrError(f"{argument} must be a whole number, not {value}")
    return int(check_type(argument, value, numbers.Integral, "a whole number"))


def check_path(argument: str, value: Any) -> Path:
    """A path, as text or a ``Path``."""
    return Path(check_type(argument, value, str | Path, "a path"))


def _describe(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
