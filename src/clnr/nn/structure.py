"""Vectors of nodes from edges alone: random projections of where a walk from a node leads."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    import torch
    from torch import Tensor

    from clnr.engine import DeviceGraph, Engine, SparseMatrix, View, to_sparse_matrix, unit_rows
    from clnr.graph.csr import Array
    from clnr.graph.id_vectors import random_features
else:
    np, sp, torch = lazy("numpy"), lazy("scipy.sparse"), lazy("torch")
    SparseMatrix, View, to_sparse_matrix, unit_rows = (
        lazy("clnr.engine", name) for name in ("SparseMatrix", "View", "to_sparse_matrix", "unit_rows")
    )
    random_features = lazy("clnr.graph.id_vectors", "random_features")

STEPS = (4, 8, 16)
"""After so many steps of a walk: near neighbours, the neighbourhood, the region."""


def neighbour_matrix(device_graph: DeviceGraph, row_power: float, column_power: float) -> SparseMatrix:
    """A scaled by powers of the degrees: edges in both directions, no self-loops."""

    def make() -> SparseMatrix:
        source, target, weight = device_graph.graph.edges()
        count = device_graph.graph.num_nodes
        values = np.ones(len(source), np.float32) if weight is None else weight
        other = source != target
        forward = sp.coo_array((values[other], (target[other], source[other])), shape=(count, count)).tocsr()
        adjacency = forward.maximum(forward.T) if device_graph.graph.directed else forward
        degree = np.asarray(adjacency.sum(1), np.float64).reshape(-1)
        left, right = (_power(degree, power) for power in (row_power, column_power))
        scaled = sp.diags_array(left) @ adjacency @ sp.diags_array(right)
        return to_sparse_matrix(sp.csr_array(scaled, dtype=np.float32), device_graph.device)

    return device_graph.edges.once(("neighbours", row_power, column_power), make)


def _power(degree: Array, power: float) -> Array:
    """Zero stays zero."""
    return np.where(degree > 0, np.maximum(degree, 1e-30) ** power, 0).astype(np.float32)


def random_rows(device_graph: DeviceGraph, width: int) -> Tensor:
    """A random vector for each node, which follows from its id alone: of unseen nodes as well."""
    return random_features(device_graph.graph.node_ids, width, device_graph.device)


def walks(engine: Engine, device_graph: DeviceGraph, width: int, steps: Collection[int]) -> list[Tensor]:
    """Each node's random vector averaged over its neighbours and scaled to length 1, again and again: after so many steps.

    One number of steps is Cleora (Rychalska et al., 2021). A node without neighbours has zeros. Walks are kept with the edges:
    whoever asks for the same ones of a graph with other features has them.
    """
    walked: dict[int, Tensor] = device_graph.edges.once(("walks", width), dict)
    if not walked.keys() >= set(steps):
        with torch.no_grad():
            matrix = neighbour_matrix(device_graph, -1.0, 0.0)
            operators = engine.float32.operators(View(device_graph, propagation_matrix=matrix))
            rows = random_rows(device_graph, width)
            for step in range(1, max(steps) + 1):
                rows = unit_rows(operators.propagate(rows))
                if step in steps:
                    walked[step] = rows
    return [walked[step] for step in steps]
