"""The read-out of a graph in blocks: fitted to rows of a sample, and computed by passes over all nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.rows import Block, Passes, beside, walk_widths
from clnr.engine import View, unit_rows
from clnr.engine.blocks import gather_rows
from clnr.graph.csr import Array
from clnr.nn.edge_information import ReadRows, edge_weight
from clnr.nn.inputs import STEPS
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.readout import FittedRows, Readout, source_weights
from clnr.nn.readout_blocks import Product, ReducedFeatures, Source, fitted_nodes
from clnr.support.humanize import plural

Choose = Callable[[Readout, FittedRows, list[Tensor]], Readout]
"""A read-out in place of another, given what that is fitted to, and the rows of a sample in all matrices."""


def _name(source: Source) -> str:
    """What the rows of a source are called; those of all outputs of the encoder are side by side."""
    if source.encoder is not None:
        return f"encoded-unit-{source.unit}"
    return f"walks-{source.walk_columns}" if source.walk_columns else "features"


def _stored(source: Source) -> Source:
    """The source in whose rows those of a source are: the first output of the encoder stands for all of them."""
    return source if source.encoder is None else source._replace(encoder=0)


class StoredReadout:
    """The read-out of a model that was trained, over the rows of one graph; all workers call the same functions of it."""

    def __init__(self, model: FittedModel, passes: Passes):
        self._model, self._built, self._passes = model, model.method.build(model.recipe), passes
        assert self._built.readout is not None
        self._readout, self._outputs = self._built.readout, self._built.encoder.num_outputs
        self._graph = passes.prepared(self._built, model.parameters)
        self._iterated = self._readout.reducing_many(self._graph.num_features)
        self._width = self._built.encoder.width(self._graph.num_features) if self._outputs else 0
        sources = {_stored(each.source) for each in self._products({})}
        self._walks = [source for source in sources if source.walk_columns]
        self._read = {source: self._reader(source) for source in sources if not source.walk_columns}

    def _products(self, parameters: Parameters) -> list[Product]:
        return [product for _, product in self._readout.products(parameters, self._outputs)]

    # -- rows of sources ----------------------------------------------------------------------------------------------

    def _reader(self, source: Source) -> ReadRows:
        """What reads rows of a source before they are propagated."""
        if source.encoder is None:
            return self._graph.dense_rows
        encoded = self._passes.encode(self._model, self._graph, "encoded")
        if not source.unit:
            return lambda nodes: torch.from_numpy(gather_rows(encoded, nodes))
        return lambda nodes: torch.cat([unit_rows(each) for each in beside([encoded], nodes).split(self._width, 1)], 1)

    def _times(self, source: Source, weight: Tensor, nodes: Array) -> Tensor:
        """Rows of a source at some nodes, times a weight: features need not be dense for that."""
        engine, weight = self._passes.engine, weight.to(self._passes.engine.device)
        if source == Source():
            return engine.sampled_operators(View(self._graph), torch.from_numpy(nodes)).within(0).project(weight)
        return self._read[source](nodes).to(engine.device) @ weight

    def _columns(self, source: Source) -> slice:
        """Which columns of these rows are those of the source."""
        number, width = source.encoder, self._width
        return slice(None) if number is None else slice(number * width, (number + 1) * width)

    def _matrix(self, product: Product, rows: Tensor) -> Tensor:
        """A product, given rows of its source that are propagated."""
        matrix = rows[:, self._columns(product.source)]
        return matrix if product.weight is None else matrix @ product.weight

    def _at(self, source: Source, hops: int, nodes: Array) -> ReadRows:
        """What reads rows of a source at some nodes, after ``hops`` propagations; the last is made for these nodes alone."""
        passes, name = self._passes, _name(source)
        if source.walk_columns in walk_widths(self._built):
            return functools.partial(beside, passes.walks(source.walk_columns, STEPS))
        if source.walk_columns:
            *steps, last = passes.walks(source.walk_columns, (*STEPS[:-1], max(STEPS) - 1))
            ended = passes.walk_step(f"{name}-some", f"walks, step {max(STEPS)} of {max(STEPS)}", last, nodes)
            return lambda nodes: torch.cat([beside(steps, nodes), torch.from_numpy(np.array(ended))], 1)
        if not hops:
            return self._read[source]
        rows = self._to_propagate(source)
        for hop in range(1, hops):
            rows = passes.propagated(f"{name}-hop-{hop}", f"{name} propagated {hop} of {hops}", rows)
        rows = passes.propagated(f"{name}-hop-{hops}-some", f"{name} propagated {hops} of {hops}", rows, nodes)
        return lambda nodes: torch.from_numpy(np.array(rows))

    def _to_propagate(self, source: Source) -> Array:
        """Rows of a source in a file: only those are propagated."""
        passes, name = self._passes, _name(source)
        if source.encoder is not None and not source.unit:
            return passes.encode(self._model, self._graph, "encoded")
        return passes.make(f"{name}-hop-0", f"{name} to propagate", lambda block: self._read[source](block.nodes), torch.clone)

    def _directions(self) -> Parameters:
        """The directions of many features, found by the first worker."""
        passes, found = self._passes, Parameters()
        for place, block in self._iterated:
            name = f"{place}.directions"
            if not passes.workspace.has(name):
                with passes.workspace.writing(name, self._graph.num_features) as rows, passes.computing():
                    if passes.workers.first:
                        directions = block.iterated_directions(passes.engine, View(self._graph))
                        rows.write(0, directions.numpy(force=True))
            found[name] = torch.from_numpy(np.array(passes.workspace.read(name)))
        return found

    # -- the fit ------------------------------------------------------------------------------------------------------

    def fit(self, sample: Array, nodes: Array, choose: Choose | None = None) -> tuple[Parameters, Array]:
        """What the read-out learns from rows of a sample, and the embedding of some nodes of it, both sorted.

        Another read-out over the same blocks may be chosen. Only the first worker learns; others have nothing.
        """
        parameters = self._directions()
        # Of many features, products with all directions side by side are propagated; each block selects its columns.
        widths = [each.shape[1] for each in parameters.values()]
        selected = dict(zip(parameters, torch.eye(sum(widths)).split(widths, 1), strict=True))
        if selected:
            directions = torch.cat([*parameters.values()], 1)
            self._read[Source()] = lambda nodes: self._times(Source(), directions, nodes).cpu()
        wanted = {(_stored(each.source), each.hops): each for each in self._products({})}
        sampled = {key: self._at(*key, sample) for key in wanted}
        if not self._passes.workers.first:
            return {}, np.empty((0, 0), np.float32)
        count, graph = self._passes.graph.num_nodes, self._graph
        some_nodes = fitted_nodes(count).numpy(), nodes
        fitted, of_nodes = (torch.from_numpy(np.searchsorted(sample, each)) for each in some_nodes)
        self._passes.log(f"read-out: fitting its components to {plural(len(fitted), 'node')}")
        read = functools.cache(lambda source, hops: sampled[source, hops](sample))
        draw = functools.partial(graph.graph.draw_neighbours, left_out=graph.held_out)
        with self._passes.computing():
            for place, block in self._readout.places():
                if not selected and isinstance(block, ReducedFeatures) and block.reduced:
                    rows = read(Source(), block.steps).index_select(0, fitted)
                    parameters |= add_prefix(place, {"directions": block.directions(rows)})
            sizes = [size for size, _ in self._readout.products(parameters, self._outputs)]
            products = self._products(parameters | selected)
            matrices = [self._matrix(each, read(_stored(each.source), each.hops)) for each in products]
            some = [matrix.index_select(0, fitted) for matrix in matrices]
            families = self._readout.families(products, self._outputs, self._built.encoder.own_outputs)

            def measure(numbers: tuple[int, ...]) -> float:
                own = [products[number] for number in numbers]
                reads = [functools.partial(self._own_rows, product) for product in own]
                return edge_weight(draw, reads, count)

            of_sample = FittedRows(sizes, families, some, measure)
            readout = self._readout if choose is None else choose(self._readout, of_sample, matrices)
            parameters |= readout.fit_rows(of_sample, torch.device("cpu"))
            z = parameters["bias"] + torch.cat([matrix[of_nodes] for matrix in matrices], 1) @ parameters["weight"]
        return parameters, z.numpy()

    def _own_rows(self, product: Product, nodes: Array) -> Tensor:
        """Rows of a product that is not propagated, of some nodes."""
        return self._matrix(product, self._read[_stored(product.source)](nodes))

    # -- vectors ------------------------------------------------------------------------------------------------------

    def embed(self, take: Callable[[slice, Array], None], done: Callable[[int], bool]) -> int:
        r"""Give the embedding of each block, but of those that are ``done``; returns a vector's numbers.

        As propagation is linear, what is propagated more often is added up before: with rows :math:`S` of all sources side by
        side and weights :math:`W_h`, the embedding is :math:`S W_0 + \hat A (S W_1 + \hat A (S W_2))`.
        """
        parameters, passes = sub_dict(self._model.parameters, "readout"), self._passes
        bias, weights = parameters["bias"].to(passes.engine.device), self._weights(parameters)
        for source in self._walks:
            self._read[source] = functools.partial(beside, passes.walks(source.walk_columns, STEPS))
        most = max((hops for hops, _ in weights), default=0)
        # Sums before the last that is there may be dropped already.
        there = next((hop for hop in range(1, most + 1) if passes.workspace.has(f"sum-{hop}")), 0)
        total = passes.workspace.read(f"sum-{there}") if there else None
        for hop in range((there or most + 1) - 1, 0, -1):
            read, compute = self._sum(hop, weights, torch.zeros_like(bias), total)
            total = passes.make(f"sum-{hop}", f"read-out, sum {most - hop + 1}", read, compute)
            passes.workspace.drop(f"sum-{hop + 1}")
        read, compute = self._sum(0, weights, bias, total)
        passes.each_block(
            "read-out, vectors", read, lambda part, given: take(part, compute(given).float().numpy(force=True)), done=done
        )
        return len(bias)

    def _sum(
        self, hop: int, weights: dict[tuple[int, Source], Tensor], bias: Tensor, before: Array | None
    ) -> tuple[Callable[[Block], Any], Callable[[Any], Tensor]]:
        """What reads and adds up the rows that are propagated ``hop`` times, and those that were added up ``before``."""
        terms = [(source, weight) for (hops, source), weight in weights.items() if hops == hop]

        def read(block: Block) -> tuple[int, Any, list[Tensor]]:
            propagated = None if before is None else block.propagate(before)
            return len(block.nodes), propagated, [self._times(*term, block.nodes) for term in terms]

        def compute(given: Any) -> Tensor:
            count, propagated, parts = given
            return sum(parts, bias.expand(count, -1) if propagated is None else bias + propagated(False))

        return read, compute

    def _weights(self, parameters: Parameters) -> dict[tuple[int, Source], Tensor]:
        """What rows of a source are multiplied by, by source and number of propagations."""
        weights: dict[tuple[int, Source], Tensor] = {}
        device, products = self._passes.engine.device, self._products(parameters)
        widths = self._readout.widths(self._graph.num_features, [self._width] * self._outputs)
        for product, weight in source_weights(parameters["weight"], products, widths).items():
            source = _stored(product.source)
            rows = len(weight) if source.encoder is None else self._outputs * self._width
            total = weights.setdefault((product.hops, source), torch.zeros(rows, weight.shape[1], device=device))
            total[self._columns(product.source)] += weight.to(device)
        return weights
