"""The command line that was given, and the same with other values, for messages that say what to run instead."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

_given: Sequence[str] = ()


@contextmanager
def given(words: Sequence[str]) -> Iterator[None]:
    """These are the words after ``clnr``, as long as it lasts."""
    global _given
    before, _given = _given, words
    try:
        yield
    finally:
        _given = before


def with_values(values: Mapping[str, str]) -> str | None:
    """The command with other values of some options, as it is typed; None if there is no command, but a call in Python."""
    if not _given:
        return None
    words, option = [], ""
    for word in _given:
        name, equals, _ = word.partition("=")
        if option:
            words.append(values[option])
        else:
            words.append(f"{name}={values[name]}" if equals and name in values else word)
        option = word if not option and word in values else ""
    return shlex.join(["clnr", *words])
