"""Sampled steps on a GPU: the rows of some nodes, computed from those that their edges reach, and nothing waits for the GPU.

How many nodes are reached is known only there. So the rows of nodes within some hops get as many places as suffice for all but
one in 2^64 draws of nodes and edges, see ``capacity``; places to spare hold empty rows. Should they be too few after all,
every row that depends on it is NaN. Where that bound is near the number of nodes, each node keeps a place of its own, but only
rows that are reached are computed. On large graphs the edges of the reached nodes are kept together, in a fixed space.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from clnr.engine.gpu.kernel_matrix import KernelFeatures, KernelMatrix, structures
from clnr.engine.gpu.triton_dense import the_kernels
from clnr.engine.operators import Operators, SelectedOperators
from clnr.engine.sparse_engine import Features, Matrix, MatrixOperators, SparseEngine
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.streams import IdentityKey, Streams
from clnr.engine.view import View

_LISTED_FIELDS = ("device_graph", "drop", "mask", "dropout", "neighbors")
# A product of fewer entries takes about as long as to find out which of them are needed.
_ENTRIES_WORTH_FINDING = 1 << 16
# Nodes move together if this many times as many have a place of their own.
_NODES_PER_PLACE = 2
# From this number of edges on, a step copies only those that it reaches; below, it has copies with room for all.
_ENTRIES_OF_LARGE_GRAPH = 1 << 23
_PLACES_ROUNDED_TO = 64
_BITS_OF_CERTAINTY = 64


def lists_rows_of(view: View) -> bool:
    """Whether rows of this view can be computed apart: not if another matrix, or features in another order, are involved."""
    if any(getattr(view, name) is not None for name in view._fields if name not in _LISTED_FIELDS):
        return False
    return view.mask is None or not view.mask.elements or isinstance(view.device_graph.features, Tensor)


def capacity(
    links: SparseMatrix, wanted: int, rate: float, hops: int, draws: Tensor | None = None, sizes: Tensor | None = None
) -> int:
    r"""A number that the nodes within some hops of drawn ones exceed with a chance below 2^-64, in any one draw.

    They are at most as many as the nodes of trees that grow from each drawn node against its edges, each kept by itself. The
    logarithm of :math:`E e^{t n}`, for n nodes of a tree from node i, is :math:`g_0(i) = t` and

    .. math:: g_{h+1}(i) = t + \sum_{j \to i} \log(p + (1 - p) e^{g_h(j)})

    for a drop rate p. Chernoff's bound for the trees of some nodes is :math:`(\sum_i g(i) + 64 \log 2) / t`, of which the least
    over t is taken, and of all ``draws``, one a row, the largest. Where these are not known, the sum is replaced by :math:`m
    \log \frac{1}{N} \sum_i e^{g(i)}` for m ``wanted`` nodes drawn uniformly, which holds without replacement, too (Hoeffding,
    1963); a hub that may be drawn then makes the bound much larger. A node counts for its ``sizes``, or for 1.
    """
    count = links.shape[0]
    total = count if sizes is None else int(sizes.sum())
    size = 1.0 if sizes is None else sizes.double() * (count / max(total, 1))
    bounds = []
    for half in range(-3, 29):
        t = 2 ** (-half / 2)
        node_term = t * size
        g = links.values.new_zeros((count,), dtype=torch.float64) + node_term
        for _ in range(hops):
            each = torch.log(rate + (1 - rate) * g.exp())
            arriving = torch.segment_reduce(each[links.columns], "sum", offsets=links.indptr, unsafe=True)
            g = node_term + arriving - each  # Without the self-loop, which leads to no other node.
        trees = wanted * (g.logsumexp(0) - math.log(count)) if draws is None else g[draws].sum(1)
        bounds.append((trees + _BITS_OF_CERTAINTY * math.log(2)) / t)
    least = float(torch.stack(bounds).nan_to_num(nan=torch.inf).amin(0).max()) * total / count
    return total if least >= total else -(-math.ceil(least) // _PLACES_ROUNDED_TO) * _PLACES_ROUNDED_TO


class ListedFrontier:
    """The nodes within some hops of the wanted ones, against the direction of the edges that a view keeps, and their edges.

    A node's degree is that in the whole view: it follows from the node's own edges.

    Where it is as fast, the engine's maps of all nodes are used. ``draws`` are what ``wanted`` may be, where that is known.
    """

    def __init__(self, view: View, engine: SparseEngine, wanted: Tensor, streams: Streams | None, draws: Tensor | None = None):
        self.view, self.engine, self.streams, self._draws = view, engine, streams or Streams(), draws
        self._wanted, self._kernels, self._links = wanted, the_kernels(), view.propagation
        self._levels: list[Any] = []
        self._kept: dict[int, tuple[Any, Tensor]] = {}
        self._taken: dict[int, Any] = {}

    @cached_property
    def selected(self) -> Operators:
        """The maps that compute all rows."""
        return SelectedOperators(self.engine.operators(self.view.bounded(), self.streams), self._wanted)

    @property
    def pays(self) -> bool:
        """Whether to compute all rows would not be as fast: not on small graphs, nor where one hop may reach most nodes."""
        return len(self._links.columns) >= _ENTRIES_WORTH_FINDING and self._capacity(1) < self._links.shape[0]

    @property
    def _large(self) -> bool:
        return len(self._links.columns) >= _ENTRIES_OF_LARGE_GRAPH

    def places(self, hops: int) -> Any:
        """Where the rows of the nodes within ``hops`` hops go."""
        count, device = self._links.shape[0], self._wanted.device
        if not self._levels:
            place = torch.full((count,), -1, dtype=torch.int32, device=device)
            order = torch.arange(len(self._wanted), dtype=torch.int32, device=device)
            excess = torch.zeros(1, device=device) if self._large else None
            self._levels.append(self._kernels.Places(place.index_copy_(0, self._wanted, order), self._wanted.int(), excess))
        while len(self._levels) <= hops:
            reached = torch.zeros(count, dtype=torch.int8, device=device)
            self._reach(len(self._levels) - 1, reached)
            self._levels.append(self._kernels.number_nodes(reached, self._capacity(len(self._levels))))
        return self._levels[hops]

    def _bound(self, hops: int, starts: str | None = None) -> int:
        """How many nodes there may be within ``hops`` hops, or entries between the ``starts`` of their rows."""
        links, drop = self._links, self.view.drop
        rate = drop.rate if drop is not None and isinstance(drop.rate, float) else 0.0
        wanted, draws = len(self._wanted), self._draws
        asker = ("capacity", starts, wanted, rate, hops, None if draws is None else IdentityKey(draws))

        def bound() -> int:
            return capacity(links, wanted, rate, hops, draws, None if starts is None else getattr(links, starts).diff())

        return links.once(asker, bound)

    def _capacity(self, hops: int) -> int:
        """How many places there are for nodes within ``hops`` hops."""
        bound, count, neighbors = self._bound(hops), self._links.shape[0], self.view.neighbors
        if neighbors is not None:
            bound = min(bound, len(self.places(hops - 1)) * (1 + neighbors.most))
        return bound if _NODES_PER_PLACE * bound <= count else count

    def _rows(self, hops: int, transposed: bool = False) -> Any:
        """Edges to the nodes within ``hops`` hops, or from them."""
        places, room = self.places(hops), None
        if self._large and places.nodes is not None:
            room = self._bound(hops, "transposed_indptr" if transposed else "indptr")
        structure = structures(self._links)[transposed]
        return self._kernels.list_rows(structure, places, room, alone=self.view.neighbors is not None)

    def _keep(self, hops: int, reached: Tensor | None = None) -> None:
        """Keep edges to the nodes within ``hops`` hops, with the numbers of nodes as columns, and the sum of each row."""
        rows = self._rows(hops)
        self._kept[hops] = self._kernels.drop_entries(rows, self.view.drop, nodes=self.places(hops).nodes, found=reached)

    def _scale(self, hops: int) -> Tensor:
        """One over the root of each degree."""
        if hops not in self._kept:
            self._keep(hops)
        return self._kernels.inverse_roots(self._kept[hops][1], self.places(hops))

    def _reach(self, hops: int, reached: Tensor) -> None:
        """Find what is one hop further than the nodes within ``hops`` hops."""
        neighbors, links = self.view.neighbors, self._links
        self._keep(hops, reached if neighbors is None else None)
        if neighbors is not None:
            places, kept = self.places(hops), self._kept[hops][0]
            loops = None if kept.values is None else links.once("loops", lambda: links.values[links.rows == links.columns])
            self._taken[hops] = self._kernels.take_neighbors(kept, places, neighbors.key, neighbors.most, loops)
            self._kernels.mark_columns(self._taken[hops], reached)

    def matrix(self, hops: int) -> Matrix:
        """What propagates from the nodes within ``hops`` hops to those within one hop fewer."""
        source, target = self.places(hops), self.places(hops - 1)
        taken = self._taken.get(hops - 1)
        # Listed before its scale is read, which is NaN if there is no room.
        back = self._rows(hops, transposed=True) if taken is None else None
        left, right = self._scale(hops - 1), self._scale(hops)
        forward = self._kept[hops - 1][0] if taken is None else taken
        if source.nodes is not None:
            forward = self._kernels.drop_entries(forward, None, place=source.place)[0]

        def transposed() -> Any:
            if back is None:
                return self._kernels.transpose(forward, len(source))
            drop = None if self.view.drop is None else self.view.drop.reordered(self._links.order)
            return self._kernels.drop_entries(back, drop, True, source.nodes, target.place)[0]

        return KernelMatrix(self.engine.dense, forward, transposed, left, right)

    def features(self, hops: int, x: SparseMatrix) -> Features:
        """The sparse features of the nodes within ``hops`` hops."""
        (forward, transposed), places = structures(x), self.places(hops)
        rows = self._kernels.list_rows(forward, places)

        def build() -> Any:
            return self._kernels.drop_entries(transposed, None, place=places.place)[0]

        return KernelFeatures(rows, build, self.engine, x, self.view.mask)


class ListedOperators(MatrixOperators):
    """The maps between the rows of the nodes within ``hops`` of the wanted ones and those within one hop fewer."""

    def __init__(self, frontier: ListedFrontier, hops: int = 0):
        super().__init__(frontier.view, frontier.engine)
        self._frontier, self._hops = frontier, hops

    def within(self, hops: int) -> Operators:
        if hops and not self._frontier.pays:
            return self._frontier.selected.within(hops)
        return ListedOperators(self._frontier, hops)

    def unpadded(self) -> Operators:
        return self._frontier.selected.within(self._hops)

    @cached_property
    def nodes(self) -> Tensor | None:
        """The nodes whose rows go in, and any one for an empty row; None for all."""
        nodes = self._frontier.places(self._hops).nodes
        return None if nodes is None else nodes.long().clamp_(min=0)

    @cached_property
    def adjacency(self) -> Matrix:
        return self._frontier.matrix(self._hops)

    @cached_property
    def _x(self) -> Tensor | Features:
        x, nodes = self.view.device_graph.features, self.nodes
        if isinstance(x, SparseMatrix):
            return self._frontier.features(self._hops, x)
        x = self._engine.all_features(self.view.device_graph, x)
        return self._without_masked_elements(x if nodes is None else x.index_select(0, nodes), nodes)

    @property
    def features(self) -> Tensor:
        if isinstance(self._x, Tensor):
            return super().features
        x = self._x.to_dense()
        return x if self.nodes is None else x.index_select(0, self.nodes)

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        product = super().project
        if self.view.mask is not None or self.nodes is not None or isinstance(self._x, Features):
            return product(weight, bias)
        # Views with all features of all nodes share this product.
        return self._frontier.streams.once(IdentityKey(weight, bias), lambda: product(weight, bias))
