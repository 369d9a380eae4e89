"""A plan: what was read, what will be done, and how much memory that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clnr.embedding.defaults import Choice
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.graph_facts import summary
from clnr.methods.recipe import Recipe
from clnr.support.humanize import gigabytes, plural

SMALL_BYTES = 2.5e8
"""A graph that takes no more beside Python and torch is small: no setting would change much, and it is never refused."""


@dataclass(frozen=True, repr=False)
class Plan:
    """What is known before a job runs; ``print`` shows its ``lines``.

    Attributes:
        settings: How the job is done.
        recipe: All hyper-parameters.
        workers: How many processes share the training.
        memory: Estimated peak of memory in bytes, of all processes on this machine.
        counts: Facts of the graph as numbers, by name.
        choices: The hyper-parameters that follow from the graph.
        notes: What else to know of what will be done, a line each.
    """

    settings: Settings
    recipe: Recipe
    workers: int
    memory: float
    counts: dict[str, Any]
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """What was read, what will be done, and the memory that it takes: a line each, with bullets below."""
        groups = (
            (f"read: {summary(self.counts)}", self.read),
            (f"plan: {self._method_words}", (*(str(each) for each in self.choices if each.matters), *self.notes)),
            (f"memory: about {gigabytes(self.memory)}", self.memory_notes),
        )
        return [line for heading, more in groups for line in (heading, *(f"- {each}" for each in more))]

    @property
    def read(self) -> tuple[str, ...]:
        """How tables were read, and odd things in them."""
        return ()

    @property
    def memory_notes(self) -> tuple[str, ...]:
        """What else to know of the memory."""
        return ()

    @property
    def _method_words(self) -> str:
        method, recipe = self.settings.method, self.recipe
        width = f", {recipe.dimension} dimensions" if "dimension" in method.keys else ""
        shared = f", {self.workers} workers" if self.workers > 1 else ""
        trained = "no training" if method.objective is None else plural(recipe.epochs, "epoch")
        return f"{method.name}{width}, {trained}{shared}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --dry-run --json`` prints them."""
        return {
            "graph": self.counts,
            "choices": [choice._asdict() for choice in self.choices],
            "notes": list(self.notes),
            "memory_bytes": self.memory,
            "workers": self.workers,
            "from_files": False,
        }

    def __repr__(self) -> str:
        return "\n".join(self.lines)
