"""The linear maps of one view of a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from clnr.engine.attention import attend
from clnr.engine.dense import PLAIN, Dense
from clnr.engine.view import View

_ROWS = 1 << 12


class Operators(ABC):
    r"""The linear maps of one view: features :math:`X` and propagation :math:`\hat A = D^{-1/2} (A + I) D^{-1/2}`.

    The normalisation is that of the view's remaining edges: :math:`D` is the weight that a node receives, its self-loop
    included (Kipf and Welling, 2017). A view with a ``propagation_matrix`` propagates by that, as it is.
    """

    dense: Dense = PLAIN
    """The engine's dense operations."""

    def __init__(self, view: View):
        self.view = view

    def within(self, hops: int) -> Operators:
        """The maps between the rows of nodes within ``hops`` hops of the wanted ones and of those within one hop fewer.

        ``features`` and ``project`` then give the rows of nodes within ``hops``, which ``dropout`` takes; ``propagate`` and
        ``convolve`` take these and give those of nodes within ``hops - 1``. Where all nodes are wanted, this is the same at
        any distance.
        """
        return self

    @property
    def nodes(self) -> Tensor | None:
        """The nodes whose rows go in; None for all."""
        return None

    def unpadded(self) -> Operators:
        """The same maps with no rows besides those of nodes, for what looks at whole columns between layers.

        A GPU engine may leave room for more nodes than a sampled step needs: rows that no other row depends on.
        """
        return self

    def dropout(self, h: Tensor, place: str) -> Tensor:
        """Activations after the view's dropout, drawn anew at each named place."""
        return h if self.view.dropout is None else self.view.dropout(h, place, self.nodes)

    def attend(self, h: Tensor, source: Tensor, target: Tensor, place: str) -> Tensor:
        r"""Attention along the view's edges (Velickovic et al., 2018): for each head, node j's row becomes

        .. math:: \sum_i \alpha_{ij} h_i, \quad \alpha_{ij} = \mathrm{softmax}_i \, \mathrm{LeakyReLU}_{0.2}(s_i + t_j)

        over the edges from i to j, its self-loop among them; their weights do not count. Rows h are [N, H, D], scores [N, H];
        the dropout of the attention weights is that of ``place``.
        """
        edges, drop = self.view.device_graph.edges, self.view.drop
        keep = None if drop is None else drop.keep(edges)
        return attend(edges, keep, h, source, target, lambda share: self.dropout(share, place), self.dense)

    @property
    @abstractmethod
    def features(self) -> Tensor:
        """The view's features X, dense."""

    @abstractmethod
    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """X W, or X W + b."""

    @abstractmethod
    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        """A_hat h, or A_hat relu(h)."""

    def propagate_to(self, nodes: Tensor | slice, h: Tensor) -> Tensor:
        """The rows of some nodes in A_hat h."""
        return self.propagate(h)[nodes]

    @abstractmethod
    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        """A_hat h W + b, in the cheaper order, or A_hat relu(h) W + b; without ``h``, A_hat X W + b."""


class SelectedOperators(Operators):
    """All rows are computed, and those of the wanted nodes are selected: what other operators ``within`` hops must equal."""

    def __init__(self, whole: Operators, nodes: Tensor, hops: int = 0):
        super().__init__(whole.view)
        self._whole, self._nodes, self._hops, self.dense = whole, nodes, hops, whole.dense

    @property
    def nodes(self) -> Tensor | None:
        return self._nodes if self._hops == 0 else None

    def within(self, hops: int) -> Operators:
        return SelectedOperators(self._whole.within(hops), self._nodes, hops)

    def _input(self, rows: Tensor) -> Tensor:
        return rows.index_select(0, self._nodes) if self._hops == 0 else rows

    def _output(self, rows: Tensor) -> Tensor:
        return rows.index_select(0, self._nodes) if self._hops == 1 else rows

    @property
    def features(self) -> Tensor:
        return self._input(self._whole.features)

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._input(self._whole.project(weight, bias))

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        return self._output(self._whole.propagate(h, relu))

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        return self._output(self._whole.convolve(weight, bias, h, relu))


def unit_rows(z: Tensor) -> Tensor:
    """Rows scaled to length 1; a zero row stays zero, with a zero gradient."""
    return z * _inverse_length(z)


def unit_rows_(z: Tensor) -> Tensor:
    """``unit_rows`` in place, some rows at a time: no other matrix of their size is made."""
    for rows in z.split(_ROWS):
        rows.mul_(_inverse_length(rows))
    return z


def _inverse_length(z: Tensor) -> Tensor:
    length = z.square().sum(1, keepdim=True)
    zero = length == 0
    return torch.where(zero, 0, torch.where(zero, 1, length).rsqrt())
