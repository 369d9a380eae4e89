"""What a view does to a graph. Each part takes a view and a key, and returns the view with one more change to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from clnr import chance
from clnr.engine import Drop, Mask, View


class Alter(ABC):
    """One change to a view."""

    @abstractmethod
    def __call__(self, view: View, key: chance.Key) -> View: ...


@dataclass(frozen=True)
class DropEdges(Alter):
    """Drop each edge with probability ``edge_drop``; self-loops of the encoder stay (paper, section 2.1)."""

    edge_drop: float
    drop: str

    def __call__(self, view: View, key: chance.Key) -> View:
        return view if self.edge_drop == 0 else view._replace(drop=Drop(key, self.edge_drop, self.drop == "pairs"))


@dataclass(frozen=True)
class MaskFeatures(Alter):
    """Set features to zero with probability ``feature_mask``, by columns or by single elements (paper, section 2.1)."""

    feature_mask: float
    mask: str

    def __call__(self, view: View, key: chance.Key) -> View:
        if self.feature_mask == 0:
            return view
        return view._replace(mask=Mask(key, self.feature_mask, self.mask == "elements"))
