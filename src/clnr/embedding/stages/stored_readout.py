"""The read-out of a graph in files: fitted to rows of a sample, and computed by passes over blocks of nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.stages.block_embedding import BlockEmbedding
from clnr.embedding.stages.block_passes import BlockEdges, Chain, Part, Passes
from clnr.embedding.stages.stored_inputs import prepared, walk_rows, walk_widths
from clnr.embedding.store.row_files import LayerFiles, SampleFiles, ShardFiles
from clnr.engine import unit_rows
from clnr.engine.layer_pass import ReadRows
from clnr.graph.csr import Array
from clnr.methods.model import Model
from clnr.nn.edge_information import compared_nodes, edge_weight
from clnr.nn.inputs import STEPS
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.readout import FittedRows, Readout, source_weights
from clnr.nn.readout_blocks import Product, ReducedFeatures, Source, fitted_nodes
from clnr.support.humanize import plural

_ENCODED = "encoded"

Choose = Callable[[Readout, FittedRows, Array, list[Tensor]], Readout]
"""A read-out in place of another, given what that is fitted to, and the rows of some nodes in all matrices."""


def direct_hops(products: list[Product]) -> int:
    """How often rows of all nodes are propagated before the read-out is fitted, for the vectors: once, beside the walks.

    What is left is propagated once fewer afterwards, in the pass of the walks' last step.
    """
    return int(
        max((product.hops for product in products), default=0) > 1 and any(each.source.walk_columns for each in products)
    )


def readout_walks(model: Model, passes: Passes, sample: SampleFiles | None, keeps: bool) -> list[Chain[None]]:
    """What makes the walks of a read-out, but for their last step: that of all nodes is made with the vectors.

    Rows of the sample are kept, those of all nodes only if that is asked for. Walks that inputs make are not made again.
    """
    products = [] if model.readout is None else model.readout.products({}, model.encoder.num_outputs)
    widths = {product.source.walk_columns for _, product in products} - {0} - walk_widths(model)
    return [_walk(passes, Source(walk_columns=width), sample, keeps) for width in sorted(widths)]


def _walk(passes: Passes, source: Source, sample: SampleFiles | None, keeps: bool) -> Chain[None]:
    width, last = source.walk_columns, max(STEPS)

    def done(step: int, files: LayerFiles) -> None:
        if sample is not None and step in STEPS:
            sample.keep(f"{_name(source)}-{step}", functools.partial(files.rows, sample.nodes))
        if sample is not None and step == last - 1:
            sample.keep(f"{_name(source)}-{last}", functools.partial(passes.rows_at, sample.nodes, passes.step, files))

    if keeps or (sample is not None and not sample.has(f"{_name(source)}-{last}")):
        yield from passes.walk(width, last - 1, (*STEPS, last - 1) if keeps else (), done)
    if not keeps:
        passes.remove_walks(width)


def _name(source: Source) -> str:
    """What the rows of a source are called; those of all outputs of the encoder are side by side."""
    if source.encoder is not None:
        return f"unit-{_ENCODED}" if source.unit else _ENCODED
    return f"walks-{source.walk_columns}" if source.walk_columns else "features"


def _stored(source: Source) -> Source:
    """The source in whose rows those of a source are: the first output of the encoder stands for all of them."""
    return source if source.encoder is None else source._replace(encoder=0)


class StoredReadout:
    """The read-out of a model that was trained, for a graph in files."""

    def __init__(self, model: FittedModel, passes: Passes):
        self._model, self._built, self._passes = model, model.method.build(model.recipe), passes
        assert self._built.readout is not None
        self._readout, self._outputs = self._built.readout, self._built.encoder.num_outputs
        with passes.computing():
            self._graph = prepared(self._built, model.parameters, passes)
        self._encoded = passes.files(_ENCODED)
        self._width = self._built.encoder.width(self._graph.num_features) if self._outputs else 0
        products = [product for _, product in self._readout.products({}, self._outputs)]
        self._direct = direct_hops(products)
        self._hops: dict[Source, list[int]] = {}
        for product in products:
            self._hops.setdefault(_stored(product.source), []).append(product.hops)

    # -- rows of sources ----------------------------------------------------------------------------------------------

    def _read(self, source: Source) -> ReadRows:
        """What reads rows of a source before they are propagated; outputs of the encoder are side by side."""
        if source.walk_columns:
            return walk_rows(self._passes, source.walk_columns)
        if source.encoder is None:
            return self._graph.dense_rows
        return self._unit if source.unit else self._encoded.rows

    def _unit(self, nodes: Array) -> Tensor:
        return torch.cat([unit_rows(each) for each in self._encoded.rows(nodes).split(self._width, 1)], 1)

    def _columns(self, source: Source) -> slice:
        """Which columns of these rows are those of the source."""
        number, width = source.encoder, self._width
        return slice(None) if number is None else slice(number * width, (number + 1) * width)

    def _matrix(self, product: Product, rows: Tensor) -> Tensor:
        """A product, given rows of its source that are propagated."""
        matrix = rows[:, self._columns(product.source)]
        return matrix if product.weight is None else matrix @ product.weight

    def encoder_chain(self, sample: SampleFiles | None, keeps: bool) -> Chain[None]:
        """The encoder's rows, propagated as often as is needed: those of a sample, and those that ``embed`` reads."""
        sources = [source for source in self._hops if source.encoder is not None]
        if not any(keeps or self._missing(source, sample) for source in sources):
            return
        yield from BlockEmbedding(self._model, self._passes, self._graph, self._encoded).layers()
        for source in sources:
            if sample is not None and self._built.encoder.own_outputs:
                sample.keep(f"{_name(source)}-near", functools.partial(self._read(source), self._near))
            yield from self._propagated(source, sample, keeps)
        if not keeps:
            self._passes.remove(_ENCODED)
            # Not open any more, so that it takes no disk.
            self._encoded = self._passes.files(_ENCODED)

    def feature_chain(self, sample: SampleFiles | None, keeps: bool) -> Chain[None]:
        """The same of the features."""
        if Source() in self._hops:
            yield from self._propagated(Source(), sample, keeps)

    def _missing(self, source: Source, sample: SampleFiles | None) -> list[int]:
        """The numbers of propagations for which rows of the sample are still missing."""
        hops = [] if sample is None else sorted(set(self._hops[source]))
        return [hop for hop in hops if sample is not None and not sample.has(f"{_name(source)}-{hop}")]

    def _propagated(self, source: Source, sample: SampleFiles | None, keeps: bool) -> Chain[None]:
        """Rows of a source after 0, 1, ... propagations; the last ones of the sample alone, where no others are needed."""
        passes, name = self._passes, _name(source)
        most, missing = max(self._hops[source]), self._missing(source, sample)
        kept = min(self._direct, most) if keeps else 0
        full = max([kept, *(min(hop, most - 1) for hop in missing)])
        last, read, before = max([full, *missing]), self._read(source), self._encoded
        if last and name != _ENCODED:
            before = passes.files(f"{name}-hop-0")
            if not any(passes.is_made(each) for each in (before, passes.files(f"{name}-hop-1"))):
                # Only what is in a file is propagated.
                yield Part(
                    f"{name} to propagate",
                    before,
                    lambda edges: self._read(source)(edges.nodes),
                    lambda nodes, rows: rows,
                    reads_edges=False,
                )
        for hop in range(last + 1):
            files = passes.files(f"{name}-hop-{hop}")
            if 0 < hop <= full:
                if not passes.is_made(files):
                    yield Part(f"{name} propagated {hop} of {most}", files, functools.partial(passes.propagate, source=before))
                read = files.rows
            if sample is not None and hop in missing:
                propagated = functools.partial(passes.rows_at, sample.nodes, passes.propagate, before)
                sample.keep(f"{name}-{hop}", functools.partial(read, sample.nodes) if hop <= full else propagated)
            if hop == 1 or hop - 1 != kept:
                passes.remove(f"{name}-hop-{hop - 1}")
            before = files if 0 < hop <= full else before
        if full != kept:
            passes.remove(f"{name}-hop-{full}")

    # -- the fit ------------------------------------------------------------------------------------------------------

    def fit(self, sample: SampleFiles, nodes: Array, choose: Choose | None = None) -> tuple[Parameters, Array]:
        """What the read-out learns from rows of a sample, and the embedding of some nodes of it, sorted; for one worker.

        Another read-out over the same blocks may be chosen.
        """
        count = self._passes.folder.num_nodes
        some_nodes = fitted_nodes(count).numpy(), nodes
        fitted, of_nodes = (torch.from_numpy(np.searchsorted(sample.nodes, each)) for each in some_nodes)
        self._passes.log(f"read-out: fitting its components to {plural(len(fitted), 'node')}")
        read = functools.cache(functools.partial(self._sampled, sample))
        with self._passes.computing():
            parameters: Parameters = {}
            for place, block in self._readout.places():
                if isinstance(block, ReducedFeatures) and block.reduced:
                    rows = read(Source(), block.steps).index_select(0, fitted)
                    parameters |= add_prefix(place, {"directions": block.directions(rows)})
            products = self._readout.products(parameters, self._outputs)
            matrices = [self._matrix(each, read(_stored(each.source), each.hops)) for _, each in products]
            some = [matrix.index_select(0, fitted) for matrix in matrices]
            own = self._built.encoder.own_outputs
            families = self._readout.families([each for _, each in products], self._outputs, own)

            def measure(numbers: tuple[int, ...]) -> float:
                near = functools.cache(sample.rows)
                reads = [functools.partial(self._own_rows, near, products[number][1]) for number in numbers]
                return edge_weight(self._draw_neighbours, reads, count)

            sampled = FittedRows([size for size, _ in products], families, some, measure)
            readout = self._readout if choose is None else choose(self._readout, sampled, sample.nodes, matrices)
            parameters |= readout.fit_rows(sampled, torch.device("cpu"))
            z = parameters["bias"] + torch.cat([matrix[of_nodes] for matrix in matrices], 1) @ parameters["weight"]
        return parameters, z.numpy()

    def _sampled(self, sample: SampleFiles, source: Source, hops: int) -> Tensor:
        """Rows of a source at the nodes of the sample; walks that inputs make are in files of their own."""
        if source.walk_columns in walk_widths(self._built):
            return self._read(source)(sample.nodes)
        numbers = STEPS if source.walk_columns else [hops]
        return torch.cat([sample.rows(f"{_name(source)}-{number}") for number in numbers], 1)

    def _draw_neighbours(self, nodes: Array, most: int) -> tuple[Array, Array]:
        return self._graph.graph.draw_neighbours(nodes, most, self._graph.held_out)

    @functools.cached_property
    def _near(self) -> Array:
        """The nodes whose own rows decide the weight of edges."""
        return compared_nodes(self._draw_neighbours, self._passes.folder.num_nodes)

    def _own_rows(self, near: Callable[[str], Tensor], product: Product, nodes: Array) -> Tensor:
        """Rows of a product that is not propagated, of some of these nodes; ``near`` has the encoder's rows of all of them."""
        if product.source.encoder is None:
            return self._matrix(product, self._read(product.source)(nodes))
        places = torch.from_numpy(np.searchsorted(self._near, nodes))
        return self._matrix(product, near(f"{_name(product.source)}-near").index_select(0, places))

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
        most, sums = max(0, *(hops - direct for hops, _ in weights)), list[Any]()
        for hop in range(most, -1, -1):
            sink: Any = passes.files(f"sum-{hop}") if hop else shards
            # Rows of a block and what they are multiplied by; first the sum of before, which is propagated.
            terms = sums + [
                (self._term(source, min(hops, direct)), weight)
                for (hops, source), weight in weights.items()
                if max(0, hops - direct) == hop
            ]

            def prepare(edges: BlockEdges, terms: list[Any] = terms) -> Any:
                return [(rows(edges), weight) for rows, weight in terms]

            def compute(nodes: Array, terms: Any, hop: int = hop) -> Tensor:
                total = (torch.zeros_like(bias) if hop else bias).expand(len(nodes), -1)
                for rows, weight in terms:
                    total = total + rows() if weight is None else torch.addmm(total, rows(), weight)
                return total

            what = f"read-out, {f'sum {most - hop + 1}' if hop else 'vectors'}"
            yield Part(what, sink, prepare, compute, reads_edges=hop < most or hop == 0)
            sums = [(functools.partial(passes.propagate, source=sink), None)] if hop else []
            passes.remove(f"sum-{hop + 1}")
        return len(bias)

    def _term(self, source: Source, hops: int) -> Callable[[BlockEdges], Callable[[], Tensor]]:
        """What reads rows of a block after ``hops`` propagations; of walks it makes the last step, unless that is in files."""
        passes, width, device = self._passes, source.walk_columns, self._passes.engine.device
        if width and width not in walk_widths(self._built):
            *steps, last = (passes.walk_files(width, step) for step in (*STEPS[:-1], max(STEPS) - 1))

            def walk(edges: BlockEdges) -> Callable[[], Tensor]:
                step, before = passes.step(edges, last), [files.rows(edges.nodes) for files in steps]
                return lambda: torch.cat([*(each.to(device) for each in before), step()], 1)

            return walk
        read = passes.files(f"{_name(source)}-hop-{hops}").rows if hops else self._read(source)
        return lambda edges: functools.partial(read(edges.nodes).to, device)

    def _weights(self, parameters: Parameters) -> dict[tuple[int, Source], Tensor]:
        """What rows of a source are multiplied by, by source and number of propagations."""
        weights: dict[tuple[int, Source], Tensor] = {}
        device, products = self._passes.engine.device, [each for _, each in self._readout.products(parameters, self._outputs)]
        widths = self._readout.widths(self._graph.num_features, [self._width] * self._outputs)
        for product, weight in source_weights(parameters["weight"], products, widths).items():
            source = _stored(product.source)
            rows = len(weight) if source.encoder is None else self._outputs * self._width
            total = weights.setdefault((product.hops, source), torch.zeros(rows, weight.shape[1], device=device))
            total[self._columns(product.source)] += weight.to(device)
        return weights
