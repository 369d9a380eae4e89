"""Checks of arguments that users pass: each returns the value, or raises an error that names the argument."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from clnr.errors import ClnrError, DataError, RecipeError, UnknownName, option
from clnr.support.humanize import parse_bytes

LARGEST_SEED = 2**63 - 1
LEAST_MEMORY = 1_000_000_000
"""Bytes of memory with which a small graph is written as a graph folder or trained from its files."""


def check_choice(kind: str, name: Any, choices: Collection[str]) -> str:
    """A name that must be one of ``choices``; ``kind`` says what it names."""
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
    with suppress(TypeError):
        if not isinstance(values, str | bytes):
            return [check_type(f"each of {argument}", element, types, expected) for element in values]
    raise ClnrError(f"{argument} must be a list, each {expected}, not {_describe(values)}")


def check_int(argument: str, value: Any) -> int:
    """A whole number; True and False are none."""
    if isinstance(value, bool):
        raise ClnrError(f"{argument} must be a whole number, not {value}")
    return int(check_type(argument, value, numbers.Integral, "a whole number"))


def check_seed(seed: object) -> int:
    if not (isinstance(seed, numbers.Integral) and 0 <= int(seed) <= LARGEST_SEED):
        raise RecipeError(f"a seed must be a whole number from 0 to {LARGEST_SEED}, not {seed!r}")
    return int(seed)


def check_hold_out(share: float) -> float:
    """The share of edges that are held out, if it is valid."""
    if not (isinstance(share, numbers.Real) and 0 <= share < 1):
        raise RecipeError(f"{option('hold_out')} must be from 0 to less than 1, not {share!r}")
    return float(share)


def check_memory(amount: str) -> int:
    """The bytes of a limit on memory that leaves Python, torch and DuckDB what they take."""
    count = parse_bytes(amount)
    if count is None or count < LEAST_MEMORY:
        raise DataError(f"{option('memory')} must be an amount from 1 GB on, such as '4 GB', not '{amount}'")
    return count


def check_path(argument: str, value: Any) -> Path:
    """A path, as text or a ``Path``."""
    path = Path(check_type(argument, value, str | Path, "a path"))
    if "\0" in str(path):
        raise ClnrError(f"{argument} has a zero byte in it, which no path can have")
    return path


def caller_level() -> int:
    """The ``stacklevel`` of a warning about what the caller of this package passed."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("clnr."):
        frame, level = frame.f_back, level + 1
    return level


def _describe(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
