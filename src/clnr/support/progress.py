"""Progress on standard error, so that standard output holds only results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from clnr.support.console import Console
from clnr.support.humanize import shorten

_LONGEST = 1000
err = Console(stderr=True)


class Bar:
    """Progress bars and notes on standard error; silent if ``quiet``."""

    def __init__(self, progress: Progress | None, quiet: bool):
        self._progress = progress
        self._quiet = quiet
        self._files: dict[str, Any] = {}

    def note(self, text: str) -> None:
        if not self._quiet:
            err.print(shorten(text, _LONGEST), style="dim", soft_wrap=True)

    def fetched(self, name: str, have: int, total: int | None) -> None:
        if self._progress is None:
            return
        if name not in self._files:
            self._files[name] = self._progress.add_task(f"download {name}", total=total, note="")
        self._progress.update(self._files[name], completed=have, total=total)

    def log(self, text: str) -> None:
        """A line, if there is no bar."""
        if self._progress is None:
            self.note(text)

    @contextmanager
    def counting(self, total: int) -> Iterator[Callable[[int, str], None]]:
        """One bar for many runs: call what is yielded with the number of runs that ended and a note."""
        progress = self._progress
        if progress is None:
            yield lambda more, note: None
            return
        task = progress.add_task("runs", total=total, note="")
        yield lambda more, note: progress.update(task, advance=more, note=note)

    @contextmanager
    def training(self, what: str, epochs: int) -> Iterator[Any]:
        progress = self._progress
        if progress is None:
            yield None
            return
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


class Tenths:
    """Says how far a piece of work is, at each tenth of it.

    Args:
        say: Called with a line.
        what: Names the work.
        total: All there is to do.
    """

    def __init__(self, say: Callable[[str], None], what: str, total: int):
        self._say, self._what, self._total = say, what, max(1, total)
        self._shown = -1

    def done(self, count: int) -> None:
        """So much of it is done."""
        if (percent := 100 * count // self._total) // 10 > self._shown // 10:
            self._say(f"{self._what}: {percent} %")
            self._shown = percent
