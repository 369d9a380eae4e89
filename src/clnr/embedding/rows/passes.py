"""Rows of all nodes of a graph, made in blocks of nodes that workers share: walks, an encoder's layers, propagated rows.

Rows that one pass makes are in the workspace for the next. What is there of an earlier process is not made again.
"""

from __future__ import annotations

import copy
import functools
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.workspace import Workspace
from clnr.engine import DeviceGraph, View
from clnr.engine.blocks import BlockEngine, averaging_rows, gather_rows, propagation_rows, with_features
from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.layer_pass import LayerEndError, LayerOperators
from clnr.engine.operators import unit_rows_
from clnr.errors import TrainingError
from clnr.graph.csr import Array
from clnr.graph.id_vectors import random_features
from clnr.methods.model import Model
from clnr.nn.inputs import STEPS, Input
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.support.machine import memory
from clnr.support.processes.workers import ALONE
from clnr.support.progress import QUIET, Bar, NowAndThen
from clnr.training.loop import advice

BLOCK_STEP = 1 << 10
"""Blocks begin at multiples of it, and so with a page: not every network file system lets two hosts write to one page."""
_MOST_NODES = 1 << 17
_EDGES_PER_ROW = 16
_READ_NODES = 1 << 15

Item = TypeVar("Item")
Propagated = Callable[[bool], Tensor]
"""Rows that are propagated, or ReLU of them if it is called with True."""
TakeRows = Callable[[slice, Array], None]
"""What takes the rows of a block, given its place."""


def rows_of(nodes: Any, edges: Any, gathers: bool) -> Any:
    """How many rows nodes with these edges take: their own and, if they are gathered, those of the sources of the edges.

    If these are not gathered, some edges count as a row, by the memory that they take themselves.
    """
    return nodes + edges // (1 if gathers else _EDGES_PER_ROW)


class Block:
    """Some nodes, sorted, with what propagates rows of all nodes to them.

    Where their edges have more than ``block_rows``, some of them are read at a time, whenever rows are made from them.
    """

    def __init__(self, engine: BlockEngine, device_graph: DeviceGraph, nodes: Array, block_rows: int):
        self.nodes, self._engine, self._device_graph = nodes, engine, device_graph
        indptr = device_graph.graph.incoming.indptr
        rows = rows_of(np.arange(1, len(nodes) + 1), np.cumsum(indptr[nodes + 1] - indptr[nodes]), engine.gathers_rows)
        self._parts = np.split(nodes, np.flatnonzero(np.diff(rows // (block_rows + 1))) + 1)

    def propagate(self, rows: Array) -> Propagated:
        """Rows of all nodes, propagated to these."""
        return self._product(functools.partial(propagation_rows, self._device_graph), rows)

    def average(self, rows: Array) -> Propagated:
        """Rows of all nodes, averaged over the neighbours of these."""
        return self._product(functools.partial(averaging_rows, self._device_graph), rows)

    def _product(self, matrix_of: Callable[[Array], CSRArrays], rows: Array) -> Propagated:
        engine, parts = self._engine, self._parts
        if len(parts) == 1:
            return engine.stored_product(matrix_of(parts[0]), rows)
        return lambda relu: torch.cat([engine.stored_product(matrix_of(nodes), rows)(relu) for nodes in parts])


class Passes:
    """Passes over the nodes of one graph, each of which makes rows of all nodes, or of some, from rows of others.

    A block has at most ``block_rows`` of them; ``BLOCK_STEP`` nodes may have more.
    """

    def __init__(self, device_graph: DeviceGraph, settings: Settings, workspace: Workspace, block_rows: int, bar: Bar = QUIET):
        self.device_graph, self.graph = device_graph, device_graph.graph
        self.engine, self.workers = cast(BlockEngine, settings.engine.float32), workspace.workers
        self.workspace, self._block_rows = workspace, block_rows
        self.log = bar.note

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute without gradients, by the engine's threads."""
        with memory.enough_memory(), torch.no_grad(), self.engine.use_threads():
            yield

    def make(
        self,
        name: str,
        what: str,
        read: Callable[[Block], Any],
        compute: Callable[[Any], Tensor],
        nodes: Array | None = None,
    ) -> Array:
        """The rows of all nodes, or of some, of this name: ``compute(read(block))`` for each block, unless they are there.

        The next block is read, in a thread, while one is computed.
        """
        if not self.workspace.has(name):
            count = self.graph.num_nodes if nodes is None else len(nodes)
            with self.workspace.writing(name, count) as rows:
                self.each_block(what, read, compute, lambda part, made: rows.write(part.start, made), nodes)
        return self.workspace.read(name)

    def each_block(
        self,
        what: str,
        read: Callable[[Block], Any],
        compute: Callable[[Any], Tensor],
        take: TakeRows,
        nodes: Array | None = None,
    ) -> None:
        """Call ``take`` with the place of each block and ``compute(read(block))``; all workers share the blocks."""

        def block(number: int) -> Block:
            part = blocks[number]
            some = np.arange(part.start, part.stop) if nodes is None else nodes[part]
            return Block(self.engine, self.device_graph, some, self._block_rows)

        blocks, pace = self.blocks(nodes), NowAndThen()
        self.log(what)
        # Whoever is done takes the next block.
        with self.computing():
            for number, given in _ahead(self.workers.work_queue(len(blocks)), lambda number: read(block(number))):
                take(blocks[number], compute(given).float().numpy(force=True))
                if pace.due():
                    self.log(f"{what}: {100 * blocks[number].stop // blocks[-1].stop} %")
        self.workers.barrier()

    def blocks(self, nodes: Array | None = None) -> list[slice]:
        """All nodes, or the places of some, sorted, in blocks."""
        indptr = self.graph.incoming.indptr
        if nodes is not None:
            indptr = np.concatenate([[0], np.cumsum(indptr[nodes + 1] - indptr[nodes])])
        blocks, start, count = [], 0, len(indptr) - 1
        while start < count:
            stops = np.arange(start + BLOCK_STEP, start + _MOST_NODES + 1, BLOCK_STEP).clip(max=count)
            rows = rows_of(stops - start, indptr[stops] - indptr[start], self.engine.gathers_rows)
            stop = int(stops[max(0, int(np.searchsorted(rows, self._block_rows, "right")) - 1)])
            blocks.append(slice(start, stop))
            start = stop
        return blocks

    def propagated(self, name: str, what: str, rows: Array, nodes: Array | None = None) -> Array:
        """Rows propagated once."""
        return self.make(name, what, lambda block: block.propagate(rows), lambda propagated: propagated(False), nodes)

    # -- walks --------------------------------------------------------------------------------------------------------

    def walks(self, width: int, steps: Collection[int]) -> list[Array]:
        """Where walks lead, as ``nn.structure.walks``, after some numbers of steps."""
        last = max(steps)
        there = next((step for step in range(last, -1, -1) if self.workspace.has(_walk(width, step))), 0)
        rows = self.make(_walk(width, there), "random rows", self._own_ids, lambda ids: random_features(ids, width))
        for step in range(there + 1, last + 1):
            rows = self.walk_step(_walk(width, step), f"walks, step {step} of {last}", rows)
            if step - 1 not in steps:
                self.workspace.drop(_walk(width, step - 1))
        return [self.workspace.read(_walk(width, step)) for step in steps]

    def walk_step(self, name: str, what: str, rows: Array, nodes: Array | None = None) -> Array:
        """One more step of walks, from rows of the step before."""
        return self.make(name, what, lambda block: block.average(rows), lambda average: unit_rows_(average(False)), nodes)

    def _own_ids(self, block: Block) -> Array:
        first, last = int(block.nodes[0]), int(block.nodes[-1])
        return np.asarray(self.graph.node_ids[first : last + 1])

    # -- inputs -------------------------------------------------------------------------------------------------------

    def fit_inputs(self, model: Model) -> tuple[Parameters, DeviceGraph]:
        """As ``Model.fit_inputs``: what they learn, and the graph with the features that the encoder is given."""
        parameters, graph = Parameters(), self.device_graph
        for place, part in model.input_places():
            blocks = functools.partial(_row_blocks, graph)
            fitted = part.fit_blocks(blocks, self.graph.num_nodes, graph.num_features)
            parameters |= add_prefix(place, fitted)
            graph = self._changed(part, fitted, graph)
        return parameters, graph

    def prepared(self, model: Model, parameters: Parameters) -> DeviceGraph:
        """As ``Model.prepare``."""
        graph = self.device_graph
        for place, part in model.input_places():
            graph = self._changed(part, sub_dict(parameters, place), graph)
        return graph

    def _changed(self, part: Input, fitted: Parameters, graph: DeviceGraph) -> DeviceGraph:
        """A graph with the features that an input makes when they are read."""
        if part.changes_nothing:
            return graph
        walked = self.walks(part.walk_columns, STEPS) if part.walk_columns else None

        def change(x: Any, nodes: Array) -> Any:
            return part.change_rows(fitted, x, None if walked is None else beside(walked, nodes).numpy())

        return with_features(graph, change, part.width(graph.num_features))

    # -- layers -------------------------------------------------------------------------------------------------------

    def layers(self, fitted: FittedModel) -> tuple[Callable[[Block], Any], Callable[[Any], Tensor]]:
        """What reads and computes rows of the last layer of an encoder, once rows of those before are made."""
        model, parameters = fitted.method.build(fitted.recipe), fitted.parameters_on(self.engine)
        given = self.prepared(model, fitted.parameters)

        def operators(layer: int, nodes: Array, propagated: Propagated) -> LayerOperators:
            return LayerOperators(View(given), self.engine, torch.from_numpy(nodes), layer, propagated)

        def nothing(relu: bool) -> Tensor:
            return torch.empty(0)

        def read(layer: int, rows: Array | None, block: Block) -> LayerOperators:
            return operators(layer, block.nodes, nothing if rows is None else block.propagate(rows))

        def compute(operators: LayerOperators) -> Tensor:
            try:
                rows = model.embed_layer(parameters, operators)
            except LayerEndError as end:
                rows = end.rows
            if not all(each.isfinite() for each in rows.aminmax()):
                raise TrainingError(f"the embedding is not finite; {advice(fitted.recipe)}")
            return rows

        # How many layers are asked for where none is ever computed.
        counting = operators(sys.maxsize, np.empty(0, np.int64), nothing)
        with self.computing():
            model.embed_layer(parameters, counting)
        last = counting.calls
        there = next((layer for layer in range(last - 1, -1, -1) if self.workspace.has(f"layer-{layer}")), 0)
        rows = self.workspace.read(f"layer-{there}") if last and self.workspace.has(f"layer-{there}") else None
        for layer in range(there + (rows is not None), last):
            what = f"embedding all nodes: {f'layer {layer}' if layer else 'input'}"
            rows = self.make(f"layer-{layer}", what, functools.partial(read, layer, rows), compute)
            self.workspace.drop(f"layer-{layer - 1}")
        return functools.partial(read, last, rows), compute

    def encoded(self, fitted: FittedModel, nodes: Array | None = None) -> Array:
        """The encoder's outputs, side by side, for all nodes or for some."""
        name = "encoded" if nodes is None else "encoded-some"
        if not self.workspace.has(name):
            self.make(name, "embedding nodes", *self.layers(fitted), nodes)
            self.workspace.drop(*(f"layer-{layer}" for layer in range(fitted.recipe.layers + 1)))
        return self.workspace.read(name)

    def some(self, fitted: FittedModel, nodes: Array) -> Tensor:
        """The embedding of some nodes, sorted, by a model without a read-out."""
        return torch.from_numpy(np.array(self.encoded(fitted, nodes)))

    def features(self, nodes: Array) -> Any:
        """The features of some nodes, as they are."""
        assert self.device_graph.read is not None
        return self.device_graph.read(nodes)

    def alone(self) -> Passes:
        """The same, of one worker."""
        same = copy.copy(self)
        same.workers, same.workspace = ALONE, self.workspace.alone
        return same

    def close(self) -> None:
        """Remove all rows, which nobody needs any more."""
        self.workspace.remove()


def beside(parts: Iterable[Array], nodes: Array) -> Tensor:
    """Rows of some nodes in several arrays, side by side; read in the order of the files."""
    return torch.cat([torch.from_numpy(gather_rows(rows, nodes)) for rows in parts], 1)


def walk_widths(model: Model) -> set[int]:
    """How many columns the walks have that inputs put beside the features."""
    return {part.walk_columns for part in model.inputs} - {0}


def _walk(width: int, step: int) -> str:
    return f"walk-{width}-{step}"


def _row_blocks(graph: DeviceGraph) -> Iterator[Any]:
    """The features of all nodes, some rows at a time."""
    assert graph.read is not None
    for start in range(0, graph.graph.num_nodes, _READ_NODES):
        yield graph.read(np.arange(start, min(start + _READ_NODES, graph.graph.num_nodes)))


def _ahead(items: Iterable[Item], read: Callable[[Item], Any]) -> Iterator[tuple[Item, Any]]:
    """Each item with what is read of it; the next one is read, in a thread, while one is used."""
    threads = torch.get_num_threads()

    def call(item: Item) -> Any:
        torch.set_num_threads(threads)
        with torch.no_grad():
            return read(item)

    with ThreadPoolExecutor(1) as reader:
        submitted = ((item, reader.submit(call, item)) for item in items)
        last: Any = None
        for (item, coming), _ in itertools.pairwise(itertools.chain(submitted, [last])):
            yield item, coming.result()
