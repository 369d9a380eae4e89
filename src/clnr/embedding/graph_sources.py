"""Graphs from the types that users have: files, edge lists, arrays, data frames, SciPy, networkx, PyG."""

from __future__ import annotations

import dataclasses
import numbers
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, one_line
from clnr.graph import Graph
from clnr.graph.arrays import as_adjacency, as_array, is_tensor
from clnr.graph.folder import open_graph
from clnr.graph.table_info import TableInfo
from clnr.support.arguments import caller_level
from clnr.support.humanize import describe_error
from clnr.tables import read_tables
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.io.open import is_table
from clnr.tables.structural import StructuralFeatures, degree_features

_SUPPORTED = (
    "a clnr.Graph, a folder of clnr ingest, PyG's Data, a networkx graph, (SciPy adjacency, features), or tables: "
    "edges, or (edges, nodes), each a file, a data frame or a dictionary of these by kind; edges can also be a list "
    "of pairs or an array with two columns"
)
_GLOB = frozenset("*?[")
_EDGE_COLUMNS = ("source", "target", "weight")
# Sizes of arrays whose rows and whose columns may be edges.
_AMBIGUOUS_SHAPES = ((2, 2), (2, 3), (3, 3))
_LARGEST_EXACT_FLOAT = 2.0**53


def as_graph(source: Any, encoder: Mapping[str, Any] | None = None) -> Graph:
    """A graph from any type that ``NodeEmbedder`` takes, its features encoded as those of an earlier graph, if given.

    Of a graph folder, all that is large stays in its files.
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, str | Path):
        if Path(source).is_dir():
            return open_graph(source)
        if not (Path(source).exists() or _GLOB.intersection(str(source))):
            missing = f"{one_line(str(source))}: there is no such file or folder"
            raise DataError(f"{missing}, so it is not a graph; pass {_SUPPORTED}")
    whole = _edge_columns(source)
    is_pair = whole is None and isinstance(source, tuple | list) and len(source) == 2
    first, second = source if is_pair else (source, None)
    edges = _edge_columns(first) if is_pair else whole
    if edges is not None and second is not None and not _is_table(second):
        return Graph.from_edges(**dict(zip(_EDGE_COLUMNS, edges, strict=False)), features=second, undirected=True)
    if edges is not None:
        return read_tables(_edge_table(edges), second, encoder=encoder)
    if sp.issparse(first) or _is_array(first):
        if second is not None:
            return Graph.from_scipy(first, second)
        entries = as_adjacency(first)
        return _with_structure(Graph.from_scipy(entries, np.zeros((entries.shape[0], 0), np.float32)), encoder)
    if _is_table(first):
        beside = {"nodes": second} if second is None or _is_table(second) else {"feature_matrix": second}
        return read_tables(first, **beside, encoder=encoder)
    if hasattr(source, "edge_index") or hasattr(source, "to_homogeneous"):
        return Graph.from_pyg(source)
    if hasattr(source, "adj") and hasattr(source, "is_directed"):
        return _networkx(source, encoder)
    raise DataError(f"a {type(source).__name__} is not a graph; pass {_SUPPORTED}")


def _is_table(given: Any) -> bool:
    """Whether it is a table, or several by the names of their kinds."""
    return is_table(given) or (isinstance(given, Mapping) and any(map(is_table, given.values())))


def _networkx(given: Any, encoder: Mapping[str, Any] | None) -> Graph:
    if not len(given):
        raise DataError("the graph has no nodes")
    has_features = any("x" in attributes for _, attributes in given.nodes(data=True))
    is_labelled = all(isinstance(each, numbers.Integral) for _, each in given.nodes(data="label"))
    if has_features:
        graph = Graph.from_networkx(given, labels="label" if is_labelled else None)
    else:
        bare = given.copy()
        for _, attributes in bare.nodes(data=True):
            attributes["x"] = np.empty(0, np.float32)
        graph = _with_structure(Graph.from_networkx(bare), encoder)
    if unused := _unused(given, {"x", "label"} if has_features and is_labelled else {"x"}):
        warnings.warn(unused, UserWarning, stacklevel=caller_level())
        graph = dataclasses.replace(graph, info=dataclasses.replace(graph.info, notes=(unused,)))
    return graph


def _unused(graph: Any, used: set[str]) -> str | None:
    """Says which attributes of a networkx graph are not used; None if there are none."""
    of_nodes = {name for _, attributes in graph.nodes(data=True) for name in attributes} - used
    of_edges = {name for _, _, attributes in graph.edges(data=True) for name in attributes} - {"weight"}
    unused = [f"'{name}' of nodes" for name in sorted(of_nodes, key=str)]
    unused += [f"'{name}' of edges" for name in sorted(of_edges, key=str)]
    if not unused:
        return None
    return one_line(f"not used of this networkx graph: {', '.join(unused)}; features are the node attribute 'x'")


def _with_structure(bare: Graph, encoder: Mapping[str, Any] | None) -> Graph:
    """A graph without features, given structural ones."""
    if not bare.num_nodes:
        raise DataError("the graph has no nodes")
    source, target, _ = bare.edges()
    columns = degree_features(source, target, bare.num_nodes)
    known = None if encoder is None else FeatureEncoder.of(encoder).structure
    structure = known or StructuralFeatures.fit(columns)
    info = TableInfo(encoder=FeatureEncoder(structure=structure).to_json())
    return dataclasses.replace(bare, features=structure.features(columns), info=info)


# -- lists and arrays of edges: pairs of ids, triples with weights, PyG's edge_index --


def _is_array(given: Any) -> bool:
    return isinstance(given, np.ndarray) or is_tensor(given)


def _edge_columns(given: Any) -> list[Any] | None:
    """Sources, targets and, of triples, weights; None if it is neither a list of edges nor an array of such a shape."""
    if _is_array(given):
        rows: Any = as_array(given, "edges")
        shape, tuples = rows.shape, False
    elif isinstance(given, list | tuple) and given and all(_is_row(row, given[0]) for row in given):
        rows, shape, tuples = given, (len(given), len(given[0])), isinstance(given[0], tuple)
    else:
        return None
    if shape in _AMBIGUOUS_SHAPES and not tuples:
        either = f"{shape[0]} x {shape[1]}: edges may be rows or columns"
        raise DataError(f"{either}, so it is not a graph; pass a list of tuples, one per edge")
    if len(shape) == 2 and shape[1] in (2, 3):
        columns = list(rows.T) if _is_array(given) else list(zip(*rows, strict=True))
    elif len(shape) == 2 and shape[0] == 2:
        columns = list(rows)
    else:
        return None
    return [*(_whole(column) for column in columns[:2]), *columns[2:]]


def _edge_table(columns: Sequence[Any]) -> Any:
    """An Arrow table of what ``_edge_columns`` gives."""
    import pyarrow as pa

    try:
        return pa.table({name: pa.array(column) for name, column in zip(_EDGE_COLUMNS, columns, strict=False)})
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(f"edges must have ids of one type, whole numbers or text: {describe_error(error)}") from None


def _is_row(row: Any, first: Any) -> bool:
    """Whether it holds single values, as many as the first one, and at least two."""
    return isinstance(row, list | tuple) and len(row) == len(first) >= 2 and all(map(np.isscalar, row))


def _whole(column: Any) -> Any:
    """Whole numbers as such, also where weights beside them have made floats of them; other ids are read as in a table."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        wide = column.astype(np.float64)
        # Beyond 2^53 a float no longer tells one integer from the next.
        if ((wide == np.floor(wide)) & (np.abs(wide) <= _LARGEST_EXACT_FLOAT)).all():
            return column.astype(np.int64)
    return column
