"""A plan: facts of a graph, chosen hyper-parameters, and what the stages of its job cost."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from clnr.embedding.defaults import Choice
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.calibration import corrected
from clnr.engine.cpu.threads import usable_threads
from clnr.experiments.cost import FIXED_SECONDS, Size, Work, sent
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.structure import STEPS
from clnr.support.humanize import duration
from clnr.support.machine import environment

_SHOWN_SECONDS = 0.5


class StageCost(NamedTuple):
    """What a stage takes.

    Memory is the peak of each worker, 0 if other stages take more in any case; disk is the most at a time. Each worker reads
    ``step_bytes`` from files in a step; ``passes`` read all edges, and gather rows of ``passes_bytes``.
    """

    memory: float = 0.0
    disk: float = 0.0
    step_bytes: float = 0.0
    passes: int = 0
    passes_bytes: float = 0.0


class PassColumns(NamedTuple):
    """Columns of rows that walks, the encoder's layers and the read-out make.

    Attributes:
        passes: How often all edges are read, for walks and the read-out.
        gathered: Columns that are gathered for each edge, in all passes.
        widest: Columns that a pass gathers, at most.
        kept: Columns of all nodes that are on disk, at most.
        fitted: Columns of the nodes that the read-out is fitted to.
    """

    passes: int = 0
    gathered: int = 0
    widest: int = 0
    kept: int = 0
    fitted: int = 0

    @classmethod
    def of(cls, settings: Settings, model: Model, recipe: Recipe, features: int) -> PassColumns:
        products = [] if model.readout is None else model.readout.products({}, model.encoder.num_outputs)
        sources = [product.source for _, product in products]
        inputs = {part.walk_columns for part in model.inputs} - {0}
        walks = inputs | {source.walk_columns for source in sources if source.walk_columns}
        encoded = model.encoder.width(features) * model.encoder.num_outputs
        # How often the encoder's rows are propagated, and the features; and the sum of all, at last.
        hops = [
            max((product.hops for _, product in products if not product.source.walk_columns and wanted(product)), default=0)
            for wanted in (lambda each: each.source.encoder is not None, lambda each: each.source.encoder is None)
        ]
        widths = encoded, features
        graphs = 2 if settings.hold_out else 1
        steps, last = max(STEPS), max(hops) if products else 0
        passes = graphs * steps * len(walks) + sum(hops) + last
        per_edge = graphs * steps * sum(walks) + sum(map(operator.mul, hops, widths)) + last * recipe.dimension
        of_products = [width for width, hop in zip(widths, hops, strict=True) if hop]
        widest = max([*walks, *of_products, recipe.dimension if last else 0], default=0)
        # What is on disk at a time: two of a walk's steps; layers, and the rows of the last one; with a read-out, the encoder's
        # rows beside two propagated matrices, or beside sums and vectors. Walks stay, the inputs' also without held-out edges.
        layers = min(2, recipe.layers - 1) * recipe.hidden if "layers" in settings.method.keys else 0
        stages = [2 * max(walks, default=0), layers + encoded]
        again = (graphs - 1) * len(STEPS) * sum(inputs)
        of_whole = again + max(*stages, encoded + 2 * recipe.dimension if products else 0)
        kept = len(STEPS) * sum(walks) + max(of_whole, encoded + 2 * max(of_products, default=0) if products else 0)
        fitted = sum((hop + 1) * width for hop, width in zip(hops, widths, strict=True)) if products else 0
        fitted += len(STEPS) * sum(each.walk_columns for each in sources)
        return cls(passes, per_edge, widest, kept, fitted)


@dataclass(frozen=True)
class JobSizes(ABC):
    """What the cost of a job's stages depends on: the sizes of a graph in memory, or of one in files."""

    settings: Settings
    recipe: Recipe
    workers: int
    local_workers: int

    @property
    @abstractmethod
    def size(self) -> Size:
        """Of the graph."""

    @abstractmethod
    def seconds(self) -> dict[str, float]:
        """Of each stage that takes time, by its name: from counts, at typical rates."""

    @property
    def machine(self) -> str:
        """What the times of stages depend on besides these sizes."""
        shared = f", {self.workers} workers" if self.workers > 1 else ""
        return f"{environment.describe(self.settings.engine.device)}{shared}"

    def took(self, *works: Work) -> float:
        """Seconds of some work on the engine."""
        engine = self.settings.engine
        return Work.sum(Work(), *works).seconds(engine.device.type, engine.threads or usable_threads())

    def with_fixed(self, seconds: dict[str, float]) -> dict[str, float]:
        """Seconds of stages, with what each takes at least; without those that have nothing to do."""
        fixed = FIXED_SECONDS[self.settings.engine.device.type]
        return {stage: value + fixed[stage] for stage, value in seconds.items() if value}

    @abstractmethod
    def train(self) -> StageCost: ...

    def fit_readout(self) -> StageCost:
        return StageCost()

    def embed(self) -> StageCost:
        return StageCost()


class HasCost(Protocol):
    """A stage, as a plan sees it."""

    def cost(self, sizes: JobSizes) -> StageCost: ...


@dataclass(frozen=True, repr=False)
class Plan(ABC):
    """What is known before a job runs; ``print`` shows it in lines.

    Facts are values by name, and counts the same as numbers; choices follow from the graph.
    """

    stages: ClassVar[Sequence[HasCost]]

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

    @cached_property
    def modelled(self) -> dict[str, float]:
        """Seconds of each stage by its name, from counts alone."""
        return self.sizes.seconds()

    @cached_property
    def _estimate(self) -> tuple[dict[str, float], bool]:
        return corrected(self.sizes.machine, self.modelled)

    @property
    def estimate(self) -> dict[str, float]:
        """Estimated seconds of each stage by its name: as long as this machine took before, where that is known."""
        return self._estimate[0]

    def seconds(self, *stages: str) -> float:
        """Estimated seconds of some stages, or of all."""
        return sum(seconds for stage, seconds in self.estimate.items() if not stages or stage in stages)

    @property
    def _estimate_words(self) -> str:
        how = "estimate by earlier runs on this machine" if self._estimate[1] else "rough estimate"
        parts = [f"{stage} {duration(seconds)}" for stage, seconds in self.estimate.items() if seconds >= _SHOWN_SECONDS]
        listed = f" ({', '.join(parts)})" if len(parts) > 1 else ""
        return f"{how}: {duration(self.seconds())}{listed}"

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
