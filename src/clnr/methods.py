"""Every method as one declaration, and the model that a declaration and a recipe make together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from clnr import chance
from clnr.encoders import Backbone, Encoder, Features, Parameters
from clnr.engine import Engine, Placed, View
from clnr.errors import UnknownName
from clnr.objectives import Moment, NTXent, Objective
from clnr.postprocess import Postprocess, Standardize
from clnr.recipe import KEYS, Recipe
from clnr.views import Alter, DropEdges, MaskFeatures

Part = TypeVar("Part")


@dataclass(frozen=True)
class Method:
    """A method as data: which parts, in which places. Parts find their numbers in the recipe by their fields' names.

    Attributes:
        name: As the literature writes it.
        summary: One line for ``clnr ls methods``.
        encoder: From a view to rows.
        views: The changes that make each view.
        postprocess: Applied in order to each view's rows.
        objective: What training lowers; None where nothing is trained.
        parent: The method that this one varies, whose recipe it uses where it has none of its own.
    """

    name: str
    summary: str
    encoder: type[Encoder]
    views: tuple[tuple[type[Alter], ...], ...]
    postprocess: tuple[type[Postprocess], ...] = ()
    objective: type[Objective] | None = None
    parent: Method | None = None

    def but(self, name: str, summary: str, **changes: Any) -> Method:
        """This method with some places filled otherwise."""
        return dataclasses.replace(self, name=name, summary=summary, parent=self, **changes)

    @property
    def lineage(self) -> tuple[str, ...]:
        """Its name, then its ancestors'."""
        return (self.name, *(self.parent.lineage if self.parent else ()))

    def parts(self) -> dict[str, Any]:
        """The declaration by the parts' names: what tells two methods apart, whatever they are called."""
        return {
            "encoder": self.encoder.__qualname__,
            "views": [[part.__qualname__ for part in view] for view in self.views],
            "postprocess": [part.__qualname__ for part in self.postprocess],
            "objective": None if self.objective is None else self.objective.__qualname__,
        }

    def build(self, recipe: Recipe) -> Model:
        """The method with a recipe's numbers in it."""
        return Model(
            encoder=_fill(self.encoder, recipe),
            views=tuple(tuple(_fill(part, recipe) for part in view) for view in self.views),
            postprocess=tuple(_fill(part, recipe) for part in self.postprocess),
            objective=None if self.objective is None else _fill(self.objective, recipe),
        )


def _fill(part: type[Part], recipe: Recipe) -> Part:
    """A part with the recipe's numbers; a field that no recipe knows keeps its own default."""
    names = [spec.name for spec in dataclasses.fields(part)]  # type: ignore[arg-type]
    return part(**{name: getattr(recipe, name) for name in names if name in KEYS})


@dataclass(frozen=True)
class Model:
    """A method's parts with their numbers: pure functions of parameters, a placed graph, and a seed."""

    encoder: Encoder
    views: tuple[tuple[Alter, ...], ...]
    postprocess: tuple[Postprocess, ...]
    objective: Objective | None

    def init(self, inputs: int, seed: int) -> Parameters:
        """Fresh parameters, on the CPU."""
        encoder = self.encoder.init(inputs, chance.key(seed, "encoder"))
        width = self.encoder.width(inputs)
        parts = {"encoder": encoder}
        for place, part in self._stages():
            parts[place] = part.init(width, chance.key(seed, place))
        return {f"{place}.{name}": value for place, own in parts.items() for name, value in own.items()}

    def look(self, placed: Placed, seed: int, stream: str, epoch: int) -> list[View]:
        """The views of one epoch of a stream: ``train``, or another name for views that training never saw."""
        seen = []
        for index, alters in enumerate(self.views):
            view = View(placed)
            for alter in alters:
                view = alter(view, chance.key(seed, stream, epoch, index, type(alter).__name__))
            seen.append(view)
        return seen

    def project(self, parameters: Parameters, engine: Engine, view: View) -> Tensor:
        """A view's rows as the objective sees them."""
        z = self.encoder(_under(parameters, "encoder"), engine.operators(view))
        for place, part in self._stages()[: len(self.postprocess)]:
            assert isinstance(part, Postprocess)
            z = part(_under(parameters, place), z)
        return z

    def loss(self, parameters: Parameters, moment: Moment) -> Tensor:
        """The objective of one epoch."""
        assert self.objective is not None
        views = self.look(moment.placed, moment.seed, "train", moment.epoch)
        rows = [self.project(parameters, moment.engine, view) for view in views]
        return self.objective(_under(parameters, "objective"), rows, moment)

    @torch.no_grad()
    def settle(self, parameters: Parameters, engine: Engine, placed: Placed) -> Parameters:
        """After training: parameters complete with what embedding needs."""
        own = self.encoder.settle(_under(parameters, "encoder"), engine.operators(View(placed)))
        return parameters | {f"encoder.{name}": value for name, value in own.items()}

    @torch.no_grad()
    def embed(self, parameters: Parameters, engine: Engine, placed: Placed) -> Tensor:
        """The encoder's raw output on the whole, unperturbed graph: what is evaluated and given to users."""
        return self.encoder(_under(parameters, "encoder"), engine.operators(View(placed)))

    def _stages(self) -> list[tuple[str, Postprocess | Objective]]:
        stages: list[tuple[str, Postprocess | Objective]] = [(f"postprocess.{i}", p) for i, p in enumerate(self.postprocess)]
        return stages if self.objective is None else [*stages, ("objective", self.objective)]


def _under(parameters: Parameters, place: str) -> Parameters:
    return {name[len(place) + 1 :]: value for name, value in parameters.items() if name.startswith(place + ".")}


DROP = (DropEdges, MaskFeatures)

CLNR = Method("CLNR", "contrast nodes of two views, columns standardised", Backbone, (DROP, DROP), (Standardize,), NTXent)
UNTRAINED = CLNR.but("Untrained", "CLNR's encoder as initialised, never trained", objective=None)
RAW = CLNR.but("Raw", "the features themselves, no encoder", encoder=Features, postprocess=(), objective=None)

METHODS = {method.name: method for method in (RAW, UNTRAINED, CLNR)}


def find(name: str) -> Method:
    """A method by name, in any case."""
    for method in METHODS.values():
        if method.name.casefold() == name.casefold():
            return method
    raise UnknownName("method", name, METHODS)
