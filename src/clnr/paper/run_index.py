"""The runs that there are, by what they are of."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from clnr.errors import ClnrError
from clnr.experiments.results import Run, Summary
from clnr.experiments.run_cache import RunCache
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.paper.scope import Batch
from clnr.support import environment


@dataclass(frozen=True)
class Terms:
    """Which runs count: those of this code and release of torch, on any machine, unless said otherwise.

    Attributes:
        device: Only those of this one; ``auto`` for any.
        precision: Only those of this one; ``auto`` for any.
        older: Those of other versions of the code and of torch too.
    """

    device: str = "auto"
    precision: str = "auto"
    older: bool = False

    def admit(self, run: Run) -> bool:
        return (
            self.device in ("auto", run.device) and self.precision in ("auto", run.precision) and (self.older or _current(run))
        )


def _current(run: Run) -> bool:
    """Whether it was made by this code with this release of torch, however that was built."""
    mine, its = ((known["code"], known.get("torch", "").partition("+")[0]) for known in (environment.versions(), run.versions))
    return mine == its


class Place(NamedTuple):
    """Where a run was made, as far as its numbers and times depend on it."""

    machine: str
    precision: str

    def __str__(self) -> str:
        return f"{self.machine}, {self.precision}"


def place_of(run: Run) -> Place:
    return Place(run.machine, run.precision)


class Archive:
    """A record's runs that count, found by batch.

    Where there are several of one seed, those of this code and torch come first, then the latest.

    Args:
        record: Where runs are kept.
        terms: Which of them count.
        of: Only runs of this batch's method and data set are looked for, which is quicker.
    """

    def __init__(self, run_cache: RunCache, terms: Terms, of: Batch | None = None):
        self._record, self._terms = run_cache, terms
        self._only = (None, None) if of is None else (of.method.name, of.dataset)
        self._runs: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
        self._dates: dict[int, str] = {}
        self.read()

    def read(self) -> None:
        """Look into the record anew: others may have written."""
        self._runs.clear()
        self._dates.clear()
        counted = [(made, run) for made, run in self._record.runs(*self._only) if self._terms.admit(run)]
        for made, run in sorted(counted, key=lambda pair: _current(pair[1])):
            kind = _kind(run)
            if kind is not None:
                self._runs[kind].append(run)
                self._dates[id(run)] = made

    def at(self, place: Place) -> Archive:
        """The same with the runs of one place alone."""
        other = copy.copy(self)
        kept = {kind: [run for run in runs if place_of(run) == place] for kind, runs in self._runs.items()}
        other._runs = defaultdict(list, kept)
        return other

    def find(self, batch: Batch) -> Summary | None:
        """Its runs as far as there are any."""
        found = self.seeds(batch)
        return Summary.of(list(found.values())) if found else None

    def seeds(self, batch: Batch) -> dict[int, Run]:
        """Its runs by their seeds."""
        return {
            run.seed: run
            for run in self._runs[batch.kind]
            if run.seed < batch.seeds and batch.measures <= run.extra_metrics.keys()
        }

    def like(self, batch: Batch) -> list[Run]:
        """Runs of the same method on the same data set, whatever their recipe: to guess from."""
        return [run for kind, runs in self._runs.items() if kind[:2] == batch.kind[:2] for run in runs]

    def made(self, runs: Iterable[Run]) -> list[str]:
        """The days on which runs were made."""
        return sorted({self._dates[id(run)][:10] for run in runs})


def _kind(run: Run) -> tuple[Any, ...] | None:
    """What a run is of, as ``Batch.kind`` says it; None where no batch of today can be."""
    method = METHODS.get(run.method)
    if method is None:
        return None
    try:
        return Batch(method, run.dataset, Recipe.of(run.recipe), 1).kind
    except ClnrError:
        return None
