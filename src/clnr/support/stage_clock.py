"""The seconds that each stage of a run takes: of ``with stage("train"):``, within a ``with StageClock()`` of this thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

process_began: float | None = None
"""When the command line began, before its imports; None in a process of another program."""
STAGES = (
    *("import", "read", "plan", "prepare", "train", "fit the read-out", "embed", "score", "baselines"),
    *("take the best", "draw", "write"),
)
"""The stages of ``clnr embed``, in their order."""


class StageClock:
    """Adds up the ``seconds`` of each stage; one within another takes over. ``show`` is called with what runs, or None.

    On a GPU that is given as the device, a stage ends when the GPU has done its work.
    """

    def __init__(self, device: torch.device | None = None, show: Callable[[str | None], None] = lambda name: None):
        self._device, self._show, self._began = device, show, perf_counter()
        self._running: str | None = None
        self.is_whole = False
        imported = 0.0 if process_began is None else self._began - process_began
        self.seconds = dict.fromkeys(STAGES, 0.0) | {"import": imported}

    def switch(self, name: str | None) -> str | None:
        """Let another stage run, or none; returns the one that ran."""
        if self._device is not None and self._device.type == "cuda":
            import torch

            # What starting the GPU takes belongs to the stage that first uses it.
            if torch.cuda.is_initialized():
                torch.cuda.synchronize(self._device)
        before, now = self._running, perf_counter()
        if before is not None:
            self.seconds[before] += now - self._began
        self._running, self._began = name, now
        self._show(name)
        return before

    def __enter__(self) -> StageClock:
        self._token = _in_use.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _in_use.reset(self._token)


_in_use: ContextVar[StageClock | None] = ContextVar("clock", default=None)


@contextmanager
def stage(name: str, whole: bool = False) -> Iterator[None]:
    """A stage of the run in this block. If it is ``whole``, stages within count as part of it."""
    clock = _in_use.get()
    if clock is None or clock.is_whole:
        yield
        return
    outer, clock.is_whole = clock.switch(name), whole
    try:
        yield
    finally:
        clock.is_whole = False
        clock.switch(outer)
