"""Recipe: every number of a run, frozen and checked; and the shelf of recipes that ship with the package."""

from __future__ import annotations

import dataclasses
import functools
import json
import numbers
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, NamedTuple

from clnr.errors import RecipeError, UnknownName

_NOTES = "authors' runs"
_TEXT = "paper, section 3"


def _number(default: Any, low: float, high: float, meaning: str, source: str) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "meaning": meaning, "source": source})


def _choice(default: str, choices: tuple[str, ...], meaning: str, source: str) -> Any:
    return field(default=default, metadata={"choices": choices, "meaning": meaning, "source": source})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every number of a run. Parts of a method ask for these by name; see ``clnr show METHOD DATASET``."""

    encoder: str = _choice("gcn", ("gcn", "mlp"), "graph convolutions, or a perceptron that ignores edges", _TEXT)
    layers: int = _number(2, 1, 64, "layers of the encoder", _TEXT)
    hidden: int = _number(512, 1, 65536, "width between layers", _TEXT)
    dimension: int = _number(512, 1, 65536, "width of the embedding", _TEXT)
    epochs: int = _number(50, 0, 10**7, "training steps, each on two fresh views of the whole graph", "default")
    learning_rate: float = _number(1e-3, 1e-12, 10.0, "of Adam", "paper, hyper-parameters")
    weight_decay: float = _number(0.0, 0.0, 10.0, "of Adam (L2)", "paper, hyper-parameters")
    temperature: float = _number(0.5, 1e-3, 1e3, "of NT-Xent", "paper, hyper-parameters")
    sampled_nodes: int = _number(1024, 0, 2**31 - 1, "nodes in the loss, drawn afresh each epoch; 0 for all", "paper, table 2")
    edge_drop: float = _number(0.5, 0.0, 1.0, "chance that a view drops an edge", "default")
    drop: str = _choice("directions", ("directions", "pairs"), "drop each direction by itself, or both together", _NOTES)
    feature_mask: float = _number(0.2, 0.0, 1.0, "chance that a view masks a feature", "default")
    mask: str = _choice("columns", ("columns", "elements"), "mask a feature for all nodes, or for each by itself", _NOTES)
    probe_steps: int = _number(2000, 1, 10**6, "full-batch Adam steps of the linear probe", _NOTES)
    probe_learning_rate: float = _number(1e-2, 1e-12, 10.0, "of the linear probe", "default")
    probe_weight_decay: float = _number(1e-4, 0.0, 10.0, "of the linear probe (L2)", "default")

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            object.__setattr__(self, spec.name, _checked(spec, getattr(self, spec.name)))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Recipe:
        """A recipe from a mapping; an unknown key fails with the nearest valid name."""
        return cls().but(**values)

    def but(self, **values: Any) -> Recipe:
        """This recipe with some values changed."""
        for name in values:
            if name not in KEYS:
                raise UnknownName("recipe key", name, KEYS)
        return dataclasses.replace(self, **values)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.to_dict().items())

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """As TOML, one key a line; ``Recipe.from_toml`` reads it back equal."""
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.to_dict().items())

    @classmethod
    def from_toml(cls, text: str) -> Recipe:
        try:
            return cls.of(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise RecipeError(f"not a recipe in TOML: {error}") from None


KEYS = tuple(spec.name for spec in dataclasses.fields(Recipe))
SPECS = {spec.name: spec for spec in dataclasses.fields(Recipe)}


def _checked(spec: dataclasses.Field[Any], value: Any) -> Any:
    rule = spec.metadata
    if "choices" in rule:
        if value not in rule["choices"]:
            raise UnknownName(f"value of {spec.name}", value, rule["choices"])
        return value
    whole = isinstance(spec.default, int)
    right = isinstance(value, numbers.Integral if whole else numbers.Real)
    if not right or isinstance(value, bool):
        raise RecipeError(f"{spec.name} must be a {'whole ' if whole else ''}number, not {value!r}")
    if not rule["low"] <= value <= rule["high"]:
        raise RecipeError(f"{spec.name} must be from {rule['low']:g} to {rule['high']:g}, not {value!r}")
    return int(value) if whole else float(value)


def parse(assignments: list[str]) -> dict[str, Any]:
    """``key=value`` words, as of ``--set``, with each value read as its key's type."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise RecipeError(f"'{assignment}' is not of the form key=value")
        if name not in SPECS:
            raise UnknownName("recipe key", name, KEYS)
        kind: Any = type(SPECS[name].default)
        try:
            values[name] = kind(text)
        except ValueError:
            raise RecipeError(f"{name} must be a {'whole ' if kind is int else ''}number, not '{text}'") from None
    return values


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


def shelved(dataset: str, lineage: tuple[str, ...]) -> Shelved:
    """The shipped recipe of a data set for a method, given as its name followed by its ancestors'.

    A method without a row of its own uses that of the nearest ancestor that has one (nCLNR uses CLNR's: that is the
    paper's ablation). A data set without recipes gets the defaults.
    """
    rows = _shelf(dataset)
    row = next((name for name in lineage if name in rows), None)
    values = dict(rows[row]) if row is not None else {}
    source = values.pop("source", "default")
    special = values.pop("sources", {})
    values.pop("published", None)
    recipe = Recipe.of(values)
    sources = {name: special.get(name, source if name in values else SPECS[name].metadata["source"]) for name in KEYS}
    own = rows.get(lineage[0], {}).get("published")
    return Shelved(recipe, row, sources, None if own is None else Published(**own))


@functools.cache
def _shelf(dataset: str) -> dict[str, dict[str, Any]]:
    file = resources.files("clnr") / "recipes" / f"{dataset}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
