"""Stops an embedding of a graph in files where it writes, or notes what it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from clnr.embedding import workspace
from clnr.embedding.rows import vectors

WRITES: dict[str, tuple[Any, str]] = {
    "rows": (workspace._Writer, "write"),
    "vectors": (vectors, "write_shard"),
}
"""What writes rows of a block, and what writes vectors of a block."""


@contextmanager
def calls(what: str, before: Callable[[int], None] = lambda number: None) -> Iterator[list[tuple[Any, ...]]]:
    """The arguments of all calls of one of ``WRITES``; ``before`` is called with the number of each, from 1 on."""
    owner, name = WRITES[what]
    method, seen = getattr(owner, name), []

    def noted(*arguments):
        seen.append(arguments)
        before(len(seen))
        return method(*arguments)

    with mock.patch.object(owner, name, noted):
        yield seen


@contextmanager
def stopped(what: str, number: int, error: BaseException | None = None) -> Iterator[list[tuple[Any, ...]]]:
    """The same, of what ends with an error at the call of this number."""
    error = error or KeyboardInterrupt()

    def stop(called):
        if called == number:
            raise error

    with calls(what, stop) as seen, pytest.raises(type(error)):
        yield seen
