"""Inputs and read-outs of a graph in files: fitted and computed by passes over blocks of nodes, in bounded memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.stages.block_embedding import BlockEmbedding
from clnr.embedding.stages.block_passes import BlockEdges, Chain, Part, Passes
from clnr.embedding.store.row_files import ShardFiles
from clnr.engine import DeviceGraph, unit_rows
from clnr.engine.files.layer_pass import ReadRows
from clnr.engine.files.mapped import MappedFeatures
from clnr.engine.files.mapped_graph import draw_stored_neighbours, keep_degrees, with_features
from clnr.graph.csr import Array
from clnr.methods.model import Model
from clnr.nn.edge_information import compared_nodes, edge_weight
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.readout import Readout
from clnr.nn.readout_blocks import Product, ReducedFeatures, Source, fitted_nodes
from clnr.nn.structure import STEPS
from clnr.support.humanize import plural

_READ_NODES = 1 << 15
_ENCODED, _FEATURES, _WALKS = "encoded", "features", "walks"


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


def input_walks(model: Model, passes: Passes) -> list[Chain[None]]:
    """What makes the walks that inputs put beside the features; their files are kept."""
    return [passes.walk(width, max(STEPS), STEPS) for width in sorted(_input_widths(model))]


def _input_widths(model: Model) -> set[int]:
    return {part.walk_columns for part in model.inputs} - {0}


def prepared(model: Model, parameters: Parameters, passes: Passes, count: int | None = None) -> DeviceGraph:
    """A graph in files with the features that the encoder is given, or those that the first inputs make.

    Walks that an input puts beside the features are computed unless they are there, and their files are kept.
    """
    passes.run(*input_walks(model, passes))
    width, steps = passes.folder.num_features, []
    for place, part in model.input_places()[:count]:
        if not part.changes_nothing:
            walked = _all_steps(passes, part.walk_columns) if part.walk_columns else None
            steps.append((part, sub_dict(parameters, place), walked))
            width = part.width(width)
    if not steps:
        return passes.device_graph

    def change(x: Any, nodes: Array) -> Any:
        for part, learned, walked in steps:
            x = part.change_rows(learned, x, None if walked is None else walked(nodes).numpy())
        return x

    return with_features(passes.device_graph, change, width)


def _all_steps(passes: Passes, width: int) -> ReadRows:
    """What reads where walks lead after each number of steps, side by side."""
    files = [passes.walk_files(width, step) for step in STEPS]
    return lambda nodes: torch.cat([each.rows(nodes) for each in files], 1)


# -- read-outs --------------------------------------------------------------------------------------------------------------


def direct_hops(products: list[Product]) -> int:
    """How often rows of all nodes are propagated before the read-out is fitted, for the vectors: once, beside the walks.

    What is left is propagated once fewer afterwards, in the pass of the walks' last step.
    """
    return int(
        max((product.hops for product in products), default=0) > 1 and any(each.source.walk_columns for each in products)
    )


def readout_walks(model: Model, passes: Passes, sample: Sample | None, keeps: bool) -> list[Chain[None]]:
    """What makes the walks that a read-out reads, but for their last step: that of all nodes is made with the vectors.

    Rows of the sample are kept, those of all nodes only if that is asked for. Walks of inputs are those of the read-out, too,
    where they have as many columns.
    """
    products = [] if model.readout is None else model.readout.products({}, model.encoder.num_outputs)
    widths = {product.source.walk_columns for _, product in products} - {0}
    return [_readout_walk(model, passes, width, sample, keeps) for width in sorted(widths)]


def _readout_walk(model: Model, passes: Passes, width: int, sample: Sample | None, keeps: bool) -> Chain[None]:
    last, name = max(STEPS), f"{_WALKS}-{width}"
    if width in _input_widths(model):
        yield from passes.walk(width, last, STEPS)
        if sample is not None:
            for step in STEPS:
                sample.keep(f"{name}-{step}", functools.partial(passes.walk_files(width, step).rows, sample.nodes))
        return

    def done(step: int, read: ReadRows) -> None:
        if sample is not None and step in STEPS:
            sample.keep(f"{name}-{step}", lambda: read(sample.nodes))
        if sample is not None and step == last - 1:
            sample.keep(f"{name}-{last}", lambda: passes.rows_at(sample.nodes, lambda edges: passes.step(edges, read)))

    if keeps or (sample is not None and not sample.has(f"{name}-{last}")):
        yield from passes.walk(width, last - 1, (*STEPS, last - 1) if keeps else (), done)
    if not keeps:
        passes.remove_walks(width)


class Sample:
    """Rows of the nodes that a read-out is fitted to, in files; sorted."""

    _FOLDER = "sample"

    def __init__(self, passes: Passes, nodes: Array):
        self._passes, self.nodes = passes, nodes

    def _path(self, name: str) -> Path:
        return self._passes.work / self._FOLDER / f"{name}.npy"

    def has(self, name: str) -> bool:
        return self._passes.workers.broadcast_object(self._path(name).is_file())

    def keep(self, name: str, make: Callable[[], Tensor]) -> None:
        """Keep some rows, unless they are there; the first worker alone makes them."""
        path = self._path(name)
        if self._passes.workers.first and not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".unfinished")
            with part.open("wb") as file:
                np.save(file, make().numpy(force=True))
            part.replace(path)

    def rows(self, name: str) -> Tensor:
        return torch.from_numpy(np.load(self._path(name)))

    def remove(self) -> None:
        self._passes.remove(self._FOLDER)


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
        with passes.computing():
            keep_degrees(passes.device_graph)
            self._graph = prepared(self._built, model.parameters, passes)
        self._features = cast(MappedFeatures, cast(Any, self._graph.features))
        self._width = self._built.encoder.width(self._features.shape[1]) if self._outputs else 0
        self._encoded = passes.files(_ENCODED)
        products = [product for _, product in self._readout.products({}, self._outputs)]
        self._direct = direct_hops(products)
        self._rows = {source: self._rows_of(source) for source in sorted({each.source for each in products}, key=repr)}
        self._hops: dict[str, set[int]] = {}
        for product in products:
            self._hops.setdefault(self._rows[product.source].name, set()).add(product.hops)

    def _rows_of(self, source: Source) -> _Rows:
        if source.walk_columns:
            name, read = f"{_WALKS}-{source.walk_columns}", _all_steps(self._passes, source.walk_columns)
            return _Rows(name, read, slice(0, len(STEPS) * source.walk_columns))
        if source.encoder is None:
            return _Rows(_FEATURES, self._features.dense, slice(0, self._features.shape[1]))
        columns = slice(source.encoder * self._width, (source.encoder + 1) * self._width)
        return _Rows("unit-encoded", self._unit, columns) if source.unit else _Rows(_ENCODED, self._encoded.rows, columns)

    def _unit(self, nodes: Array) -> Tensor:
        rows = self._encoded.rows(nodes)
        return torch.cat([unit_rows(each) for each in rows.split(self._width, 1)], 1)

    # -- rows of all nodes --------------------------------------------------------------------------------------------

    def encoder_chain(self, sample: Sample | None, keeps: bool) -> Chain[None]:
        """The encoder's rows, propagated as often as is needed: those of a sample, and those that ``embed`` reads."""
        named = {rows.name: rows for source, rows in self._rows.items() if source.encoder is not None}
        if not (named and (keeps or any(self._missing(rows, sample) for rows in named.values()))):
            return
        yield from BlockEmbedding(self._model, self._passes, self._graph, self._encoded).layers()
        for rows in named.values():
            if sample is not None and self._built.encoder.own_outputs:
                sample.keep(f"{rows.name}-near", functools.partial(rows.read, self._near))
            yield from self._propagated(rows, sample, keeps)
        if not keeps:
            self._passes.remove(_ENCODED)

    def feature_chain(self, sample: Sample | None, keeps: bool) -> Chain[None]:
        """The same of the features."""
        for rows in self._rows.values():
            if rows.name == _FEATURES:
                yield from self._propagated(rows, sample, keeps)

    def _missing(self, rows: _Rows, sample: Sample | None) -> list[int]:
        """After how many propagations rows of the sample are not there yet."""
        hops = [] if sample is None else sorted(self._hops[rows.name])
        return [hop for hop in hops if sample is not None and not sample.has(f"{rows.name}-{hop}")]

    def _propagated(self, rows: _Rows, sample: Sample | None, keeps: bool) -> Chain[None]:
        """Rows of a source after 0, 1, ... propagations; the last ones of the sample alone, where no others are needed."""
        passes, most, read = self._passes, max(self._hops[rows.name]), rows.read
        kept = self._direct if keeps and most >= self._direct else 0
        sampled = self._missing(rows, sample)
        full = max([kept, *(min(hop, most - 1) for hop in sampled)])
        for hop in range(max([full, *sampled]) + 1):
            source = read
            if 0 < hop <= full:
                files = passes.files(_hop(rows, hop))
                if not passes.workers.broadcast_object(files.complete):
                    yield passes.propagation(files, f"{rows.name} propagated {hop} of {most}", source)
                read = files.rows
            if sample is not None and hop in sampled:
                last = functools.partial(passes.rows_at, sample.nodes, functools.partial(self._propagate, source))
                sample.keep(f"{rows.name}-{hop}", functools.partial(read, sample.nodes) if hop <= full else last)
            if hop - 1 != kept:
                passes.remove(_hop(rows, hop - 1))
        if full != kept:
            passes.remove(_hop(rows, full))

    def _propagate(self, source: ReadRows, edges: BlockEdges) -> Callable[[], Tensor]:
        return edges.propagate(self._passes.device_graph, source)

    # -- the fit ------------------------------------------------------------------------------------------------------

    def fit(self, sample: Sample, nodes: Array) -> tuple[Parameters, Array]:
        """What the read-out learns from rows of a sample, and the embedding of some nodes of it, sorted; for one worker."""
        fitted = fitted_nodes(self._count).numpy()
        self._passes.log(f"read-out: fitting its components to {plural(len(fitted), 'node')}")
        with self._passes.computing():
            parameters: Parameters = {}
            places = torch.from_numpy(np.searchsorted(sample.nodes, fitted))
            for place, block in self._readout.places():
                if isinstance(block, ReducedFeatures) and block.reduced:
                    rows_of = sample.rows(f"{_FEATURES}-{block.steps}").index_select(0, places)
                    parameters |= add_prefix(place, {"directions": block.directions(rows_of)})
            sized = self._readout.products(parameters, self._outputs)
            of_node = self._readout.of_node(self._outputs, self._built.encoder.own_outputs)
            sized, learned = self._readout.weigh(sized, of_node, functools.partial(self._edge_weight, sample))
            parameters |= learned
            read = functools.cache(functools.partial(self._sampled, sample))
            rows = [read(self._rows[product.source].name, product.hops) for _, product in sized]
            matrices = [(size, self._matrix(product, each)) for (size, product), each in zip(sized, rows, strict=True)]
            of_sample = [(size, matrix.index_select(0, places)) for size, matrix in matrices]
            parameters |= self._readout.fit_components(of_sample, torch.device("cpu"))
            of_nodes = torch.from_numpy(np.searchsorted(sample.nodes, nodes))
            z = parameters["bias"] + torch.cat([matrix[of_nodes] for _, matrix in matrices], 1) @ parameters["weight"]
        return parameters, z.numpy()

    def _sampled(self, sample: Sample, name: str, hops: int) -> Tensor:
        parts = [f"{name}-{step}" for step in STEPS] if name.startswith(_WALKS) else [f"{name}-{hops}"]
        return torch.cat([sample.rows(part) for part in parts], 1)

    @functools.cached_property
    def _near(self) -> Array:
        """The nodes by whose own rows it is measured what edges weigh."""
        return compared_nodes(functools.partial(draw_stored_neighbours, self._graph), self._count)

    def _edge_weight(self, sample: Sample, products: list[Product]) -> float:
        """What matrices from edges weigh, by these, which come from nodes' own features."""
        draw = functools.partial(draw_stored_neighbours, self._graph)
        return edge_weight(draw, [functools.partial(self._read, sample, product) for product in products], self._count)

    def _read(self, sample: Sample, product: Product, nodes: Array) -> Tensor:
        """Rows of a matrix that is not propagated."""
        rows = self._rows[product.source]
        if product.source.encoder is None:
            return self._matrix(product, rows.read(nodes))
        places = torch.from_numpy(np.searchsorted(self._near, nodes))
        return self._matrix(product, sample.rows(f"{rows.name}-near").index_select(0, places))

    def _matrix(self, product: Product, rows: Tensor) -> Tensor:
        matrix = rows[:, self._rows[product.source].columns]
        return matrix if product.weight is None else matrix @ product.weight

    # -- vectors ------------------------------------------------------------------------------------------------------

    def embed(self, shards: ShardFiles) -> int:
        """Write the embedding of all nodes, from rows that chains make unless they are there; returns a vector's numbers."""
        walks = readout_walks(self._built, self._passes, None, keeps=True)
        self._passes.run(self.encoder_chain(None, keeps=True), self.feature_chain(None, keeps=True), *walks)
        return self._passes.run(self._vectors(shards))[0]

    def _vectors(self, shards: ShardFiles) -> Chain[int]:
        r"""As propagation is linear, what is propagated more often is added up before.

        With rows :math:`S` of all sources side by side and weights :math:`W_h`, the embedding is :math:`S W_0 + \hat A (S W_1 +
        \hat A (S W_2))`, or, if all rows were propagated before, :math:`S W_0 + (\hat A S) W_1 + \hat A ((\hat A S) W_2)`.
        """
        parameters, passes, direct = sub_dict(self._model.parameters, "readout"), self._passes, self._direct
        bias, weights = parameters["bias"].to(passes.engine.device), self._weights(parameters)
        read: ReadRows | None = None
        most = max(0, *(hops - direct for hops, _ in weights))
        for hop in range(most, -1, -1):
            sink: Any = passes.files(f"sum-{hop}") if hop else shards
            terms = [
                (self._term(name, min(hops, direct)), weight)
                for (hops, name), weight in weights.items()
                if max(0, hops - direct) == hop
            ]

            def prepare(edges: BlockEdges, terms: Any = terms, read: ReadRows | None = read) -> Any:
                propagated = None if read is None else self._propagate(read, edges)
                return propagated, [(rows(edges), weight) for rows, weight in terms]

            def compute(nodes: Array, given: Any, hop: int = hop) -> Tensor:
                propagated, terms = given
                start = bias if hop == 0 else torch.zeros_like(bias)
                total = start.expand(len(nodes), -1) if propagated is None else start + propagated()
                for rows, weight in terms:
                    total = torch.addmm(total, rows().to(weight.device), weight)
                return total

            what = f"read-out, {f'sum {most - hop + 1}' if hop else 'vectors'}"
            yield Part(what, sink, prepare, compute, reads_edges=hop < most or hop == 0)
            read = sink.rows if hop else None
            passes.remove(f"sum-{hop + 1}")
        return len(bias)

    def _term(self, name: str, hops: int) -> Callable[[BlockEdges], Callable[[], Tensor]]:
        """What reads rows of a block's nodes after so many propagations."""
        rows = next(rows for rows in self._rows.values() if rows.name == name)
        width = next(source.walk_columns for source, rows in self._rows.items() if rows.name == name)
        if width and width not in _input_widths(self._built):
            *steps, last = (self._passes.walk_files(width, step).rows for step in (*STEPS[:-1], max(STEPS) - 1))

            def walk(edges: BlockEdges) -> Callable[[], Tensor]:
                step, before = self._passes.step(edges, last), [read(edges.nodes) for read in steps]
                return lambda: torch.cat([*(each.to(self._passes.engine.device) for each in before), step()], 1)

            return walk
        read = self._passes.files(_hop(rows, hops)).rows if hops else rows.read

        def stored(edges: BlockEdges) -> Callable[[], Tensor]:
            given = read(edges.nodes)
            return lambda: given

        return stored

    def _weights(self, parameters: Parameters) -> dict[tuple[int, str], Tensor]:
        """What rows of a source are multiplied by after so many propagations, by their number and the source."""
        weights: dict[tuple[int, str], Tensor] = {}
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
                weights[named] = torch.zeros(of_all, weight.shape[1])
            weights[named][rows.columns] += weight.cpu()
        return {named: weight.to(self._passes.engine.device) for named, weight in weights.items()}


def _hop(rows: _Rows, hop: int) -> str:
    return f"{rows.name}-hop-{hop}"
