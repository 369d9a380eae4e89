"""The errors of clnr, with one base class, and the one place that says "did you mean", by Python's own difflib."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from clnr.support.humanize import one_line, shorten, show

_MESSAGE_CHARACTERS = 1000
_NAME_CHARACTERS = 80
# How alike two names are that are mistaken for each other, from 0 to 1: 'fast' and 'best' have 0.5.
_SIMILARITY = 0.62


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
