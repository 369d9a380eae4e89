"""The rows that a read-out is made from, of a graph in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from clnr.engine import Engine, Operators, View, unit_rows
from clnr.engine.streams import IdentityKey
from clnr.graph.csr import Array
from clnr.nn import edge_information, readout_blocks
from clnr.nn.inputs import STEPS
from clnr.nn.readout_blocks import Product, ReducedFeatures, Rows, Source, fitted_nodes
from clnr.nn.structure import walks

_COLUMNS = 256


class WholeRows(Rows):
    """Rows of all nodes on a device, which methods over the same graph share. The engine computes in float32.

    The sample is ``nodes``, sorted; None for those that stand for all.
    """

    def __init__(
        self, engine: Engine, view: View, encoded: Sequence[Tensor], own: Collection[int] = (), nodes: Array | None = None
    ):
        self.engine, self.view, self.encoded, self.own = engine, view, encoded, own
        self.device, self.device_graph = engine.device, view.device_graph
        self.num_outputs, self.num_features = len(encoded), self.device_graph.num_features
        count = self.device_graph.graph.num_nodes
        self.sample, self._rows = None, cast(Tensor | slice, slice(None))
        if count > readout_blocks.FITTED_NODES:
            fitted = fitted_nodes(count).numpy()
            self.sample = fitted if nodes is None else nodes
            self.fitted, self._rows = self.places(fitted), torch.from_numpy(self.sample).to(self.device)

    @functools.cached_property
    def operators(self) -> Operators:
        """The linear maps of the view."""
        return self.engine.operators(self.view)

    def width(self, encoder: int) -> int:
        return self.encoded[encoder].shape[1]

    def _parts(self, source: Source, weight: Tensor | None = None) -> list[Tensor]:
        """The rows of a source, times a weight if it is features: matrices that stand side by side."""
        if source.walk_columns:
            return walks(self.engine, self.device_graph, source.walk_columns, STEPS)
        if source.encoder is None:
            return [self.operators.features if weight is None else self.operators.project(weight)]
        rows = self.encoded[source.encoder]
        return [unit_rows(rows) if source.unit else rows]

    def matrices(self, products: Sequence[Product]) -> list[Tensor]:
        chains: dict[tuple[Source, IdentityKey], list[int]] = {}
        made: dict[int, Tensor] = {}
        for number, (source, hops, weight) in enumerate(products):
            if source == Source() and self.num_features <= readout_blocks.MOST_INNER_PRODUCTS:
                features = self._features(hops)
                made[number] = features if weight is None else features @ weight
            else:
                chains.setdefault((source, IdentityKey(weight)), []).append(number)
        for (source, _), numbers in chains.items():
            parts = self._parts(source, products[numbers[0]].weight)
            found = _hops(self.operators, parts, {products[number].hops for number in numbers}, self._rows)
            made |= {number: found[products[number].hops] for number in numbers}
        return [made[number] for number in range(len(products))]

    def _features(self, hops: int) -> Tensor:
        """The features of the sample, propagated ``hops`` times, some columns at a time."""

        def make() -> Tensor:
            x, width, parts = self.device_graph.features, self.num_features, []
            for start in range(0, max(1, width), _COLUMNS):
                some = slice(start, start + _COLUMNS)
                if isinstance(x, torch.Tensor):
                    columns = x[:, some]
                else:
                    columns = self.operators.project(torch.eye(width, device=self.device)[:, some])
                parts.append(_hops(self.operators, [columns], {hops}, self._rows)[hops])
            return torch.cat(parts, 1)

        # Few products make the others again.
        return self.device_graph.once(("features of a sample", hops, IdentityKey(self.sample)), make) if hops > 1 else make()

    def directions(self, block: ReducedFeatures) -> Tensor:
        find = functools.partial(super().directions, block)
        return self.device_graph.once(("directions", type(block).__name__, block.count), find)

    def iterated_directions(self, block: ReducedFeatures) -> Tensor:
        return block.iterated_directions(self.engine, self.view)

    def measure(self, products: Sequence[Product]) -> float:
        graph = self.device_graph.graph
        return edge_information.edge_weight(graph.draw_neighbours, [self._reader(each) for each in products], graph.num_nodes)

    def _reader(self, product: Product) -> Callable[[Array], Tensor]:
        """What reads rows of a matrix: of all nodes at once where these are few, else of those that are read."""
        x, (source, _, weight) = self.device_graph.features, product
        if weight is not None and isinstance(x, torch.Tensor) and len(x) > edge_information.MOST_COMPARED:
            return lambda nodes: x[torch.from_numpy(nodes).to(self.device)] @ weight
        make = functools.cache(lambda: self._parts(source, weight)[0])
        return lambda nodes: make()[torch.from_numpy(nodes).to(self.device)]

    def add_up(self, hop: int, terms: dict[Source, Tensor], bias: Tensor | None, before: Any) -> Any:
        total = None if before is None else self.operators.propagate(before)
        dense = self.view.is_whole and isinstance(self.device_graph.features, torch.Tensor)
        for source, weight in terms.items():
            if source == Source() and not dense:
                rows = self.operators.project(weight)
                total = rows if total is None else total.add_(rows)
                continue
            parts = self._parts(source)
            for part, factor in zip(parts, weight.split([each.shape[1] for each in parts]), strict=True):
                total = part @ factor if total is None else total.addmm_(part, factor)
        assert total is not None
        return total if bias is None else total.add_(bias)


def _hops(operators: Operators, parts: list[Tensor], hops: Collection[int], nodes: Tensor | slice) -> dict[int, Tensor]:
    """The rows of some nodes, after each number of propagations, of matrices that stand side by side."""
    found: dict[int, Tensor] = {}
    last = max(hops)
    for hop in range(last + 1):
        if hop == last > 0:
            # Of others, no rows are needed any more.
            some = [operators.propagate_to(nodes, part) for part in parts]
        else:
            parts = [operators.propagate(part) for part in parts] if hop else parts
            some = [part[nodes] for part in parts] if hop in hops else []
        if hop in hops:
            found[hop] = some[0] if len(some) == 1 else torch.cat(some, 1)
    return found
