"""Estimates of time and memory from the sizes of graph and encoder: an order of magnitude, before anything is run."""

from __future__ import annotations

import math
from typing import NamedTuple

from clnr.engine import Engine
from clnr.methods import Method
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.inputs import Cleora, FastRP, Input, Spectral, StructureInput
from clnr.nn.readout import ROWS
from clnr.nn.readout_blocks import FITTED_NODES, MOST_INNER_PRODUCTS, ReducedFeatures
from clnr.nn.structure import STEPS
from clnr.training.step_work import Size as Size
from clnr.training.step_work import step_work

# Bytes and operations per second, and the fixed seconds of an epoch: typical values.
_RATES = {"cuda": (1.5e12, 1e14, 3e-4), "cpu": (1.5e10, 6e10, 2e-3)}
_FLOAT_BYTES, _NODE_BYTES = 4, 8
_SUMS_PER_MOMENT = 5  # Sums over a column: two for its mean, one for its variance, two for their gradients.
# Bytes of an edge: in the graph, on the device in both directions, scaled for a propagation, and to walk along.
_EDGE_BYTES = 120
# How often an encoder's rows are in memory where there is no read-out; where there is one, the widest of its matrices: rows
# that are propagated, or the directions that are looked for and their gradients; and a step of walks.
_COPIES_OF_ROWS = 8
_COPIES_OF_WIDEST = 3
_COPIES_OF_STEP = 3
_PROBE_SECONDS = 1e-7
LIBRARY_BYTES = 6.5e8
"""What Python and torch take."""
# Numbers that sparse products gather in a second, and multiplications of dense ones: of a GPU, and of one thread of a CPU.
_WORK_RATES = {"cuda": (1e11, 1e13), "cpu": (1e9, 1.5e10)}
# What a stage takes at least, in seconds: modules that are imported there, kernels that are loaded, a CUDA graph.
_FIXED = {"prepare": 0.1, "fit the read-out": 1.0, "embed": 0.1, "score": 0.5, "baselines": 0.5}
_FIXED |= {"draw": 0.5, "write": 0.1}
FIXED_SECONDS = {"cuda": {**_FIXED, "train": 3.0}, "cpu": {**_FIXED, "train": 1.0}}
# How many times longer a pass over edges in files takes.
FROM_FILES = 2.0
# Of each edge, where some are held out.
_HELD_OUT_SECONDS = 1e-6
# Bytes in a second to a compressed file.
_WRITTEN_BYTES = 1e8
# How often principal directions map rows, forward or backward, and how many columns more they look for; how often columns are
# made orthonormal on the way, in operations for each number; and multiplications for a random number.
_DIRECTION_PASSES, _EXTRA_COLUMNS, _ORTHONORMAL, _RANDOM = 9, 16, 30, 50


class Cost(NamedTuple):
    """Seconds of a training, and its peak of memory in bytes."""

    seconds: float
    memory: float


def training(method: Method, recipe: Recipe, size: Size, engine: Engine) -> Cost:
    """The cost of a training, with every number moved and multiplied at a typical rate."""
    model = method.build(recipe)
    views, width = max(2, len(model.views)), max(recipe.hidden, recipe.dimension)
    rows = step_work(len(model.views), model.objective, recipe, size).rows if model.objective else 0
    # Activations of all layers and views, and their gradients.
    step = _FLOAT_BYTES * 4 * views * rows * width
    graph = LIBRARY_BYTES + size.bytes + _EDGE_BYTES * size.edges
    work = ModelWork(model, recipe, size)
    peak = max(step + work.input_bytes(engine.device.type), work.embedding_bytes(engine.device.type))
    return Cost(training_seconds(method, recipe, size, engine.device.type), graph + peak)


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
    # Only a first layer's parameters depend on the inputs: the same number for each.
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


def evaluating(nodes: int, classes: int, width: float) -> float:
    """Seconds of a linear probe fitted to ``nodes`` nodes; on one core of the CPU, whatever the engine."""
    return _PROBE_SECONDS * nodes * classes * width


def holding_out(edges: int) -> float:
    """Seconds of drawing edges that are held out, and of the graph without them."""
    return _HELD_OUT_SECONDS * edges


def writing(count: float) -> float:
    """Seconds of writing ``count`` bytes."""
    return count / _WRITTEN_BYTES


def searching(nodes: int, width: int) -> float:
    """Seconds of finding the nearest neighbours of all nodes; on the CPU, whatever the engine."""
    return 2 * nodes**2 * width / _RATES["cpu"][1]


# -- what is computed beside the steps of a training ------------------------------------------------------------------------


class Work(NamedTuple):
    """What a stage computes: numbers that sparse products gather (edges x columns), and multiplications of dense products."""

    gathered: float = 0.0
    multiplied: float = 0.0

    def seconds(self, device: str, threads: int) -> float:
        """How long a device takes, ``cpu`` or ``cuda``, with ``threads`` threads of a CPU."""
        rates = _WORK_RATES[device]
        return sum(count / rate for count, rate in zip(self, rates, strict=True)) / (threads if device == "cpu" else 1)

    @classmethod
    def sum(cls, *some: Work) -> Work:
        return cls(*map(sum, zip(*some, strict=True)))


class ModelWork:
    """The work of a model on a graph of some size, with the recipe that it was built from."""

    def __init__(self, model: Model, recipe: Recipe, size: Size):
        self.model, self.recipe, self.size = model, recipe, size
        self._features = model.input_width(size.features)
        # Of sparse features, only entries are multiplied.
        dense = size.nodes * (self._features - size.features)
        self._entries = dense + min(size.nodes * size.features, size.bytes / _FLOAT_BYTES)
        self._encoded = model.encoder.width(self._features)
        self._outputs = model.encoder.num_outputs
        readout = model.readout
        self._widths = [] if readout is None else readout.widths(self._features, self._outputs * [self._encoded])
        self._products = [] if readout is None else [product for _, product in readout.products({}, self._outputs)]

    def input_bytes(self, device: str) -> float:
        """Bytes of the features that the encoder is given; those of the graph itself are on the host, and on a CPU again."""
        if self._features == self.size.features:
            return (2 if device == "cpu" else 1) * self.size.bytes
        return _FLOAT_BYTES * self.size.nodes * self._features

    def embedding_bytes(self, device: str) -> float:
        """Bytes of the rows of all nodes while inputs are made or, if these are more, while the read-out is fitted."""
        nodes, readout, encoder = self.size.nodes, self.model.readout, self._encoded
        walked = sum(part.walk_columns for part in self.model.inputs)
        # All of them, and a step beside the one before.
        made = 3 * self.size.bytes + _FLOAT_BYTES * nodes * (len(STEPS) + _COPIES_OF_STEP) * walked
        if readout is None:
            return max(made, self.input_bytes(device) + _FLOAT_BYTES * nodes * _COPIES_OF_ROWS * encoder)
        # Of all nodes the encoders' rows, walks, and rows on their way; of those that stand for all, all matrices, and
        # features of two hops.
        walks = len(STEPS) * sum(product.source.walk_columns for product in self._products)
        pairs = zip(self._widths, self._products, strict=False)
        widest = max(encoder, readout.dimension, *(width for width, product in pairs if not product.source.walk_columns))
        columns = self._outputs * encoder + walks + _COPIES_OF_WIDEST * widest
        features = 2 * self._features if self._features <= MOST_INNER_PRODUCTS else 0
        fitted = _FLOAT_BYTES * min(nodes, FITTED_NODES) * (sum(self._widths) + features)
        block = _FLOAT_BYTES * 3 * min(nodes, ROWS) * sum(self._widths)
        return max(made, self.input_bytes(device) + _FLOAT_BYTES * nodes * columns + fitted + block)

    def inputs(self) -> Work:
        """The features that the encoder is given."""
        return Work.sum(Work(), *(self._input(part) for part in self.model.inputs))

    def _input(self, part: Input) -> Work:
        if isinstance(part, Spectral):
            return self._directions(1, part.dimension, self.size.nodes, 0)
        steps = part.walk_steps if isinstance(part, Cleora) else part.power if isinstance(part, FastRP) else max(STEPS)
        return self._walks(steps, part.dimension if isinstance(part, StructureInput) else part.walk_columns)

    def _walks(self, steps: int, columns: int) -> Work:
        return Work(steps * self.size.edges * columns, _RANDOM * self.size.nodes * columns)

    def walks(self) -> Work:
        """Those of the read-out, where the inputs have not made the same."""
        known = {part.walk_columns for part in self.model.inputs}
        columns = {product.source.walk_columns for product in self._products} - known - {0}
        return Work.sum(Work(), *(self._walks(max(STEPS), each) for each in columns))

    def fit_readout(self) -> Work:
        """The read-out fitted: principal directions of features, and of all columns side by side."""
        if self.model.readout is None:
            return Work()
        blocks = [block for block in self.model.readout.blocks if isinstance(block, ReducedFeatures) and block.reduced]
        features = [self._of_features(block.steps, max(block.reduced, block.dimension)) for block in blocks]
        return Work.sum(self._matrices(), self._of_inner_products(sum(self._widths), self.recipe.dimension), *features)

    def _of_features(self, steps: int, count: int) -> Work:
        """Principal directions of the features propagated ``steps`` times."""
        if self._features > MOST_INNER_PRODUCTS:
            return self._directions(steps, count, self._features, self._entries)
        return Work.sum(Work(steps * self.size.edges * self._features), self._of_inner_products(self._features, count))

    def _of_inner_products(self, width: int, count: int) -> Work:
        """The same of ``width`` columns, from their inner products over some nodes."""
        rows, some = min(self.size.nodes, FITTED_NODES), min(width, count + _EXTRA_COLUMNS)
        return Work(0, width**2 * (rows + _DIRECTION_PASSES * some) + _ORTHONORMAL * width * some**2)

    def _directions(self, steps: int, count: int, width: int, entries: float) -> Work:
        """The same of a matrix of ``width`` columns, propagated ``steps`` times, by products with it."""
        some = min(width, count + _EXTRA_COLUMNS)
        multiplied = _DIRECTION_PASSES * entries * some + _ORTHONORMAL * width * some**2
        return Work(_DIRECTION_PASSES * steps * self.size.edges * some, multiplied)

    def _matrices(self) -> Work:
        """The columns of the read-out, but for walks, and the encoder's rows before."""
        hops: dict[object, int] = {}
        for product, width in zip(self._products, self._widths, strict=False):
            if not product.source.walk_columns:
                hops[product.source] = max(hops.get(product.source, 0), product.hops * width)
        recipe = self.recipe
        encoders = self._outputs if hasattr(self.model.encoder, "layers") else 0
        columns = encoders * ((recipe.layers - 1) * recipe.hidden + recipe.dimension)
        multiplied = recipe.hidden * (encoders * self._entries + columns * self.size.nodes)
        return Work(self.size.edges * (sum(hops.values()) + columns), multiplied)

    def embed(self) -> Work:
        """The vectors of all nodes, from inputs and walks that are there."""
        return Work.sum(self._matrices(), Work(0, self.size.nodes * sum(self._widths) * self.recipe.dimension))

    def all(self, graphs: int) -> Work:
        """Everything but steps of training: fitted to one graph, and embedded on ``graphs``."""
        again = (self.inputs(), self.walks(), self.embed())
        return Work.sum(self.fit_readout(), *graphs * again)
