"""Every error that clnr raises on purpose, under one base class, and the one way to say "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from clnr.support.humanize import one_line, shorten

_LONGEST = 1000
_NAME = 80


class ClnrError(Exception):
    """Base of all errors of this package; its message is one line fit for a person, whatever it repeats."""

    def __str__(self) -> str:
        return one_line(super().__str__(), _LONGEST)


class UnknownName(ClnrError):
    """A method, data set, recipe key or choice that does not exist."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]):
        self.choices = tuple(choices)
        known = {choice.casefold(): choice for choice in self.choices}
        said = shorten(str(name), _NAME)
        near = get_close_matches(said.casefold(), known, n=1, cutoff=0.5)
        hint = f"did you mean '{known[near[0]]}'? " if near else ""
        super().__init__(f"unknown {kind} '{said}'; {hint}known: {', '.join(self.choices)}")


class RecipeError(ClnrError):
    """A recipe's value that is of the wrong type or out of range, or a recipe file that cannot be read."""


class MethodError(ClnrError):
    """A method's declaration that cannot work."""


class DataError(ClnrError):
    """Data that is missing, damaged, or not what it claims to be."""


class DeviceError(ClnrError):
    """A device that was asked for and is not there."""


class TrainingError(ClnrError):
    """Training that cannot go on, such as a loss that is not finite."""


class OutOfMemory(TrainingError):
    """Memory that does not suffice."""


class RunCacheError(ClnrError):
    """The run cache cannot be read or written."""
