"""What was found while reading tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clnr.tables.columns.column_info import ColumnInfo


@dataclass(frozen=True)
class IngestReport:
    """What was found while reading tables, and what was done about it.

    Attributes:
        rows: Rows of the edge table.
        dangling: Edges whose source or target is not in the node table: left out.
        loops: Edges from a node to itself: left out.
        duplicates: Repeated edges: one is kept, with the sum of weights where there are weights.
        isolated: Nodes without an edge: kept.
        first_dangling: An id that the node table lacks, as an example.
        dangling_hint: What may be wrong with the ids of these edges; empty if that is not known.
        remarks: Other notes for the user, a line each.
        directed: Whether edges are directed.
        names: The column with the names of nodes, if there is one.
        columns: How each column of the tables was read.
        edge_types: What the weights of each kind of edges were multiplied by on average; empty without kinds.
        fading: What weights that fade by age were multiplied by, to keep their total.
        negative_weights: What was done with negative weights.
        node_kinds: The kinds of nodes; empty if nodes have none.
    """

    rows: int = 0
    dangling: int = 0
    loops: int = 0
    duplicates: int = 0
    isolated: int = 0
    first_dangling: str | None = None
    dangling_hint: str = ""
    remarks: tuple[str, ...] = ()
    directed: bool = False
    names: str | None = None
    columns: tuple[ColumnInfo, ...] = ()
    edge_types: Mapping[str, float] = field(default_factory=dict)
    fading: float = 1.0
    negative_weights: str = "refuse"
    node_kinds: tuple[str, ...] = ()
