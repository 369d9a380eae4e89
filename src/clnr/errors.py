"""The errors of clnr, with one base class; what their one line is made of; "did you mean", by Python's own difflib.

Messages are written with options. ``spoken`` says them in the words of the caller: the command line, or Python.
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
    """Base of all errors of this package; its message is always one line of bounded length, in the words of the caller."""

    def __init__(self, message: object = ""):
        super().__init__(spoken(str(message)))

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

# Options in a message, each with its value; those of a whole command stay as they are.
_OPTION = re.compile(
    r"(?<![\w-])--(?P<name>[a-z-]+)"
    r"(?: (?P<value>(?:'[^']*'|\"[^\"]*\")+|(?!(?:and|does|is|must|names|needs|or|with)\b)\w(?:[^\s,;)]|,(?=\w))*))?"
)
_COMMAND = re.compile(r"(\bclnr [a-z]+ [^;,]*)")
_FLAGS = {"directed", "force", "header", "resume", "unlinked"}
_ARGUMENTS = {"for": "purpose", "as": "types", "set": "recipe", "name": "names", "alone": "transform"}
_MAPPINGS, _LISTS = {"edges", "nodes", "recipe", "types"}, {"features", "ignore"}


@contextmanager
def command_line() -> Iterator[None]:
    """Messages name options, as long as it lasts."""
    global _in_python
    before, _in_python = _in_python, False
    try:
        yield
    finally:
        _in_python = before


def spoken(text: str) -> str:
    """A sentence in the words of the caller."""
    return in_python(text) if _in_python else text


def in_python(text: str) -> str:
    """A sentence with arguments in place of options: ``--hold-out 0`` is ``hold_out=0``."""
    parts = _COMMAND.split(text)
    parts[::2] = [_OPTION.sub(_argument, part) for part in parts[::2]]
    several = re.sub(r"(=(?:'[^']*'|[\w.]+|[\[{][^\]}]*[\]}])) (?=[a-z_]+=)", r"\1, ", "".join(parts))
    return several.replace("}, recipe={", ", ")


def _argument(option: re.Match[str]) -> str:
    name, value = option["name"], option["value"]
    argument = _ARGUMENTS.get(name, name.replace("-", "_"))
    if name in _FLAGS:
        return f"{argument}=True{f' {value}' if value else ''}"
    if value is None:
        return f"{argument[3:]}=False" if argument.startswith("no_") else argument
    value = shlex.split(value)[0] if value[0] in "'\"" else value
    key, equals, last = value.partition("=") if argument in _MAPPINGS else ("", "", value)
    key, last = (key, last) if equals else ("", value)
    literal = last if re.fullmatch(r"[\d.]+", last) else repr(last)
    if key:
        literal = f"{{{tuple(key.split(',')) if ',' in key else key!r}: {literal}}}"
    return f"{argument}=[{literal}]" if argument in _LISTS else f"{argument}={literal}"
