"""Passes over all nodes of a graph folder, in blocks that workers share; rows that one makes are in files for the next."""

from __future__ import annotations

import functools
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fit_settings import Settings
from clnr.embedding.store.artifact_files import SHARDS
from clnr.embedding.store.export import vector_table
from clnr.embedding.store.shards import shard_path, shard_schema, write_shard
from clnr.embedding.store.stored_columns import stored_kinds
from clnr.engine import DeviceGraph, View, unit_rows
from clnr.engine.block_engine import BlockEngine
from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.files.layer_pass import ReadRows
from clnr.engine.files.mapped import copy_rows, in_order
from clnr.engine.files.mapped_graph import neighbour_rows
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.id_vectors import random_features
from clnr.graph.stored_arrays import ArrayInfo, MappedArray
from clnr.nn.structure import STEPS
from clnr.support.machine import memory
from clnr.support.progress import Bar, NowAndThen

_FLOAT_BYTES = 4
_MOST_NODES = 1 << 17
_OPEN_FILES = 256

Read = TypeVar("Read")


class Sink(Protocol):
    """Where the rows of blocks go; a file is complete, or not there."""

    def path(self, number: int) -> Path: ...

    def width(self, number: int) -> int:
        """The numbers of a row of a block that is there."""

    def write(self, number: int, rows: Array) -> None: ...


class LayerFiles:
    """Rows of all nodes, in a file for each block, to be read again: ``resident`` bytes may be in memory at a time."""

    def __init__(self, folder: Path, blocks: list[slice], resident: int):
        self.folder, self._blocks, self._resident = folder, blocks, resident
        self._starts = np.array([block.start for block in blocks])
        # Each open file takes a descriptor, of which a process may have few.
        self._open = functools.lru_cache(_OPEN_FILES)(self._map)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:05d}.bin"

    @property
    def complete(self) -> bool:
        return all(self.path(number).is_file() for number in range(len(self._blocks)))

    def write(self, number: int, rows: Array) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.path(number).with_suffix(".unfinished")
        part.write_bytes(np.ascontiguousarray(rows, "<f4").data)
        part.replace(self.path(number))

    def width(self, number: int) -> int:
        block = self._blocks[number]
        return self.path(number).stat().st_size // (_FLOAT_BYTES * (block.stop - block.start))

    def _map(self, number: int) -> MappedArray:
        block = self._blocks[number]
        info = ArrayInfo("float32", (block.stop - block.start, self.width(number)))
        return MappedArray.open(self.path(number), info, self._resident)

    def rows(self, nodes: Array) -> Tensor:
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


def remove_rows(work: Path) -> None:
    """Remove all rows from a folder in which a graph was embedded, but not the shards."""
    for path in work.iterdir():
        if path.is_dir() and path.name != SHARDS:
            shutil.rmtree(path, ignore_errors=True)


class ShardFiles:
    """Vectors of all nodes, in a shard for each block."""

    def __init__(self, work: Path, folder: GraphFolder, blocks: list[slice]):
        self._work, self._folder, self._blocks = work, folder, blocks
        self._kinds = stored_kinds(folder)

    @property
    def columns(self) -> list[str]:
        """The columns of a shard."""
        return vector_table(self._folder.ids(0, 0), np.empty((0, 1), np.float32), self._kinds(np.arange(0))).column_names

    def path(self, number: int) -> Path:
        return shard_path(self._work, number)

    def width(self, number: int) -> int:
        return int(shard_schema(self.path(number)).field("vector").type.list_size)

    def write(self, number: int, rows: Array) -> None:
        block = self._blocks[number]
        kinds = self._kinds(np.arange(block.start, block.stop))
        write_shard(self.path(number), self._folder.ids(block.start, block.stop), rows, kinds)


def node_blocks(folder: GraphFolder, block_rows: int) -> list[slice]:
    """All nodes in blocks that gather at most so many rows each: nodes and the sources of their edges.

    A node with more edges is a block by itself.
    """
    indptr = folder.map("incoming.indptr").values
    blocks, start, count = [], 0, folder.num_nodes
    while start < count:
        ends = indptr[start : min(start + _MOST_NODES, count) + 1]
        gathered = ends - ends[0] + np.arange(len(ends))
        stop = start + max(1, int(np.searchsorted(gathered, block_rows, "right")) - 1)
        blocks.append(slice(start, stop))
        start = stop
    return blocks


def do_blocks(
    numbers: Iterable[int], prepare: Callable[[int], Read], compute: Callable[[int, Read], Callable[[], None]]
) -> None:
    """Do some blocks: one is read, in a thread, and another one written, in another thread, while a third is computed.

    ``compute`` takes what ``prepare`` has read of a block, and returns what writes it.
    """
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        written: Future[None] | None = None
        for number, read in _prepared(reader, numbers, prepare):
            write = compute(number, read)
            if written is not None:
                written.result()
            written = writer.submit(write)
        if written is not None:
            written.result()


def _prepared(reader: ThreadPoolExecutor, numbers: Iterable[int], prepare: Callable[[int], Read]) -> Iterator[tuple[int, Read]]:
    threads, coming = torch.get_num_threads(), None

    def call(number: int) -> Read:
        torch.set_num_threads(threads)
        return prepare(number)

    for number in numbers:
        following = number, reader.submit(call, number)
        if coming is not None:
            yield coming[0], coming[1].result()
        coming = following
    if coming is not None:
        yield coming[0], coming[1].result()


class Passes:
    """Passes over the nodes of one graph in files, each of which makes rows of all nodes from rows of others.

    What is there of an earlier run is kept. Workers wait for each other after a pass.

    Rows are written to ``work``, which all workers see. A block gathers ``block_rows``: its nodes and the sources of their
    edges; a node with more edges is a block by itself, and takes more.
    """

    def __init__(self, device_graph: DeviceGraph, settings: Settings, work: Path, block_rows: int, bar: Bar | None = None):
        self.device_graph, self.folder = device_graph, cast(GraphFolder, device_graph.graph)
        self.engine, self.workers = cast(BlockEngine, settings.engine.float32), settings.workers
        self.work, self.blocks = work, node_blocks(self.folder, block_rows)
        self.log = (bar or Bar(None, quiet=True)).note

    def files(self, name: str) -> LayerFiles:
        return LayerFiles(self.work / name, self.blocks, self.folder.resident)

    def remove(self, name: str) -> None:
        if self.workers.first:
            shutil.rmtree(self.work / name, ignore_errors=True)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute without gradients, by the engine's threads."""
        with memory.enough_memory(), torch.no_grad(), self.engine.use_threads():
            yield

    def make(self, sink: Sink, what: str, prepare: Callable[[Array], Any], compute: Callable[[Array, Any], Tensor]) -> None:
        """Rows of all nodes: ``compute(nodes, prepare(nodes))`` for the nodes of each block that is not there yet."""

        def read(number: int) -> Any:
            return None if sink.path(number).is_file() else (prepare(self._nodes(number)),)

        def computed(number: int, prepared: Any) -> Callable[[], None]:
            if pace.due():
                self.log(f"{what}: {100 * self.blocks[number].stop // self.folder.num_nodes} %")
            if prepared is None:
                return lambda: None
            rows = compute(self._nodes(number), prepared[0]).float().numpy(force=True)
            return lambda: sink.write(number, rows)

        self.log(what)
        pace = NowAndThen()
        # Whoever is done takes the next block.
        do_blocks(self.workers.work_queue(len(self.blocks)), read, computed)
        self.workers.barrier()

    def _nodes(self, number: int) -> Array:
        block = self.blocks[number]
        return np.arange(block.start, block.stop)

    def gather(self, nodes: Array, source: ReadRows) -> Callable[[], Tensor]:
        """What propagates rows to some nodes; the rows of their neighbours are read."""
        operators = self.engine.sampled_operators(View(self.device_graph), torch.from_numpy(nodes)).within(1)
        assert operators.nodes is not None
        operators.read({("matrix", 1)})
        rows = source(operators.nodes.numpy(force=True))
        return lambda: operators.propagate(rows.to(self.engine.device))

    def propagate(self, name: str, what: str, source: ReadRows) -> LayerFiles:
        """Rows of all nodes propagated once."""
        files = self.files(name)
        self.make(files, what, lambda nodes: self.gather(nodes, source), lambda nodes, propagated: propagated())
        return files

    def inner_products(self, source: ReadRows, width: int) -> Tensor:
        """Of all columns of the rows of all nodes, in float64, on the CPU."""
        total = torch.zeros(width, width, dtype=torch.float64)

        def add(number: int, rows: Tensor) -> Callable[[], None]:
            wide = rows.double()
            total.addmm_(wide.T, wide)
            return lambda: None

        # Sums are the same bits whoever is quicker: each has blocks of its own.
        numbers = range(self.workers.rank, len(self.blocks), self.workers.size)
        do_blocks(numbers, lambda number: source(self._nodes(number)), add)
        self.workers.barrier()
        return self.workers.all_reduce(total)[0]

    # -- walks --------------------------------------------------------------------------------------------------------

    def walks(self, width: int) -> ReadRows:
        """Where walks lead, as ``nn.structure.walks``: what reads the rows after each number of steps, side by side."""
        files = [self.files(_walk(width, step)) for step in range(max(STEPS) + 1)]
        done = self.workers.broadcast_object(max((step for step, each in enumerate(files) if each.complete), default=-1))
        even = width + width % 2
        if done < 0:
            self.make(
                files[0],
                "random rows",
                lambda nodes: self.folder.ids(int(nodes[0]), int(nodes[-1]) + 1).to_numpy(zero_copy_only=False),
                lambda nodes, ids: torch.from_numpy(random_features(ids, even)[:, :width]),
            )
        for step in range(max(1, done), max(STEPS) + 1):
            read = files[step - 1].rows
            if step > done:
                prepare, what = functools.partial(self._neighbours, read), f"walks, step {step} of {max(STEPS)}"
                self.make(files[step], what, prepare, lambda nodes, average: unit_rows(average()))
            if step - 1 not in STEPS:
                self.remove(_walk(width, step - 1))
        kept = [files[step] for step in STEPS]
        return lambda nodes: torch.cat([each.rows(nodes) for each in kept], 1)

    def remove_walks(self, width: int) -> None:
        for step in range(max(STEPS) + 1):
            self.remove(_walk(width, step))

    def _neighbours(self, read: ReadRows, nodes: Array) -> Callable[[], Tensor]:
        """What averages the rows of each node's neighbours, which are read."""
        weights = neighbour_rows(self.device_graph, int(nodes[0]), int(nodes[-1]) + 1)
        reached, columns = np.unique(weights.indices, return_inverse=True)
        degree = np.asarray(weights.sum(1, dtype=np.float64)).reshape(-1)
        share = np.where(degree > 0, np.maximum(degree, 1e-30) ** -1.0, 0).astype(np.float32)
        values = np.repeat(share, np.diff(weights.indptr)) * weights.data
        arrays = CSRArrays(weights.indptr.astype(np.int64), columns.astype(np.int32), values.astype(np.float32))
        rows, shape = read(reached), (len(nodes), len(reached))
        return lambda: self.engine.block_matrix(arrays, shape)(rows.to(self.engine.device))


def _walk(width: int, step: int) -> str:
    return f"walk-{width}-{step}"
