"""The recipes that ship with the package, by data set and method, with their sources and published results."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any, NamedTuple

from clnr.methods.recipe import KEYS, SPECS, Recipe

ANY = "any"


class Published(NamedTuple):
    """A result as its paper prints it, in percent."""

    accuracy: float
    spread: float
    source: str


class Shelved(NamedTuple):
    """A recipe from the shelf: which row it is, where each number comes from, and the published result if any."""

    recipe: Recipe
    row: str | None
    sources: dict[str, str]
    published: Published | None


def shelved(dataset: str | None, lineage: tuple[str, ...]) -> Shelved:
    """The shipped recipe of a data set, or of any where that is None, for a method: its name followed by its ancestors'.

    A method has its parent's numbers but for those that its own rows name: first its row for any data set, then that for this
    one. So nCLNR uses CLNR's (that is the paper's ablation), and GRACE says only in what it differs.
    """
    values: dict[str, Any] = {}
    sources = {name: SPECS[name].metadata["source"] for name in KEYS}
    row = None
    for name in reversed(lineage):
        for shelf in (_shelf(ANY), _shelf(dataset)):
            own = dict(shelf.get(name, {}))
            source, special = own.pop("source", "default"), own.pop("sources", {})
            own.pop("published", None)
            values |= own
            sources |= dict.fromkeys(own, source) | special
            row = name if own else row
    published = _shelf(dataset).get(lineage[0], {}).get("published")
    return Shelved(Recipe.of(values), row, sources, None if published is None else Published(**published))


@functools.cache
def _shelf(dataset: str | None) -> dict[str, dict[str, Any]]:
    if dataset is None:
        return {}
    file = resources.files("clnr.methods") / "recipes" / f"{dataset}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
