"""What is wanted: batches of runs, and how much of the paper they are to cover."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clnr import methods
from clnr.datasets import find as find_dataset
from clnr.errors import ClnrError
from clnr.methods import Method
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe

SETS = ("cora", "citeseer", "pubmed", "computers", "photo", "cs", "physics", "ogbn-arxiv")
SEEDS = 20

# Methods whose runs take minutes where others take seconds come last, and with at most so many seeds.
_SLOW = {
    methods.DGI.name: 20,
    methods.SUPERVISED_GAT.name: 20,
    **{
        method.name: 5
        for method in (
            *(methods.GAE, methods.VGAE, methods.MVGRL, methods.MVGRL_PLAIN),
            *(methods.BGRL, methods.GRACE_ALL, methods.DCLNR),
        )
    },
}

_QUICK_SETS = ("cora", "citeseer")
_QUICK_SEEDS = 2
_QUICK = {"epochs": 5, "probe_steps": 300}


@dataclass(frozen=True)
class Batch:
    """Runs of one method on one data set that differ in their seed alone.

    Attributes:
        method: Of these.
        dataset: By name.
        recipe: All numbers.
        seeds: 0, 1, 2 ..., this many.
        measures: What must have been measured beside the usual.
    """

    method: Method
    dataset: str
    recipe: Recipe
    seeds: int
    measures: frozenset[str] = frozenset()

    @property
    def timed(self) -> bool:
        """Whether each is to be made by itself, on an otherwise idle machine."""
        return "time" in self.measures

    @property
    def changed(self) -> list[str]:
        """What its recipe has otherwise than the shelf's, as ``key=value``."""
        usual = preset(self.method, self.dataset).recipe
        values = {key: getattr(self.recipe, key) for key in self.method.keys}
        return [f"{key}={value}" for key, value in values.items() if value != getattr(usual, key)]

    @property
    def slow(self) -> bool:
        return self.method.name in _SLOW

    @property
    def kind(self) -> tuple[Any, ...]:
        """What its runs are of, the seed aside: keys that the method has no use for do not count."""
        return (self.method.name, self.dataset, *(getattr(self.recipe, key) for key in self.method.keys))


@dataclass(frozen=True)
class Scope:
    """How much of the paper: None where it is as the paper has it.

    Attributes:
        datasets: Only these.
        methods: Only these.
        seeds: This many in every batch.
        quick: Small sets, two seeds and few epochs, to see that all works.
    """

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    quick: bool = False

    @classmethod
    def of(cls, datasets: str | None, names: str | None, seeds: int | None, quick: bool) -> Scope:
        """From a command's words; names have commas between."""
        if seeds is not None and seeds < 1:
            raise ClnrError(f"--seeds must be at least 1, not {seeds}")
        chosen = None if datasets is None else tuple(find_dataset(name).name for name in _words("--datasets", datasets))
        only = None if names is None else tuple(methods.find(name).name for name in _words("--methods", names))
        return cls(chosen, only, seeds, quick)

    def sets(self, usual: Iterable[str]) -> list[str]:
        """Of the usual data sets those that are wanted; what is asked for by name and is not usual comes after."""
        usual = tuple(usual)
        if self.datasets is not None:
            return [*(name for name in usual if name in self.datasets), *(name for name in self.datasets if name not in usual)]
        return [name for name in usual if name in _QUICK_SETS] if self.quick else list(usual)

    def among(self, sets: Iterable[str]) -> list[str]:
        """Of some data sets those that are wanted, and no others."""
        return [name for name in sets if name in self.sets(SETS)]

    def lineup(self, usual: Iterable[Method]) -> list[Method]:
        return [method for method in usual if self.methods is None or method.name in self.methods]

    def some(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of several values of one number all, or where it is to be quick the first and the last."""
        return (values[0], values[-1]) if self.quick else values

    def batch(
        self,
        method: Method,
        dataset: str,
        seeds: int = SEEDS,
        measures: Iterable[str] = (),
        **changes: Any,
    ) -> Batch:
        """A batch with the shelf's recipe but for some changes."""
        recipe = preset(method, dataset).recipe.but(**changes)
        few = min(seeds, _SLOW.get(method.name, seeds))
        if self.quick:
            recipe = recipe.but(**{key: min(getattr(recipe, key), most) for key, most in _QUICK.items()})
            few = min(few, _QUICK_SEEDS)
        return Batch(method, dataset, recipe, self.seeds or few, frozenset(measures))

    @property
    def words(self) -> str:
        """The options of a command that asks for this."""
        parts = [
            ("--quick", self.quick),
            (f"--seeds {self.seeds}", self.seeds),
            (f"--datasets {','.join(self.datasets or ())}", self.datasets),
            (f"--methods {','.join(self.methods or ())}", self.methods),
        ]
        return "".join(f" {word}" for word, given in parts if given)

    @property
    def caution(self) -> str | None:
        """What a reader must know about a quick one."""
        if not self.quick:
            return None
        most = " and ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in _QUICK.items())
        return f"Quick, to see that all works: {most} at most. Compare nothing with this."


def _words(option: str, given: str) -> list[str]:
    words = given.replace(",", " ").split()
    if not words:
        raise ClnrError(f"{option} needs a name, or several with commas between")
    return list(dict.fromkeys(words))
