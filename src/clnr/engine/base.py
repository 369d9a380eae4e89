"""What an engine is: a graph on a device, a view of it, and the few hot operations on that view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import chance
from clnr.edges import Array
from clnr.graph import Graph


class Pattern(NamedTuple):
    """A fixed sparse matrix on the device, in compressed rows, with its transpose.

    ``values`` are in the order of ``columns``; ``transposed_values = values[order]`` are in that of ``transposed_columns``.
    """

    start: Tensor
    columns: Tensor
    rows: Tensor
    values: Tensor
    transposed_start: Tensor
    transposed_columns: Tensor
    order: Tensor
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Placed:
    """A graph on a device.

    Attributes:
        graph: The graph itself, on the host.
        edges: ``A + I`` by target: row i holds what node i listens to. A loop of the graph's own keeps its weight.
        loop: True where an entry of ``edges`` is a self-loop.
        features: Dense, or a pattern where that pays.
    """

    graph: Graph
    edges: Pattern
    loop: Tensor
    features: Tensor | Pattern

    @property
    def device(self) -> torch.device:
        return self.loop.device


def place(graph: Graph, device: torch.device, dense_above: float) -> Placed:
    """Move a graph to a device; features become dense where more than ``dense_above`` of them are not zero."""
    source, target, weight = graph.edges()
    loops = np.setdiff1d(np.arange(graph.num_nodes), source[source == target])
    values = np.ones(len(source), np.float32) if weight is None else weight
    size = (graph.num_nodes, graph.num_nodes)
    with_loops = sp.csr_array(
        (
            np.concatenate([values, np.ones(len(loops), np.float32)]),
            (np.concatenate([target, loops]), np.concatenate([source, loops])),
        ),
        shape=size,
    )
    edges = pattern(with_loops, device)
    x = graph.features
    if sp.issparse(x) and x.nnz > dense_above * x.shape[0] * x.shape[1]:
        x = x.toarray()
    features = pattern(x, device) if sp.issparse(x) else torch.tensor(x, device=device)
    return Placed(graph, edges, edges.rows == edges.columns, features)


def pattern(matrix: sp.csr_array, device: torch.device) -> Pattern:
    """A SciPy matrix on the device, with its transpose built once."""
    matrix = matrix.copy()
    matrix.sort_indices()
    count = matrix.nnz
    position = sp.csr_array((np.arange(count), matrix.indices, matrix.indptr), shape=matrix.shape).T.tocsr()
    position.sort_indices()

    def move(array: Array) -> Tensor:
        return torch.tensor(array.astype(np.int64), device=device)

    return Pattern(
        start=move(matrix.indptr),
        columns=move(matrix.indices),
        rows=move(np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))),
        values=torch.tensor(matrix.data, dtype=torch.float32, device=device),
        transposed_start=move(position.indptr),
        transposed_columns=move(position.indices),
        order=move(position.data),
        shape=(int(matrix.shape[0]), int(matrix.shape[1])),
    )


class Drop(NamedTuple):
    """Edges dropped at a rate; with ``pairs``, both directions of an edge together."""

    key: chance.Key
    rate: float
    pairs: bool

    def keep(self, placed: Placed) -> Tensor:
        """Per entry of ``placed.edges``: whether it stays. Self-loops always do."""
        i, j = placed.edges.columns, placed.edges.rows
        if self.pairs:
            i, j = torch.minimum(i, j), torch.maximum(i, j)
        return placed.loop | chance.keep(self.key, self.rate, i, j)


class Mask(NamedTuple):
    """Features masked at a rate: whole columns, or single elements."""

    key: chance.Key
    rate: float
    elements: bool

    def keep_columns(self, count: int, device: torch.device) -> Tensor:
        return chance.keep(self.key, self.rate, torch.arange(count, device=device))

    def keep_elements(self, rows: Tensor, columns: Tensor) -> Tensor:
        return chance.keep(self.key, self.rate, rows, columns)


class View(NamedTuple):
    """A graph as seen in one epoch: described by keys and rates, so that an engine may draw it wherever it likes."""

    placed: Placed
    drop: Drop | None = None
    mask: Mask | None = None


class Operators(ABC):
    r"""The linear maps of one view: features :math:`X` and propagation :math:`\hat A = D^{-1/2} (A + I) D^{-1/2}`.

    The normalisation is that of the view's remaining edges: :math:`D` is the weight that a node receives, its self-loop
    included (Kipf and Welling, 2017).
    """

    @property
    @abstractmethod
    def features(self) -> Tensor:
        """X of the view, dense."""

    @abstractmethod
    def project(self, weight: Tensor) -> Tensor:
        """X W."""

    @abstractmethod
    def propagate(self, h: Tensor) -> Tensor:
        """A_hat h."""

    @abstractmethod
    def convolve(self, weight: Tensor, h: Tensor | None = None) -> Tensor:
        """A_hat h W, in the cheaper order; without ``h``, A_hat X W."""


class Engine(ABC):
    """The hot operations on one device. All engines compute the same function; the reference says which."""

    name: str
    device: torch.device
    precision: str = "float32"

    @abstractmethod
    def place(self, graph: Graph) -> Placed:
        """Move a graph to this engine's device."""

    @abstractmethod
    def operators(self, view: View) -> Operators:
        """The view's linear maps."""

    @abstractmethod
    def contrast(self, rows: Tensor, temperature: float) -> Tensor:
        """NT-Xent of unit rows, the first half one view's and the second half the other's, in the same order."""
