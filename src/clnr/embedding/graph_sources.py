"""Graphs from the types that users have: files, edge lists, arrays, data frames, SciPy, networkx, PyG."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.embedding.result.nodes import Nodes
from clnr.errors import DataError, one_line
from clnr.graph import Graph
from clnr.graph.arrays import as_adjacency, as_array, is_tensor
from clnr.graph.folder import open_graph
from clnr.support.arguments import caller_level
from clnr.support.humanize import describe_error
from clnr.tables import FeatureEncoder, StructuralFeatures, TableGraph, read_tables
from clnr.tables.columns.structural import degree_features
from clnr.tables.ingest_report import unused_numbers
from clnr.tables.io.source import is_table

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


def as_nodes(source: Any, feature_encoder: FeatureEncoder | None = None) -> Nodes:
    """The nodes of a graph of any type that ``NodeEmbedder`` takes; of a folder, all that is large stays in its files."""
    if isinstance(source, str | Path) and Path(source).is_dir():
        return Nodes.of_folder(open_graph(source))
    return Nodes.of_tables(as_table_graph(source, feature_encoder))


def as_table_graph(source: Any, feature_encoder: FeatureEncoder | None = None) -> TableGraph:
    """A graph from any type that ``NodeEmbedder`` takes, with features encoded as those of an earlier graph, if given."""
    if isinstance(source, TableGraph):
        return source
    if isinstance(source, Graph):
        return TableGraph(source, None)
    if isinstance(source, str | Path) and not (Path(source).exists() or _GLOB.intersection(str(source))):
        missing = f"{one_line(str(source))}: there is no such file or folder"
        raise DataError(f"{missing}, so it is not a graph; pass {_SUPPORTED}")
    whole = _edge_columns(source)
    is_pair = whole is None and isinstance(source, tuple | list) and len(source) == 2
    first, second = source if is_pair else (source, None)
    edges = _edge_columns(first) if is_pair else whole
    if edges is not None and second is not None and not _is_table(second):
        columns = dict(zip(_EDGE_COLUMNS, edges, strict=False))
        return TableGraph(Graph.from_edges(**columns, features=second, undirected=True), None)
    if edges is not None:
        return read_tables(_edge_table(edges), second, feature_encoder=feature_encoder)
    if sp.issparse(first) or _is_array(first):
        return _adjacency(first, second, feature_encoder)
    if _is_table(first):
        beside = {"nodes": second} if second is None or _is_table(second) else {"feature_matrix": second}
        return _warned(read_tables(first, **beside, feature_encoder=feature_encoder))
    if hasattr(source, "edge_index") or hasattr(source, "to_homogeneous"):
        return TableGraph(Graph.from_pyg(source), None)
    if hasattr(source, "adj") and hasattr(source, "is_directed"):
        return _networkx(source, feature_encoder)
    raise DataError(f"a {type(source).__name__} is not a graph; pass {_SUPPORTED}")


def _warned(table_graph: TableGraph) -> TableGraph:
    """The same graph, after a warning of numbers beside the ends of edges that are not used."""
    if unused := unused_numbers(table_graph.ingest_report.columns):
        names = ", ".join(f"'{column}'" for column in unused)
        message = f"numeric columns not used: {names}; read_tables takes one of them as weight, and drops those in ignore"
        warnings.warn(message, UserWarning, stacklevel=caller_level())
    return table_graph


def _is_table(given: Any) -> bool:
    """Whether it is a table, or several by the names of their kinds."""
    return is_table(given) or (isinstance(given, Mapping) and any(map(is_table, given.values())))


def _adjacency(matrix: Any, features: Any, feature_encoder: FeatureEncoder | None) -> TableGraph:
    if features is not None:
        return TableGraph(Graph.from_scipy(matrix, features), None)
    entries = as_adjacency(matrix)
    bare = Graph.from_scipy(entries, np.zeros((entries.shape[0], 0), np.float32))
    return _with_structural_features(bare, feature_encoder)


def _networkx(graph: Any, feature_encoder: FeatureEncoder | None) -> TableGraph:
    if not len(graph):
        raise DataError("the graph has no nodes")
    has_features = any("x" in attributes for _, attributes in graph.nodes(data=True))
    is_labelled = all(isinstance(each, numbers.Integral) for _, each in graph.nodes(data="label"))
    if has_features:
        table_graph = TableGraph(Graph.from_networkx(graph, labels="label" if is_labelled else None), None)
    else:
        bare = graph.copy()
        for _, attributes in bare.nodes(data=True):
            attributes["x"] = np.empty(0, np.float32)
        table_graph = _with_structural_features(Graph.from_networkx(bare), feature_encoder)
    if unused := _unused(graph, {"x", "label"} if has_features and is_labelled else {"x"}):
        warnings.warn(unused, UserWarning, stacklevel=caller_level())
        report = table_graph.ingest_report
        table_graph = table_graph._replace(ingest_report=replace(report, remarks=(*report.remarks, unused)))
    return table_graph


def _unused(graph: Any, used: set[str]) -> str | None:
    """Says which attributes of a networkx graph are not used; None if there are none."""
    of_nodes = {name for _, attributes in graph.nodes(data=True) for name in attributes} - used
    of_edges = {name for _, _, attributes in graph.edges(data=True) for name in attributes} - {"weight"}
    unused = [f"'{name}' of nodes" for name in sorted(of_nodes, key=str)]
    unused += [f"'{name}' of edges" for name in sorted(of_edges, key=str)]
    if not unused:
        return None
    return one_line(f"not used of this networkx graph: {', '.join(unused)}; features are the node attribute 'x'")


def _with_structural_features(bare: Graph, feature_encoder: FeatureEncoder | None) -> TableGraph:
    """A graph without features, given structural ones."""
    if not bare.num_nodes:
        raise DataError("the graph has no nodes")
    source, target, weight = bare.edges()
    columns = degree_features(source, target, bare.num_nodes)
    structure = (None if feature_encoder is None else feature_encoder.structure) or StructuralFeatures.fit(columns)
    features = structure.features(columns)
    graph = Graph.from_edges(source, target, features, weight=weight, ids=bare.ids, name=bare.name)
    return TableGraph(graph, FeatureEncoder((), {}, structure))


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
