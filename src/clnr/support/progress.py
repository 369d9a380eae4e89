"""Progress on standard error, so that standard output holds only results; in Python, by the logger ``clnr``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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

    def __init__(
        self,
        progress: Progress | None,
        quiet: bool,
        print_line: Callable[[str], None] | None = None,
    ):
        self._progress = progress
        self._quiet = quiet
        self._print_line = print_line
        self._files: dict[str, Any] = {}
        self._stage: Any = None

    def note(self, text: str) -> None:
        if self._quiet:
            return
        line = shorten(text, _LINE_CHARACTERS)
        if self._print_line is None:
            err.print(line, style="dim", soft_wrap=True)
        else:
            self._print_line(line)

    def fetched(self, name: str, have: int, total: int | None) -> None:
        if self._progress is None:
            if self._files.setdefault(name, NowAndThen()).due():
                self.note(f"download {name}: {gigabytes(have)}{'' if total is None else f' of {gigabytes(total)}'}")
            return
        if name not in self._files:
            self._files[name] = self._progress.add_task(f"download {name}", total=total, note="")
        self._progress.update(self._files[name], completed=have, total=total)

    def log(self, text: str) -> None:
        """A line, if there is no bar."""
        if self._progress is None:
            self.note(text)

    def show_stage(self, name: str | None) -> None:
        """Show the name of the stage that runs, if any, unless a bar shows something already."""
        progress = self._progress
        if progress is None:
            return
        if self._stage is not None:
            progress.remove_task(self._stage)
        self._stage = None if name is None or progress.tasks else progress.add_task(name, total=None, note="")

    @contextmanager
    def training(self, what: str, epochs: int) -> Iterator[Any]:
        progress = self._progress
        if progress is None:
            yield None if self._quiet else _epoch_lines(self.note, what, epochs)
            return
        self.show_stage(None)
        task = progress.add_task(what, total=epochs or None, note="" if epochs else "evaluating")

        def on_epoch(done: int, loss: float) -> None:
            progress.update(task, completed=done, note=f"loss {loss:.3f}" if done < epochs else "evaluating")

        try:
            yield on_epoch
        finally:
            progress.remove_task(task)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Bar]:
    """A progress bar on a terminal; in a log, lines instead."""
    if quiet or not err.is_interactive:
        yield Bar(None, quiet)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True
    ) as progress:
        yield Bar(progress, quiet)


@contextmanager
def log_progress(verbose: bool) -> Iterator[Bar | None]:
    """Progress as messages of the logger ``clnr``, of level INFO; None if nobody listens.

    With ``verbose``, they are shown also where no logging is set up; afterwards it is as before.
    """
    level, handler = logger.level, None
    if verbose and not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    if verbose and not logger.hasHandlers():
        logger.addHandler(handler := logging.StreamHandler())
    try:
        yield Bar(None, False, logger.info) if logger.isEnabledFor(logging.INFO) else None
    finally:
        logger.setLevel(level)
        if handler is not None:
            logger.removeHandler(handler)


def _epoch_lines(print_line: Callable[[str], None], what: str, epochs: int) -> Callable[[int, float], None]:
    """Tells the epoch, the loss and the time that is left, now and then."""
    time = NowAndThen()
    first: tuple[int, float] | None = None

    def on_epoch(done: int, loss: float) -> None:
        nonlocal first
        first = first or (done, monotonic())
        if done < epochs and time.due():
            more, seconds = done - first[0], monotonic() - first[1]
            rest = duration((epochs - done) * seconds / more) if more else ""
            left = f", {'' if rest.startswith('under') else 'about '}{rest} left" if more else ""
            print_line(f"{what}: epoch {done:,} of {epochs:,}, loss {loss:.3f}{left}")

    return on_epoch
