"""Inputs and read-outs of a graph in files: fitted and computed by passes over blocks of nodes, in bounded memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.stages.block_embedding import BlockEmbedding
from clnr.embedding.stages.block_passes import Passes, ShardFiles
from clnr.engine import DeviceGraph, unit_rows
from clnr.engine.files.layer_pass import ReadRows
from clnr.engine.files.mapped import MappedFeatures
from clnr.engine.files.mapped_graph import draw_stored_neighbours, keep_degrees, with_features
from clnr.graph.csr import Array
from clnr.methods.model import Model
from clnr.nn.edge_information import edge_weight
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.readout import Readout
from clnr.nn.readout_blocks import Product, ReducedFeatures, Source, fitted_nodes
from clnr.nn.structure import STEPS
from clnr.support.humanize import plural

MOST_FEATURES = 4096
"""The most features whose inner products are kept in memory."""
_READ_NODES = 1 << 15
_ENCODED = "encoded"


# -- inputs -----------------------------------------------------------------------------------------------------------------


def fit_inputs(model: Model, passes: Passes) -> tuple[Parameters, DeviceGraph]:
    """What the inputs learn from a graph in files, and the graph with the features that they make."""
    parameters: Parameters = {}
    graph = prepared(model, {}, passes, 0)
    for number, (place, part) in enumerate(model.input_places()):
        features = cast(MappedFeatures, cast(Any, graph.features))
        parameters |= add_prefix(place, part.fit_blocks(functools.partial(_row_blocks, features), *features.shape))
        graph = prepared(model, parameters, passes, number + 1)
    return parameters, graph


def _row_blocks(features: MappedFeatures) -> Iterator[Any]:
    """The features of all nodes, some rows at a time."""
    for start in range(0, features.shape[0], _READ_NODES):
        rows = features.rows(np.arange(start, min(start + _READ_NODES, features.shape[0])))
        yield rows.float().numpy() if isinstance(rows, Tensor) else rows


def prepared(model: Model, parameters: Parameters, passes: Passes, count: int | None = None) -> DeviceGraph:
    """A graph in files with the features that the encoder is given, or those that the first inputs make.

    Walks that an input puts beside the features are computed, and their files are kept.
    """
    width, steps = passes.folder.num_features, []
    for place, part in model.input_places()[:count]:
        if not part.changes_nothing:
            walked = passes.walks(part.walk_columns) if part.walk_columns else None
            steps.append((part, sub_dict(parameters, place), walked))
            width = part.width(width)
    if not steps:
        return passes.device_graph

    def change(x: Any, nodes: Array) -> Any:
        for part, learned, walked in steps:
            x = part.change_rows(learned, x, None if walked is None else walked(nodes).numpy())
        return x

    return with_features(passes.device_graph, change, width)


# -- read-outs --------------------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Rows of a source, before they are propagated: their name, what reads them, and their columns."""

    name: str
    read: ReadRows
    columns: slice


class StoredReadout:
    """The read-out of a model that was trained, for a graph in files."""

    def __init__(self, model: FittedModel, passes: Passes):
        self._model, self._built = model, model.method.build(model.recipe)
        assert self._built.readout is not None
        self._readout: Readout = self._built.readout
        self._outputs = self._built.encoder.num_outputs
        self._passes, self._count = passes, passes.folder.num_nodes
        self._width = 0
        with passes.computing():
            keep_degrees(passes.device_graph)
            self._graph = prepared(self._built, model.parameters, passes)
            self._encoded = passes.files(_ENCODED)
            if self._outputs:
                self._width = BlockEmbedding(model, passes, self._graph, self._encoded).run() // self._outputs
            sources = {product.source for _, product in self._readout.products({}, self._outputs)}
            self._rows = {source: self._rows_of(source) for source in sorted(sources, key=repr)}

    def _rows_of(self, source: Source) -> _Rows:
        if source.walk_columns:
            name = f"walks-{source.walk_columns}"
            return _Rows(name, self._passes.walks(source.walk_columns), slice(0, len(STEPS) * source.walk_columns))
        if source.encoder is None:
            features = cast(MappedFeatures, cast(Any, self._graph.features))
            return _Rows("features", features.dense, slice(0, features.shape[1]))
        columns = slice(source.encoder * self._width, (source.encoder + 1) * self._width)
        return _Rows("unit-encoded", self._unit, columns) if source.unit else _Rows("encoded", self._encoded.rows, columns)

    def _unit(self, nodes: Array) -> Tensor:
        rows = self._encoded.rows(nodes)
        return torch.cat([unit_rows(each) for each in rows.split(self._width, 1)], 1)

    def fit(self, nodes: Array) -> tuple[Parameters, Array]:
        """What the read-out learns from this graph, and the embedding of some nodes, sorted; on the first worker alone."""
        sample = fitted_nodes(self._count).numpy()
        wanted = np.union1d(sample, nodes)
        with self._passes.computing():
            products = self._readout.products({}, self._outputs)
            blocks = [block for _, block in self._readout.places() if isinstance(block, ReducedFeatures) and block.reduced]
            propagated: dict[tuple[str, int], Tensor] = {}
            inner: dict[int, Tensor] = {}
            for rows in {rows.name: rows for rows in self._rows.values()}.values():
                hops = [product.hops for _, product in products if self._rows[product.source].name == rows.name]
                steps = {block.steps for block in blocks} if rows.name == "features" else set()
                self._propagate(rows, max(hops), steps, wanted, propagated, inner)
            parameters: Parameters = {}
            if not self._passes.workers.first:
                return parameters, np.empty((0, 0), np.float32)
            self._passes.log(f"read-out: fitting its components to {plural(len(sample), 'node')}")
            for place, block in self._readout.places():
                if isinstance(block, ReducedFeatures) and block.reduced:
                    parameters |= add_prefix(place, block.fit_inner_products(inner[block.steps]))
            sized = self._readout.products(parameters, self._outputs)
            of_node = self._readout.of_node(self._outputs, self._built.encoder.own_outputs)
            sized, learned = self._readout.weigh(sized, of_node, self._edge_weight)
            parameters |= learned
            matrices = [(size, self._matrix(product, propagated)) for size, product in sized]
            places = torch.from_numpy(np.searchsorted(wanted, sample))
            of_sample = [(size, matrix.index_select(0, places)) for size, matrix in matrices]
            parameters |= self._readout.fit_components(of_sample, torch.device("cpu"))
            of_nodes = torch.from_numpy(np.searchsorted(wanted, nodes))
            z = parameters["bias"] + torch.cat([matrix[of_nodes] for _, matrix in matrices], 1) @ parameters["weight"]
        return parameters, z.numpy()

    def _propagate(
        self,
        rows: _Rows,
        hops: int,
        steps: set[int],
        nodes: Array,
        propagated: dict[tuple[str, int], Tensor],
        inner: dict[int, Tensor],
    ) -> None:
        """Rows of some nodes after 0, 1, ... ``hops`` propagations, and inner products of all after some of them."""
        read = rows.read
        for hop in range(hops + 1):
            if hop:
                what = f"read-out, {rows.name} propagated {hop} of {hops}"
                read = self._passes.propagate(_hop(rows, hop), what, read).rows
                self._passes.remove(_hop(rows, hop - 1))
            if self._passes.workers.first:
                propagated[rows.name, hop] = read(nodes)
            if hop in steps:
                inner[hop] = self._passes.inner_products(read, rows.columns.stop)
        # Nobody reads it any more.
        self._passes.workers.barrier()
        self._passes.remove(_hop(rows, hops))

    def _edge_weight(self, products: list[Product]) -> float:
        """What matrices from edges weigh, by these, which come from nodes' own features."""
        draw = functools.partial(draw_stored_neighbours, self._graph)
        return edge_weight(draw, [functools.partial(self._read, product) for product in products], self._count)

    def _read(self, product: Product, nodes: Array) -> Tensor:
        """Rows of a matrix that is not propagated."""
        rows = self._rows[product.source]
        return self._matrix(product, {(rows.name, 0): rows.read(nodes)})

    def _matrix(self, product: Product, propagated: dict[tuple[str, int], Tensor]) -> Tensor:
        rows = self._rows[product.source]
        matrix = propagated[rows.name, product.hops][:, rows.columns]
        return matrix if product.weight is None else matrix @ product.weight

    def remove(self) -> None:
        """Remove what no other stage reads."""
        self._passes.remove(_ENCODED)
        kept = {part.walk_columns for part in self._built.inputs}
        for source in self._rows:
            if source.walk_columns not in kept:
                self._passes.remove_walks(source.walk_columns)

    def embed(self, shards: ShardFiles) -> int:
        r"""Write the embedding of all nodes; returns the numbers of a vector.

        As propagation is linear, what is propagated h times is added up before: with rows :math:`S` of all sources side by
        side and weights :math:`W_h`, the embedding is :math:`S W_0 + \hat A (S W_1 + \hat A (S W_2))`.
        """
        parameters = sub_dict(self._model.parameters, "readout")
        with self._passes.computing():
            bias, sums = parameters["bias"].to(self._passes.engine.device), self._sums(parameters)
            most = max(sums)
            read: ReadRows | None = None
            for hop in range(most, -1, -1):
                sink: Any = self._passes.files(f"sum-{hop}") if hop else shards
                terms = sums.get(hop, [])

                def prepare(nodes: Array, terms: Any = terms, read: ReadRows | None = read) -> Any:
                    propagated = None if read is None else self._passes.gather(nodes, read)
                    return propagated, [(rows.read(nodes), weight) for rows, weight in terms]

                def compute(nodes: Array, given: Any, hop: int = hop) -> Tensor:
                    propagated, terms = given
                    start = bias if hop == 0 else torch.zeros_like(bias)
                    total = start.expand(len(nodes), -1) if propagated is None else start + propagated()
                    for rows, weight in terms:
                        total = torch.addmm(total, rows.to(weight.device), weight)
                    return total

                self._passes.make(sink, f"read-out, {'vectors' if not hop else f'sum {most - hop + 1}'}", prepare, compute)
                read = sink.rows if hop else None
                self._passes.remove(f"sum-{hop + 1}")
        return len(bias)

    def _sums(self, parameters: Parameters) -> dict[int, list[tuple[_Rows, Tensor]]]:
        """For each number of propagations, sources with the weight that their rows are multiplied by."""
        weights: dict[tuple[int, str], tuple[_Rows, Tensor]] = {}
        begin = 0
        for _, product in self._readout.products(parameters, self._outputs):
            rows = self._rows[product.source]
            width = rows.columns.stop - rows.columns.start if product.weight is None else product.weight.shape[1]
            weight = parameters["weight"][begin : begin + width]
            begin += width
            weight = weight if product.weight is None else product.weight @ weight
            named = product.hops, rows.name
            if named not in weights:
                of_all = self._outputs * self._width if product.source.encoder is not None else rows.columns.stop
                weights[named] = rows, torch.zeros(of_all, weight.shape[1])
            weights[named][1][rows.columns] += weight.cpu()
        sums: dict[int, list[tuple[_Rows, Tensor]]] = {}
        for (hops, _), (rows, weight) in weights.items():
            sums.setdefault(hops, []).append((rows, weight.to(self._passes.engine.device)))
        return sums


def _hop(rows: _Rows, hop: int) -> str:
    return f"{rows.name}-hop-{hop}"
