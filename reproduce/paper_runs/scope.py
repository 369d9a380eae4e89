"""Batches of runs, and how much of the paper to reproduce."""

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

# Methods whose runs take tens of seconds come last, the slowest with fewer seeds.
_SLOW_METHOD_SEEDS = {
    **dict.fromkeys(("DGI", "GAT", "GAE", "VGAE", "MVGRL", "MVGRL-plain", "dCLNR"), SEEDS),
    **dict.fromkeys(("BGRL", "GRACE-all"), 10),
}

# CLNR and GRACE are so close on CS that 20 seeds do not tell them apart (claim 1).
_CLOSE_PAIR_SEEDS = {("CLNR", "cs"): 120, ("GRACE", "cs"): 120}

_QUICK_SETS = ("cora", "citeseer")
_QUICK_SEEDS = 2
_QUICK_RECIPE_LIMITS = {"epochs": 5, "probe_steps": 300}


@dataclass(frozen=True)
class Batch:
    """Runs of one method on one data set that differ in their seed alone: 0, 1, 2 ...

    ``extra_metrics`` must have been computed besides the usual ones.
    """

    method: Method
    dataset: str
    recipe: Recipe
    seeds: int
    extra_metrics: frozenset[str] = frozenset()

    @property
    def timed(self) -> bool:
        """Whether each run must be made alone, on an otherwise idle machine."""
        return "time" in self.extra_metrics

    @property
    def changed(self) -> list[str]:
        """What differs from the preset recipe, as ``key=value``."""
        usual = preset(self.method, self.dataset).recipe
        values = {key: getattr(self.recipe, key) for key in self.method.keys}
        return [f"{key}={value}" for key, value in values.items() if value != getattr(usual, key)]

    @property
    def slow(self) -> bool:
        return self.method.name in _SLOW_METHOD_SEEDS

    @property
    def kind(self) -> tuple[Any, ...]:
        """What identifies its runs besides the seed: method, data set, and the recipe keys that the method uses."""
        return (self.method.name, self.dataset, *(getattr(self.recipe, key) for key in self.method.keys))


@dataclass(frozen=True)
class Scope:
    """How much of the paper to reproduce: these data sets and methods, this number of seeds; None means as in the paper.

    ``quick`` is a check: small data sets, two seeds and few epochs.
    """

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    quick: bool = False

    @classmethod
    def of(cls, datasets: str | None, names: str | None, seeds: int | None, quick: bool) -> Scope:
        """From command-line options; names are separated by commas."""
        if seeds is not None and seeds < 1:
            raise ClnrError(f"--seeds must be at least 1, not {seeds}")
        chosen = None if datasets is None else tuple(find_dataset(name).name for name in _words("--datasets", datasets))
        only = None if names is None else tuple(methods.find(name).name for name in _words("--methods", names))
        return cls(chosen, only, seeds, quick)

    def sets(self, usual: Iterable[str]) -> list[str]:
        """The selected data sets: those among the usual ones first, then others asked for by name."""
        usual = tuple(usual)
        if self.datasets is not None:
            return [*(name for name in usual if name in self.datasets), *(name for name in self.datasets if name not in usual)]
        return [name for name in usual if name in _QUICK_SETS] if self.quick else list(usual)

    def among(self, sets: Iterable[str]) -> list[str]:
        """The selected ones of some data sets, and no others."""
        return [name for name in sets if name in self.sets(SETS)]

    def lineup(self, usual: Iterable[Method]) -> list[Method]:
        return [method for method in usual if self.methods is None or method.name in self.methods]

    def some(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """All values of a hyper-parameter, or the first and the last if quick."""
        return (values[0], values[-1]) if self.quick else values

    def batch(
        self, method: Method, dataset: str, seeds: int | None = None, extra_metrics: Iterable[str] = (), **changes: Any
    ) -> Batch:
        """A batch with the preset recipe and some changes; of a slow method, with fewer seeds than asked for."""
        recipe = preset(method, dataset).recipe.but(**changes)
        asked = seeds or _CLOSE_PAIR_SEEDS.get((method.name, dataset), SEEDS)
        few = min(asked, _SLOW_METHOD_SEEDS.get(method.name, asked))
        if self.quick:
            recipe = recipe.but(**{key: min(getattr(recipe, key), most) for key, most in _QUICK_RECIPE_LIMITS.items()})
            few = min(few, _QUICK_SEEDS)
        return Batch(method, dataset, recipe, self.seeds or few, frozenset(extra_metrics))

    @property
    def words(self) -> str:
        """The command-line options for this scope."""
        parts = [
            ("--quick", self.quick),
            (f"--seeds {self.seeds}", self.seeds),
            (f"--datasets {','.join(self.datasets or ())}", self.datasets),
            (f"--methods {','.join(self.methods or ())}", self.methods),
        ]
        return "".join(f" {word}" for word, given in parts if given)

    @property
    def cautions(self) -> list[str]:
        """A warning to readers of quick results."""
        most = " and ".join(f"{value:,} {key.replace('_', ' ')}" for key, value in _QUICK_RECIPE_LIMITS.items())
        return [f"A quick check, with at most {most}: not comparable with any result."] if self.quick else []


def _words(option: str, given: str) -> list[str]:
    words = given.replace(",", " ").split()
    if not words:
        raise ClnrError(f"{option} needs a name, or several separated by commas")
    return list(dict.fromkeys(words))
