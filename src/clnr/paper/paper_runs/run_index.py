"""An index of the cached runs by method, data set and recipe."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from clnr.errors import ClnrError
from clnr.experiments.results import Run, Summary
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.paper.paper_runs.scope import Batch
from clnr.support.machine import environment


@dataclass(frozen=True)
class RunFilter:
    """Which runs are used: by default those of this code and release of torch, on any machine.

    Attributes:
        device: Only runs on this device; ``auto`` for any.
        precision: Only runs in this precision; ``auto`` for any.
        any_version: Also runs of other versions of the code and of torch.
    """

    device: str = "auto"
    precision: str = "auto"
    any_version: bool = False

    def matches(self, run: Run) -> bool:
        return (
            self.device in ("auto", run.device)
            and self.precision in ("auto", run.precision)
            and (self.any_version or _current(run))
        )


def _current(run: Run) -> bool:
    """Whether a run was made by this code with this release of torch, in any build of it."""
    mine, its = ((known["code"], known.get("torch", "").partition("+")[0]) for known in (environment.versions(), run.versions))
    return mine == its


class Platform(NamedTuple):
    """The hardware and precision of a run, on which its results and times depend."""

    machine: str
    precision: str

    def __str__(self) -> str:
        return f"{self.machine}, {self.precision}"


def platform_of(run: Run) -> Platform:
    return Platform(run.machine, run.precision)


class RunSource(Protocol):
    """Where runs come from: a run cache, or files."""

    def runs(self, method: str | None = None, dataset: str | None = None) -> list[tuple[str, Run]]:
        """Runs with the time when each was made, oldest first, all or those of a method and a data set."""
        ...


class RunIndex:
    """The runs of a run cache, or of files, that pass a filter, looked up by batch.

    Of several runs of one seed, those of this code and torch are preferred, then the latest.

    Args:
        source: Where runs are kept.
        run_filter: Which of them are used.
        of: Read only runs of this batch's method and data set, which is faster.
    """

    def __init__(self, source: RunSource, run_filter: RunFilter, of: Batch | None = None):
        self._source, self._run_filter = source, run_filter
        self._only = (None, None) if of is None else (of.method.name, of.dataset)
        self._runs: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
        self._dates: dict[int, str] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read all runs again: another process may have added some."""
        self._runs.clear()
        self._dates.clear()
        matching = [(made, run) for made, run in self._source.runs(*self._only) if self._run_filter.matches(run)]
        for made, run in sorted(matching, key=lambda pair: _current(pair[1])):
            kind = _kind(run)
            if kind is not None:
                self._runs[kind].append(run)
                self._dates[id(run)] = made

    def on(self, platform: Platform) -> RunIndex:
        """The same index with the runs of one platform only."""
        other = copy.copy(self)
        kept = {kind: [run for run in runs if platform_of(run) == platform] for kind, runs in self._runs.items()}
        other._runs = defaultdict(list, kept)
        return other

    def find(self, batch: Batch) -> Summary | None:
        """The runs of a batch, if there are any."""
        runs = self.seeds(batch)
        return Summary.of(list(runs.values())) if runs else None

    def seeds(self, batch: Batch) -> dict[int, Run]:
        """The runs of a batch by seed."""
        return {
            run.seed: run
            for run in self._runs[batch.kind]
            if run.seed < batch.seeds and batch.extra_metrics <= run.extra_metrics.keys()
        }

    def like(self, batch: Batch) -> list[Run]:
        """Runs of the same method on the same data set with any recipe: to estimate times from."""
        return [run for kind, runs in self._runs.items() if kind[:2] == batch.kind[:2] for run in runs]

    def sort(self, runs: Iterable[Run]) -> list[Run]:
        """Runs in their order here: of two of the same seed, the preferred one last."""
        place = {number: index for index, number in enumerate(self._dates)}
        return sorted(runs, key=lambda run: place[id(run)])

    def day(self, run: Run) -> str:
        """The day on which a run was made."""
        return self._dates[id(run)][:10]


def _kind(run: Run) -> tuple[Any, ...] | None:
    """The ``Batch.kind`` of a run; None if this version has no such method or recipe."""
    method = METHODS.get(run.method)
    if method is None:
        return None
    try:
        return Batch(method, run.dataset, Recipe.of(run.recipe), 1).kind
    except ClnrError:
        return None
