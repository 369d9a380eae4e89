"""Kills at every moment that matters: a process that can change nothing any more from some call on, as after kill -9."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clnr.support import storage

CALLS = ("fsync", "rename", "replace", "unlink", "mkdir", "rmdir")


class Killed(BaseException):
    """Nothing catches it, and whatever still tries to clean up fails as well."""


@contextmanager
def killed(monkeypatch, at: int, exchange: Callable | None = None) -> Iterator[list[str]]:
    """Let ``at`` calls pass that change something on disk, and none after; yields the names of those that passed."""
    passed: list[str] = []

    def mortal(name, call):
        def checked(*args, **more):
            if len(passed) == at:
                raise Killed
            passed.append(name)
            return call(*args, **more)

        return checked

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, mortal(name, getattr(os, name)))
        patch.setattr(storage, "_exchange", mortal("exchange", exchange or storage._exchange))
        yield passed
