"""A graph folder embedded in blocks of nodes, one layer after the other, into shards; by one worker or several."""

from __future__ import annotations

import functools
import itertools
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from clnr.embedding.fitting import FittedModel
from clnr.embedding.pipeline import Settings
from clnr.embedding.shards import shard_path, shard_width, write_shard
from clnr.engine import View
from clnr.engine.layer_pass import LayerEndError, LayerOperators
from clnr.engine.mapped import copy_rows, in_order, keep_degrees
from clnr.errors import TrainingError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.stored_arrays import ArrayInfo, MappedArray
from clnr.support import memory
from clnr.support.progress import Bar, Tenths
from clnr.training.loop import advice

_NUMBER = 4
_MOST_NODES = 1 << 17
_OPEN = 256


class LayerFiles:
    """The rows of all nodes after a layer, in a file for each block; a file is complete, or not there.

    Args:
        folder: Has the files, or will have.
        blocks: The nodes of each.
        resident: Bytes of files that may be mapped into memory at a time.
    """

    def __init__(self, folder: Path, blocks: list[slice], resident: int):
        self.folder, self._blocks, self._resident = folder, blocks, resident
        self._starts = np.array([block.start for block in blocks])
        # Each open file takes a descriptor, of which a process may have few.
        self._open = functools.lru_cache(_OPEN)(self._map)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:05d}.bin"

    @property
    def complete(self) -> bool:
        return all(self.path(number).is_file() for number in range(len(self._blocks)))

    def write(self, number: int, rows: Array) -> None:
        self.folder.mkdir(exist_ok=True)
        part = self.path(number).with_suffix(".unfinished")
        part.write_bytes(np.ascontiguousarray(rows, "<f4").data)
        part.replace(self.path(number))

    def _map(self, number: int) -> MappedArray:
        path, block = self.path(number), self._blocks[number]
        rows = block.stop - block.start
        info = ArrayInfo("float32", (rows, path.stat().st_size // (_NUMBER * rows)))
        return MappedArray.open(path, info, self._resident)

    def rows(self, nodes: Array) -> torch.Tensor:
        """The rows of some nodes; read in the order of the files."""
        nodes, places = in_order(nodes)
        stops = np.append(np.searchsorted(nodes, self._starts[1:]), len(nodes))
        out: Array | None = None
        for number, (start, stop) in enumerate(itertools.pairwise([0, *stops.tolist()])):
            if start < stop or out is None:
                stored, first = self._open(number), self._blocks[number].start
                out = np.empty((len(nodes), stored.values.shape[1]), np.float32) if out is None else out
                copy_rows(stored, nodes[start:stop] - first, places[start:stop], out)
        return torch.from_numpy(out)


class BlockEmbedding:
    """A graph embedded one layer after the other, each in blocks of nodes; at most two layers are on disk.

    What is there of an earlier run is kept: complete layers, the blocks of an unfinished one, and shards. Workers take the next
    block whenever they are done with one, and wait for each other after a layer. A row does not depend on who computes it.

    Args:
        model: Embeds.
        folder: The graph.
        settings: Whose engine computes, and whose workers share the blocks.
        work: Where layers and shards are written; all workers see it.
        block_rows: How many rows a block may gather: its nodes and the sources of their edges. A node with more edges is a
            block by itself, and takes more.
        bar: Shows progress; None for none.
    """

    def __init__(
        self, model: FittedModel, folder: GraphFolder, settings: Settings, work: Path, block_rows: int, bar: Bar | None = None
    ):
        self._fitted, self._folder, self._work, self._block_rows = model, folder, work, block_rows
        self._model, self._engine = model.method.build(model.recipe), settings.engine.float32
        self._parameters = model.parameters_on(self._engine)
        self._device_graph = self._engine.to_device(cast(Any, folder))
        self._workers, self._made = settings.workers, list(self._blocks())
        self._layers: dict[int, LayerFiles] = {}
        self._log = (bar or Bar(None, quiet=True)).note

    def run(self) -> tuple[int, int]:
        """Write all shards; returns the numbers of a vector, and of shards."""
        with memory.enough_memory(), torch.no_grad(), self._engine.use_threads():
            keep_degrees(self._device_graph)
            for layer in itertools.count(self._workers.from_first(self._complete_layers())):
                width = self._workers.least(self._compute_layer(layer))
                self._remove_layers(layer)
                if width:
                    return width, len(self._made)
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

    def _compute_layer(self, layer: int) -> int:
        """This worker's blocks of a layer; returns what is known of it: numbers of a vector if it is the last one, else 0."""
        width, tenths = sys.maxsize, None
        # One block is written, and what the one after the next needs is read, while the next one is computed.
        with ThreadPoolExecutor(1) as writer, ThreadPoolExecutor(1) as reader:
            written: Future[None] | None = None
            asked: set[tuple[str, int]] = set()
            for number, operators in self._read_ahead(reader, layer, asked):
                width, write = self._compute_block(layer, number, operators)
                asked |= frozenset() if operators is None else operators.asked
                if written is not None:
                    written.result()
                written = writer.submit(write)
                what = "vectors" if width else f"layer {layer + 1}"
                tenths = tenths or Tenths(self._log, f"embedding, {what}", self._folder.num_nodes)
                tenths.done(self._made[number].stop)
            if written is not None:
                written.result()
        return width

    def _read_ahead(
        self, reader: ThreadPoolExecutor, layer: int, asked: Collection[tuple[str, int]]
    ) -> Iterator[tuple[int, LayerOperators | None]]:
        """This worker's blocks, and the maps of each; what others before were asked for is read by a thread.

        Of a block that is written already there are none.
        """
        coming: tuple[int, Future[LayerOperators | None]] | None = None
        threads = torch.get_num_threads()
        for number in self._workers.take(len(self._made)):
            following = number, reader.submit(self._operators, layer, number, asked, threads)
            if coming is not None:
                yield coming[0], coming[1].result()
            coming = following
        if coming is not None:
            yield coming[0], coming[1].result()

    def _operators(self, layer: int, number: int, asked: Collection[tuple[str, int]], threads: int) -> LayerOperators | None:
        if self._layer(layer + 1).path(number).is_file() or shard_path(self._work, number).is_file():
            return None
        torch.set_num_threads(threads)
        block = self._made[number]
        nodes, read = torch.arange(block.start, block.stop), self._layer(layer).rows if layer else None
        operators = LayerOperators(View(self._device_graph), self._engine, nodes, layer, read)
        operators.read(frozenset(asked))
        return operators

    def _compute_block(self, layer: int, number: int, operators: LayerOperators | None) -> tuple[int, Callable[[], None]]:
        """The rows of a block after a layer, unless they are there: what ``_compute_layer`` returns, and what writes them."""
        block, shard, made = self._made[number], shard_path(self._work, number), self._layer(layer + 1)
        if operators is None:
            return 0 if made.path(number).is_file() else shard_width(shard), lambda: None
        rows, is_last = self._compute(operators)
        if not is_last:
            return 0, lambda: made.write(number, rows)
        return rows.shape[1], lambda: write_shard(shard, self._folder.ids(block.start, block.stop), rows)

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
        return self._layers.setdefault(layer, LayerFiles(self._work / f"layer-{layer}", self._made, self._folder.resident))

    def _complete_layers(self) -> int:
        found = [int(path.name.split("-")[1]) for path in self._work.glob("layer-*")]
        return max((layer for layer in found if self._layer(layer).complete), default=0)

    def _remove_layers(self, layer: int) -> None:
        """Remove what layers up to this one were given."""
        for each in range(1, layer + 1):
            self._layers.pop(each, None)
            if self._workers.first:
                shutil.rmtree(self._work / f"layer-{each}", ignore_errors=True)
