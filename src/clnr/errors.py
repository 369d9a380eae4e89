"""The errors of clnr, with one base class; what their one line is made of; "did you mean", by Python's own difflib.

Messages name arguments by ``option``: as Python has them or, on the command line, as its options.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

_MESSAGE_CHARACTERS = 1000
_NAME_CHARACTERS = 80
# How alike two names are that are mistaken for each other, from 0 to 1: 'fast' and 'best' have 0.5.
_SIMILARITY = 0.62
_ELLIPSIS = " ... "
_LINE_BREAK_PATTERN = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


def one_line(text: str, most: int = 300) -> str:
    """Any text as one line of at most ``most`` characters."""
    return shorten(_LINE_BREAK_PATTERN.sub(" ", text.strip()), most)


def shorten(text: str, most: int) -> str:
    """Text of at most ``most`` characters: the middle of a longer one is left out."""
    if len(text) <= most:
        return text
    left = most - len(_ELLIPSIS)
    return f"{text[: left - left // 2]}{_ELLIPSIS}{text[len(text) - left // 2 :]}"


def show(value: object) -> str:
    """A value as Python writes it; its type, where it cannot be written: a number of many digits, or what is nested deeply."""
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return f"a value of type {type(value).__name__} that is too long to be shown"


class ClnrError(Exception):
    """Base of all errors of this package; its message is always one line of bounded length."""

    def __str__(self) -> str:
        return one_line(super().__str__(), _MESSAGE_CHARACTERS)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A question that names the nearest of some choices; "" if none is near."""
    known = {choice.casefold(): choice for choice in choices}
    near = get_close_matches(name.strip().casefold(), known, n=1, cutoff=_SIMILARITY)
    return f"did you mean '{known[near[0]]}'? " if near else ""


class UnknownName(ClnrError):
    """A method, data set, recipe key or choice that does not exist."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]):
        self.choices = tuple(choices)
        shown = shorten(name if isinstance(name, str) else show(name), _NAME_CHARACTERS)
        super().__init__(f"unknown {kind} '{shown}'; {did_you_mean(shown, self.choices)}known: {', '.join(self.choices)}")


class RecipeError(ClnrError):
    """A value of a recipe with the wrong type or out of range, or a recipe file that cannot be read."""


class MethodError(ClnrError):
    """An invalid declaration of a method."""


class DataError(ClnrError):
    """Data that is missing, damaged, or not what it claims to be."""


class DeviceError(ClnrError):
    """A device that is not available."""


class TrainingError(ClnrError):
    """Training that failed, such as by a loss that is not finite."""


class OutOfMemory(TrainingError):
    """Not enough memory."""


class LostWorker(ClnrError):
    """Another process that shares this training is gone, or does not answer."""


class RunCacheError(ClnrError):
    """The run cache cannot be read or written."""


# -- the words of the caller ------------------------------------------------------------------------------------------------

_in_python = True
# Options that are not called as arguments are in Python, and arguments that are values of --set.
_OPTIONS = {"names": "--name", "purpose": "--for", "recipe": "--set", "transform": "--alone", "types": "--as"}
_SETTINGS = ("method", "hold_out")


@contextmanager
def command_line() -> Iterator[None]:
    """Messages name options, as long as it lasts."""
    global _in_python
    before, _in_python = _in_python, False
    try:
        yield
    finally:
        _in_python = before


def option_name(argument: str) -> str:
    return _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def option(argument: str, value: object = None) -> str:
    """An argument, with a value if given, as the caller writes it: ``types={'x': 'number'}``, or ``--as x=number``."""
    if _in_python:
        return argument if value is None else f"{argument}={value!r}"
    if argument in _SETTINGS:
        return f"--set {argument}" if value is None else option("recipe", {argument: value})
    name = option_name(argument)
    if value is None or value is True:
        return name
    if value is False:
        return f"--no-{argument}"
    if isinstance(value, dict):
        keys = (",".join(key) if isinstance(key, tuple) else key for key in value)
        value = [f"{key}={each}" for key, each in zip(keys, value.values(), strict=True)]
    return " ".join(f"{name} {_for_shell(str(each))}" for each in (value if isinstance(value, list) else [value]))


def _for_shell(text: str) -> str:
    """Text as a shell takes it; a query, which has quotes of its own, in double ones."""
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)


def options(**values: object) -> str:
    """Several of them."""
    return (", " if _in_python else " ").join(option(name, value) for name, value in values.items())
