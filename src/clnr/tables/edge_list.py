"""Edges of a table: ids looked up, and duplicates, loops and dangling edges counted and left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.humanize import one_line
from clnr.tables.column_info import ColumnInfo
from clnr.tables.columns import check_rows, id_sql
from clnr.tables.edge_weighting import EdgeTimes
from clnr.tables.source import Table
from clnr.tables.sql import fetch_numpy, run, trimmed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from clnr.tables.roles import Roles

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class IngestReport:
    """What was found while reading tables, and what was done about it.

    Attributes:
        rows: Rows of the edge table.
        dangling: Edges whose source or target is not in the node table: left out.
        loops: Edges from a node to itself: left out.
        duplicates: Repeated edges: one is kept, with the sum of weights.
        isolated: Nodes without an edge: kept.
        first_dangling: An id that the node table lacks, as an example.
        remarks: Other notes for the user, a line each.
        directed: Whether edges are directed.
        names: The column with the names of nodes, if there is one.
        columns: How each column of the tables was read.
        edge_types: What the weights of each kind of edges were multiplied by; empty without kinds.
    """

    rows: int = 0
    dangling: int = 0
    loops: int = 0
    duplicates: int = 0
    isolated: int = 0
    first_dangling: str | None = None
    remarks: tuple[str, ...] = ()
    directed: bool = False
    names: str | None = None
    columns: tuple[ColumnInfo, ...] = ()
    edge_types: Mapping[str, float] = field(default_factory=dict)


class EdgeList(NamedTuple):
    """Distinct edges by node index; undirected ones once, the lower index first."""

    source: Array
    target: Array
    weight: Array | None

    @classmethod
    def none(cls) -> EdgeList:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), None)


def load_edges(db: DuckDBPyConnection, edge_table: Table, roles: Roles, whole: bool, times: EdgeTimes | None) -> None:
    """Load the SQL table ``edges``, in the order of rows: sources s, targets t, and as far as given, w, kind and moment."""
    a, b, w = roles.source, roles.target, roles.weight
    columns = [f"{id_sql(edge_table, a, whole)} AS s", f"{id_sql(edge_table, b, whole)} AS t"]
    if w is not None:
        c = edge_table.columns[w].sql
        columns.append(f"TRY_CAST({c} AS DOUBLE) AS w")
        right = f"isfinite(w) AND w BETWEEN 0 AND {_LARGEST!r}"
        columns.append(f"CASE WHEN {right} THEN NULL ELSE {trimmed(c)} END AS given")
    elif roles.weighted:
        columns.append("1.0::DOUBLE AS w")
    if roles.edge_type is not None:
        columns.append(f"{trimmed(edge_table.columns[roles.edge_type].sql)} AS kind")
    if times is not None:
        columns.append(f"{times.sql} AS moment")
        columns.append(f"CASE WHEN moment IS NULL THEN {trimmed(edge_table.columns[times.column].sql)} END AS no_time")
    run(db, f"CREATE TEMP TABLE edges AS SELECT {', '.join(columns)} FROM {edge_table.sql}", edge_table.name)
    if not run(db, "SELECT 1 FROM edges LIMIT 1", edge_table.name):
        raise DataError(f"{edge_table.name}: there is no edge in it")
    for column, title in (("s", a), ("t", b)):
        check_rows(db, edge_table, "edges", f"{column} IS NULL", title, "is empty", "fill it in, or leave the row out")
    if w is not None:
        out = f"--ignore {w} leaves weights out"
        check_rows(db, edge_table, "edges", "w IS NULL AND given IS NULL", w, "is empty", f"fill it in, or: {out}")
        wrong = f"w IS NULL OR isnan(w) OR abs(w) > {_LARGEST!r}"
        check_rows(db, edge_table, "edges", wrong, w, "is no weight; weights are numbers from 0 on, such as 0.5", out, "given")
        apart = "take abs() of it, or only the rows above 0, by --edges-query"
        check_rows(db, edge_table, "edges", "w < 0", w, "is negative, and weights say how close two nodes are", apart, "given")
    if roles.edge_type is not None:
        check_rows(db, edge_table, "edges", "kind IS NULL", roles.edge_type, "is empty", "fill it in, or leave the row out")
    if times is not None:
        if not run(db, "SELECT 1 FROM edges WHERE isfinite(moment) LIMIT 1", edge_table.name):
            ((first,),) = run(db, "SELECT no_time FROM edges LIMIT 1", edge_table.name)
            raise DataError(
                f"{edge_table.name}: '{times.column}' holds no times, such as '{one_line(str(first), 80)}' in row 1; they are "
                "dates such as 2020-12-31, or numbers; name another column: --edge-time"
            )
        cure = "correct it, or leave the row out"
        check_rows(
            db, edge_table, "edges", "moment IS NULL OR NOT isfinite(moment)", times.column, "is no time", cure, "no_time"
        )


def check_weights(db: DuckDBPyConnection, edge_table: Table, column: str) -> None:
    """Raise if all weights of the SQL table ``edges`` are 0, so that there is no edge."""
    if not run(db, "SELECT 1 FROM edges WHERE w <> 0 LIMIT 1", edge_table.name):
        raise DataError(
            f"{edge_table.name}: '{column}' is 0 in all rows, and an edge of weight 0 is none; --ignore {column} leaves "
            "weights out"
        )


def merge_rows(db: DuckDBPyConnection, edge_table: Table, weighted: bool, directed: bool) -> IngestReport:
    """Make the SQL table ``distinct_edges`` of ``edges`` between nodes of ``ids``: a, b and w; and say what was found.

    Weights of repeated edges are added. An undirected edge that is given both ways has the larger weight of the two, and is
    there once, the lower index first.
    """
    weight = ", w" if weighted else ""
    run(
        db,
        f"CREATE TEMP TABLE indexed AS SELECT a.i AS a, b.i AS b{weight} "
        "FROM edges LEFT JOIN ids a ON s = a.id LEFT JOIN ids b ON t = b.id",
        edge_table.name,
    )
    ((rows, complete, endpoints, loops),) = run(
        db,
        "SELECT count(*), count(*) FILTER (a IS NOT NULL AND b IS NOT NULL), count(a) + count(b), count(*) FILTER (a = b) "
        "FROM indexed",
        edge_table.name,
    )
    if not endpoints:
        raise DataError(_no_match(db, edge_table))
    if not complete:
        lacks = f"'{one_line(_dangling(db, edge_table), 80)}' is not there"
        raise DataError(
            f"{edge_table.name}: no edge has both its ends in the node table: {lacks}; are these the columns of the ends? name "
            "them: --source, --target"
        )
    first = _dangling(db, edge_table) if complete < rows else None
    run(db, "DROP TABLE edges", edge_table.name)
    pair = "a, b" if directed else "least(a, b) AS a, greatest(a, b) AS b"
    total = ", " + _of_either("sum(w)", directed) + " AS w" if weight else ""
    measures = f"{pair}, {_of_either('count(*)', directed)} AS n, count(*) AS times{total}"
    merged = f"SELECT {measures} FROM indexed WHERE a <> b GROUP BY 1, 2"
    run(db, f"CREATE TEMP TABLE distinct_edges AS {merged}", edge_table.name)
    run(db, "DROP TABLE indexed", edge_table.name)
    of_weights = "count(*) FILTER (w = 0), coalesce(max(w), 0)" if weight else "0, 0"
    ((edges, given, times, zeros, largest),) = run(
        db,
        f"SELECT count(*), coalesce(sum(n), 0), coalesce(sum(times), 0), {of_weights} FROM distinct_edges",
        edge_table.name,
    )
    if largest > _LARGEST:
        raise DataError(
            f"{edge_table.name}: the weights of a repeated edge add up to more than float32 holds; make them smaller"
        )
    remarks = []
    if times > given:
        remarks.append(
            f"{edge_table.name}: {int(times - given):,} rows give an edge the other way round, which is the same edge"
        )
    if zeros:
        remarks.append(f"{edge_table.name}: {zeros:,} edges have weight 0, which is no edge")
    return IngestReport(rows, rows - complete, loops, int(given) - edges, first_dangling=first, remarks=tuple(remarks))


def build_edge_list(db: DuckDBPyConnection, edge_table: Table, weighted: bool, directed: bool) -> tuple[EdgeList, IngestReport]:
    """The distinct edges of the SQL table ``edges`` between nodes of ``ids``, and what was found; see ``merge_rows``."""
    report = merge_rows(db, edge_table, weighted, directed)
    columns = fetch_numpy(db, f"SELECT a, b{', w' if weighted else ''} FROM distinct_edges", edge_table.name)
    return EdgeList(columns["a"], columns["b"], columns["w"].astype(np.float32) if weighted else None), report


def _of_either(measure: str, directed: bool) -> str:
    """An aggregate of an edge's rows; for an undirected edge, the larger one of its two directions."""
    if directed:
        return measure
    forward, backward = (f"coalesce({measure} FILTER (indexed.a {sign} indexed.b), 0)" for sign in "<>")
    return f"greatest({forward}, {backward})"


def _no_match(db: DuckDBPyConnection, edge_table: Table) -> str:
    """The message where edges and nodes share no id: mostly, ids are written in two ways."""
    ((end,),), ((node,),) = (run(db, f"SELECT {which} LIMIT 1", edge_table.name) for which in ("s FROM edges", "id FROM ids"))
    example = f"edges name '{one_line(str(end))}', the node table has '{one_line(str(node))}'"
    return f"{edge_table.name}: no edge has an id of the node table: {example}; are ids written alike? 7, 007 and 7.0 are not"


def _dangling(db: DuckDBPyConnection, edge_table: Table) -> str:
    """An id of an edge that is no node."""
    sql = "SELECT {0} FROM edges ANTI JOIN ids ON {0} = id LIMIT 1"
    ends = [end for column in "st" for (end,) in run(db, sql.format(column), edge_table.name)]
    return str(ends[0])
