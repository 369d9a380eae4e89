"""The runs behind tables and figures, or the reason why some are missing."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clnr import datasets
from clnr.datasets import DATASETS
from clnr.datasets.download import Fetch
from clnr.errors import DataError
from clnr.experiments.results import Run, Summary
from clnr.graph import Graph
from clnr.paper.paper_runs.run_index import RunIndex, platform_of
from clnr.paper.paper_runs.scope import Batch
from clnr.paper.table_format import NO_DATA, NOT_RUN
from clnr.support.humanize import plural


@dataclass(frozen=True)
class ResultSet:
    """Runs by batch, and why some are missing.

    Attributes:
        run_index: The runs.
        data_root: Folder with raw data, looked into first.
        fetch: How to download missing data, if not as usual.
        without: Data sets that are not available, with the reason.
        failures: Errors of batches that failed, by ``Batch.kind``.
    """

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
        platforms = Counter(platform_of(run) for run in self.runs(batches))
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
        platforms = sorted({str(platform_of(run)) for run in runs})
        codes: dict[tuple[str, ...], set[str]] = {}
        for run in runs:
            codes.setdefault(_versions(run), set()).add(run.versions["code"])
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


def _versions(run: Run) -> tuple[str, ...]:
    return tuple(run.versions.get(name, "unknown") for name in ("clnr", "torch", "python"))


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


def mean(summary: Summary | str, protocol: str = "strict") -> float | None:
    return None if isinstance(summary, str) else summary.mean(protocol)
