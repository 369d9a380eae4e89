"""Whatever a user holds a graph in, as a graph."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.tables import Encoding, Read, read_tables

_KNOWN = "a clnr.Graph, PyG's Data, a networkx graph, (SciPy adjacency, features), or data frames: edges, or (edges, nodes)"


def as_read(given: Any, encoding: Encoding | None = None) -> Read:
    """A graph from what a user has.

    Args:
        given: A ``Graph``, what ``read_tables`` returned, PyG's ``Data``, a networkx graph whose nodes have features ``x``, a
            pair of a SciPy adjacency matrix and features, a data frame of edges, or a pair of one of edges and one of nodes.
        encoding: How data frames were encoded before, to encode these alike.
    """
    if isinstance(given, Read):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        first, second = given
        if sp.issparse(first):
            return _ready(Graph.from_scipy(first, second))
        if _is_frame(first) and (second is None or _is_frame(second)):
            return read_tables(first, second, encoding=encoding)
    if isinstance(given, Graph):
        return _ready(given)
    if _is_frame(given):
        return read_tables(given, encoding=encoding)
    if hasattr(given, "edge_index"):
        return _ready(Graph.from_pyg(given))
    if hasattr(given, "adj") and hasattr(given, "is_directed"):
        return _ready(Graph.from_networkx(given))
    raise DataError(f"a {type(given).__name__} is no graph; give {_KNOWN}")


def _ready(graph: Graph) -> Read:
    return Read(graph, None)


def _is_frame(given: Any) -> bool:
    """pandas, polars, Arrow: what has columns with names, and rows."""
    return hasattr(given, "columns") and hasattr(given, "shape") and len(given.shape) == 2 and not hasattr(given, "edge_index")
