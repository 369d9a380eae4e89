"""The runs behind tables and figures: found by method, data set and recipe, or the reason why some are missing."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from clnr import datasets
from clnr.datasets import DATASETS
from clnr.datasets.download import Fetch
from clnr.errors import ClnrError, DataError
from clnr.experiments.results import Run, Summary
from clnr.graph import Graph
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.support.humanize import plural
from clnr.support.machine import environment
from reproduce.paper_runs.scope import Batch

NO_DATA = "no data"
NOT_RUN = "not run"


@dataclass(frozen=True)
class RunFilter:
    """Which runs are used: by default those of this code and release of torch, on any device (``auto``)."""

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


def _platform(run: Run) -> str:
    """The hardware and precision of a run, on which its results and times depend."""
    return f"{run.machine}, {run.precision}"


class RunSource(Protocol):
    """Where runs come from: a run cache, or files."""

    def runs(self, method: str | None = None, dataset: str | None = None) -> list[tuple[str, Run]]:
        """Runs with the time when each was made, oldest first, all or those of a method and a data set."""


class RunIndex:
    """The runs of a run cache, or of files, that pass a filter, looked up by batch.

    Of several runs of one seed, those of this code and torch are preferred, then the latest. With ``of``, only runs of this
    batch's method and data set are read, which is faster.
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
        matching = [(date, run) for date, run in self._source.runs(*self._only) if self._run_filter.matches(run)]
        for date, run in sorted(matching, key=lambda pair: _current(pair[1])):
            kind = _kind(run)
            if kind is not None:
                self._runs[kind].append(run)
                self._dates[id(run)] = date

    def on(self, platform: str) -> RunIndex:
        """The same index with the runs of one platform only."""
        other = copy.copy(self)
        kept = {kind: [run for run in runs if _platform(run) == platform] for kind, runs in self._runs.items()}
        other._runs = defaultdict(list, kept)
        return other

    def find(self, batch: Batch) -> Summary | None:
        runs = self.seeds(batch)
        return Summary.of(list(runs.values())) if runs else None

    def seeds(self, batch: Batch) -> dict[int, Run]:
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


@dataclass(frozen=True)
class ResultSet:
    """Runs by batch, and why some are missing: data sets that are not available, and errors by ``Batch.kind``."""

    run_index: RunIndex
    data_root: Path | None = None
    fetch: Fetch | None = None
    without: dict[str, str] = field(default_factory=dict)
    failures: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def find(self, batch: Batch) -> Summary | str:
        """The runs of a batch, or in two words why there are none."""
        summary = self.run_index.find(batch)
        if summary is not None:
            return summary
        if batch.kind in self.failures:
            return "failed"
        return NO_DATA if batch.dataset in self.without else NOT_RUN

    def on_one_platform(self, batches: Iterable[Batch]) -> ResultSet:
        """The same with runs of one machine and precision only: the one with most runs of these batches.

        Only such runs are compared with each other.
        """
        platforms = Counter(map(_platform, self.runs(batches)))
        return dataclasses.replace(self, run_index=self.run_index.on(platforms.most_common(1)[0][0])) if platforms else self

    def load(self, dataset: str) -> Graph | None:
        """The data, if available; the reason is noted if not."""
        try:
            return None if dataset in self.without else datasets.load(dataset, self.data_root, self.fetch)
        except DataError as error:
            self.without[dataset] = str(error)
            return None

    def runs(self, batches: Iterable[Batch]) -> list[Run]:
        """All runs of some batches, each one once."""
        by_identity = {id(run): run for batch in batches for run in self.run_index.seeds(batch).values()}
        return self.run_index.sort(by_identity.values())

    def provenance(self, command: str, batches: Iterable[Batch]) -> str:
        """Under every table and figure: the command, seeds, machine, versions and duration."""
        runs = self.runs(batches)
        if not runs:
            return f"Made by `{command}`."
        first, last = min(run.seed for run in runs), max(run.seed for run in runs)
        seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
        platforms = sorted(set(map(_platform, runs)))
        codes: dict[tuple[str, ...], set[str]] = {}
        for run in runs:
            known = tuple(run.versions.get(name, "unknown") for name in ("clnr", "torch", "python"))
            codes.setdefault(known, set()).add(run.versions["code"])
        versions = [
            f"clnr {clnr} (code {', '.join(sorted(digests))}), torch {torch}, Python {python}"
            for (clnr, torch, python), digests in sorted(codes.items())
        ]
        days = sorted({self.run_index.day(run) for run in runs})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        seconds = sum(run.seconds for run in runs)
        return (
            f"Made by `{command}` from {plural(len(runs), 'run')}, {seeds}; {'; '.join(platforms)}; "
            f"{'; '.join(versions)}; {when}; the runs took {seconds:,.0f} s of that machine's time."
        )


def title_of(dataset: str) -> str:
    """The name of a data set as in the paper."""
    return DATASETS[dataset].title


def accuracy(summary: Summary | str, protocol: str, usual: int | None = None) -> str:
    """Mean and standard deviation, and the number of seeds if it is not the usual one; or why there is no value."""
    if isinstance(summary, str):
        return summary
    values, count = summary.accuracy(protocol), len(summary.runs)
    text = f"{values['mean']:.2f}" + (f" ± {values['std']:.2f}" if count > 1 else "")
    return text if usual is None or count == usual else f"{text} ({count})"
