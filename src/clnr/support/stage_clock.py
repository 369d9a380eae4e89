"""The stages of a run: what each takes, in seconds and in memory at its peak.

Whoever runs has a ``StageClock`` in use; the code of a stage says ``with stage("train"):``, wherever it is. Without a clock
that does nothing, and so it does in another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any, NamedTuple

from clnr.support.lazy import torch
from clnr.support.machine.memory import MemoryMeter, lifetime_peak

process_began: float | None = None
"""When the command line began, before its imports; None in a process of another program."""
STAGES = (
    *("import", "read", "plan", "prepare", "train", "fit the read-out", "embed", "score", "baselines"),
    *("take the best", "draw", "write"),
)
"""The stages of ``clnr embed``, in their order."""
SLOW_SECONDS = 2.0
"""A stage that takes longer is shown while it runs."""
_LEAST_SECONDS = 0.01

SlowStage = Callable[[str], Callable[[], None]]
"""Shows that a stage runs; returns what ends that."""


class StageTime(NamedTuple):
    """What a stage took: seconds, and the peak of resident memory and of the GPU's; 0 where that was not measured."""

    stage: str
    seconds: float
    peak_bytes: int = 0
    device_peak_bytes: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value or name != "device_peak_bytes"}

    def plus(self, seconds: float, peak: int, device_peak: int) -> StageTime:
        peaks = max(self.peak_bytes, peak), max(self.device_peak_bytes, device_peak)
        return StageTime(self.stage, self.seconds + seconds, *peaks)


class StageClock:
    """Adds up what the stages of a run take. At each moment one stage runs: within another, it takes over.

    With a device, peaks of memory are measured, and a stage on a GPU ends when that has done its work. On Linux the peak that
    the system counts for the process then begins anew with each stage.
    """

    def __init__(
        self,
        device: torch.device | None = None,
        on_slow: SlowStage | None = None,
        now: Callable[[], float] = perf_counter,
        after: Callable[[float, Callable[[], None]], Any] = threading.Timer,
    ):
        self._device, self._on_slow, self._now, self._after = device, on_slow, now, after
        self._times: dict[str, StageTime] = {}
        self._running: str | None = None
        self._whole, self._began = False, now()
        self._meters: list[MemoryMeter] = []
        self._timer: Any = None
        self._shown: set[str] = set()
        self._end_shown: Callable[[], None] | None = None
        self._lock = threading.Lock()

    @property
    def stages(self) -> list[StageTime]:
        """What each stage took so far, without those that had next to nothing to do."""
        return [self._times[name] for name in STAGES if name in self._times and self._times[name].seconds >= _LEAST_SECONDS]

    @classmethod
    def of_process(cls, device: torch.device | None, on_slow: SlowStage) -> StageClock:
        """The clock of a command, which has imported what it needs."""
        clock = cls(device, on_slow)
        seconds = 0.0 if process_began is None else clock._now() - process_began
        clock._times["import"] = StageTime("import", seconds, 0 if device is None else lifetime_peak())
        return clock

    @contextmanager
    def stage(self, name: str, whole: bool = False) -> Iterator[None]:
        """A stage runs in this block. If it is ``whole``, stages within count as part of it."""
        if self._whole:
            yield
            return
        outer = self._running
        self._switch(name)
        self._whole = whole
        try:
            yield
        finally:
            self._whole = False
            self._switch(outer)

    def _switch(self, name: str | None) -> None:
        if self._has_gpu:
            torch.cuda.synchronize(self._device)
        now = self._now()
        if self._running is not None:
            peak, device_peak = [*(meter.peak() for meter in self._meters), 0, 0][:2]
            before = self._times.get(self._running, StageTime(self._running, 0.0))
            self._times[self._running] = before.plus(now - self._began, peak, device_peak)
        self._running, self._began = name, now
        if name is not None and self._device is not None:
            self._meters = [MemoryMeter(each) for each in (torch.device("cpu"), self._device)[: 1 + self._has_gpu]]
        if self._on_slow is not None:
            self._watch(name)

    @property
    def _has_gpu(self) -> bool:
        """Whether a GPU is measured, and the stage that first uses it has begun: what that takes is that stage's."""
        return self._device is not None and self._device.type == "cuda" and torch.cuda.is_initialized()

    # -- what is shown of a slow stage ----------------------------------------------------------------------------------

    def _watch(self, name: str | None) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._end_shown is not None:
                self._end_shown()
            self._timer = self._end_shown = None
            if name is None or name in self._shown:
                return
            timer = self._after(SLOW_SECONDS, lambda: self._show(name, timer))
            self._timer, timer.daemon = timer, True
            timer.start()

    def _show(self, name: str, timer: Any) -> None:
        with self._lock:
            # It may have been cancelled too late.
            if timer is self._timer and self._on_slow is not None:
                self._shown.add(name)
                self._end_shown = self._on_slow(name)


_IN_USE: ContextVar[StageClock | None] = ContextVar("clock", default=None)


@contextmanager
def use_clock(clock: StageClock) -> Iterator[StageClock]:
    """In this block the clock measures stages, unless an outer block has one: then that one."""
    if (outer := _IN_USE.get()) is not None:
        yield outer
        return
    token = _IN_USE.set(clock)
    try:
        yield clock
    finally:
        _IN_USE.reset(token)


@contextmanager
def stage(name: str, whole: bool = False) -> Iterator[None]:
    """A stage of the run in this block, as ``StageClock.stage``; nothing where no clock is in use."""
    clock = _IN_USE.get()
    if clock is None:
        yield
        return
    with clock.stage(name, whole):
        yield
