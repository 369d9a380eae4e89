"""The kinds of the nodes of a graph in a folder, which are stored one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.tables.roles.column_names import NODE_KIND, ORIGINAL_ID
from clnr.tables.table_graph import node_table, read_table_info


def stored_kinds(graph: Graph) -> Callable[[Array], Any]:
    """What gives the kinds of some nodes and their ids among these, as an Arrow table; None if nodes have no kinds."""
    table = node_table(graph)
    if table is None or not read_table_info(graph).ingest_report.node_kinds:
        return lambda nodes: None
    return lambda nodes: table.take(nodes, [NODE_KIND, ORIGINAL_ID])


def first_of_kinds(graph: Graph) -> Array:
    """The first node of each kind; empty if nodes are of one kind."""
    table = node_table(graph)
    if table is None or len(read_table_info(graph).ingest_report.node_kinds) < 2:
        return np.empty(0, np.int64)
    first, starts_of_kinds, last = 0, list[int](), None
    for part in table.parts(NODE_KIND):
        kinds = part.combine_chunks().dictionary_encode()
        names, codes = kinds.dictionary.to_pylist(), np.asarray(kinds.indices)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        starts_of_kinds += [first + int(at) for at in starts if at or names[codes[0]] != last]
        first, last = first + len(codes), names[codes[-1]] if len(codes) else last
    return np.array(starts_of_kinds, np.int64)
