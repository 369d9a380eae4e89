"""A graph folder embedded in blocks of nodes, one layer after the other, into shards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from clnr.embedding.fitting import FittedModel
from clnr.embedding.pipeline import Settings
from clnr.embedding.shards import shard_path, write_shard
from clnr.engine import View
from clnr.engine.layer_pass import LayerEndError, LayerOperators
from clnr.engine.mapped import keep_degrees, read_rows
from clnr.errors import TrainingError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import ArrayInfo, GraphFolder, MappedArray
from clnr.support import memory
from clnr.support.progress import Bar, Tenths
from clnr.training.loop import advice

_NUMBER = 4
_MOST_NODES = 1 << 17


class BlockEmbedding:
    """A graph embedded one layer after the other, each in blocks of nodes; at most two layers are on disk.

    What is there of an earlier run is kept: complete layers, the blocks of an unfinished one, and shards.

    Args:
        model: Embeds.
        folder: The graph.
        settings: Whose engine computes.
        work: Where layers and shards are written.
        block_rows: How many rows a block may gather: its nodes and the sources of their edges. A node with more edges is a
            block by itself, and takes more.
        bar: Shows progress; None for none.
    """

    def __init__(
        self, model: FittedModel, folder: GraphFolder, settings: Settings, work: Path, block_rows: int, bar: Bar | None = None
    ):
        self._fitted, self._folder, self._work, self._block_rows = model, folder, work, block_rows
        self._model, self._engine = model.method.build(model.recipe), settings.engine.float32
        self._device_graph = self._engine.to_device(cast(Any, folder))
        self._log = (bar or Bar(None, quiet=True)).note

    def run(self) -> tuple[int, int]:
        """Write all shards; returns the numbers of a vector, and of shards."""
        with memory.enough_memory(), torch.no_grad():
            keep_degrees(self._device_graph)
            for layer in itertools.count(self._complete_layers()):
                blocks = list(self._blocks())
                rows, is_last = self._compute(layer, blocks[0])
                if is_last:
                    self._write_shards(layer, blocks)
                    self._remove_layers(layer)
                    return rows.shape[1], len(blocks)
                self._write_layer(layer, blocks, rows.shape[1])
                self._remove_layers(layer)
        raise AssertionError

    def _blocks(self) -> Iterator[slice]:
        indptr = self._folder.map("incoming.indptr").values
        start, count = 0, self._folder.num_nodes
        while start < count:
            ends = indptr[start : min(start + _MOST_NODES, count) + 1]
            gathered = ends - ends[0] + np.arange(len(ends))
            stop = start + max(1, int(np.searchsorted(gathered, self._block_rows, "right")) - 1)
            yield slice(start, stop)
            start = stop

    def _compute(self, layer: int, block: slice) -> tuple[Array, bool]:
        """The rows of a block after a layer, and whether it is the last one."""
        stored = self._layer(layer)
        nodes = torch.arange(block.start, block.stop)
        read = None if stored is None else lambda some: torch.from_numpy(read_rows(stored, some))
        operators = LayerOperators(View(self._device_graph), self._engine, nodes, layer, read)
        try:
            rows, is_last = self._model.embed_layer(self._fitted.parameters, operators), True
        except LayerEndError as end:
            rows, is_last = end.rows, False
        if not all(each.isfinite() for each in rows.aminmax()):
            raise TrainingError(f"the embedding is not finite; {advice(self._fitted.recipe)}")
        return rows.float().numpy(), is_last

    # -- layers on disk -----------------------------------------------------------------------------------------------

    def _files(self, layer: int) -> list[Path]:
        """The file with what a layer is given, whose name tells how many numbers a row has; none for the first layer."""
        return list(self._work.glob(f"layer-{layer}-*.bin"))

    def _complete_layers(self) -> int:
        return max((int(path.name.split("-")[1]) for path in self._work.glob("layer-*.bin")), default=0)

    def _layer(self, layer: int) -> MappedArray | None:
        if layer == 0:
            return None
        (path,) = self._files(layer)
        width = int(path.stem.split("-")[2])
        return MappedArray.open(path, ArrayInfo("float32", (self._folder.num_nodes, width)))

    def _write_layer(self, layer: int, blocks: list[slice], width: int) -> None:
        path = self._work / f"layer-{layer + 1}-{width}.unfinished"
        row = _NUMBER * width
        done = path.stat().st_size // row if path.is_file() else 0
        begun = max((block.stop for block in blocks if block.stop <= done), default=0)
        with path.open("ab") as file:
            file.truncate(begun * row)
            for block in self._shown(f"layer {layer + 1}", blocks):
                if block.start >= begun:
                    file.write(np.ascontiguousarray(self._compute(layer, block)[0], "<f4").data)
                    file.flush()
        path.rename(path.with_suffix(".bin"))

    def _remove_layers(self, layer: int) -> None:
        """Remove what layers up to this one were given."""
        for each in range(1, layer + 1):
            for path in self._files(each):
                path.unlink()

    def _write_shards(self, layer: int, blocks: list[slice]) -> None:
        for number, block in enumerate(self._shown("vectors", blocks)):
            path = shard_path(self._work, number)
            if not path.is_file():
                write_shard(path, self._folder.ids(block.start, block.stop), self._compute(layer, block)[0])

    def _shown(self, what: str, blocks: list[slice]) -> Iterator[slice]:
        tenths = Tenths(self._log, f"embedding, {what}", self._folder.num_nodes)
        for block in blocks:
            yield block
            tenths.done(block.stop)
