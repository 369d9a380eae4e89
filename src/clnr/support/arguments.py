"""What a public function is handed, if it is what it must be; else an error that names the argument."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clnr.errors import ClnrError, UnknownName


def known(kind: str, name: Any, choices: Iterable[str]) -> str:
    """A name, if it is one of some."""
    choices = tuple(choices)
    if not (isinstance(name, str) and name in choices):
        raise UnknownName(kind, name, choices)
    return name


def of_kind(what: str, value: Any, kind: Any, right: str) -> Any:
    """A value, if it is of a kind, which is also told in words."""
    if not isinstance(value, kind):
        raise ClnrError(f"{what} must be {right}, not {_an(value)}")
    return value


def several(what: str, values: Any, kind: Any, right: str) -> list[Any]:
    """All of some values, if each is of a kind; a text is no list of letters."""
    try:
        found = None if isinstance(values, str | bytes) else list(values)
    except TypeError:
        found = None
    if found is None:
        raise ClnrError(f"{what} must be several, {right}, not {_an(values)}")
    return [of_kind(f"each of {what}", each, kind, right) for each in found]


def whole(what: str, value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool):
        raise ClnrError(f"{what} must be a whole number, not {value}")
    return int(of_kind(what, value, numbers.Integral, "a whole number"))


def path_of(what: str, value: Any) -> Path:
    """A path."""
    return Path(of_kind(what, value, str | Path, "a path"))


def _an(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
