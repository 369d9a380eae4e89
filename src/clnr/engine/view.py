"""A graph on a device, and views of it: what is dropped, masked and permuted, described by random keys and rates."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.engine.sparse_matrix import Keeper, SparseMatrix, to_scipy, to_sparse_matrix
from clnr.errors import MethodError
from clnr.graph import Graph
from clnr.graph.arrays import Matrix
from clnr.graph.csr import Array, are_among

ReadFeatures = Callable[[Array], Any]
"""Reads the features of some nodes as float32: an array or a sparse one."""
NO_PAIRS = np.empty(0, np.int64)
NO_PAIRS.flags.writeable = False


@dataclass(frozen=True, eq=False)
class DeviceGraph(Keeper):
    """A graph whose steps run on a device. All of it can be there, or, ``in_blocks``, only the rows of some nodes at a time.

    Attributes:
        graph: The graph itself, on the host.
        device: Where it is.
        loop_weight: The weight of self-loops that the graph does not have itself.
        held_out: Edges that are left out, sorted: the target times the number of nodes, plus the source.
        dense_above: Features become dense where more than this share of them is not zero.
        read: In blocks, what reads features; None where all of them are on the device.
        read_width: How many features it reads.
        of_edges: What follows from edges alone, kept for the same graph with other features as well.
    """

    graph: Graph
    device: torch.device
    loop_weight: float = 1.0
    held_out: Array = field(default_factory=lambda: NO_PAIRS)
    dense_above: float = 0.0
    read: ReadFeatures | None = None
    read_width: int = 0
    of_edges: Keeper = field(default_factory=Keeper, repr=False)

    @property
    def in_blocks(self) -> bool:
        """Whether only rows of some nodes can be computed."""
        return self.read is not None

    @property
    def num_features(self) -> int:
        return self.read_width if self.in_blocks else self.graph.num_features

    @property
    def edges(self) -> SparseMatrix:
        """``A + w I`` by target: row i holds the in-neighbours of node i. A self-loop in the graph keeps its weight."""
        return self.of_edges.once("edges", self._with_loops)

    def _with_loops(self) -> SparseMatrix:
        source, target, weight = self.graph.edges()
        count = self.graph.num_nodes
        values = np.ones(len(source), np.float32) if weight is None else weight
        if len(self.held_out):
            kept = ~are_among(target * count + source, self.held_out)
            source, target, values = source[kept], target[kept], values[kept]
        without_loop = np.ones(count, np.bool_)
        without_loop[source[source == target]] = False
        loops = np.flatnonzero(without_loop)
        with_loops = sp.csr_array(
            (
                np.concatenate([values, np.full(len(loops), self.loop_weight, np.float32)]),
                (np.concatenate([target, loops]), np.concatenate([source, loops])),
            ),
            shape=(count, count),
        )
        return to_sparse_matrix(with_loops, self.device)

    @property
    def features(self) -> Tensor | SparseMatrix:
        """Dense, or sparse where that is faster; moved to the device when they are first asked for."""
        return self.once("features", self._move_features)

    def _move_features(self) -> Tensor | SparseMatrix:
        x = self.graph.features
        if not sp.issparse(x):
            return torch.tensor(x, device=self.device)
        dense = self.dense_above < 0 or x.nnz > self.dense_above * x.shape[0] * x.shape[1]
        return torch.tensor(x.toarray(), device=self.device) if dense else to_sparse_matrix(x, self.device)

    def with_features(self, features: Matrix | Tensor) -> DeviceGraph:
        """The same graph with other features; both share their edges. A tensor on the device is not moved there again."""
        moved: dict[Hashable, Any] = {"features": features} if isinstance(features, Tensor) else {}
        host = features.numpy(force=True) if isinstance(features, Tensor) else features
        return replace(self, graph=replace(self.graph, features=host), made=moved)

    def dense_rows(self, nodes: Array) -> Tensor:
        """The features of some nodes as dense float32."""
        rows = self.feature_rows(nodes)
        return rows if isinstance(rows, Tensor) else torch.from_numpy(rows.toarray())

    def feature_rows(self, nodes: Array) -> Tensor | sp.csr_array:
        """The features of some nodes, on the host if they are sparse or read in blocks."""
        if self.read is not None:
            rows = self.read(nodes)
            return rows if sp.issparse(rows) else torch.from_numpy(rows)
        x = self.features
        return x.once("scipy", lambda: to_scipy(x))[nodes] if isinstance(x, SparseMatrix) else x[nodes]


class Drop(NamedTuple):
    """Entries of a matrix dropped at a rate, or each at its own; with ``pairs``, (i, j) and (j, i) together."""

    key: rng.Key
    rate: float | Tensor
    pairs: bool = False

    def keep(self, links: SparseMatrix) -> Tensor:
        """For each entry, whether it is kept. A self-loop always is."""
        i, j = links.columns, links.rows
        loop = i == j
        if self.pairs:
            i, j = torch.minimum(i, j), torch.maximum(i, j)
        return loop | rng.keep(self.key, self.rate, i, j)

    def reordered(self, order: Tensor) -> Drop:
        """The same of entries in another order."""
        return self._replace(rate=self.rate[order]) if isinstance(self.rate, Tensor) else self


class Mask(NamedTuple):
    """Features masked at a rate, columns also each at its own: for all nodes alike, or element by element.

    What is kept is multiplied by ``scale``.
    """

    key: rng.Key
    rate: float | Tensor
    elements: bool = False
    scale: float = 1.0

    def of_columns(self, count: int, device: torch.device) -> Tensor:
        """The factor of each column."""
        return rng.keep(self.key, self.rate, torch.arange(count, device=device)) * self.scale

    def of_elements(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The factor of each element."""
        return rng.keep(self.key, self.rate, rows, columns) * self.scale


class Dropout(NamedTuple):
    """Activations set to zero at a rate, the others scaled up so that the mean stays (Srivastava et al., 2014)."""

    key: rng.Key
    rate: float

    def __call__(self, h: Tensor, place: str, nodes: Tensor | None = None) -> Tensor:
        """Rows after dropout: of all nodes, or of some, which lose what they would lose among all."""
        index = torch.arange(h.numel(), device=h.device).reshape(h.shape)
        if nodes is not None:
            index = index[:1] + nodes[:, None] * h.shape[1]
        kept = rng.keep(rng.branch(self.key, place), self.rate, index)
        return h * (kept / (1 - self.rate)).to(h.dtype)


class Neighbors(NamedTuple):
    """At most ``most`` neighbours of a node in a sampled step, each with the same chance, and scaled up: sums keep their mean.

    Of a row's n > ``most`` entries apart from its self-loop, in their order, entry p is taken where s + p ``most`` modulo n
    is n - ``most`` or more, s being a hash of the row: systematic sampling (Madow and Madow, 1944).
    """

    key: rng.Key
    most: int

    def weights(self, links: SparseMatrix, keep: Tensor) -> Tensor:
        """The factor of each entry, given those that a view keeps: n / ``most`` where n are too many, 0 where not taken."""
        counted = keep & (links.rows != links.columns)
        before = torch.nn.functional.pad(counted.cumsum(0), (1, 0))
        n = (before[links.indptr[1:]] - before[links.indptr[:-1]])[links.rows].clamp(min=1)
        p = before[:-1] - before[links.indptr[:-1]][links.rows]
        step = n.clamp(max=self.most)
        taken = (rng.draw(self.key, links.rows) + p * step) % n >= n - step
        return torch.where(counted, taken * n / step, keep.float())


class View(NamedTuple):
    """An augmented graph, described by random keys and rates: the engine draws from these where it computes.

    Nodes have the features of others where there is a ``node_permutation``. A ``propagation_matrix`` is propagated by as it is,
    in place of the graph's normalised edges; ``neighbors`` are what a sampled step takes of a node's, all where None.
    """

    device_graph: DeviceGraph
    drop: Drop | None = None
    mask: Mask | None = None
    node_permutation: Tensor | None = None
    propagation_matrix: SparseMatrix | None = None
    dropout: Dropout | None = None
    neighbors: Neighbors | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is the graph itself."""
        return all(part is None for part in self[1:])

    @property
    def propagation(self) -> SparseMatrix:
        """The matrix that it propagates by, before entries are dropped."""
        return self.device_graph.edges if self.propagation_matrix is None else self.propagation_matrix

    @property
    def kept(self) -> Tensor:
        """For each entry of that matrix, whether it is kept."""
        links = self.propagation
        return torch.ones_like(links.rows, dtype=torch.bool) if self.drop is None else self.drop.keep(links)

    @property
    def tensors(self) -> list[Tensor]:
        rates = [part.rate for part in (self.drop, self.mask) if part is not None]
        return [each for each in (self.node_permutation, *rates) if isinstance(each, Tensor)]

    def but(self, **changes: Any) -> View:
        """This view with some of its attributes set; each can be set only once."""
        for name in changes:
            if getattr(self, name) is not None:
                raise MethodError(f"two parts of one view both set its {name}; only one can")
        return self._replace(**changes)

    def drop_edges(self, key: rng.Key, rate: float | Tensor, pairs: bool = False) -> View:
        return self.but(drop=Drop(key, rate, pairs))

    def mask_features(self, key: rng.Key, rate: float | Tensor, elements: bool = False, scale: float = 1.0) -> View:
        return self.but(mask=Mask(key, rate, elements, scale))

    def drop_activations(self, key: rng.Key, rate: float) -> View:
        return self.but(dropout=Dropout(key, rate))

    def bounded(self) -> View:
        """This view with its ``neighbors``, if any, drawn: what it then propagates by is a ``propagation_matrix``."""
        if self.neighbors is None:
            return self
        links = self.propagation
        keep = self.kept
        values = links.values * keep
        if self.propagation_matrix is None:
            scale = torch.zeros(links.shape[0], device=values.device).index_add(0, links.rows, values).rsqrt()
            values = scale[links.rows] * values * scale[links.columns]
        matrix = links.with_values(values * self.neighbors.weights(links, keep))
        return self._replace(drop=None, propagation_matrix=matrix, neighbors=None)
