"""Passes over all nodes of a graph folder, in blocks that workers share; rows that one makes are in files for the next."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fit_settings import Settings
from clnr.embedding.store.row_files import BLOCK_STEP, LayerFiles, Sink
from clnr.engine import DeviceGraph
from clnr.engine.blocks import BlockEngine, NeighbourRows, propagation_rows
from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.operators import unit_rows_
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.id_vectors import random_features
from clnr.nn.inputs import STEPS
from clnr.support.machine import memory
from clnr.support.progress import Bar, NowAndThen

_MOST_NODES = 1 << 17
_EDGES_PER_ROW = 16

Item = TypeVar("Item")
Read = TypeVar("Read")
Result = TypeVar("Result")


def rows_of(nodes: Any, edges: Any, gathers: bool) -> Any:
    """How many rows nodes with these edges take: their own and, if they are gathered, those of the sources of the edges.

    If these are not gathered, some edges count as a row, by the memory that they take themselves.
    """
    return nodes + edges // (1 if gathers else _EDGES_PER_ROW)


def node_blocks(folder: Graph, block_rows: int, gathers: bool) -> list[slice]:
    """All nodes in blocks of at most ``block_rows`` rows each; ``BLOCK_STEP`` nodes may have more."""
    indptr, count = folder.incoming.indptr, folder.num_nodes
    blocks, start = [], 0
    while start < count:
        stops = np.arange(start + BLOCK_STEP, start + _MOST_NODES + 1, BLOCK_STEP).clip(max=count)
        rows = rows_of(stops - start, indptr[stops] - indptr[start], gathers)
        stop = int(stops[max(0, int(np.searchsorted(rows, block_rows, "right")) - 1)])
        blocks.append(slice(start, stop))
        start = stop
    return blocks


class BlockEdges:
    """The edges of some nodes, sorted: read once for all parts of a pass.

    Where these have more than ``block_rows``, some of their edges are read at a time, whenever rows are made from them.
    """

    def __init__(self, engine: BlockEngine, folder: Graph, nodes: Array, block_rows: int):
        indptr = folder.incoming.indptr
        rows = rows_of(np.arange(1, len(nodes) + 1), np.cumsum(indptr[nodes + 1] - indptr[nodes]), engine.gathers_rows)
        self.nodes, self._engine = nodes, engine
        self._some_nodes = np.split(nodes, np.flatnonzero(np.diff(rows // (block_rows + 1))) + 1)
        self._neighbours: NeighbourRows | None = None
        self._propagation: dict[int, CSRArrays] = {}

    def average(self, device_graph: DeviceGraph, source: LayerFiles) -> Callable[[bool], Tensor]:
        """What averages rows over the neighbours of each node."""
        if len(self._some_nodes) > 1:
            return self._in_turn(lambda nodes: NeighbourRows(device_graph, nodes).average(device_graph), source)
        if self._neighbours is None:
            self._neighbours = NeighbourRows(device_graph, self.nodes)
        return self._engine.stored_product(self._neighbours.average(device_graph), source.stored)

    def propagate(self, device_graph: DeviceGraph, source: LayerFiles) -> Callable[[bool], Tensor]:
        """A function that propagates rows to the nodes, or ReLU of the rows if called with True."""
        if len(self._some_nodes) > 1:
            return self._in_turn(functools.partial(propagation_rows, device_graph), source)
        key = id(device_graph.of_edges)
        if key not in self._propagation:
            self._propagation[key] = propagation_rows(device_graph, self.nodes)
        return self._engine.stored_product(self._propagation[key], source.stored)

    def _in_turn(self, matrix_of: Callable[[Array], CSRArrays], source: LayerFiles) -> Callable[[bool], Tensor]:
        engine, parts = self._engine, self._some_nodes
        return lambda relu: torch.cat([engine.stored_product(matrix_of(nodes), source.stored)(relu) for nodes in parts])


MakeRows: TypeAlias = Callable[[BlockEdges, LayerFiles], Callable[[], Tensor]]
"""What makes rows of a block from rows of all nodes, when it is called without arguments."""


class Part(NamedTuple):
    """Rows of all nodes that a pass makes: ``compute(nodes, prepare(edges))`` for each block that is not in ``sink`` yet.

    By default ``prepare`` returns what makes them.
    """

    what: str
    sink: Sink
    prepare: Callable[[BlockEdges], Any]
    compute: Callable[[Array, Any], Tensor] = lambda nodes, make: make()
    reads_edges: bool = True


Chain: TypeAlias = Generator[Part, None, Result]
"""What passes make one after the other, each from rows of the one before; it returns what they have made."""


def do_blocks(
    items: Iterable[Item], prepare: Callable[[Item], Read], compute: Callable[[Item, Read], Callable[[], None]]
) -> None:
    """Do some blocks: one is read, in a thread, and another one written, in another thread, while a third is computed.

    ``compute`` takes what ``prepare`` has read of a block, and returns what writes it.
    """
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        written: Future[None] | None = None
        for item, read in _prepared(reader, items, prepare):
            write = compute(item, read)
            if written is not None:
                written.result()
            written = writer.submit(write)
        if written is not None:
            written.result()


def _prepared(
    reader: ThreadPoolExecutor, items: Iterable[Item], prepare: Callable[[Item], Read]
) -> Iterator[tuple[Item, Read]]:
    threads, coming = torch.get_num_threads(), None

    def call(item: Item) -> Read:
        torch.set_num_threads(threads)
        return prepare(item)

    for item in items:
        following = item, reader.submit(call, item)
        if coming is not None:
            yield coming[0], coming[1].result()
        coming = following
    if coming is not None:
        yield coming[0], coming[1].result()


class Passes:
    """Passes over the nodes of one graph in files, each of which makes rows of all nodes from rows of others.

    What is there of an earlier run is kept. Workers wait for each other after a pass.

    Rows are written to ``work``, which all workers see. A block has at most ``block_rows`` of them (see ``node_blocks``).
    """

    def __init__(self, device_graph: DeviceGraph, settings: Settings, work: Path, block_rows: int, bar: Bar | None = None):
        self.device_graph, self.folder = device_graph, device_graph.graph
        self.engine, self.workers = cast(BlockEngine, settings.engine.float32), settings.workers
        self.work, self._block_rows = work, block_rows
        self.blocks = node_blocks(self.folder, block_rows, self.engine.gathers_rows)
        self.log = (bar or Bar(None, quiet=True)).note

    def files(self, name: str) -> LayerFiles:
        return LayerFiles(self.work / name, self.blocks)

    def is_made(self, files: LayerFiles) -> bool:
        """Whether all rows are there, as the first worker sees it."""
        return self.workers.broadcast_object(files.complete)

    def remove(self, name: str) -> None:
        if self.workers.first:
            shutil.rmtree(self.work / name, ignore_errors=True)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute without gradients, by the engine's threads."""
        with memory.enough_memory(), torch.no_grad(), self.engine.use_threads():
            yield

    # -- passes -------------------------------------------------------------------------------------------------------

    def run(self, *chains: Chain[Any]) -> list[Any]:
        """Run chains side by side, also of another graph with the same nodes: a pass makes the next part of each.

        Returns what they return.
        """
        results, parts = [None] * len(chains), dict[int, Part]()

        def advance(numbers: Iterable[int]) -> None:
            for number in numbers:
                try:
                    parts[number] = next(chains[number])
                except StopIteration as end:
                    parts.pop(number, None)
                    results[number] = end.value

        with self.computing():
            advance(range(len(chains)))
            while parts:
                # What needs no edges goes first, so that all others are in one pass.
                now = [number for number, part in parts.items() if not part.reads_edges] or list(parts)
                self.make([parts[number] for number in now])
                advance(now)
        return results

    def make(self, parts: list[Part]) -> None:
        """One pass: some parts of each block, one after the other, so that rows of only a few are in memory."""
        what = ", ".join(dict.fromkeys(part.what for part in parts))
        edges: BlockEdges | None = None

        def read(item: tuple[int, Part]) -> Any:
            nonlocal edges
            number, part = item
            if part.sink.has(number):
                return None
            block = self.blocks[number]
            if edges is None or edges.nodes[0] != block.start:
                edges = self._edges(np.arange(block.start, block.stop))
            return edges.nodes, part.prepare(edges)

        def computed(item: tuple[int, Part], prepared: Any) -> Callable[[], None]:
            number, part = item
            if pace.due():
                self.log(f"{what}: {100 * self.blocks[number].stop // self.folder.num_nodes} %")
            if prepared is None:
                return lambda: None
            rows = part.compute(*prepared).float().numpy(force=True)
            return lambda: part.sink.write(number, rows)

        self.log(what)
        pace = NowAndThen()
        # Whoever is done takes the next block.
        numbers = self.workers.work_queue(len(self.blocks))
        do_blocks(((number, part) for number in numbers for part in parts), read, computed)
        self.workers.barrier()

    def _edges(self, nodes: Array) -> BlockEdges:
        return BlockEdges(self.engine, self.folder, nodes, self._block_rows)

    def rows_at(self, nodes: Array, make: MakeRows, source: LayerFiles) -> Tensor:
        """Rows of some nodes, sorted, made from others by ``propagate`` or ``step``."""
        return make(self._edges(nodes), source)().cpu()

    def propagate(self, edges: BlockEdges, source: LayerFiles) -> Callable[[], Tensor]:
        """Rows propagated once, to the nodes of a block."""
        return functools.partial(edges.propagate(self.device_graph, source), False)

    # -- walks --------------------------------------------------------------------------------------------------------

    def walk(
        self, width: int, last: int, kept: Collection[int], done: Callable[[int, LayerFiles], None] = lambda *_: None
    ) -> Chain[None]:
        """Where walks lead, as ``nn.structure.walks``: a file for each step up to the last, of which some are kept.

        ``done`` is called after each step.
        """
        made = (step for step in range(last, -1, -1) if self.walk_files(width, step).complete)
        there = self.workers.broadcast_object(next(made, -1))
        files = self.walk_files(width, max(0, there))
        if there < 0:
            yield Part(
                "random rows",
                files,
                lambda edges: self.folder.node_ids[int(edges.nodes[0]) : int(edges.nodes[-1]) + 1],
                lambda nodes, ids: random_features(ids, width),
                reads_edges=False,
            )
        for step in range(max(1, there), last + 1):
            if step > there:
                # A file that is removed takes disk until nothing has it open: that of the step before is forgotten here.
                before, files = files, self.walk_files(width, step)
                yield Part(f"walks, step {step} of {max(STEPS)}", files, functools.partial(self.step, source=before))
                del before
            done(step, files)
            if step - 1 not in kept:
                self.remove(_walk(width, step - 1))

    def step(self, edges: BlockEdges, source: LayerFiles) -> Callable[[], Tensor]:
        """One more step of a walk, from rows of the step before."""
        average = edges.average(self.device_graph, source)
        return lambda: unit_rows_(average(False))

    def walk_files(self, width: int, step: int) -> LayerFiles:
        return self.files(_walk(width, step))

    def remove_walks(self, width: int) -> None:
        for step in range(max(STEPS) + 1):
            self.remove(_walk(width, step))


def _walk(width: int, step: int) -> str:
    return f"walk-{width}-{step}"
