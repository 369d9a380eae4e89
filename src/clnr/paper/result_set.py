"""What tables and figures are filled from: runs that were found, and reasons where there are none."""

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
from clnr.paper.run_index import Archive, place_of
from clnr.paper.scope import Batch
from clnr.paper.table_format import NO_DATA, NOT_RUN
from clnr.support.humanize import plural


@dataclass(frozen=True)
class Holdings:
    """Runs by batch, and why some are not there.

    Attributes:
        archive: The runs.
        data_root: Where data is looked for first.
        fetch: How data that is not there is downloaded, if not as usual.
        without: Data sets that cannot be had, with the reason.
        failures: What went wrong with batches that were tried, by their kind.
    """

    archive: Archive
    data_root: Path | None = None
    fetch: Fetch | None = None
    without: dict[str, str] = field(default_factory=dict)
    failures: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def find(self, batch: Batch) -> Summary | str:
        """Its runs, or in two words why there are none."""
        found = self.archive.find(batch)
        if found is not None:
            return found
        if batch.kind in self.failures:
            return "failed"
        return NO_DATA if batch.dataset in self.without else NOT_RUN

    def in_one_place(self, batches: Iterable[Batch]) -> Holdings:
        """The same with the runs of one machine and precision alone, that which made most of some batches: what is compared
        with each other is to be alike in that.
        """
        places = Counter(place_of(run) for run in self.runs(batches))
        return dataclasses.replace(self, archive=self.archive.at(places.most_common(1)[0][0])) if places else self

    def load(self, dataset: str) -> Graph | None:
        """The data, if it can be had; why not is noted."""
        try:
            return None if dataset in self.without else datasets.load(dataset, self.data_root, self.fetch)
        except DataError as error:
            self.without[dataset] = str(error)
            return None

    def runs(self, batches: Iterable[Batch]) -> list[Run]:
        """All runs of some batches, each once."""
        found = {id(run): run for batch in batches for run in self.archive.seeds(batch).values()}
        return list(found.values())

    def provenance(self, command: str, batches: Iterable[Batch]) -> str:
        """Under every table and figure: the command, seeds, machine, versions and duration."""
        runs = self.runs(batches)
        if not runs:
            return f"Made by `{command}`."
        first, last = min(run.seed for run in runs), max(run.seed for run in runs)
        seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
        places = sorted({str(place_of(run)) for run in runs})
        versions = sorted({_versions(run) for run in runs})
        days = self.archive.made(runs)
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        seconds = sum(run.seconds for run in runs)
        return (
            f"Made by `{command}` from {plural(len(runs), 'run')}, {seeds}; {'; '.join(places)}; "
            f"{'; '.join(versions)}; {when}; the runs took {seconds:,.0f} s of that machine's time."
        )


def _versions(run: Run) -> str:
    clnr, torch, python = (run.versions.get(name, "unknown") for name in ("clnr", "torch", "python"))
    return f"clnr {clnr} (code {run.versions['code']}), torch {torch}, Python {python}"


def title_of(dataset: str) -> str:
    """A data set as the paper writes it."""
    return DATASETS[dataset].title


def accuracy(found: Summary | str, protocol: str, usual: int | None = None) -> str:
    """Mean and spread of an accuracy, the number of seeds where it is not the usual one; or why there is none."""
    if isinstance(found, str):
        return found
    values, count = found.accuracy(protocol), len(found.runs)
    text = f"{values['mean']:.2f}" + (f" ± {values['std']:.2f}" if count > 1 else "")
    return text if usual is None or count == usual else f"{text} ({count})"


def mean(found: Summary | str, protocol: str = "strict") -> float | None:
    return None if isinstance(found, str) else found.mean(protocol)
