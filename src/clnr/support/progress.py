"""Progress on standard error, so that standard output holds only results; in Python, by the logger ``clnr``."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn, TimeRemainingColumn

from clnr.errors import shorten
from clnr.support.console import Console
from clnr.support.humanize import duration, gigabytes

_LINE_CHARACTERS = 1000
# Without a terminal: the seconds to the next line, and what share of the time so far they are at least.
_LINE_SECONDS = 10.0
_LINE_TIME_SHARE = 0.05
err = Console(stderr=True)
logger = logging.getLogger("clnr")


class NowAndThen:
    """Whether it is time for another line in a log: after ten seconds, and ever more rarely in a long work."""

    def __init__(self) -> None:
        self.began = self._last = monotonic()

    def due(self) -> bool:
        now = monotonic()
        if now - self._last < max(_LINE_SECONDS, _LINE_TIME_SHARE * (now - self.began)):
            return False
        self._last = now
        return True


class Bar:
    """Progress bars and notes on standard error, or to ``print_line``. Without a terminal: no bars, but lines now and then."""

    def __init__(self, progress: Progress | None, quiet: bool, print_line: Callable[[str], None] | None = None):
        # Without a terminal it shows nothing, and only counts.
        self._progress = progress or Progress(disable=True, speed_estimate_period=math.inf, get_time=lambda: monotonic())
        self._quiet = quiet
        self._print_line = print_line or (lambda line: err.print(line, style="dim", soft_wrap=True))
        self._files: dict[str, tuple[TaskID, NowAndThen]] = {}
        self._stage: TaskID | None = None

    def note(self, text: str) -> None:
        if not self._quiet:
            self._print_line(shorten(text, _LINE_CHARACTERS))

    def log(self, text: str) -> None:
        """A line, if there is no bar."""
        if self._progress.disable:
            self.note(text)

    def fetched(self, name: str, have: int, total: int | None) -> None:
        if name not in self._files:
            self._files[name] = self._progress.add_task(f"download {name}", total=total, note=""), NowAndThen()
        task, pace = self._files[name]
        self._progress.update(task, completed=have, total=total)
        if pace.due():
            self.log(f"download {name}: {gigabytes(have)}{'' if total is None else f' of {gigabytes(total)}'}")

    def show_stage(self, name: str | None) -> None:
        """Show the name of the stage that runs, if any, unless a bar shows something already."""
        if self._stage is not None:
            self._progress.remove_task(self._stage)
        shown = name is not None and not self._progress.tasks
        self._stage = self._progress.add_task(str(name), total=None, note="") if shown else None

    @contextmanager
    def training(self, what: str, epochs: int) -> Iterator[Callable[[int, float], None] | None]:
        """Gives what to call with the number of epochs done and the loss; None where nobody sees it."""
        self.show_stage(None)
        number = self._progress.add_task(what, total=epochs or None, note="" if epochs else "evaluating")
        task, pace = self._progress.tasks[-1], NowAndThen()

        def on_epoch(done: int, loss: float) -> None:
            self._progress.update(number, completed=done, note=f"loss {loss:.3f}" if done < epochs else "evaluating")
            if done < epochs and pace.due():
                left = "" if task.time_remaining is None else f", {duration(task.time_remaining)} left"
                self.log(f"{what}: epoch {done:,} of {epochs:,}, loss {loss:.3f}{left}")

        try:
            yield None if self._quiet else on_epoch
        finally:
            self._progress.remove_task(number)


QUIET = Bar(None, quiet=True)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Bar]:
    """A progress bar on a terminal; in a log, lines instead."""
    columns = "{task.description}", BarColumn(), MofNCompleteColumn(), "{task.fields[note]}", TimeElapsedColumn()
    shown = Progress(*columns, TimeRemainingColumn(), console=err, transient=True)
    with shown if err.is_interactive and not quiet else nullcontext() as progress:
        yield Bar(progress, quiet)


@contextmanager
def log_progress(verbose: bool) -> Iterator[Bar]:
    """Progress as messages of the logger ``clnr``, of level INFO; quiet if nobody listens.

    With ``verbose``, they are shown also where no logging is set up; afterwards it is as before.
    """
    level, handler = logger.level, logging.StreamHandler()
    if verbose and not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    if verbose and not logger.hasHandlers():
        logger.addHandler(handler)
    try:
        yield Bar(None, not logger.isEnabledFor(logging.INFO), logger.info)
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
