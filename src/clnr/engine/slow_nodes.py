"""A view with slow nodes on its edges: the plain view's maps, corrected along these edges."""

from __future__ import annotations

import torch
from torch import Tensor

from clnr.engine.attention import at_source, at_target, collect
from clnr.engine.base import Operators
from clnr.engine.dense import at_least_float32
from clnr.engine.view import View
from clnr.errors import MethodError


class SlowEdges:
    r"""The edges of a view that have a slow node, and what they propagate by.

    An edge of weight w from u to v becomes u -> s -> v with a slow node s, to which v sends, too. All three edges have
    weight w, and s has a self-loop as any node:

    .. math:: d_s = 1 + 2w, \quad
        \hat a_{su} = \frac{w}{\sqrt{d_s d_u}}, \quad
        \hat a_{sv} = \hat a_{vs} = \frac{w}{\sqrt{d_s d_v}}, \quad
        \hat a_{ss} = \frac{1}{d_s}

    What v receives weighs as much as before, so that no node's degree changes.

    Attributes:
        edges: These edges alone; slow nodes are in their order.
        alpha: The source's share in a slow node's features.
        source: From u to s.
        target: From v to s, and back.
        own: From s to s.
        direct: From u to v, had there been no slow node.
    """

    def __init__(self, view: View):
        links, slow_nodes = view.propagation, view.slow_nodes
        assert slow_nodes is not None
        if view.propagation_matrix is not None:
            raise MethodError("a view that propagates by a matrix of its own has no edges for slow nodes to stand on")
        keep = view.kept
        scale = collect((links.values.double() * keep)[:, None], links).rsqrt()
        self.edges, self.alpha = links.only(keep & slow_nodes.on(links)), slow_nodes.alpha
        weight, of_source, of_target = self.edges.values.double()[:, None], scale[self.edges.columns], scale[self.edges.rows]
        of_slow = (1 + 2 * weight).rsqrt()
        self.source, self.target = weight * of_slow * of_source, weight * of_slow * of_target
        self.own, self.direct = of_slow.square(), weight * of_source * of_target


class SlowNodeOperators(Operators):
    """Half-Hop: messages along some edges take two steps.

    Azabou et al., "Half-Hop: a graph upsampling approach for slowing down message passing" (2023). Slow nodes are never
    wanted themselves: ``within`` one hop or more, their rows stand below the nodes', and ``propagate`` from within one hop
    leaves them out. What is exchanged with them is gathered and added up edge by edge, by the same code on every engine:
    slower than the plain maps.

    Args:
        plain: The maps of the view without slow nodes.
        slow: Where these stand.
        hops: How far from the wanted nodes the input is.
    """

    def __init__(self, plain: Operators, slow: SlowEdges, hops: int = 0):
        super().__init__(plain.view)
        self._plain, self._slow, self._hops, self.dense = plain, slow, hops, plain.dense

    def within(self, hops: int) -> Operators:
        return SlowNodeOperators(self._plain, self._slow, hops)

    @property
    def features(self) -> Tensor:
        return self._with_slow(self._plain.features)

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._with_slow(self._plain.project(weight, bias))

    def _with_slow(self, rows: Tensor) -> Tensor:
        """Rows that are linear in the features, those of slow nodes below."""
        if not self._hops:
            return rows
        wide, edges, alpha = at_least_float32(rows), self._slow.edges, self._slow.alpha
        return torch.cat([rows, (alpha * at_source(wide, edges) + (1 - alpha) * at_target(wide, edges)).to(rows.dtype)])

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        if not self._hops:
            raise MethodError("slow nodes are for encoders of graph convolutions alone: only these say how many hops they take")
        slow, edges = self._slow, self._slow.edges
        h = h.relu() if relu else h
        nodes, below = h.split([edges.shape[0], len(edges.rows)])
        wide, of_slow = at_least_float32(nodes), at_least_float32(below)
        source, target, own, direct = (each.to(wide.dtype) for each in (slow.source, slow.target, slow.own, slow.direct))
        of_source = at_source(wide, edges)
        # The plain maps have sent along all edges; what has to take two steps is taken back.
        received = self._plain.propagate(nodes) + collect(target * of_slow - direct * of_source, edges)
        if self._hops == 1:
            return received.to(h.dtype)
        return torch.cat([received, source * of_source + target * at_target(wide, edges) + own * of_slow]).to(h.dtype)

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        if h is None:
            product = self.project(weight)
        elif weight.shape[0] <= weight.shape[1]:
            return self.dense.linear(self.propagate(h, relu), weight.to(h.dtype), bias)
        else:
            product = (h.relu() if relu else h) @ weight.to(h.dtype)
        return self.propagate(product) + bias.to(product.dtype)

    def attend(self, h: Tensor, source: Tensor, target: Tensor, place: str) -> Tensor:
        raise MethodError("slow nodes are for encoders of graph convolutions alone, not for attention")
