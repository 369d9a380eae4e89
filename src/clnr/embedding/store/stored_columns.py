"""The kinds of the nodes of a graph in a folder."""

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


def stored_kind_numbers(graph: Graph) -> Array | None:
    """The kind of each node, as ``TableGraph.kind_numbers``, in as few bytes as can be; None if nodes are of one kind."""
    table, kinds = node_table(graph), read_table_info(graph).ingest_report.node_kinds
    if table is None or len(kinds) < 2:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    known, numbers = pa.array(kinds), [np.empty(0, np.min_scalar_type(len(kinds)))]
    for names in table.parts(NODE_KIND):
        # A name that is not known is of a kind of its own.
        places = pc.index_in(names.cast(pa.string()), known).fill_null(len(kinds))
        numbers.append(np.asarray(places).astype(numbers[0].dtype))
    return np.concatenate(numbers)
