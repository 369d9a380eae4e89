"""A view with slow nodes on its edges: the plain view's maps, corrected along these edges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from clnr.engine.attention import collect
from clnr.engine.base import Operators
from clnr.engine.dense import PLAIN, at_least_float32
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.view import View
from clnr.errors import MethodError

_WIDTH = 64


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

    def weights(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``source``, ``target``, ``own`` and ``direct``, in the precision in which rows of this type are added up."""
        wide = torch.promote_types(dtype, torch.float32)
        return self.source.to(wide), self.target.to(wide), self.own.to(wide), self.direct.to(wide)


class _Between(torch.autograd.Function):
    """The rows of slow nodes, each between those of its edge's ends."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slow: SlowEdges) -> Tensor:
        ctx.slow = slow
        edges, alpha = slow.edges, slow.alpha
        made = rows.new_empty(len(edges.rows), rows.shape[1])
        for k in _columns(rows):
            wide = at_least_float32(rows[:, k])
            made[:, k] = alpha * wide[edges.columns] + (1 - alpha) * wide[edges.rows]
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        edges, alpha = ctx.slow.edges, ctx.slow.alpha
        sent = grad.new_empty(edges.shape[0], grad.shape[1])
        for k in _columns(grad):
            wide = at_least_float32(grad[:, k])
            sent[:, k] = _at_sources(alpha * wide, edges) + _at_targets((1 - alpha) * wide, edges)
        return sent, None


class _Exchange(torch.autograd.Function):
    """What slow nodes change in what nodes receive, and, if ``both``, what they receive themselves."""

    @staticmethod
    def forward(ctx: Any, nodes: Tensor, below: Tensor, slow: SlowEdges, both: bool) -> tuple[Tensor, Tensor]:
        ctx.slow, ctx.both = slow, both
        source, target, own, direct = slow.weights(nodes.dtype)
        edges = slow.edges
        correction = torch.empty_like(at_least_float32(nodes))
        received = torch.empty_like(below) if both else below.new_empty(0, below.shape[1])
        for k in _columns(nodes):
            wide, of_slow = at_least_float32(nodes[:, k]), at_least_float32(below[:, k])
            of_source = wide[edges.columns]
            correction[:, k] = _at_targets(target * of_slow - direct * of_source, edges)
            if both:
                received[:, k] = source * of_source + target * wide[edges.rows] + own * of_slow
        return correction, received

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        of_correction, of_received = grads
        slow, both = ctx.slow, ctx.both
        source, target, own, direct = slow.weights(of_received.dtype)
        edges = slow.edges
        to_nodes = of_received.new_empty(of_correction.shape)
        to_slow = of_received.new_empty(len(edges.rows), of_correction.shape[1])
        for k in _columns(of_correction):
            grad = of_correction[:, k][edges.rows]
            sources, slows = -direct * grad, target * grad
            if both:
                of_slow = at_least_float32(of_received[:, k])
                sources, slows = sources + source * of_slow, slows + own * of_slow
            to_slow[:, k] = slows
            sent = _at_sources(sources, edges)
            to_nodes[:, k] = sent + _at_targets(target * of_slow, edges) if both else sent
        return to_nodes, to_slow, None, None


def _columns(rows: Tensor) -> list[slice]:
    """Some columns at a time: rows of edges take much more memory than those of nodes."""
    return [slice(begin, begin + _WIDTH) for begin in range(0, rows.shape[1], _WIDTH)]


def _at_targets(values: Tensor, edges: SparseMatrix) -> Tensor:
    return PLAIN.segment_sums(values, edges)


def _at_sources(values: Tensor, edges: SparseMatrix) -> Tensor:
    return PLAIN.segment_sums(values[edges.order], edges, transposed=True)


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
        return torch.cat([rows, _Between.apply(rows, self._slow)])

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        if not self._hops:
            raise MethodError("slow nodes are for encoders of graph convolutions alone: only these say how many hops they take")
        edges = self._slow.edges
        nodes, below = (h.relu() if relu else h).split([edges.shape[0], len(edges.rows)])
        # The plain maps have sent along all edges; what has to take two steps is corrected.
        correction, slow_rows = _Exchange.apply(nodes, below, self._slow, self._hops > 1)
        received = (self._plain.propagate(nodes) + correction).to(h.dtype)
        return torch.cat([received, slow_rows]) if self._hops > 1 else received

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
