"""The rows that a read-out is made from, of a graph in blocks: made by passes over all nodes, and read from files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.rows.passes import Block, Passes, TakeRows, beside, walk_widths
from clnr.engine import View, unit_rows
from clnr.engine.blocks import gather_rows
from clnr.engine.streams import IdentityKey
from clnr.graph.csr import Array
from clnr.nn.edge_information import ReadRows, edge_weight
from clnr.nn.inputs import STEPS
from clnr.nn.readout_blocks import Product, ReducedFeatures, Rows, Source, fitted_nodes

_Key = tuple[Source, int, IdentityKey]


class BlockRows(Rows):
    """The rows that the read-out of a model is made from. All workers call the same functions of it.

    All workers make the rows of a ``sample``, if one is given; then the first alone looks at them. Outputs of the encoder are
    side by side in one file. Of many features, products with the directions of a block are propagated.
    """

    def __init__(self, fitted: FittedModel, passes: Passes, sample: Array | None = None, take: TakeRows | None = None):
        built = fitted.method.build(fitted.recipe)
        assert built.readout is not None
        self._fitted, self._readout, self._passes, self._take = fitted, built.readout, passes, take
        self.num_outputs, self.own = built.encoder.num_outputs, built.encoder.own_outputs
        self._graph = passes.prepared(built, fitted.parameters)
        self.num_features, self.device = self._graph.num_features, passes.engine.device
        self._encoded = built.encoder.width(self.num_features) if self.num_outputs else 0
        self._walk_widths = walk_widths(built)
        self.sample = fitted_nodes(passes.graph.num_nodes).numpy() if sample is None else sample
        self.fitted = self.places(fitted_nodes(passes.graph.num_nodes).numpy())
        self._sampled: dict[_Key, Callable[[], Tensor]] = {}
        self._iterated: dict[ReducedFeatures, Tensor] = {}
        if sample is not None:
            self._make()

    def width(self, encoder: int) -> int:
        return self._encoded

    # -- rows of sources, and those of the sample that are propagated --------------------------------------------------

    def _make(self) -> None:
        """Make the rows of the sample that fitting the read-out looks at."""
        many = self._readout.reducing_many(self.num_features)
        learned = {f"{place}.directions": self.iterated_directions(block) for place, block in many}
        for _, product in self._readout.products(learned, self.num_outputs):
            key = self._key(product)
            if key not in self._sampled:
                number = len({each[2] for each in self._sampled} | {key[2]})
                self._sampled[key] = functools.cache(functools.partial(self._read_sample, self._at(product, number)))
        self._passes = self._passes.alone()

    def _read_sample(self, read: ReadRows) -> Tensor:
        assert self.sample is not None
        return read(self.sample).to(self.device)

    def _key(self, product: Product) -> _Key:
        many = product.source == Source() and self._readout.reducing_many(self.num_features)
        source = product.source if product.source.encoder is None else product.source._replace(encoder=0)
        return source, product.hops, IdentityKey(product.weight if many else None)

    @functools.cached_property
    def _outputs(self) -> Array:
        return self._passes.encoded(self._fitted)

    def _reader(self, source: Source, weight: Tensor | None = None) -> ReadRows:
        """What reads rows of a source, with all outputs of the encoder, before they are propagated."""
        if source.walk_columns:
            return functools.partial(beside, self._passes.walks(source.walk_columns, STEPS))
        if source.encoder is None:
            return self._graph.dense_rows if weight is None else lambda nodes: self._projected(weight, nodes).cpu()
        encoded = self._outputs
        if not source.unit:
            return lambda nodes: torch.from_numpy(gather_rows(encoded, nodes))
        return lambda nodes: torch.cat([unit_rows(each) for each in beside([encoded], nodes).split(self._encoded, 1)], 1)

    def _projected(self, weight: Tensor, nodes: Array) -> Tensor:
        """Features of some nodes times a weight: they need not be dense for that."""
        operators = self._passes.engine.sampled_operators(View(self._graph), torch.from_numpy(nodes))
        return operators.within(0).project(weight.to(self.device))

    def _columns(self, source: Source) -> slice:
        """Which columns of the rows of a source are its own."""
        number, width = source.encoder, self._encoded
        return slice(None) if number is None else slice(number * width, (number + 1) * width)

    def _at(self, product: Product, number: int) -> ReadRows:
        """What reads rows of the sample after propagations, of which the last is made for these nodes alone."""
        passes, (source, hops, _) = self._passes, product
        weight = product.weight if self._readout.reducing_many(self.num_features) else None
        if source.walk_columns and source.walk_columns not in self._walk_widths:
            *steps, last = passes.walks(source.walk_columns, (*STEPS[:-1], max(STEPS) - 1))
            what, name = f"walks, step {max(STEPS)} of {max(STEPS)}", f"walks-{source.walk_columns}-some"
            ended = passes.walk_step(name, what, last, self.sample)
            return lambda nodes: torch.cat([beside(steps, nodes), torch.from_numpy(np.array(ended))], 1)
        read = self._reader(source, weight)
        if not hops:
            return read
        name = f"features-{number}" if source.encoder is None else f"encoded-unit-{source.unit}"
        if source.encoder is not None and not source.unit:
            rows = self._outputs
        else:
            rows = passes.make(f"{name}-hop-0", f"{name} to propagate", lambda block: read(block.nodes), torch.clone)
        for hop in range(1, hops):
            rows = passes.propagated(f"{name}-hop-{hop}", f"{name} propagated {hop} of {hops}", rows)
        rows = passes.propagated(f"{name}-hop-{hops}-some", f"{name} propagated {hops} of {hops}", rows, self.sample)
        return lambda nodes: torch.from_numpy(np.array(rows))

    # -- the fit, by the first worker ---------------------------------------------------------------------------------

    def matrices(self, products: Sequence[Product]) -> list[Tensor]:
        rows = [self._sampled[self._key(product)]() for product in products]
        return [self._matrix(*each) for each in zip(products, rows, strict=True)]

    def _matrix(self, product: Product, rows: Tensor) -> Tensor:
        """A product, given rows of its source that are propagated."""
        matrix, weighted = rows[:, self._columns(product.source)], self._key(product)[2] != IdentityKey(None)
        return matrix if product.weight is None or weighted else matrix @ product.weight

    def iterated_directions(self, block: ReducedFeatures) -> Tensor:
        """The directions of many features, found by the first worker, and the same object at every call."""
        passes, name = self._passes, f"directions-{type(block).__name__}"
        if block not in self._iterated:
            if not passes.workspace.has(name):
                with passes.workspace.writing(name, self.num_features) as rows, passes.computing():
                    if passes.workers.first:
                        directions = block.iterated_directions(passes.engine, View(self._graph))
                        rows.write(0, directions.numpy(force=True))
            self._iterated[block] = torch.from_numpy(np.array(passes.workspace.read(name))).to(self.device)
        return self._iterated[block]

    def measure(self, products: Sequence[Product]) -> float:
        def read(product: Product, nodes: Array) -> Tensor:
            weight = product.weight if self._key(product)[2] != IdentityKey(None) else None
            return self._matrix(product, self._reader(product.source, weight)(nodes).to(self.device))

        draw = functools.partial(self._graph.graph.draw_neighbours, left_out=self._graph.held_out)
        return edge_weight(draw, [functools.partial(read, each) for each in products], self._graph.graph.num_nodes)

    # -- vectors ------------------------------------------------------------------------------------------------------

    def add_up(self, hop: int, terms: dict[Source, Tensor], bias: Tensor | None, before: Any) -> Any:
        passes = self._passes
        # Sums before one that is there may be dropped already.
        if any(passes.workspace.has(f"sum-{later}") for later in range(1, hop)):
            return None
        width = next(iter(terms.values())).shape[1] if terms else before.shape[1]
        offset = torch.zeros(width, device=self.device) if bias is None else bias.to(self.device)
        reads = [self._product(source, weight) for source, weight in self._side_by_side(terms).items()]

        def read(block: Block) -> tuple[int, Any, list[Tensor]]:
            propagated = None if before is None else block.propagate(before)
            return len(block.nodes), propagated, [each(block.nodes) for each in reads]

        def compute(given: Any) -> Tensor:
            count, propagated, parts = given
            return sum(parts, offset.expand(count, -1) if propagated is None else offset + propagated(False))

        if hop:
            total = passes.make(f"sum-{hop}", f"read-out, sums of {hop} propagations", read, compute)
            passes.workspace.drop(f"sum-{hop + 1}")
            return total
        assert self._take is not None
        passes.each_block("read-out, vectors", read, compute, self._take)
        return width

    def _product(self, source: Source, weight: Tensor) -> ReadRows:
        """What reads rows of a source times a weight."""
        if source == Source():
            return functools.partial(self._projected, weight)
        read, weight = self._reader(source), weight.to(self.device)
        return lambda nodes: read(nodes).to(self.device) @ weight

    def _side_by_side(self, terms: dict[Source, Tensor]) -> dict[Source, Tensor]:
        """Weights of sources; all outputs of the encoder have one together."""
        weights: dict[Source, Tensor] = {}
        for source, weight in terms.items():
            stored = source if source.encoder is None else source._replace(encoder=0)
            rows = len(weight) if source.encoder is None else self.num_outputs * self._encoded
            total = weights.setdefault(stored, torch.zeros(rows, weight.shape[1], device=weight.device))
            total[self._columns(source)] += weight
        return weights
