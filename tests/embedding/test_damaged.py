"""Sparse matrices and graphs whose index arrays are wrong: refused before compiled code would follow them out of bounds.

Each case is tried in a process apart, for what is not refused may crash.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.embedding.graph_sources import as_graph
from clnr.errors import DataError
from clnr.graph import Graph, Split
from clnr.graph.csr import CSR
from tests.apart import process_apart
from tests.conftest import tiny

NODES = 6
X = np.eye(NODES, dtype=np.float32)
DENSE = np.array([[(3 * i + j) % 4 == 0 for j in range(NODES)] for i in range(NODES)], dtype=np.float32)
HUGE = 10**9


def broken(layout: str, **parts: Any) -> Any:
    """A matrix with parts replaced behind SciPy's back."""
    matrix = sp.csr_array(DENSE).asformat(layout)
    for name, value in parts.items():
        setattr(matrix, name, value(getattr(matrix, name)) if callable(value) else value)
    return matrix


def at(place: int, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def put(array: np.ndarray) -> np.ndarray:
        copy = array.copy()
        copy[place] = value
        return copy

    return put


def inner(value: int, last: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.r_[0, np.full(len(array) - 2, value), last].astype(array.dtype)


COMPRESSED = {
    "rows beyond, the last at 0": {"indptr": inner(100_000, 0)},
    "rows that go back": {"indptr": lambda start: np.r_[start[0], start[2], start[1], start[3:]]},
    "a first row that is not at 0": {"indptr": at(0, 1)},
    "a last row beyond": {"indptr": at(-1, HUGE)},
    "too few rows": {"indptr": lambda start: start[:-1]},
    "no rows": {"indptr": np.empty(0, np.int32)},
    "rows in fractions": {"indptr": lambda start: start / 1},
    "rows in a matrix": {"indptr": lambda start: start[:, None]},
    "a column just beyond": {"indices": at(1, NODES)},
    "a column below": {"indices": at(1, -1)},
    "too few columns": {"indices": lambda columns: columns[:-1]},
    "columns that are truths": {"indices": lambda columns: columns > 0},
    "too few values": {"data": lambda values: values[:-1]},
    "values that are complex": {"data": lambda values: values.astype(complex)},
    "a side too many": {"_shape": (NODES, NODES, 1)},
    "sides that are words": {"_shape": ("a", "b")},
    "a side of 2^70": {"_shape": (NODES, 2**70)},
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "row below": ("coo", {"coords": lambda ends: (at(0, -HUGE)(ends[0]), ends[1])}),
    "column just beyond": ("coo", {"coords": lambda ends: (ends[0], at(0, NODES)(ends[1]))}),
    "ends of two lengths": ("coo", {"coords": lambda ends: (ends[0], ends[1][:-1])}),
    "ends in fractions": ("coo", {"coords": lambda ends: (ends[0] / 1, ends[1])}),
    "too few values": ("coo", {"data": lambda values: values[:-1]}),
}


MATRICES: dict[str, Callable[[], Any]] = {
    f"{layout}: {what}": lambda layout=layout, parts=parts: broken(layout, **parts)
    for layout in ("csr", "csc")
    for what, parts in COMPRESSED.items()
} | {
    f"{layout}: {what}": lambda layout=layout, parts=parts: broken(layout, **parts) for what, (layout, parts) in OTHERS.items()
}

TENSORS: dict[str, Callable[[], Any]] = {
    "csr: rows beyond": lambda: torch.sparse_csr_tensor(
        torch.tensor([0, 100_000, 0, 0, 0, 0, 0]), torch.tensor([]), torch.tensor([]), (NODES, NODES), check_invariants=False
    ),
    "coo: a row beyond": lambda: torch.sparse_coo_tensor(
        torch.tensor([[0, HUGE], [1, 1]]), torch.ones(2), (NODES, NODES), check_invariants=False
    ),
}


def pyg(**changes: Any) -> Any:
    from torch_geometric.data import Data

    return Data(**{"x": torch.eye(NODES), "edge_index": torch.tensor([[0, 1], [1, 2]]), **changes})


DATA: dict[str, Callable[[], Any]] = {
    "an end beyond": lambda: pyg(edge_index=torch.tensor([[0, 1], [1, HUGE]])),
    "an end below": lambda: pyg(edge_index=torch.tensor([[0, -1], [1, 2]])),
    "ends in fractions": lambda: pyg(edge_index=torch.tensor([[0, 1.5], [1, 2]])),
    "ends that are truths": lambda: pyg(edge_index=torch.tensor([[True, False], [True, False]])),
    "three ends": lambda: pyg(edge_index=torch.tensor([[0, 1], [1, 2], [0, 0]])),
    "ends in one list": lambda: pyg(edge_index=torch.tensor([0, 1])),
    "sparse ends": lambda: pyg(edge_index=torch.ones(2, 2).to_sparse()),
    "a weight too few": lambda: pyg(edge_weight=torch.ones(1)),
    **{f"x {name}": lambda make=make: pyg(x=make()) for name, make in TENSORS.items()},
}


TWICE: dict[str, dict[str, Any]] = {
    "coo": {"coords": (np.array([0, 0, 1]), np.array([1, 1, 2]))},
    "csr": {"indices": np.array([1, 1, 2]), "indptr": np.array([0, 2, 3, 3, 3, 3, 3])},
}


def graph(**changes: Callable[[Graph], Any]) -> Graph:
    """A sound graph made again by its constructor, with some of its arrays changed."""
    sound = tiny(sparse=True, weighted=True)
    parts = ("features", "incoming", "outgoing", "labels", "ids", "split", "name")
    return Graph(**{part: changes[part](sound) if part in changes else getattr(sound, part) for part in parts})


def edges(**parts: Callable[[np.ndarray], Any]) -> Callable[[Graph], CSR]:
    return lambda graph: graph.incoming._replace(
        **{name: change(getattr(graph.incoming, name)) for name, change in parts.items()}
    )


GRAPHS: dict[str, Callable[[], Any]] = {
    "edges beyond, the last at 0": lambda: graph(incoming=edges(indptr=inner(100_000, 0))),
    "a node beyond": lambda: graph(incoming=edges(indices=at(0, HUGE))),
    "a node below": lambda: graph(outgoing=edges(indices=at(0, -1))),
    "nodes of int64": lambda: graph(incoming=edges(indices=lambda nodes: nodes.astype(np.int64))),
    "nodes not sorted": lambda: graph(incoming=edges(indices=lambda nodes: nodes[::-1].copy())),
    "a weight too few": lambda: graph(incoming=edges(weight=lambda weight: weight[1:])),
    "a weight that is infinite": lambda: graph(incoming=edges(weight=lambda weight: at(0, 1)(weight) * np.float32(np.inf))),
    "weights in a list": lambda: graph(incoming=edges(weight=lambda weight: weight.tolist())),
    "edges of another graph": lambda: graph(outgoing=lambda _: tiny(sparse=True, edges=20).outgoing),
    "features of float64": lambda: graph(features=lambda sound: sound.features.astype(np.float64)),
    "features by column": lambda: graph(features=lambda sound: sound.features.tocsc()),
    "damaged features": lambda: graph(features=lambda _: broken("csr", indices=at(1, HUGE))),
    "a label far above": lambda: graph(labels=lambda sound: at(0, 2**62)(sound.labels)),
    "labels in a list": lambda: graph(labels=lambda sound: sound.labels.tolist()),
    "too few ids": lambda: graph(ids=lambda _: np.arange(3)),
    "a split beyond": lambda: graph(split=lambda _: Split(np.array([HUGE]), np.array([0]), np.array([1]))),
    "a name that is a number": lambda: graph(name=lambda _: 5),
}
GROUPS = {"matrix": MATRICES, "tensor": TENSORS, "data": DATA, "graph": GRAPHS}


def attempt(group: str, case: str, use: str) -> None:
    """What would be done with a case; in a process apart."""
    warnings.simplefilter("ignore")
    made = GROUPS[group][case]()
    if use == "adjacency":
        made = Graph.from_scipy(made, X)
    elif use == "features":
        made = Graph.from_edges([0], [1], made)
    elif use == "given":
        made = as_graph(made)
    made.to_scipy().sum()


@pytest.fixture(scope="module")
def apart():
    # PyG is imported once, and not in every case.
    with process_apart("tests.embedding.test_damaged:pyg") as call:
        yield lambda *arguments: call("tests.embedding.test_damaged:attempt", *arguments)


@pytest.mark.full
@pytest.mark.parametrize(
    ("group", "use"),
    [
        *(("matrix", use) for use in ("adjacency", "features", "given")),
        *(("tensor", use) for use in ("adjacency", "features")),
        ("data", "given"),
        ("graph", ""),
    ],
)
def test_what_is_damaged_is_refused(apart, group, use):
    results = {case: apart(group, case, use) for case in GROUPS[group]}
    assert {case: said for case, said in results.items() if not said.startswith("DataError: ") or "\n" in said} == {}


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_what_is_sound_is_taken_whatever_its_layout(layout):
    rectangle = np.zeros((NODES, 4), np.float32)
    rectangle[[0, 1, 5, 5], [3, 0, 1, 2]] = [2, 3, 4, 5]
    for make in (sp.csr_array, sp.csr_matrix):
        graph = Graph.from_scipy(make(DENSE).asformat(layout), make(rectangle).asformat(layout))
        np.testing.assert_array_equal(graph.to_scipy().toarray(), DENSE)
        np.testing.assert_array_equal(graph.features.toarray(), rectangle)
    if layout != "csc":
        tensor = torch.tensor(rectangle)
        graph = Graph.from_edges([0], [1], tensor.to_sparse_csr() if layout == "csr" else tensor.to_sparse())
        np.testing.assert_array_equal(graph.features.toarray(), rectangle)


@pytest.mark.parametrize("layout", ["bsr", "dia", "lil", "dok", "torch.sparse_csc", "torch.sparse_bsr"])
def test_other_layouts_are_refused_by_name(layout):
    name = layout.removeprefix("torch.sparse_")
    if name == layout:
        matrix = sp.csr_array(DENSE).asformat(layout)
    else:
        matrix = torch.tensor(DENSE).to_sparse_csc() if name == "csc" else torch.tensor(DENSE).to_sparse_bsr((2, 2))
    for use in (lambda: Graph.from_scipy(matrix, X), lambda: Graph.from_edges([0], [1], matrix)):
        with pytest.raises(DataError, match=layout):
            use()


def test_entries_that_stand_twice_are_one_edge():
    for layout in ("coo", "csr"):
        twice = broken(layout, data=lambda values: np.ones(3), **TWICE[layout])
        graph = Graph.from_scipy(twice, X)
        assert (graph.num_edges, graph.incoming.weight) == (2, None)
