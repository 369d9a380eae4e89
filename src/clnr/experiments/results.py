"""The result of one run, and the summary of several."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from clnr.errors import ClnrError
from clnr.support.arguments import check_choice, check_list


@dataclass(frozen=True)
class Run:
    """One training and its evaluation. Accuracies in percent; ``paper`` is the authors' optimistic rule.

    ``epochs`` counts the epochs trained, fewer than in the recipe after early stopping; ``epoch_ms`` is None if there were
    none. ``validation`` is the accuracy by which ``strict`` chose its step; ``seconds`` includes everything but loading data.
    ``parallel_seeds`` is how many seeds were trained in parallel: times are then the share of this one, and the peak of memory
    is that of all. ``threads`` is how many threads of the CPU trained, on which the last bits of a result depend: None on a
    GPU.
    """

    method: str
    dataset: str
    seed: int
    strict: float
    paper: float
    validation: float
    alignment: float
    uniformity: float
    effective_rank: float
    epochs: int
    train_seconds: float
    epoch_ms: float | None
    parallel_seeds: int
    peak_memory_bytes: int
    device: str
    engine: str
    precision: str
    content: str
    recipe: dict[str, Any]
    versions: dict[str, str]
    machine: str
    seconds: float
    threads: int | None = None


_ACCURACY_FIELDS = ("strict", "paper", "validation")
_NUMBER_FIELDS = tuple(each.name for each in fields(Run) if each.type in ("int", "float"))


@dataclass(frozen=True)
class Summary:
    """Several runs that differ only in their seed.

    Accuracies are lists by seed with mean and population standard deviation; ``epoch_ms`` is the median, the peak of memory
    the maximum, and all else the mean over seeds.
    """

    runs: tuple[Run, ...]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Summary:
        checked = check_list("runs", runs, Run, "a Run")
        if not checked:
            raise ClnrError("runs must hold at least one run, and is empty")
        return cls(tuple(sorted(checked, key=lambda run: run.seed)))

    def mean(self, metric: str) -> float:
        check_choice("metric", metric, _NUMBER_FIELDS)
        return statistics.fmean(getattr(run, metric) for run in self.runs)

    def accuracy(self, protocol: str) -> dict[str, Any]:
        check_choice("protocol", protocol, _ACCURACY_FIELDS)
        values = [getattr(run, protocol) for run in self.runs]
        return {"mean": statistics.fmean(values), "std": statistics.pstdev(values), "runs": values}

    @property
    def epoch_ms(self) -> float | None:
        times = [run.epoch_ms for run in self.runs if run.epoch_ms is not None]
        return statistics.median(times) if times else None

    @property
    def peak_memory_bytes(self) -> int:
        return max(run.peak_memory_bytes for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """What ``clnr run --json`` prints."""
        first = self.runs[0]
        return {
            "method": first.method,
            "dataset": first.dataset,
            "seeds": len(self.runs),
            "strict": self.accuracy("strict"),
            "paper": self.accuracy("paper"),
            **{name: self.mean(name) for name in ("alignment", "uniformity", "effective_rank", "epochs", "train_seconds")},
            "epoch_ms": self.epoch_ms,
            "parallel_seeds": max(run.parallel_seeds for run in self.runs),
            "peak_memory_bytes": self.peak_memory_bytes,
            "device": first.device,
            "precision": first.precision,
            "threads": first.threads,
            "machine": first.machine,
            "recipe": first.recipe,
            "versions": first.versions,
        }


def without_nan(value: Any) -> Any:
    """For JSON, which has neither NaN nor infinity: None instead, however deep in lists and dictionaries."""
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
