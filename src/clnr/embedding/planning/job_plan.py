"""A plan: facts of a graph, chosen hyper-parameters, and what the stages of its job cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clnr.embedding.defaults import Choice
from clnr.embedding.planning.stage_cost import JobSizes, StageCost
from clnr.embedding.stages.stages import all_stages


@dataclass(frozen=True)
class Plan(ABC):
    """What is known before a job runs; ``print`` shows it in lines.

    Attributes:
        facts: Of the graph: values by name.
        counts: The facts as numbers.
        choices: Hyper-parameters that follow from the graph, with their reasons.
        costs: What each stage of the job costs, by its name.
        workers: How many processes share it.
        sent_per_step: Estimated bytes that each of them sends to others in a step.
    """

    facts: dict[str, str]
    counts: dict[str, Any]
    choices: tuple[Choice, ...]
    costs: Mapping[str, StageCost]
    workers: int
    sent_per_step: float

    @property
    def memory(self) -> float:
        """Estimated peak of memory in bytes, of each worker; the first takes more for the read-out, while others wait."""
        return max(cost.memory for cost in self.costs.values())

    @property
    def disk(self) -> float:
        """Bytes on disk, at most."""
        return max(cost.disk for cost in self.costs.values())

    def seconds(self, *names: str) -> float:
        """Estimated seconds of some stages."""
        return sum(self.costs[name].seconds for name in names)

    @property
    @abstractmethod
    def lines(self) -> list[str]:
        """All of it, a line each."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _choice_lines(self) -> list[str]:
        return [f"- {choice.key}={choice.value}: {choice.reason}" for choice in self.choices]


def costs_of(sizes: JobSizes) -> dict[str, StageCost]:
    """What each stage of a job costs, by its name."""
    return {type(stage).__name__: stage.cost(sizes) for stage in all_stages()}
