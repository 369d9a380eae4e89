"""The memory of a job, estimated from the sizes of graph and encoder before anything is run: in memory, or in blocks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from clnr.embedding.fit_settings import Settings
from clnr.embedding.rows.passes import rows_of
from clnr.embedding.scoring import judges
from clnr.embedding.search.nodes import Nodes
from clnr.engine import Engine
from clnr.evaluation.held_out import MOST_NEIGHBOURS, MOST_PAIRS, MOST_PAIRS_OF_KINDS
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.inputs import STEPS
from clnr.nn.readout import ROWS
from clnr.nn.readout_blocks import (
    FITTED_NODES,
    ITERATED_NEIGHBORS,
    ITERATED_NODES,
    MOST_INNER_PRODUCTS,
    Source,
)
from clnr.training.step_work import Size, step_work

_FLOAT_BYTES = 4
PROGRAM_BYTES = 6.5e8
"""What Python and torch take."""
# In memory. Bytes of an edge: in the graph, on the device in both directions, scaled for a propagation, and to walk along.
_EDGE_BYTES = 120
# How often an encoder's rows are in memory where there is no read-out; where there is one, the widest of its matrices: rows
# that are propagated, or the directions that are looked for and their gradients; and a step of walks.
_COPIES_OF_ROWS = 8
_COPIES_OF_WIDEST = 3
_COPIES_OF_STEP = 3
# In blocks. How often the features that a view reads are in memory, those of the next step or block among them; and the rows
# that a step computes: activations and gradients of two views.
_INPUT_COPIES = 5
_ROW_COPIES = 12
_LEAST_BLOCK_ROWS = 1 << 12
_BLOCKS_PER_WORKER = 8


def size_of(graph: Graph) -> Size:
    """The size of a graph, once its features are loaded."""
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if graph.sparse else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)


def loaded_bytes(graph: Graph) -> float:
    """The memory that a graph takes once all of it is loaded."""
    return size_of(graph).bytes + sum(part.nbytes for way in graph.edges_by_end for part in way if part is not None)


def training_memory(method: Method, recipe: Recipe, size: Size, engine: Engine) -> float:
    """The peak of memory of a training in bytes: an order of magnitude."""
    model = method.build(recipe)
    views, width = max(2, len(model.views)), max(recipe.hidden, recipe.dimension)
    rows = step_work(len(model.views), model.objective, recipe, size).rows if model.objective else 0
    # Activations of all layers and views, and their gradients.
    step = _FLOAT_BYTES * 4 * views * rows * width
    inputs = _input_bytes(model, size, engine.device.type)
    peak = max(step + inputs, _embedding_bytes(model, size, inputs))
    return PROGRAM_BYTES + size.bytes + _EDGE_BYTES * size.edges + peak


def _input_bytes(model: Model, size: Size, device: str) -> float:
    """Bytes of the features that the encoder is given; those of the graph itself are on the host, and on a CPU again."""
    features = model.input_width(size.features)
    if features == size.features:
        return (2 if device == "cpu" else 1) * size.bytes
    return _FLOAT_BYTES * size.nodes * features


def _embedding_bytes(model: Model, size: Size, inputs: float) -> float:
    """Bytes of the rows of all nodes while inputs are made or, if these are more, while the read-out is fitted."""
    nodes, readout, features = size.nodes, model.readout, model.input_width(size.features)
    encoded, outputs = model.encoder.width(features), model.encoder.num_outputs
    walked = sum(part.walk_columns for part in model.inputs)
    # All of them, and a step beside the one before.
    made = 3 * size.bytes + _FLOAT_BYTES * nodes * (len(STEPS) + _COPIES_OF_STEP) * walked
    if readout is None:
        return max(made, inputs + _FLOAT_BYTES * nodes * _COPIES_OF_ROWS * encoded)
    # Of all nodes the encoders' rows, walks, and rows on their way; of those that stand for all, all matrices, and
    # features of two hops.
    widths = readout.widths(features, outputs * [encoded])
    products = [product for _, product in readout.products({}, outputs)]
    walks = len(STEPS) * sum(product.source.walk_columns for product in products)
    pairs = zip(widths, products, strict=False)
    widest = max(encoded, readout.dimension, *(width for width, product in pairs if not product.source.walk_columns))
    columns = outputs * encoded + walks + _COPIES_OF_WIDEST * widest
    hops = 2 * features if features <= MOST_INNER_PRODUCTS else 0
    fitted = _FLOAT_BYTES * min(nodes, FITTED_NODES) * (sum(widths) + hops)
    block = _FLOAT_BYTES * 3 * min(nodes, ROWS) * sum(widths)
    return max(made, inputs + _FLOAT_BYTES * nodes * columns + fitted + block)


@dataclass(frozen=True)
class BlockMemory:
    """The memory of a job in blocks over a graph in files: each of its workers may use ``usable`` bytes."""

    nodes: Nodes
    settings: Settings
    recipe: Recipe
    model: Model
    workers: int
    local_workers: int
    usable: float

    @property
    def graph(self) -> Graph:
        return self.nodes.graph

    @functools.cached_property
    def _features(self) -> int:
        """How many features the encoder is given."""
        return self.model.input_width(self.graph.num_features)

    @functools.cached_property
    def _readout_rows(self) -> set[tuple[Source, int]]:
        """The rows that the read-out is fitted to, and how often each is propagated; all outputs of the encoder are in one."""
        if self.model.readout is None:
            return set()
        products = [product for _, product in self.model.readout.products({}, self.model.encoder.num_outputs)]
        return {(each.source if each.source.encoder is None else Source(encoder=0), each.hops) for each in products}

    def _width(self, source: Source) -> int:
        """Columns of the rows of a source before they are propagated."""
        if source.encoder is not None:
            return self.model.encoder.width(self._features) * self.model.encoder.num_outputs
        if source.walk_columns or self.model.readout is None:
            return source.walk_columns
        return self.model.readout.feature_columns(self._features)

    @functools.cached_property
    def _fixed(self) -> float:
        """Bytes that every stage takes."""
        return PROGRAM_BYTES + 3 * _FLOAT_BYTES * self.graph.num_nodes

    @property
    def _link_nodes(self) -> int:
        """The nodes of held-out edges and non-edges, and the neighbours that nodes of several kinds are compared by."""
        kinds = self.nodes.info.ingest_report.node_kinds
        return 4 * (MOST_PAIRS if len(kinds) < 2 else MOST_PAIRS_OF_KINDS * (1 + MOST_NEIGHBOURS))

    @property
    def _fitted_nodes(self) -> int:
        """The nodes whose rows the read-out is fitted to, scored by and chosen by."""
        chosen_by = judges.MOST_NODES if self.settings.purpose and self.settings.tried else 0
        return min(self.graph.num_nodes, FITTED_NODES + self._link_nodes + chosen_by)

    @property
    def _row_bytes(self) -> int:
        """Bytes of a row of a block, with those that it gathers."""
        walks = [part.walk_columns for part in self.model.inputs]
        propagated = [self._width(source) for source, hops in self._readout_rows if hops or source.walk_columns]
        widest = max(self.recipe.hidden, self.recipe.dimension, self._features, *walks, *propagated)
        return _FLOAT_BYTES * _INPUT_COPIES * widest

    @property
    def block_rows(self) -> int:
        """How many rows a block of nodes may have while it is embedded: as memory allows, but each worker has some blocks."""
        all_rows = rows_of(self.graph.num_nodes, self.graph.num_edges, self.settings.engine.gathers_rows)
        rows = min((self.usable - self._fixed) / 2 / self._row_bytes, all_rows / (_BLOCKS_PER_WORKER * self.workers))
        return max(_LEAST_BLOCK_ROWS, int(rows))

    @functools.cached_property
    def needed(self) -> float:
        """Bytes without which it cannot work: blocks of nodes take what is left."""
        recipe, views = self.recipe, len(self.settings.method.views)
        share = recipe.but(sampled_nodes=math.ceil(recipe.sampled_nodes / self.workers))
        work = step_work(views, self.model.objective, share, size_of(self.graph)._replace(features=self._features))
        computed = _ROW_COPIES * max(recipe.hidden, recipe.dimension) * work.rows
        step = _FLOAT_BYTES * (_INPUT_COPIES * self._features * work.nodes + computed)
        columns = sum(self._width(source) * (len(STEPS) if source.walk_columns else 1) for source, _ in self._readout_rows)
        # By one of the workers, while the others wait.
        fitted = 2 * _FLOAT_BYTES * columns * self._fitted_nodes / self.local_workers
        return self._fixed + max(step, fitted, self._directions / self.local_workers)

    @property
    def _directions(self) -> float:
        """Bytes to find the directions of many features: of the rows that they are found by, and of products with these."""
        columns, size = self._width(Source()), size_of(self.graph)
        if columns in (0, self._features):
            return 0
        own = self._features == size.features
        row = size.bytes / size.nodes if own else 2 * _FLOAT_BYTES * self._features
        rows = min(size.nodes, ITERATED_NODES * (1 + ITERATED_NEIGHBORS))
        return rows * (row + 2 * _FLOAT_BYTES * columns) + 6 * _FLOAT_BYTES * columns * self._features

    @property
    def peak(self) -> float:
        """Estimated peak of each worker; the first takes more for the read-out, while others wait."""
        # A block of many edges has the row of a node once.
        blocks = min(self.usable / 4, self._row_bytes * min(self.block_rows, self.graph.num_nodes))
        return min(max(self.usable, self.needed), max(self.needed, self._fixed + blocks))
