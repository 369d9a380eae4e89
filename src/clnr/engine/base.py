"""What an engine is: a graph on a device, a view of it, and the few hot operations on that view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.engine.attention import attend
from clnr.engine.dense import PLAIN, Dense
from clnr.engine.sparse_matrix import SparseMatrix, to_sparse_matrix
from clnr.engine.streams import Lanes
from clnr.errors import MethodError
from clnr.graph import Graph

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A graph on a device.

    Attributes:
        graph: The graph itself, on the host.
        edges: ``A + I`` by target: row i holds what node i listens to. A loop of the graph's own keeps its weight.
        features: Dense, or a pattern where that pays.
        made: What parts of a method have derived from the graph once and for all, by the part that asked.
    """

    graph: Graph
    edges: SparseMatrix
    features: Tensor | SparseMatrix
    made: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def device(self) -> torch.device:
        return self.edges.values.device

    def once(self, asker: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` returns, made at the asker's first call only."""
        if asker not in self.made:
            self.made[asker] = make()
        return self.made[asker]


def to_device(graph: Graph, device: torch.device, dense_above: float) -> DeviceGraph:
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
    edges = to_sparse_matrix(with_loops, device)
    x = graph.features
    if sp.issparse(x) and x.nnz > dense_above * x.shape[0] * x.shape[1]:
        x = x.toarray()
    features = to_sparse_matrix(x, device) if sp.issparse(x) else torch.tensor(x, device=device)
    return DeviceGraph(graph, edges, features)


class Drop(NamedTuple):
    """Links dropped at a rate, or at one for each entry of the pattern; with ``pairs``, both directions together."""

    key: rng.Key
    rate: float | Tensor
    pairs: bool = False

    def keep(self, links: SparseMatrix) -> Tensor:
        """Per entry: whether it stays. A node's link to itself always does."""
        i, j = links.columns, links.rows
        loop = i == j
        if self.pairs:
            i, j = torch.minimum(i, j), torch.maximum(i, j)
        return loop | rng.keep(self.key, self.rate, i, j)


class Mask(NamedTuple):
    """Features masked at a rate, whole columns also at one each: for all nodes alike, or element by element.

    What is left is multiplied by ``scale``.
    """

    key: rng.Key
    rate: float | Tensor
    elements: bool = False
    scale: float = 1.0

    def of_columns(self, count: int, device: torch.device) -> Tensor:
        """What each column is multiplied by."""
        return rng.keep(self.key, self.rate, torch.arange(count, device=device)) * self.scale

    def of_elements(self, rows: Tensor, columns: Tensor) -> Tensor:
        """What each element is multiplied by."""
        return rng.keep(self.key, self.rate, rows, columns) * self.scale

    def of_entries(self, x: SparseMatrix) -> Tensor:
        """What each entry of sparse features is multiplied by."""
        if self.elements:
            return self.of_elements(x.rows, x.columns)
        return self.of_columns(x.shape[1], x.values.device)[x.columns]


class Dropout(NamedTuple):
    """Numbers inside a network set to zero at a rate, the others scaled up so that the mean stays (Srivastava et al., 2014)."""

    key: rng.Key
    rate: float

    def __call__(self, h: Tensor, place: str) -> Tensor:
        kept = rng.keep(rng.branch(self.key, place), self.rate, torch.arange(h.numel(), device=h.device))
        return h * (kept.reshape(h.shape) / (1 - self.rate)).to(h.dtype)


class View(NamedTuple):
    """A graph as seen in one epoch: described by keys and rates, so that an engine may draw it wherever it likes.

    Attributes:
        device_graph: The graph.
        drop: Which links it is seen without.
        mask: Which features it is seen without.
        node_permutation: Whose features each node is seen with; its own where None.
        propagation_matrix: A matrix to propagate by as it is, in place of the graph's normalised edges.
        dropout: What an encoder leaves out inside.
    """

    device_graph: DeviceGraph
    drop: Drop | None = None
    mask: Mask | None = None
    node_permutation: Tensor | None = None
    propagation_matrix: SparseMatrix | None = None
    dropout: Dropout | None = None

    @property
    def propagation(self) -> SparseMatrix:
        """The links that it propagates along, before any are dropped."""
        return self.device_graph.edges if self.propagation_matrix is None else self.propagation_matrix

    def but(self, **changes: Any) -> View:
        """This view with one more change to it; nothing is changed twice."""
        for name in changes:
            if getattr(self, name) is not None:
                raise MethodError(f"two parts of one view both set its {name}; only one can")
        return self._replace(**changes)


class Operators(ABC):
    r"""The linear maps of one view: features :math:`X` and propagation :math:`\hat A = D^{-1/2} (A + I) D^{-1/2}`.

    The normalisation is that of the view's remaining edges: :math:`D` is the weight that a node receives, its self-loop
    included (Kipf and Welling, 2017). A view with ``links`` of its own propagates by those, as they are.
    """

    dense: Dense = PLAIN
    """The engine's."""

    def __init__(self, view: View, beside: Lanes | None = None, index: int = 0):
        self.view = view
        self.beside = Lanes() if beside is None else beside
        self.lane = self.beside.lane(index)

    def dropout(self, h: Tensor, place: str) -> Tensor:
        """What is inside an encoder, at a named place, as the view leaves it."""
        return h if self.view.dropout is None else self.view.dropout(h, place)

    def attend(self, h: Tensor, source: Tensor, target: Tensor, place: str) -> Tensor:
        r"""Attention along the view's edges (Velickovic et al., 2018): for each head, node j's row becomes

        .. math:: \sum_i \alpha_{ij} h_i, \quad \alpha_{ij} = \mathrm{softmax}_i \, \mathrm{LeakyReLU}_{0.2}(s_i + t_j)

        over the edges from i to j, its self-loop among them; their weights do not count.

        Args:
            h: Rows of each head, [N, H, D].
            source: The score of each node as a source, [N, H].
            target: The score of each node as a target, [N, H].
            place: What to call it for dropout, which thins out the shares.
        """
        edges, drop = self.view.device_graph.edges, self.view.drop
        keep = None if drop is None else drop.keep(edges)
        return attend(edges, keep, h, source, target, lambda share: self.dropout(share, place))

    @property
    @abstractmethod
    def features(self) -> Tensor:
        """X of the view, dense."""

    @abstractmethod
    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """X W, or X W + b."""

    @abstractmethod
    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        """A_hat h, or A_hat relu(h)."""

    @abstractmethod
    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        """A_hat h W + b, in the cheaper order, or A_hat relu(h) W + b; without ``h``, A_hat X W + b."""


class Engine(ABC):
    """The hot operations on one device. All engines compute the same function; the reference says which."""

    name: str
    device: torch.device
    precision: str = "float32"
    parallel_seeds: int = 1
    """How many trainings side by side keep it busy."""
    dense: Dense = PLAIN
    """What it does with dense rows."""
    compiles: bool = False
    """Whether its first use on a machine takes longer, since what it runs is compiled then and kept."""

    @property
    def float32(self) -> Engine:
        """The same in float32, for what is done once."""
        return self

    @abstractmethod
    def to_device(self, graph: Graph) -> DeviceGraph:
        """Move a graph to this engine's device."""

    def prepare(self, view: View) -> None:  # noqa: B027
        """Make what views share, before they part into lanes, none of which would wait for another that makes it."""

    @abstractmethod
    def operators(self, view: View, beside: Lanes | None = None, index: int = 0) -> Operators:
        """The view's linear maps; views of one epoch lie ``beside`` each other, each in its lane, and share what is made."""

    def lanes(self, device_graph: DeviceGraph, count: int) -> Lanes:
        """Where so many views are computed."""
        return Lanes()

    @abstractmethod
    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        """NT-Xent of rows scaled to length 1, the first half one view's and the second the other's, in the same order."""


def unit_rows(z: Tensor) -> Tensor:
    """Rows scaled to length 1; a zero row stays zero, with a zero gradient."""
    length = z.square().sum(1, keepdim=True)
    zero = length == 0
    return z * torch.where(zero, 0, torch.where(zero, 1, length).rsqrt())
