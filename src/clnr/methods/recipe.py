"""Recipe: every hyper-parameter of a run, immutable and checked."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import FrozenInstanceError
from typing import Any, NoReturn

from clnr.errors import RecipeError
from clnr.methods.registry import METHODS, Method
from clnr.methods.settings import Probe, Training
from clnr.nn.hyper_parameters import HyperParameter, declared
from clnr.support.arguments import check_choice, check_int, check_type


def recipe_keys(method: Method | None = None) -> dict[str, HyperParameter]:
    """The hyper-parameters that a recipe has: those of all registered methods, and of a method of your own if given."""
    check_type("method", method, Method | None, "a Method or None")
    return dict(_recipe_keys(tuple(METHODS.values()), () if method is None else method.all_parts))


@functools.lru_cache
def _recipe_keys(methods: tuple[Method, ...], more: tuple[type[Any], ...]) -> dict[str, HyperParameter]:
    parts = [*(part for method in methods for part in method.all_parts), *more]
    return declared([Training, *dict.fromkeys(parts), Probe])


class Recipe:
    """Every hyper-parameter of a run, by keyword; those that are not given have their defaults.

    Its keys are those that the parts of the registered methods declare. A recipe for a method of your own, as from
    ``recipe_for``, has those of its parts as well. See ``clnr recipe METHOD DATASET``.
    """

    __slots__ = ("_keys", "_values")

    _keys: dict[str, HyperParameter]
    _values: dict[str, Any]

    def __init__(self, **values: Any):
        self._fill(recipe_keys(), values)

    def _fill(self, keys: dict[str, HyperParameter], values: Mapping[str, Any]) -> Recipe:
        for name in values:
            check_choice("recipe key", name, keys)
        object.__setattr__(self, "_keys", keys)
        checked = {name: each.check(name, values.get(name, each.default)) for name, each in keys.items()}
        object.__setattr__(self, "_values", checked)
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any], method: Method | None = None) -> Recipe:
        """A recipe from a mapping, with the keys of a method of your own if given; an unknown key names the nearest one."""
        check_type("a recipe's values", values, Mapping, "values by key")
        return _made(recipe_keys(method), values)

    def but(self, /, **values: Any) -> Recipe:
        """This recipe with some values changed.

        >>> from clnr import Recipe
        >>> Recipe().but(epochs=100, temperature=0.3).epochs
        100
        >>> Recipe().but(epochs="many")
        Traceback (most recent call last):
        clnr.errors.RecipeError: epochs must be a whole number, not 'many'
        """
        return _made(self._keys, self._values | values)

    def of_view(self, index: int) -> Recipe:
        """The recipe as a view reads it: the second may have values of its own."""
        if check_int("index", index) != 1:
            return self
        second = {name: self._values[f"{name}_2"] for name, each in self._keys.items() if each.second_view}
        return self.but(**{name: value for name, value in second.items() if value is not None})

    def of_method(self, method: Method) -> Recipe:
        """This recipe with all keys of a method: those that it lacks have their defaults."""
        keys = recipe_keys(method)
        return self if keys.keys() <= self._keys.keys() else _made(self._keys | keys, self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._values:
            raise AttributeError(f"a recipe has no '{name}'")
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to '{name}': a recipe is immutable; use recipe.but({name}=...)")

    def __dir__(self) -> Iterator[str]:
        yield from (*object.__dir__(self), *self._values)

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Recipe) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __reduce__(self) -> Any:
        return _made, (self._keys, self._values)

    def __repr__(self) -> str:
        return f"Recipe({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._values.items())

    def to_dict(self) -> dict[str, Any]:
        return dict(self._values)

    def to_toml(self) -> str:
        """As TOML, one key a line; ``Recipe.of`` makes an equal recipe from its values."""
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in self._values.items() if value is not None)


def _made(keys: dict[str, HyperParameter], values: Mapping[str, Any]) -> Recipe:
    return Recipe.__new__(Recipe)._fill(keys, values)


def parse(assignments: list[str]) -> dict[str, Any]:
    """Assignments such as ``epochs=100``, as of ``--set``, with each value read as its key's type."""
    keys = recipe_keys()
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise RecipeError(f"'{assignment}' is not of the form key=value")
        name = check_choice("recipe key", name, keys)
        values[name] = keys[name].parse(name, text)
    return values


def untrained(method: Method, recipe: Recipe) -> list[str]:
    """A line if a method that learns would learn nothing."""
    if method.objective is None or recipe.epochs:
        return []
    return ["epochs=0: nothing is trained, and the encoder keeps its random initial weights"]


def check_used(method: Method, keys: Collection[str]) -> None:
    """Refuse hyper-parameters that a method does not use; unknown names are refused where the recipe is made."""
    for key in keys:
        if key in recipe_keys(method) and key not in method.keys:
            raise RecipeError(f"{method.name} has no use for {key}; see: clnr recipe {method.registered.name}")
