"""A plan: facts of a graph, chosen hyper-parameters, and what the stages of its job cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from clnr.embedding.defaults import Choice
from clnr.embedding.fit_settings import Settings
from clnr.experiments.cost import Size, sent
from clnr.methods.recipe import Recipe

if TYPE_CHECKING:
    from clnr.embedding.stages.stages import Stage


class StageCost(NamedTuple):
    """What a stage takes.

    Attributes:
        seconds: Estimated seconds; 0 where they are not known, or next to nothing.
        memory: Estimated peak of memory in bytes, of each worker; 0 if other stages take more in any case.
        disk: Bytes on disk, at most.
        step_bytes: Bytes that each worker reads from files in a step.
        passes: How often all edges are read from files.
        passes_bytes: Bytes of rows that these passes gather.
    """

    seconds: float = 0.0
    memory: float = 0.0
    disk: float = 0.0
    step_bytes: float = 0.0
    passes: int = 0
    passes_bytes: float = 0.0


@dataclass(frozen=True)
class JobSizes(ABC):
    """What the cost of a job's stages depends on: the sizes of a graph in memory, or of one in files.

    Attributes:
        settings: How to train.
        recipe: All hyper-parameters.
        workers: How many processes share it.
        local_workers: How many of them are on this machine.
    """

    settings: Settings
    recipe: Recipe
    workers: int
    local_workers: int

    @property
    @abstractmethod
    def size(self) -> Size:
        """Of the graph."""

    @abstractmethod
    def train(self) -> StageCost: ...

    def tune(self) -> StageCost:
        return StageCost()

    def fit_readout(self) -> StageCost:
        return StageCost()

    def embed(self) -> StageCost:
        return StageCost()

    def score(self) -> StageCost:
        return StageCost()

    def draw(self) -> StageCost:
        return StageCost()


@dataclass(frozen=True, repr=False)
class Plan(ABC):
    """What is known before a job runs; ``print`` shows it in lines.

    Attributes:
        sizes: What the job's costs follow from.
        facts: Of the graph: values by name.
        counts: The facts as numbers.
        choices: Hyper-parameters that follow from the graph, with their reasons.
    """

    stages: ClassVar[Sequence[Stage]]

    sizes: JobSizes
    facts: dict[str, str]
    counts: dict[str, Any]
    choices: tuple[Choice, ...]

    @cached_property
    def costs(self) -> dict[str, StageCost]:
        """What each stage of the job costs, by its name."""
        return {type(stage).__name__: stage.cost(self.sizes) for stage in self.stages}

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
    def sent_per_step(self) -> float:
        """Estimated bytes that each of several workers sends to others in a step."""
        sizes = self.sizes
        return sent(sizes.settings.method, sizes.recipe, sizes.size, sizes.workers) if sizes.workers > 1 else 0.0

    @property
    @abstractmethod
    def lines(self) -> list[str]:
        """All of it, a line each."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _choice_lines(self) -> list[str]:
        return [f"- {choice.key}={choice.value}: {choice.reason}" for choice in self.choices]
