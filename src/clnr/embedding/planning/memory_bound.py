"""A bound of the memory of a job, from the sizes of graph and encoder: of a graph in memory, or in blocks from its files."""

from __future__ import annotations

import math
from typing import NamedTuple

from clnr.embedding.fit_settings import Settings
from clnr.embedding.rows.passes import rows_of
from clnr.embedding.scoring import judges
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
# The rows of all layers in a step: activations of each view, and gradients.
_COPIES_IN_STEP = 4
# How often an encoder's rows are in memory where there is no read-out; where there is one, the widest of its matrices: rows
# that are propagated, or the directions that are looked for and their gradients; and a step of walks.
_COPIES_OF_ROWS = 8
_COPIES_OF_WIDEST = 3
_COPIES_OF_WALK = 3
# In blocks. How often the features that a view reads are in memory, those of the next step or block among them; and the rows
# that a step computes: activations and gradients of two views.
_INPUT_COPIES = 5
_ROW_COPIES = 12
_LEAST_BLOCK_ROWS = 1 << 12
_BLOCKS_PER_WORKER = 8


class Needs(NamedTuple):
    """Bytes that a process takes: all the while, beside Python and torch; and for a moment.

    Attributes:
        held: All the while.
        step: In a step of the training.
        fitted: While the read-out is fitted.
        row: For each row of all nodes that is made at once.
    """

    held: float
    step: float
    fitted: float
    row: float

    def peak(self, rows: float = 0) -> float:
        """The most at a time, where so many rows are made at once."""
        return PROGRAM_BYTES + self.held + max(self.step, self.fitted, self.row * rows)


def size_of(graph: Graph) -> Size:
    """The size of a graph, once its features are loaded."""
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if graph.sparse else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)


def loaded_bytes(graph: Graph) -> float:
    """The memory that a graph takes once all of it is loaded."""
    return size_of(graph).bytes + sum(part.nbytes for way in graph.edges_by_end for part in way if part is not None)


# -- in memory --------------------------------------------------------------------------------------------------------


def needs_in_memory(method: Method, recipe: Recipe, size: Size, engine: Engine) -> Needs:
    """What a graph takes that is loaded: all rows are made at once."""
    model = method.build(recipe)
    views, width = max(2, len(model.views)), max(recipe.hidden, recipe.dimension)
    rows = step_work(len(model.views), model.objective, recipe, size).rows if model.objective else 0
    features = model.input_width(size.features)
    # Those of the graph itself are on the host, and on a CPU again.
    own_copies = 2 if engine.device.type == "cpu" else 1
    inputs = own_copies * size.bytes if features == size.features else _FLOAT_BYTES * size.nodes * features
    walked = sum(part.walk_columns for part in model.inputs)
    made = 3 * size.bytes / max(1, size.nodes) + _FLOAT_BYTES * (len(STEPS) + _COPIES_OF_WALK) * walked
    return Needs(
        size.bytes + _EDGE_BYTES * size.edges,
        inputs + _FLOAT_BYTES * _COPIES_IN_STEP * views * rows * width,
        inputs + _embedded_bytes(model, size.nodes, features),
        made,
    )


def _embedded_bytes(model: Model, nodes: int, features: int) -> float:
    """Bytes of the encoder's rows of all nodes, and of what a read-out is fitted to."""
    readout, encoded, outputs = model.readout, model.encoder.width(features), model.encoder.num_outputs
    if readout is None:
        return _FLOAT_BYTES * nodes * _COPIES_OF_ROWS * encoded
    # Of all nodes the encoder's rows, walks, and rows on their way; of those that stand for all, all matrices, and features
    # of two hops.
    widths = readout.widths(features, outputs * [encoded])
    products = [product for _, product in readout.products({}, outputs)]
    walks = len(STEPS) * sum(product.source.walk_columns for product in products)
    pairs = zip(widths, products, strict=False)
    widest = max(encoded, readout.dimension, *(width for width, product in pairs if not product.source.walk_columns))
    columns = outputs * encoded + walks + _COPIES_OF_WIDEST * widest
    hops = 2 * features if features <= MOST_INNER_PRODUCTS else 0
    fitted, block = min(nodes, FITTED_NODES), 3 * min(nodes, ROWS)
    return _FLOAT_BYTES * (nodes * columns + fitted * (sum(widths) + hops) + block * sum(widths))


# -- from files -------------------------------------------------------------------------------------------------------


def needs_in_blocks(graph: Graph, settings: Settings, recipe: Recipe, workers: int, local_workers: int) -> Needs:
    """What one of the workers takes where the graph stays in files: rows are made for a block of nodes at a time."""
    model, size = settings.method.build(recipe), size_of(graph)
    features, width = model.input_width(size.features), max(recipe.hidden, recipe.dimension)
    share = recipe.but(sampled_nodes=math.ceil(recipe.sampled_nodes / workers))
    work = step_work(len(settings.method.views), model.objective, share, size._replace(features=features))
    products = [] if model.readout is None else [each for _, each in model.readout.products({}, model.encoder.num_outputs)]
    # All outputs of the encoder are in one file.
    rows = {(each.source if each.source.encoder is None else Source(encoder=0), each.hops) for each in products}
    columns = sum(_width(model, source, features) * (len(STEPS) if source.walk_columns else 1) for source, _ in rows)
    propagated = [_width(model, source, features) for source, hops in rows if hops or source.walk_columns]
    widest = max(width, features, *(part.walk_columns for part in model.inputs), *propagated)
    # The sample's rows, once more those of the nodes that stand for all, and some of these on the way to their covariance.
    stand_for_all, block = min(size.nodes, FITTED_NODES), 3 * min(size.nodes, ROWS)
    fitted = _FLOAT_BYTES * columns * (_sampled_nodes(graph, settings) + stand_for_all + block)
    directions = 0.0 if model.readout is None else _direction_bytes(size, features, model.readout.feature_columns(features))
    return Needs(
        3 * _FLOAT_BYTES * graph.num_nodes,
        _FLOAT_BYTES * (_INPUT_COPIES * features * work.nodes + _ROW_COPIES * width * work.rows),
        # By one of the workers, while the others wait.
        max(fitted, directions) / local_workers,
        _FLOAT_BYTES * _INPUT_COPIES * widest,
    )


def _width(model: Model, source: Source, features: int) -> int:
    """Columns of the rows of a source before they are propagated."""
    if source.encoder is not None:
        return model.encoder.width(features) * model.encoder.num_outputs
    assert model.readout is not None
    return source.walk_columns or model.readout.feature_columns(features)


def _sampled_nodes(graph: Graph, settings: Settings) -> int:
    """How many nodes the read-out is fitted to, scored by and chosen by."""
    # The ends of held-out edges and non-edges, and the neighbours that nodes of several kinds are compared by.
    kinds = graph.info.node_kinds
    ends = 4 * (MOST_PAIRS if len(kinds) < 2 else MOST_PAIRS_OF_KINDS * (1 + MOST_NEIGHBOURS))
    chosen_by = judges.MOST_NODES if settings.purpose and settings.tried else 0
    return min(graph.num_nodes, FITTED_NODES + ends + chosen_by)


def _direction_bytes(size: Size, features: int, columns: int) -> float:
    """Bytes to find the directions of many features: of the rows that they are found by, and of products with these."""
    if columns in (0, features):
        return 0.0
    row = size.bytes / size.nodes if features == size.features else 2 * _FLOAT_BYTES * features
    rows = min(size.nodes, ITERATED_NODES * (1 + ITERATED_NEIGHBORS))
    return rows * (row + 2 * _FLOAT_BYTES * columns) + 6 * _FLOAT_BYTES * columns * features


def block_rows(needs: Needs, usable: float, graph: Graph, gathers_rows: bool, workers: int) -> int:
    """How many rows may be made at once: as memory allows, but each worker has some blocks."""
    all_rows = rows_of(graph.num_nodes, graph.num_edges, gathers_rows)
    allowed = (usable - PROGRAM_BYTES - needs.held) / 2 / needs.row
    return max(_LEAST_BLOCK_ROWS, int(min(allowed, all_rows / (_BLOCKS_PER_WORKER * workers))))
