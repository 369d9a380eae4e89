"""Vectors of nodes from edges alone: random projections of where a walk from a node leads."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.engine import DeviceGraph, Engine, Operators, SparseMatrix, View, to_sparse_matrix, unit_rows, unit_rows_
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.id_vectors import id_words, random_features
from clnr.nn.layers import Parameters
from clnr.nn.low_rank import principal_directions

_ROWS = 1 << 12


def neighbour_matrix(device_graph: DeviceGraph, row_power: float, column_power: float) -> SparseMatrix:
    """A scaled by powers of the degrees: edges in both directions, no self-loops."""

    def make() -> SparseMatrix:
        source, target, weight = device_graph.graph.edges()
        count, other = device_graph.graph.num_nodes, source != target
        values = np.ones(len(source), np.float32) if weight is None else weight
        adjacency = sp.csr_array((values[other], (target[other], source[other])), shape=(count, count))
        if device_graph.graph.directed:
            adjacency = adjacency.maximum(adjacency.T).tocsr()
        degree = np.asarray(adjacency.sum(1), np.float64).reshape(-1)
        left, right = (_power(degree, power) for power in (row_power, column_power))
        adjacency.data = np.repeat(left, np.diff(adjacency.indptr)) * adjacency.data * right[adjacency.indices]
        return to_sparse_matrix(adjacency, device_graph.device)

    return device_graph.of_edges.once(("neighbours", row_power, column_power), make)


def _power(degree: Array, power: float) -> Array:
    """Zero stays zero."""
    return np.where(degree > 0, np.maximum(degree, 1e-30) ** power, 0).astype(np.float32)


def random_rows(device_graph: DeviceGraph, width: int) -> Tensor:
    """A random vector for each node, which follows from its id alone: of unseen nodes as well."""
    return random_features(device_graph.graph.node_ids, width, device_graph.device)


def walks(engine: Engine, device_graph: DeviceGraph, width: int, steps: Collection[int]) -> list[Tensor]:
    """Each node's random vector, repeatedly averaged over its neighbours and scaled to length 1: after each of ``steps``.

    One number of steps is Cleora (Rychalska et al., 2021). A node without neighbours has zeros. Walks are kept with the edges:
    whoever asks for the same ones of a graph with other features has them.
    """
    kept = _kept(device_graph, width)
    kept |= {step: (rows, 1.0) for step, rows in _missing(engine, device_graph, width, steps)}
    return [_over(1.0, *kept[step]) for step in steps]


def put_walks(engine: Engine, device_graph: DeviceGraph, out: Tensor, steps: Collection[int], divisor: float) -> None:
    """Write ``walks`` side by side, over a divisor: what is written is kept in place of them, so that they are there once."""
    width = out.shape[1] // len(steps)
    kept, columns = _kept(device_graph, width), dict(zip(steps, out.split(width, 1), strict=True))
    for step in columns.keys() & kept.keys():
        columns[step].copy_(_over(divisor, *kept[step]))
    for step, rows in _missing(engine, device_graph, width, steps):
        for some, to in zip(rows.split(_ROWS), columns[step].split(_ROWS), strict=True):
            to.copy_(_over(divisor, some, 1.0))
        kept[step] = columns[step], divisor


def _kept(device_graph: DeviceGraph, width: int) -> dict[int, tuple[Tensor, float]]:
    """Walks by their number of steps: rows of length 1 over a divisor, and that."""
    return device_graph.of_edges.once(("walks", width), dict)


def _over(divisor: float, rows: Tensor, before: float) -> Tensor:
    """Rows over another divisor than they were before."""
    if divisor == before:
        return rows
    rows = rows if before == 1 else rows * before
    return rows if divisor == 1 else rows / torch.tensor(divisor, device=rows.device)


@torch.no_grad()
def _missing(engine: Engine, device_graph: DeviceGraph, width: int, steps: Collection[int]) -> Iterator[tuple[int, Tensor]]:
    """Those of the ``steps`` whose walks are not kept, and where they lead."""
    missing = set(steps) - _kept(device_graph, width).keys()
    if missing:
        operators = _operators(engine.float32, device_graph, -1.0, 0.0)
        rows = random_rows(device_graph, width)
        for step in range(1, max(missing) + 1):
            rows = unit_rows_(operators.propagate(rows))
            if step in missing:
                yield step, rows


def _operators(engine: Engine, device_graph: DeviceGraph, row_power: float, column_power: float) -> Operators:
    """What propagates by ``neighbour_matrix``."""
    matrix = neighbour_matrix(device_graph, row_power, column_power)
    return engine.operators(View(device_graph, propagation_matrix=matrix))


@torch.no_grad()
def projections(engine: Engine, device_graph: DeviceGraph, width: int, most: int, degree_power: float) -> Tensor:
    """The rows of ``FastRP``, given the highest power of the transition matrix, and that of degrees."""
    operators = _operators(engine, device_graph, -1.0, 0.0)
    # Row i of the unscaled matrix sums to the degree of node i.
    ones = torch.ones(device_graph.graph.num_nodes, 1, device=engine.device)
    degrees = _operators(engine, device_graph, 0.0, 0.0).propagate(ones)
    rows = random_rows(device_graph, width) * degrees.clamp(min=1) ** degree_power
    total = torch.zeros_like(rows)
    for power in range(1, most + 1):
        rows = operators.propagate(rows)
        total += unit_rows(rows) * (power > 1)
    return total


def spectral(engine: Engine, device_graph: DeviceGraph, width: int) -> Parameters:
    """What ``Spectral`` learns: a row for each node, and a hash of its id."""
    count = device_graph.graph.num_nodes
    operators = _operators(engine.float32, device_graph, -0.5, -0.5)
    directions = principal_directions(operators.propagate, count, width, rng.key(0, "spectral"), engine.device)
    rows = torch.zeros(count, width, device=engine.device)
    rows[:, : directions.shape[1]] = directions
    return {"rows": rows, "ids": torch.tensor(id_words(device_graph.graph.node_ids), device=engine.device)}


@torch.no_grad()
def spectral_rows(engine: Engine, device_graph: DeviceGraph, learned: Parameters) -> Tensor:
    """The rows of a graph's nodes, by what ``spectral`` has learned of those that it knows."""
    known = {word: row for row, word in enumerate(learned["ids"].tolist())}
    words = id_words(device_graph.graph.node_ids).tolist()
    place = torch.tensor([known.get(word, -1) for word in words], dtype=torch.int64)
    if len(place) and (place < 0).all():
        raise DataError(f"{device_graph.graph.name} has none of the nodes that this model knows; it was fitted on their edges")
    rows = torch.zeros(len(place), learned["rows"].shape[1], device=engine.device)
    rows[place >= 0] = learned["rows"][place[place >= 0].to(engine.device)]
    return _operators(engine, device_graph, -0.5, -0.5).propagate(rows)
