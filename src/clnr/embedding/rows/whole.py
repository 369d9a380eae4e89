"""The rows of nodes of a graph in memory: all of it is on a device, and methods over it share what they compute."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.rows.passes import Passes
from clnr.engine import DeviceGraph, Engine, View
from clnr.errors import TrainingError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods.model import Model
from clnr.nn.inputs import Input
from clnr.nn.layers import Parameters
from clnr.nn.readout_blocks import Rows
from clnr.training.loop import advice


class Whole:
    """A graph, moved to a device without its labels; a counterpart of ``Passes``, with the same functions."""

    def __init__(self, graph: Graph, engine: Engine, loop_weight: float):
        self.device_graph, self.engine = engine.to_device(graph.without_labels(), loop_weight), engine
        self._given: dict[tuple[Input, ...], DeviceGraph] = {}

    def fit_inputs(self, model: Model) -> tuple[Parameters, DeviceGraph]:
        """What the inputs learn, and the graph with the features that the encoder is given."""
        parameters, given = model.fit_inputs(self.device_graph, self.engine)
        self._given[model.inputs] = given
        return parameters, given

    def prepared(self, model: Model, parameters: Parameters) -> DeviceGraph:
        """As ``Model.prepare``."""
        if model.inputs not in self._given:
            self._given[model.inputs] = model.prepare(parameters, self.device_graph, self.engine)
        return self._given[model.inputs]

    def readout_rows(self, fitted: FittedModel, sample: Array) -> Rows:
        """The rows that the read-out of a model is made from."""
        model, parameters = fitted.method.build(fitted.recipe), fitted.parameters_on(self.engine)
        return model.rows(parameters, self.engine.float32, View(self.prepared(model, parameters)), sample)

    def embed(self, fitted: FittedModel) -> Tensor:
        """The embedding of all nodes."""
        model, parameters = fitted.method.build(fitted.recipe), fitted.parameters_on(self.engine)
        with torch.no_grad():
            z = model.embed(parameters, self.engine.float32, View(self.prepared(model, parameters)))
        if not z.isfinite().all():
            raise TrainingError(f"the embedding is not finite; {advice(fitted.recipe)}")
        return z

    def some(self, fitted: FittedModel, nodes: Array) -> Tensor:
        """The embedding of some nodes."""
        return self.embed(fitted)[torch.from_numpy(nodes).to(self.engine.device)]

    def close(self) -> None:
        """Let go of the graph, so that a device has room for another."""
        self._given.clear()
        del self.device_graph

    def features(self, nodes: Array) -> Any:
        """The features of some nodes, as they are."""
        return self.device_graph.graph.features[nodes]


RowMaker = Whole | Passes
"""What makes rows of the nodes of a graph: in memory, or in blocks."""
