"""Recipe: every hyper-parameter of a run, frozen and checked."""

from __future__ import annotations

import dataclasses
import json
import numbers
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clnr.errors import RecipeError
from clnr.support.arguments import check_choice, check_int, check_type

_NOTES = "authors' runs"
_TEXT = "paper, section 3"
_GCA = "GCA's authors"


def _number(default: Any, low: float, high: float, meaning: str, source: str) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "meaning": meaning, "source": source})


def _choice(default: str, choices: tuple[str, ...], meaning: str, source: str) -> Any:
    return field(default=default, metadata={"choices": choices, "meaning": meaning, "source": source})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every number of a run. Parts of a method ask for these by name; see ``clnr recipe METHOD DATASET``."""

    encoder: str = _choice("gcn", ("gcn", "mlp"), "graph convolutions, or a perceptron that ignores edges", _TEXT)
    layers: int = _number(2, 1, 64, "layers of the encoder", _TEXT)
    hidden: int = _number(512, 1, 65536, "width between layers", _TEXT)
    dimension: int = _number(512, 1, 65536, "width of the embedding", _TEXT)
    epochs: int = _number(50, 0, 10**7, "training steps, each on fresh views of the whole graph", "default")
    learning_rate: float = _number(1e-3, 1e-12, 10.0, "of Adam", "paper, hyper-parameters")
    warmup: float = _number(0.0, 0.0, 1.0, "share of the epochs in which the learning rate rises from 0", "default")
    schedule: str = _choice("constant", ("constant", "cosine"), "the learning rate after that: stays, or falls to 0", "default")
    weight_decay: float = _number(0.0, 0.0, 10.0, "of Adam", "paper, hyper-parameters")
    decay: str = _choice("l2", ("l2", "decoupled"), "weight decay in the gradient, or apart from it (AdamW)", "default")
    patience: int = _number(0, 0, 10**7, "epochs without a new best after which training stops; 0 for never", "default")
    temperature: float = _number(0.5, 1e-3, 1e3, "of NT-Xent", "paper, hyper-parameters")
    sampled_nodes: int = _number(1024, 0, 2**31 - 1, "nodes in the loss, drawn afresh each epoch; 0 for all", "paper, table 2")
    edge_drop: float = _number(0.5, 0.0, 1.0, "chance that a view drops an edge", "default")
    edge_drop_2: float | None = _number(None, 0.0, 1.0, "the same in the second view, if not none", "default")
    edge_noise: float = _number(0.0, 0.0, 100.0, "random edges trained with but not embedded, per edge there is", "default")
    drop: str = _choice("directions", ("directions", "pairs"), "drop each direction by itself, or both together", _NOTES)
    feature_mask: float = _number(0.2, 0.0, 1.0, "chance that a view masks a feature", "default")
    feature_mask_2: float | None = _number(None, 0.0, 1.0, "the same in the second view, if not none", "default")
    mask: str = _choice("columns", ("columns", "elements"), "mask a feature for all nodes, or for each by itself", _NOTES)
    centrality: str = _choice("degree", ("degree", "pagerank", "eigenvector"), "by which views spare what is central", _GCA)
    head_width: int = _number(0, 0, 65536, "width inside a projection or prediction head; 0 for twice its rows'", "default")
    decorrelation: float = _number(1e-3, 0.0, 1e6, "weight of the decorrelation of columns", "CCA-SSG's authors")
    momentum: float = _number(0.99, 0.0, 1.0, "with which the target follows, at first; it rises to 1", "BGRL's authors")
    teleport: float = _number(0.2, 1e-6, 1.0, "chance that a diffusing walk stops at each step", "MVGRL's authors")
    diffusion_error: float = _number(1e-4, 1e-9, 1.0, "bound on the diffusion's error, relative to degrees", "default")
    diffusion_scale: str = _choice("none", ("none", "columns"), "as the diffusion is, or columns to maximum 1", "default")
    heads: int = _number(8, 1, 1024, "of attention", "GAT's authors")
    output_heads: int = _number(1, 1, 1024, "of attention in the last layer, averaged", "GAT's authors")
    dropout: float = _number(0.0, 0.0, 0.99, "of features and inside the encoder", "default")
    probe_steps: int = _number(2000, 1, 10**6, "full-batch Adam steps of the linear probe", _NOTES)
    probe_learning_rate: float = _number(1e-2, 1e-12, 10.0, "of the linear probe", "default")
    probe_weight_decay: float = _number(1e-4, 0.0, 10.0, "of the linear probe (L2)", "default")

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            object.__setattr__(self, spec.name, _checked(spec, getattr(self, spec.name)))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Recipe:
        """A recipe from a mapping; an unknown key fails with the nearest valid name."""
        check_type("a recipe's values", values, Mapping, "numbers by name")
        return cls().but(**{check_choice("recipe key", name, KEYS): value for name, value in values.items()})

    def but(self, /, **values: Any) -> Recipe:
        """This recipe with some values changed.

        >>> from clnr import Recipe
        >>> Recipe().but(epochs=100, temperature=0.3).epochs
        100
        >>> Recipe().but(epochs="many")
        Traceback (most recent call last):
        clnr.errors.RecipeError: epochs must be a whole number, not 'many'
        """
        for name in values:
            check_choice("recipe key", name, KEYS)
        return dataclasses.replace(self, **values)

    def of_view(self, index: int) -> Recipe:
        """The recipe as a view reads it: the second may have numbers of its own."""
        if check_int("index", index) != 1:
            return self
        own = {name: getattr(self, second) for name, second in SECOND.items()}
        return self.but(**{name: value for name, value in own.items() if value is not None})

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.to_dict().items())

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """As TOML, one key a line; ``Recipe.from_toml`` reads it back equal."""
        known = {name: value for name, value in self.to_dict().items() if value is not None}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in known.items())

    @classmethod
    def from_toml(cls, text: str) -> Recipe:
        try:
            return cls.of(tomllib.loads(check_type("a recipe in TOML", text, str, "text")))
        except tomllib.TOMLDecodeError as error:
            raise RecipeError(f"not a recipe in TOML: {error}") from None


KEYS = tuple(spec.name for spec in dataclasses.fields(Recipe))
SPECS = {spec.name: spec for spec in dataclasses.fields(Recipe)}
SECOND = {"edge_drop": "edge_drop_2", "feature_mask": "feature_mask_2"}
PROBE = ("probe_steps", "probe_learning_rate", "probe_weight_decay")
TRAINING = ("epochs", "learning_rate", "warmup", "schedule", "weight_decay", "decay", "patience", "edge_noise")


def _checked(spec: dataclasses.Field[Any], value: Any) -> Any:
    rule = spec.metadata
    if "choices" in rule:
        return check_choice(f"value of {spec.name}", value, rule["choices"])
    if value is None and spec.default is None:
        return None
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
        check_choice("recipe key", name, KEYS)
        if SPECS[name].default is None and text.lower() == "none":
            values[name] = None
            continue
        kind: Any = float if SPECS[name].default is None else type(SPECS[name].default)
        try:
            values[name] = kind(text)
        except ValueError:
            raise RecipeError(f"{name} must be a {'whole ' if kind is int else ''}number, not '{text}'") from None
    return values
