"""How a part declares its hyper-parameters. A recipe has the keys that the parts of methods declare."""

from __future__ import annotations

import dataclasses
import numbers
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clnr.errors import MethodError, RecipeError, show
from clnr.support.arguments import check_choice

_LARGEST_FLOAT = sys.float_info.max
_METADATA_KEY = "hyper_parameter"


@dataclass(frozen=True)
class HyperParameter:
    """The declaration of one key of a recipe.

    Attributes:
        default: Its type is the key's: int, float, or str where there are choices.
        low: The smallest value.
        high: The largest value.
        meaning: A few words for ``clnr recipe``.
        source: Where the default comes from.
        choices: The texts to choose from.
        second_view: Whether the second view may have another value: then there is also a key that ends in ``_2``.
    """

    default: Any
    low: float = -_LARGEST_FLOAT
    high: float = _LARGEST_FLOAT
    meaning: str = ""
    source: str = "default"
    choices: tuple[str, ...] = ()
    second_view: bool = False

    def field(self) -> Any:
        """A dataclass field with this declaration: how several parts share a key."""
        return dataclasses.field(default=self.default, metadata={_METADATA_KEY: self})

    def check(self, name: str, value: Any) -> Any:
        """The value, if it has the right type and range; else an error that says what would be right."""
        if self.choices:
            return check_choice(f"value of {name}", value, self.choices)
        if value is None and self.default is None:
            return None
        whole = self._whole
        # An abstract class takes a while to answer, and is asked only about types that are not Python's own.
        if type(value) is not int and (whole or type(value) is not float):
            right = isinstance(value, numbers.Integral if whole else numbers.Real)
            if not right or isinstance(value, bool):
                raise self._no_number(name, show(value))
        if not self.low <= value <= self.high:
            raise RecipeError(f"{name} must be from {self.low:g} to {self.high:g}, not {show(value)}")
        return int(value) if whole else float(value)

    def parse(self, name: str, text: str) -> Any:
        """Text as a value of the right type; its range is not checked."""
        if self.choices or (self.default is None and text.lower() == "none"):
            return text if self.choices else None
        try:
            return int(text) if self._whole else float(text)
        except ValueError:
            raise self._no_number(name, f"'{text}'") from None

    @property
    def _whole(self) -> bool:
        return isinstance(self.default, int)

    def _no_number(self, name: str, value: str) -> RecipeError:
        return RecipeError(f"{name} must be a {'whole ' if self._whole else ''}number, not {value}")


def hyper_parameter(default: Any, *bounds_and_meaning: Any, **attributes: Any) -> Any:
    """A field of a part that is a key of its method's recipe, by the same name.

    >>> from dataclasses import dataclass
    >>> from clnr.nn.hyper_parameters import declared, hyper_parameter
    >>> @dataclass(frozen=True)
    ... class Loss:
    ...     margin: float = hyper_parameter(0.5, 0.0, 10.0, "between positives and negatives", source="ours")
    >>> Loss(), declared([Loss])["margin"].high
    (Loss(margin=0.5), 10.0)

    The arguments are the attributes of ``HyperParameter``.
    """
    return HyperParameter(default, *bounds_and_meaning, **attributes).field()


def declaration(field: dataclasses.Field[Any]) -> HyperParameter | None:
    """The declaration of a dataclass field, where it has one."""
    return field.metadata.get(_METADATA_KEY)


def declared(parts: Iterable[type]) -> dict[str, HyperParameter]:
    """The hyper-parameters of some parts, by key. Parts that declare the same key must agree on it."""
    keys: dict[str, HyperParameter] = {}
    owner: dict[str, type] = {}
    for part in parts:
        for field in dataclasses.fields(part):
            each = declaration(field)
            if each is None:
                continue
            if keys.setdefault(field.name, each) != each:
                names = " and ".join(f"{each.__module__}.{each.__qualname__}" for each in (owner[field.name], part))
                raise MethodError(f"{names} declare {field.name} differently; share one declaration, or rename one of them")
            owner.setdefault(field.name, part)
            if each.second_view:
                meaning = "the same in the second view, if not none"
                second = dataclasses.replace(each, default=None, meaning=meaning, source="default", second_view=False)
                keys[f"{field.name}_2"] = second
    return keys
