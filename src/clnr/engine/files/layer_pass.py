"""An encoder's layers one after the other, for a block of nodes at a time: what embeds a graph that is larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import Tensor

from clnr.engine.base import Engine
from clnr.engine.operators import Operators
from clnr.engine.view import View
from clnr.graph.csr import Array

ReadRows = Callable[[Array], Tensor]
"""Rows of some nodes, in their order."""
_GIVEN_ROWS = ("given", 1)


class LayerEndError(Exception):
    """Not a failure: a layer is computed, and the next one has been asked for; ``rows`` are what that was given."""

    def __init__(self, rows: Tensor):
        super().__init__("the next layer begins")
        self.rows = rows


class LayerOperators(Operators):
    """The maps of a block of nodes in one pass: an encoder is run again for each layer, and only that layer is computed.

    A layer is a call of ``propagate`` or ``convolve``. Those before this pass's give zeros, which nothing is made of; its own
    reads the rows that it would be given from what the pass before has ``stored`` (the first one reads the features), for the
    block's nodes and their neighbours; the one after it ends the pass with ``LayerEndError``. So an encoder must give each
    layer what the one before has made, and nothing besides: no other rows are the block's.
    """

    def __init__(self, view: View, engine: Engine, nodes: Tensor, layer: int, stored: ReadRows | None):
        super().__init__(view)
        self._block = engine.sampled_operators(view, nodes)
        self._count, self._layer, self._stored = len(nodes), layer, stored
        self._calls = 0
        self._given: Tensor | None = None
        self.dense = self._block.dense

    def _is_turn(self, h: Tensor | None) -> bool:
        """Whether the layer that is asked for now is this pass's own."""
        turn, self._calls = self._calls, self._calls + 1
        if turn > self._layer:
            assert h is not None
            raise LayerEndError(h)
        return turn == self._layer

    def _input(self) -> Tensor | None:
        nodes = self._block.within(1).nodes
        assert nodes is not None
        if self._given is None and self._stored is not None:
            self._given = self._stored(nodes.numpy(force=True)).to(nodes.device)
        return self._given

    @property
    def asked(self) -> frozenset[tuple[str, int]]:
        return self._block.asked | (frozenset() if self._given is None else {_GIVEN_ROWS})

    def read(self, asked: Collection[tuple[str, int]]) -> None:
        self._block.read({each for each in asked if each != _GIVEN_ROWS})
        if _GIVEN_ROWS in asked:
            self._input()

    @property
    def features(self) -> Tensor:
        return self._block.within(0).features

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._block.within(0).project(weight, bias)

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        if not self._is_turn(h):
            return h.new_zeros(self._count, h.shape[1])
        given = self._input()
        return self._block.within(1).propagate(self._block.within(1).features if given is None else given, relu)

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        if not self._is_turn(h):
            return weight.new_zeros(self._count, weight.shape[1])
        return self._block.within(1).convolve(weight, bias, self._input(), relu)
