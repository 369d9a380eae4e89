"""A graph folder embedded in blocks of nodes, one layer after the other, into shards; by one worker or several."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import torch

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.stages.block_passes import LayerFiles, Passes, ShardFiles, Sink, do_blocks
from clnr.engine import DeviceGraph, View
from clnr.engine.files.layer_pass import LayerEndError, LayerOperators
from clnr.engine.files.mapped_graph import keep_degrees
from clnr.errors import TrainingError
from clnr.graph.csr import Array
from clnr.support.progress import Tenths
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
        self._workers, self._blocks = passes.workers, passes.blocks
        self._sink = sink
        self._layers: dict[int, LayerFiles] = {}

    def run(self) -> int:
        """Write all blocks; returns the numbers of a row."""
        with self._passes.computing():
            keep_degrees(self._device_graph)
            for layer in itertools.count(self._workers.broadcast_object(self._complete_layers())):
                width = self._workers.all_reduce_min(self._compute_layer(layer))
                for done in range(1, layer + 1):
                    self._layers.pop(done, None)
                    self._passes.remove(f"layer-{done}")
                if width:
                    return width
        raise AssertionError

    def _compute_layer(self, layer: int) -> int:
        """This worker's blocks of a layer; returns what is known of it: numbers of a row if it is the last one, else 0."""
        width, tenths = sys.maxsize, None
        asked: set[tuple[str, int]] = set()

        def prepare(number: int) -> LayerOperators | None:
            if self._layer(layer + 1).path(number).is_file() or self._sink.path(number).is_file():
                return None
            block = self._blocks[number]
            nodes, read = torch.arange(block.start, block.stop), self._layer(layer).rows if layer else None
            operators = LayerOperators(View(self._device_graph), self._passes.engine, nodes, layer, read)
            # What blocks before were asked for, this one will be.
            operators.read(frozenset(asked))
            return operators

        def compute(number: int, operators: LayerOperators | None) -> Callable[[], None]:
            nonlocal width, tenths
            width, write = self._compute_block(layer, number, operators)
            asked.update(frozenset() if operators is None else operators.asked)
            last = "vectors" if isinstance(self._sink, ShardFiles) else "the encoder's rows"
            what = last if width else f"layer {layer + 1}"
            tenths = tenths or Tenths(self._passes.log, f"embedding, {what}", self._passes.folder.num_nodes)
            tenths.done(self._blocks[number].stop)
            return write

        do_blocks(self._workers.work_queue(len(self._blocks)), prepare, compute)
        return width

    def _compute_block(self, layer: int, number: int, operators: LayerOperators | None) -> tuple[int, Callable[[], None]]:
        """The rows of a block after a layer, unless they are there: what ``_compute_layer`` returns, and what writes them."""
        files = self._layer(layer + 1)
        if operators is None:
            return 0 if files.path(number).is_file() else self._sink.width(number), lambda: None
        rows, is_last = self._compute(operators)
        if not is_last:
            return 0, lambda: files.write(number, rows)
        return rows.shape[1], lambda: self._sink.write(number, rows)

    def _compute(self, operators: LayerOperators) -> tuple[Array, bool]:
        """The rows of a block after a layer, and whether it is the last one."""
        try:
            rows, is_last = self._model.embed_layer(self._parameters, operators), True
        except LayerEndError as end:
            rows, is_last = end.rows, False
        if not all(each.isfinite() for each in rows.aminmax()):
            raise TrainingError(f"the embedding is not finite; {advice(self._fitted.recipe)}")
        return rows.float().numpy(force=True), is_last

    # -- layers on disk -----------------------------------------------------------------------------------------------

    def _layer(self, layer: int) -> LayerFiles:
        """What a layer is given."""
        return self._layers.setdefault(layer, self._passes.files(f"layer-{layer}"))

    def _complete_layers(self) -> int:
        layers = [int(path.name.split("-")[1]) for path in self._passes.work.glob("layer-*")]
        return max((layer for layer in layers if self._layer(layer).complete), default=0)
