"""Methods compared on the same seeds and splits, with significance tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clnr.evaluation import holm, wilcoxon
from clnr.experiments.results import Summary


class Difference(NamedTuple):
    """Strict accuracy of a method minus that of the first: the mean over seeds, and p-values before and after correction."""

    mean: float
    p: float
    corrected: float


@dataclass(frozen=True)
class Comparison:
    """Summaries of several methods; ``differences`` of all others from the first, in the same order."""

    summaries: tuple[Summary, ...]
    differences: tuple[Difference, ...]

    @classmethod
    def of(cls, summaries: Sequence[Summary]) -> Comparison:
        """Compare each method with the first by Wilcoxon's signed-rank test, with Holm's correction for their number."""
        first, *others = ([run.strict for run in summary.runs] for summary in summaries)
        differences = [[b - a for a, b in zip(first, other, strict=True)] for other in others]
        p = [wilcoxon(each) for each in differences]
        means = [sum(each) / len(each) for each in differences]
        return cls(tuple(summaries), tuple(map(Difference, means, p, holm(p))))

    def to_dict(self) -> dict[str, Any]:
        """What ``clnr compare --json`` prints."""
        tests: list[dict[str, float] | None] = [None, *(each._asdict() for each in self.differences)]
        return {
            "first": self.summaries[0].runs[0].method,
            "methods": [summary.to_dict() | {"difference": test} for summary, test in zip(self.summaries, tests, strict=True)],
        }
