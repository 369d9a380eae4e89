"""An encoder's layers one after the other, for a block of nodes at a time: what embeds a graph that is larger than memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from torch import Tensor

from clnr.engine.base import Engine
from clnr.engine.operators import Operators
from clnr.engine.view import View

Propagate = Callable[[bool], Tensor]
"""A_hat h, or A_hat relu(h) if it is given True, for a block of nodes and rows h of all nodes that are in files."""


class LayerEndError(Exception):
    """Not a failure: the next layer has been asked for; ``rows`` are what that propagates."""

    def __init__(self, rows: Tensor):
        super().__init__("the next layer begins")
        self.rows = rows


class LayerOperators(Operators):
    """The maps of a block of nodes in one pass: an encoder is run again for each layer, and only that layer is computed.

    A layer is a call of ``propagate`` or ``convolve``, counted from 1. Those before this pass's ``layer`` give zeros, which
    nothing is made of; its own takes what ``propagated`` gives; the one after it ends the pass with ``LayerEndError``. So an
    encoder must give each layer what the one before has made, and nothing besides: no other rows are the block's. Layer 0 is
    what comes before the first one.
    """

    def __init__(self, view: View, engine: Engine, nodes: Tensor, layer: int, propagated: Propagate):
        super().__init__(view)
        self._engine, self._block, self.dense = engine, nodes, engine.dense
        self._count, self._layer, self._propagated = len(nodes), layer, propagated
        self.calls = 0

    @cached_property
    def _own(self) -> Operators:
        """What gives the features of the block's own nodes."""
        return self._engine.sampled_operators(self.view, self._block).within(0)

    @property
    def features(self) -> Tensor:
        return self._own.features

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._own.project(weight, bias)

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        self.calls += 1
        if self.calls > self._layer:
            raise LayerEndError(h)
        return self._propagated(relu) if self.calls == self._layer else h.new_zeros(self._count, h.shape[1])

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        # Propagated are the fewer numbers: rows before they are multiplied by the weight, or after that.
        multiplied, self.calls = weight.shape[0] > weight.shape[1], self.calls + 1
        if self.calls > self._layer:
            if multiplied:
                raise LayerEndError(self.project(weight) if h is None else (h.relu() if relu else h) @ weight)
            raise LayerEndError(self.features if h is None else h)
        if self.calls < self._layer:
            return weight.new_zeros(self._count, weight.shape[1])
        if multiplied:
            return self._propagated(False) + bias
        return self.dense.linear(self._propagated(relu and h is not None), weight, bias)
