"""The memory of a training, estimated from the sizes of graph and encoder before anything is run."""

from __future__ import annotations

from clnr.engine import Engine
from clnr.methods import Method
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.inputs import STEPS
from clnr.nn.readout import ROWS
from clnr.nn.readout_blocks import FITTED_NODES, MOST_INNER_PRODUCTS
from clnr.training.step_work import Size, step_work

_FLOAT_BYTES = 4
# Bytes of an edge: in the graph, on the device in both directions, scaled for a propagation, and to walk along.
_EDGE_BYTES = 120
# How often an encoder's rows are in memory where there is no read-out; where there is one, the widest of its matrices: rows
# that are propagated, or the directions that are looked for and their gradients; and a step of walks.
_COPIES_OF_ROWS = 8
_COPIES_OF_WIDEST = 3
_COPIES_OF_STEP = 3
LIBRARY_BYTES = 6.5e8
"""What Python and torch take."""


def training_memory(method: Method, recipe: Recipe, size: Size, engine: Engine) -> float:
    """The peak of memory of a training in bytes: an order of magnitude."""
    model = method.build(recipe)
    views, width = max(2, len(model.views)), max(recipe.hidden, recipe.dimension)
    rows = step_work(len(model.views), model.objective, recipe, size).rows if model.objective else 0
    # Activations of all layers and views, and their gradients.
    step = _FLOAT_BYTES * 4 * views * rows * width
    inputs = _input_bytes(model, size, engine.device.type)
    peak = max(step + inputs, _embedding_bytes(model, size, inputs))
    return LIBRARY_BYTES + size.bytes + _EDGE_BYTES * size.edges + peak


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
