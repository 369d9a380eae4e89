"""Estimates of time and memory from the sizes of graph and encoder: an order of magnitude, before anything is run."""

from __future__ import annotations

import math
from typing import NamedTuple

from clnr.engine import Engine
from clnr.methods import Method
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.readout import ROWS
from clnr.nn.structure import STEPS
from clnr.training.step_work import Size, step_work

__all__ = ["Cost", "Size", "evaluating", "searching", "sent", "training", "training_seconds"]

# Bytes and operations per second, and the fixed seconds of an epoch: typical values.
_RATES = {"cuda": (1.5e12, 1e14, 3e-4), "cpu": (1.5e10, 6e10, 2e-3)}
_FLOAT_BYTES, _NODE_BYTES = 4, 8
_SUMS_PER_MOMENT = 5  # Sums over a column: two for its mean, one for its variance, two for their gradients.
# Bytes of an edge: in the graph, on the device in both directions, scaled for a propagation, and to walk along.
_EDGE_BYTES = 160
# How often an encoder's rows are in memory where there is no read-out, and where there is one, the widest of its matrices
# beside all of them: its rows in float64, or the directions that are looked for and their gradients.
_COPIES_OF_ROWS = 8
_COPIES_OF_WIDEST = 4
_PROBE_SECONDS = 1e-7
_LIBRARY_BYTES = 6.5e8


class Cost(NamedTuple):
    """Seconds of a training, and its peak of memory in bytes."""

    seconds: float
    memory: float


def training(method: Method, recipe: Recipe, size: Size, engine: Engine) -> Cost:
    """The cost of a training, with every number moved and multiplied at a typical rate."""
    model, device = method.build(recipe), engine.device.type
    views, width = max(2, len(model.views)), max(recipe.hidden, recipe.dimension)
    rows = step_work(len(model.views), model.objective, recipe, size).rows if model.objective else 0
    # Activations of all layers and views, and their gradients.
    step = _FLOAT_BYTES * 4 * views * rows * width
    graph = _LIBRARY_BYTES + size.bytes + _EDGE_BYTES * size.edges
    peak = max(step + _given(model, size, device), _embedding(model, size, device))
    return Cost(training_seconds(method, recipe, size, device), graph + peak)


def _given(model: Model, size: Size, device: str) -> float:
    """Bytes of the features that the encoder is given, also those on the host that the device has, too."""
    inputs = model.input_width(size.features)
    return (2 if device == "cpu" else 1) * (size.bytes if inputs == size.features else _FLOAT_BYTES * size.nodes * inputs)


def _embedding(model: Model, size: Size, device: str) -> float:
    """Bytes of the rows of all nodes while inputs are made or, if these are more, while the read-out is fitted."""
    inputs, outputs = model.input_width(size.features), model.encoder.num_outputs
    encoder = model.encoder.width(inputs)
    walked = len(STEPS) * sum(part.walk_columns for part in model.inputs)
    # One after the other, side by side, and beside the features.
    inputs_bytes = 3 * size.bytes + _FLOAT_BYTES * size.nodes * 3 * walked
    if model.readout is None:
        return max(inputs_bytes, _given(model, size, device) + _FLOAT_BYTES * size.nodes * _COPIES_OF_ROWS * encoder)
    widths = model.readout.widths(inputs, outputs * [encoder])
    # Walks are kept one by one, too. A matrix is centred, and its squares are added in float64.
    again = len(STEPS) * sum(product.source.walk_columns for _, product in model.readout.products({}, outputs))
    columns = sum(widths) + again + _COPIES_OF_WIDEST * max(widths, default=0)
    block = _FLOAT_BYTES * 3 * min(size.nodes, ROWS) * sum(widths)
    return max(inputs_bytes, _given(model, size, device) + _FLOAT_BYTES * size.nodes * columns + block)


def training_seconds(method: Method, recipe: Recipe, size: Size, device: str) -> float:
    """Seconds of a training on a device, ``cpu`` or ``cuda``, which need not be there."""
    bandwidth, speed, launch = _RATES[device]
    work = step_work(len(method.views), method.build(recipe).objective, recipe, size)
    epochs = recipe.epochs if method.objective else 0
    # With early stopping a training ends long before the last epoch.
    epochs = min(epochs, 20 * recipe.patience) if recipe.patience else epochs
    return epochs * (work.moved / bandwidth + work.multiplied / speed + launch)


def sent(method: Method, recipe: Recipe, size: Size, workers: int) -> float:
    """The bytes that each of several workers sends in a step: rows, sums, gradients and, for batch norm, lists of nodes."""
    model = method.build(recipe)
    assert model.objective is not None
    inputs = model.input_width(size.features)
    # Only a first layer's parameters depend on the inputs: so many for each.
    one, two = (sum(value.numel() for value in model.learned(model.init(count, 0)).values()) for count in (1, 2))
    parameters = one + (inputs - 1) * (two - one)
    width, views = model.encoder.width(inputs), len(model.views)
    columns = views * model.encoder.encoders * width
    share = math.ceil(min(size.nodes, recipe.sampled_nodes or size.nodes) / workers)
    gathered = share * columns if model.objective.gathers else 0
    moments = columns * sum(part.of_moments for part in model.postprocess) + views * sum(model.encoder.batch_norms)
    # A sum's gradient is a sum, too.
    summed = _SUMS_PER_MOMENT * moments + 2 * model.objective.summed(width, views) + parameters
    rows = step_work(views, model.objective, recipe.but(sampled_nodes=share), size).rows
    listed = _NODE_BYTES * views * len(model.encoder.batch_norms) / recipe.layers * rows
    return (workers - 1) * (_FLOAT_BYTES * (gathered + 2 / workers * summed) + listed)


def evaluating(nodes: int, classes: int, width: int) -> float:
    """Seconds of a linear probe fitted to so many nodes; on one core of the CPU, whatever the engine."""
    return _PROBE_SECONDS * nodes * classes * width


def searching(nodes: int, width: int) -> float:
    """Seconds of finding the nearest neighbours of all nodes; on the CPU, whatever the engine."""
    return 2 * nodes**2 * width / _RATES["cpu"][1]
