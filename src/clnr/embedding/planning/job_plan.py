"""A plan: facts of a graph, chosen hyper-parameters, and what the stages of its job cost."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

from clnr.embedding.defaults import Choice
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.calibration import corrected
from clnr.embedding.planning.graph_facts import facts_line, summary
from clnr.embedding.stages.stored_readout import direct_hops
from clnr.engine.cpu.threads import usable_threads
from clnr.errors import spoken
from clnr.experiments.cost import FIXED_SECONDS, Size, Work, sent
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.readout_blocks import Product, Source
from clnr.nn.structure import STEPS
from clnr.support.humanize import duration, plural
from clnr.support.machine import environment

_SHOWN_SECONDS = 0.5


class PassColumns(NamedTuple):
    """Columns of rows that walks, the encoder's layers and the read-out make.

    Attributes:
        passes: How often all edges are read for walks, and for a read-out and the encoder's rows that it takes.
        gathered: Columns that are gathered for each edge, in all passes.
        widest: Columns that are gathered at a time.
        made: Columns of all nodes that are on disk, at most, until the read-out is fitted.
        written: The same while vectors are written.
        fitted: Columns of the nodes that the read-out is fitted to.
        compared: Columns of the nodes that decide the weight of edges.
    """

    passes: int = 0
    gathered: int = 0
    widest: int = 0
    made: int = 0
    written: int = 0
    fitted: int = 0
    compared: int = 0

    @classmethod
    def of(cls, settings: Settings, model: Model, recipe: Recipe, features: int) -> PassColumns:
        graphs, last = 2 if settings.hold_out else 1, max(STEPS)
        inputs = sum({part.walk_columns for part in model.inputs})
        depth = recipe.layers if "layers" in settings.method.keys else int(model.readout is not None)
        # A layer propagates the fewer of its inputs and its outputs.
        widths = [features, *[recipe.hidden] * (depth - 1), model.encoder.width(features)]
        layers = [min(pair) for pair in itertools.pairwise(widths)][:depth]
        encoded = model.encoder.width(features) * model.encoder.num_outputs
        # Of a walk, two steps are on disk beside those that are kept.
        walks = graphs * (len(STEPS) + 1) * inputs
        stored = graphs * len(STEPS) * inputs
        if model.readout is None:
            written = stored + _side_by_side([*layers, encoded])
            return cls(last * bool(inputs), graphs * last * inputs, inputs, walks, written)
        products = [product for _, product in model.readout.products({}, model.encoder.num_outputs)]
        alone = sum({each.source.walk_columns for each in products} - {part.walk_columns for part in model.inputs})
        direct = direct_hops(products)
        encoder = _Source.of([each for each in products if each.source.encoder is not None], encoded, graphs, direct)
        own = _Source.of([each for each in products if each.source == Source()], features, graphs, direct)
        sums = max(0, *(each.hops - direct for each in products))
        # Rows of the graph without held-out edges, then those of the whole one, beside walks over both; the last step of walks
        # that are the read-out's alone comes with the vectors.
        encoding = graphs * len(layers) if encoded else 0
        beside = 0 if inputs or not alone else last - 1
        passes = last * bool(inputs) + max(beside, encoding + encoder.passes, own.passes) + max(sums, bool(alone))
        gathered = graphs * last * inputs + (graphs * (last - 1) + 1) * alone + sums * recipe.dimension
        gathered += encoder.gathered + own.gathered + (graphs * sum(layers) if encoded else 0)
        propagated = [each.width for each in (encoder, own) if each.passes or sums]
        widest = max(inputs, alone, *propagated, recipe.dimension if sums else 0)
        walks += (len(STEPS) + 1 + 2 * (graphs - 1)) * alone
        stored += len(STEPS) * alone
        sources = max(_side_by_side([*layers, encoded]), encoded + encoder.made) + own.made
        made = max(walks, stored + sources) if inputs else walks + sources
        written = stored + encoded + direct * (encoder.width + own.width) + recipe.dimension * (2 if sums else 1)
        fitted = encoder.fitted + own.fitted + len(STEPS) * sum(each.source.walk_columns for each in products)
        return cls(passes, gathered, widest, made, written, fitted, encoded if model.encoder.own_outputs else 0)


def _side_by_side(widths: list[int]) -> int:
    """Columns on disk of rows that are made one after the other, each from those before."""
    return max((first + second for first, second in itertools.pairwise(widths)), default=sum(widths))


class _Source(NamedTuple):
    """Passes over rows of the encoder or of the features; columns as in ``PassColumns``, besides the rows that are propagated.

    ``width`` is 0 if nothing is propagated.
    """

    width: int = 0
    passes: int = 0
    gathered: int = 0
    made: int = 0
    fitted: int = 0

    @classmethod
    def of(cls, products: list[Product], width: int, graphs: int, direct: int) -> _Source:
        if not products:
            return cls()
        hops = max(each.hops for each in products)
        # The last ones are those of a sample alone.
        full, kept = max(hops - 1, 0), direct * bool(hops)
        passes = full + kept if graphs > 1 else max(full, kept)
        fitted = len({each.hops for each in products}) * width
        # Rows before and after a propagation; before the first one, only the encoder's, as they are, have a file already.
        copied = any(each.source.encoder is None or each.source.unit for each in products)
        files = min(2, copied + max(full, kept)) * bool(hops)
        return cls(width * bool(hops), passes, passes * width, files * width, fitted)


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

    def with_recipe(self, recipe: Recipe) -> Self:
        """The same with other hyper-parameters."""
        return replace(self, recipe=recipe)

    @abstractmethod
    def seconds(self) -> dict[str, float]:
        """Estimated seconds of each stage that takes time, by name, from counts and typical rates."""

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

    @property
    @abstractmethod
    def memory(self) -> float:
        """Estimated peak of memory in bytes, of each worker; the first takes more for the read-out, while others wait."""


@dataclass(frozen=True, repr=False)
class Plan(ABC):
    """What is known before a job runs; ``print`` shows its ``lines``.

    Facts are values by name, and counts the same as numbers; choices follow from the graph.
    """

    sizes: JobSizes
    facts: dict[str, str]
    counts: dict[str, Any]
    choices: tuple[Choice, ...]

    @property
    def memory(self) -> float:
        """Estimated peak of memory in bytes, of each worker."""
        return self.sizes.memory

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
        how = "estimated from earlier runs on this machine" if self._estimate[1] else "a rough estimate"
        parts = [f"{stage} {duration(seconds)}" for stage, seconds in self.estimate.items() if seconds >= _SHOWN_SECONDS]
        listed = f" ({', '.join(parts)})" if len(parts) > 1 else ""
        return f"time: {duration(self.seconds())}, {how}{listed}; {self._bytes_words}"

    @property
    def sent_per_step(self) -> float:
        """Estimated bytes that each of several workers sends to others in a step."""
        sizes = self.sizes
        return sent(sizes.settings.method, sizes.recipe, sizes.size, sizes.workers) if sizes.workers > 1 else 0.0

    @property
    def lines(self) -> list[str]:
        """What was read, what will be done, and what that takes: a line each, with bullets below."""
        groups = (
            (f"read: {summary(self.counts)}", self.read),
            (f"plan: {self._method_words}", [*(str(each) for each in self.choices if each.matters), *self.notes]),
            (self._estimate_words, self.takes),
        )
        return [spoken(line) for heading, more in groups for line in (heading, *(f"- {each}" for each in more))]

    @property
    def details(self) -> list[str]:
        """All counts of the graph, and every hyper-parameter that was chosen for it, a line each."""
        return [facts_line(self.facts), *(f"- {each}" for each in self.choices if not each.matters)]

    @property
    def read(self) -> Sequence[str]:
        """How tables were read, and odd things in them."""
        return ()

    @property
    def notes(self) -> Sequence[str]:
        """What else to know of what will be done."""
        return ()

    @property
    def takes(self) -> Sequence[str]:
        """What else it takes."""
        return ()

    @property
    def _method_words(self) -> str:
        method, recipe = self.sizes.settings.method, self.sizes.recipe
        width = f", {recipe.dimension} dimensions" if "dimension" in method.keys else ""
        return f"{method.name}{width}, {'no training' if method.objective is None else plural(recipe.epochs, 'epoch')}"

    @property
    @abstractmethod
    def _bytes_words(self) -> str:
        """What memory and disk it takes."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""

    def __repr__(self) -> str:
        return "\n".join(self.lines)
