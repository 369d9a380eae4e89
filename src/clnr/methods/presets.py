"""The recipes that ship with the package, by data set and method, with their sources and published results."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any, NamedTuple

from clnr.datasets import DATASETS
from clnr.methods.recipe import Recipe, recipe_keys
from clnr.methods.registry import Method

ANY_DATASET = "any"


class Published(NamedTuple):
    """A result as its paper prints it, in percent."""

    accuracy: float
    spread: float
    source: str


class RecipePreset(NamedTuple):
    """A shipped recipe: whose row it is, where each value comes from, and the published result if any."""

    recipe: Recipe
    row: str | None
    sources: dict[str, str]
    published: Published | None


def preset(method: Method, dataset: str | None) -> RecipePreset:
    """The shipped recipe for a method on a data set, or on any graph where that is None or not of the catalogue.

    A method inherits its parent's values except for those in its own rows: first its row for any data set, then its row for
    this one. So nCLNR uses CLNR's recipe (the paper's ablation), and GRACE names only what differs.
    """
    values: dict[str, Any] = {}
    sources = {name: each.source for name, each in recipe_keys(method).items()}
    row = None
    for name in reversed(method.ancestry):
        for rows in (_presets(ANY_DATASET), _presets(dataset)):
            assigned = dict(rows.get(name, {}))
            source, special = assigned.pop("source", "default"), assigned.pop("sources", {})
            assigned.pop("published", None)
            values |= assigned
            sources |= dict.fromkeys(assigned, source) | special
            row = name if assigned else row
    published = _presets(dataset).get(method.name, {}).get("published")
    return RecipePreset(Recipe.of(values, method), row, sources, None if published is None else Published(**published))


@functools.cache
def _presets(dataset: str | None) -> dict[str, dict[str, Any]]:
    if dataset != ANY_DATASET and dataset not in DATASETS:
        return {}
    file = resources.files("clnr.methods") / "recipes" / f"{dataset}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
