"""What a view does to a graph. Each part takes a view and a key, and returns the view with one more change to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.augment.centrality import CENTRALITIES, rates
from clnr.augment.diffusion import columns_to_one, personalised_pagerank
from clnr.engine import Drop, Dropout, Mask, Placed, View, pattern
from clnr.graph import Graph
from clnr.graph.csr import Array


class Alter(ABC):
    """One change to a view.

    Attributes:
        stream: The name of its random stream: what it draws is a function of this, so that it is never changed.
        steady: Whether there is nothing random about it, so that the embedding sees it too.
    """

    stream: ClassVar[str]
    steady: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, view: View, key: rng.Key) -> View: ...


@dataclass(frozen=True)
class DropEdges(Alter):
    """Drop each edge with probability ``edge_drop``; self-loops of the encoder stay (paper, section 2.1)."""

    edge_drop: float
    drop: str

    stream: ClassVar[str] = "DropEdges"

    def __call__(self, view: View, key: rng.Key) -> View:
        return view if self.edge_drop == 0 else view.but(drop=Drop(key, self.edge_drop, self.drop == "pairs"))


@dataclass(frozen=True)
class MaskFeatures(Alter):
    """Set features to zero with probability ``feature_mask``, by columns or by single elements (paper, section 2.1)."""

    feature_mask: float
    mask: str

    stream: ClassVar[str] = "MaskFeatures"

    def __call__(self, view: View, key: rng.Key) -> View:
        if self.feature_mask == 0:
            return view
        return view.but(mask=Mask(key, self.feature_mask, self.mask == "elements"))


@dataclass(frozen=True)
class DropUnimportantEdges(Alter):
    """Drop edges to nodes of low centrality more often than others, with mean ``edge_drop`` (``centrality.rates``)."""

    edge_drop: float
    centrality: str

    stream: ClassVar[str] = "DropUnimportantEdges"

    def __call__(self, view: View, key: rng.Key) -> View:
        return view.but(drop=Drop(key, view.placed.once(self, lambda: self._rates(view.placed))))

    def _rates(self, placed: Placed) -> Tensor:
        rows, columns = placed.edges.rows.cpu().numpy(), placed.edges.columns.cpu().numpy()
        between = rows != columns
        each = np.zeros(len(rows))
        each[between] = rates(_centrality(placed, self.centrality)[rows[between]], self.edge_drop)
        return torch.tensor(each, device=placed.device)


@dataclass(frozen=True)
class MaskUnimportantFeatures(Alter):
    """Mask columns that nodes of low centrality have more often than others, with mean ``feature_mask``.

    A column's importance is the sum of its absolute values, each weighed by its node's centrality.
    """

    feature_mask: float
    centrality: str

    stream: ClassVar[str] = "MaskUnimportantFeatures"

    def __call__(self, view: View, key: rng.Key) -> View:
        return view.but(mask=Mask(key, view.placed.once(self, lambda: self._rates(view.placed))))

    def _rates(self, placed: Placed) -> Tensor:
        importance = abs(placed.graph.features).T @ _centrality(placed, self.centrality)
        return torch.tensor(rates(importance, self.feature_mask), device=placed.device)


def _centrality(placed: Placed, name: str) -> Array:
    measure = CENTRALITIES[name]
    return placed.once(measure, lambda: measure(placed.graph))


@dataclass(frozen=True)
class ShuffleNodes(Alter):
    """Give each node the features of another: a corruption that keeps edges and features, but not who has which."""

    stream: ClassVar[str] = "ShuffleNodes"

    def __call__(self, view: View, key: rng.Key) -> View:
        return view.but(order=rng.shuffle(key, view.placed.graph.num_nodes, view.placed.device))


@dataclass(frozen=True)
class Diffuse(Alter):
    """Propagate by ``personalised_pagerank``, computed once per graph, in place of the edges."""

    teleport: float
    diffusion_error: float
    diffusion_scale: str

    stream: ClassVar[str] = "Diffuse"
    steady: ClassVar[bool] = True

    def __call__(self, view: View, key: rng.Key) -> View:
        placed = view.placed
        return view.but(links=placed.once(self, lambda: pattern(self._matrix(placed.graph), placed.device)))

    def _matrix(self, graph: Graph) -> sp.csr_array:
        plain = personalised_pagerank(graph, self.teleport, self.diffusion_error)
        return columns_to_one(plain) if self.diffusion_scale == "columns" else plain


@dataclass(frozen=True)
class DropOut(Alter):
    """Dropout of the features and inside the encoder (Srivastava et al., 2014)."""

    dropout: float

    stream: ClassVar[str] = "DropOut"

    def __call__(self, view: View, key: rng.Key) -> View:
        if self.dropout == 0:
            return view
        mask = Mask(key, self.dropout, elements=True, scale=1 / (1 - self.dropout))
        return view.but(mask=mask, dropout=Dropout(key, self.dropout))
