"""A graph folder embedded in blocks of nodes, one layer after the other, into shards; by one worker or several."""

from __future__ import annotations

import itertools
import sys

import torch
from torch import Tensor

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.stages.block_passes import BlockEdges, Chain, Part, Passes
from clnr.embedding.store.row_files import LayerFiles, Sink
from clnr.engine import DeviceGraph, View
from clnr.engine.layer_pass import LayerEndError, LayerOperators
from clnr.errors import TrainingError
from clnr.graph.csr import Array
from clnr.training.loop import advice


class BlockEmbedding:
    """The rows of an encoder for all nodes, one layer after the other, each in blocks of nodes; at most two are on disk.

    What is there of an earlier run is kept: complete layers, the blocks of an unfinished one, and of the last one. Workers take
    the next block whenever they are done with one, and wait for each other after a layer. A row does not depend on who
    computes it.

    ``device_graph`` has the features that the encoder is given; rows of the last layer go to ``sink``.
    """

    def __init__(self, model: FittedModel, passes: Passes, device_graph: DeviceGraph, sink: Sink):
        self._fitted, self._passes, self._device_graph = model, passes, device_graph
        self._model, self._parameters = model.method.build(model.recipe), model.parameters_on(passes.engine)
        self._workers = passes.workers
        self._sink = sink
        self._layers: dict[int, LayerFiles] = {}

    def layers(self) -> Chain[int]:
        """Make all blocks, one layer in a pass; returns the numbers of a row."""
        if self._workers.broadcast_object(isinstance(self._sink, LayerFiles) and self._sink.complete):
            return self._sink.width(0)
        for layer in itertools.count(self._workers.broadcast_object(self._complete_layers())):
            written = _LayerOrLast(self._layer(layer), self._sink)
            yield self._part(layer, written)
            width = self._workers.all_reduce_min(written.last_width)
            for done in range(layer):
                self._layers.pop(done, None)
                self._passes.remove(f"layer-{done}")
            if width:
                return width
        raise AssertionError

    def _part(self, layer: int, written: _LayerOrLast) -> Part:
        def prepare(edges: BlockEdges) -> LayerOperators:
            propagated = edges.propagate(self._device_graph, self._layer(layer - 1)) if layer else lambda relu: torch.empty(0)
            view, nodes = View(self._device_graph), torch.from_numpy(edges.nodes)
            return LayerOperators(view, self._passes.engine, nodes, layer, propagated)

        def compute(nodes: Array, operators: LayerOperators) -> Tensor:
            rows, is_last = self._compute(operators)
            written.last_width = rows.shape[1] if is_last else 0
            return rows

        what = f"embedding all nodes: {f'layer {layer}' if layer else 'input'}"
        return Part(what, written, prepare, compute, reads_edges=layer > 0)

    def _compute(self, operators: LayerOperators) -> tuple[Tensor, bool]:
        """The rows of a block after a layer, and whether it is the last one."""
        try:
            rows, is_last = self._model.embed_layer(self._parameters, operators), True
        except LayerEndError as end:
            rows, is_last = end.rows, False
        if not all(each.isfinite() for each in rows.aminmax()):
            raise TrainingError(f"the embedding is not finite; {advice(self._fitted.recipe)}")
        return rows, is_last

    # -- layers on disk -----------------------------------------------------------------------------------------------

    def _layer(self, layer: int) -> LayerFiles:
        """What the layer after this one propagates."""
        return self._layers.setdefault(layer, self._passes.files(f"layer-{layer}"))

    def _complete_layers(self) -> int:
        layers = [int(path.name.split("-")[1]) for path in self._passes.work.glob("layer-*")]
        return 1 + max((layer for layer in layers if self._layer(layer).complete), default=-1)


class _LayerOrLast:
    """Rows of a layer, which go to a file of their own or, if it is the last one, where those of the encoder do.

    ``last_width`` is the numbers of a row of the last layer, 0 if another follows, or large if this worker does not know.
    """

    def __init__(self, layer: LayerFiles, last: Sink):
        self._layer, self._last = layer, last
        self.last_width = sys.maxsize

    def has(self, number: int) -> bool:
        if self._layer.has(number):
            self.last_width = 0
            return True
        if self._last.has(number):
            self.last_width = self._last.width(number)
            return True
        return False

    def width(self, number: int) -> int:
        return (self._layer if self._layer.has(number) else self._last).width(number)

    def write(self, number: int, rows: Array) -> None:
        (self._last if self.last_width else self._layer).write(number, rows)
