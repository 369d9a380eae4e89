"""Edges of a table: ids looked up, and duplicates, loops and dangling edges counted and left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.humanize import one_line, plural
from clnr.tables.columns.column_info import ColumnInfo
from clnr.tables.columns.columns import check_filled, check_rows, id_sql
from clnr.tables.columns.exact_sums import SumRange
from clnr.tables.columns.notations import rewrite_hint, usual_sql
from clnr.tables.columns.type_warnings import case_twins
from clnr.tables.edges.edge_weighting import EdgeTimes, multiply_kinds, normalise_kinds
from clnr.tables.edges.lost_edges import dangling_hint
from clnr.tables.io.source import Table
from clnr.tables.io.sql import fetch_numpy, quoted, run, trimmed
from clnr.tables.kinds.table_kinds import Ends, NamedEdges, node_id

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from clnr.tables.roles.roles import Roles

_LARGEST = float(np.finfo(np.float32).max)


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


class EdgeList(NamedTuple):
    """Distinct edges by node index; undirected ones once, the lower index first."""

    source: Array
    target: Array
    weight: Array | None

    @classmethod
    def none(cls) -> EdgeList:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), None)


class EdgeForm(NamedTuple):
    """What all tables of edges are read to.

    Attributes:
        whole: Whether ids are integers.
        weighted: Whether edges have weights.
        kinds: Whether they are of several kinds.
        negative: What is done with negative weights, one of ``NEGATIVE_WEIGHTS``.
    """

    whole: bool
    weighted: bool
    kinds: bool
    negative: str


def load_edges(
    db: DuckDBPyConnection, edges: NamedEdges, roles: Roles, form: EdgeForm, times: EdgeTimes | None, into: str = "edges"
) -> list[str]:
    """Load the SQL table ``edges``, in the order of rows: sources s, targets t, and as far as there are, w, kind and moment.

    Returns notes about negative weights.

    Args:
        db: The connection.
        edges: The table.
        roles: Which column holds what.
        form: What it is read to.
        times: How its times are read, if there are any.
        into: Another name for the SQL table.
    """
    table, a, b, w = edges.table, roles.source, roles.target, roles.weight
    columns = [f"{_end_sql(edges, column, end, form.whole)} AS {'st'[end]}" for end, column in enumerate((a, b))]
    if w is not None:
        c = table.columns[w].sql
        number = c if roles.weight_notation == "" else usual_sql(trimmed(c), roles.weight_notation)
        columns.append(f"TRY_CAST({number} AS DOUBLE) AS w")
        right = f"isfinite(w) AND w BETWEEN 0 AND {_LARGEST!r}"
        columns.append(f"CASE WHEN {right} THEN NULL ELSE {trimmed(c)} END AS given")
    elif form.weighted:
        columns.append("1.0::DOUBLE AS w")
    if form.kinds:
        kind = "NULL::VARCHAR" if edges.kind is None else quoted(edges.kind)
        columns.append(f"{kind if roles.edge_type is None else trimmed(table.columns[roles.edge_type].sql)} AS kind")
    if times is not None:
        columns.append(f"{times.sql} AS moment")
        columns.append(f"CASE WHEN moment IS NULL THEN {trimmed(table.columns[times.column].sql)} END AS no_time")
    run(db, f"CREATE TEMP TABLE {into} AS SELECT {', '.join(columns)} FROM {table.sql}", table.name)
    if not run(db, f"SELECT 1 FROM {into} LIMIT 1", table.name):
        raise DataError(f"{table.name}: there is no edge in it")
    for column, empty in ((a, "s IS NULL"), (b, "t IS NULL"), (roles.edge_type, "kind IS NULL")):
        if column is not None:
            check_filled(db, table, into, empty, column)
    if w is not None:
        out = f"--ignore {w} leaves weights out"
        check_filled(
            db, table, into, "w IS NULL AND given IS NULL", w, f"--drop-empty (drop_empty=True) leaves such rows out, {out}"
        )
        wrong = f"w IS NULL OR isnan(w) OR abs(w) > {_LARGEST!r}"
        out = rewrite_hint(db, table, w) or out
        check_rows(db, table, into, wrong, w, "is no weight; weights are numbers from 0 on, such as 0.5", out, "given")
    if times is not None:
        if not run(db, f"SELECT 1 FROM {into} WHERE isfinite(moment) LIMIT 1", table.name):
            ((first,),) = run(db, f"SELECT no_time FROM {into} LIMIT 1", table.name)
            raise DataError(
                f"{table.name}: '{times.column}' holds no times, such as '{one_line(str(first), 80)}' in row 1; they are "
                "dates such as 2020-12-31, or numbers; name another column: --edge-time"
            )
        cure = "correct it, or leave the row out"
        check_rows(db, table, into, "moment IS NULL OR NOT isfinite(moment)", times.column, "is no time", cure, "no_time")
    return [] if w is None else _negative_weights(db, table, w, form.negative, into)


def check_weights(db: DuckDBPyConnection, table: Table, column: str, rows: str) -> None:
    """Raise if all weights of the SQL table ``rows`` are 0, so that there is no edge."""
    if not run(db, f"SELECT 1 FROM {rows} WHERE w <> 0 LIMIT 1", table.name):
        raise DataError(
            f"{table.name}: '{column}' is 0 in all rows, and an edge of weight 0 is none; --ignore {column} leaves weights out"
        )


def _end_sql(edges: NamedEdges, column: str, end: int, whole: bool) -> str:
    """The id at an end of edges; with that kind of nodes, where nodes have kinds."""
    plain = id_sql(edges.table, column, whole)
    return plain if edges.ends is None else f"{quoted(node_id(edges.ends[end], ''))} || {plain}"


def _negative_weights(db: DuckDBPyConnection, table: Table, weight: str, choice: str, rows: str) -> list[str]:
    """Refuse negative weights, leave their edges out, or make these a kind of their own, with weights above 0."""
    if choice == "refuse":
        wrong = "is negative, and weights say how close two nodes are"
        cure = "--negative-weights drop leaves such edges out, --negative-weights kind makes them a kind of their own"
        check_rows(db, table, rows, "w < 0", weight, wrong, cure, "given")
        return []
    ((below, count),) = run(db, f"SELECT count(*) FILTER (w < 0), count(*) FROM {rows}", table.name)
    if choice == "kind":
        sign = "CASE WHEN w < 0 THEN 'negative' ELSE 'positive' END"
        run(db, f"UPDATE {rows} SET kind = coalesce(kind || ' ', '') || {sign}, w = abs(w)", table.name)
        kind = f"{table.name}: edges of a kind of their own, since their weights are negative: {below:,} of {count:,}"
        return [kind] if below else []
    if below == count:
        raise DataError(f"{table.name}: all its weights are negative, so that no edge is left; choose --negative-weights kind")
    run(db, f"DELETE FROM {rows} WHERE w < 0", table.name)
    return [f"{table.name}: left out: {plural(below, 'edge')} of {count:,} with a negative weight"] if below else []


class MergeForm(NamedTuple):
    """How repeated edges are merged.

    Attributes:
        weighted: Whether edges have weights.
        directed: Whether they are directed.
        kinds: None if edges have no kinds; else what the weights of each kind are multiplied by, as in an earlier graph, or
            nothing to normalise each kind by itself.
        adds: Whether the weights of repeated edges are added; if nobody gave weights, each edge of a kind counts once.
        ids: The column of the node table's ids, for messages.
        whole: Whether ids are integers.
        joined: The kinds of nodes that tables of edges join, if nodes have kinds.
        ends: The columns of the ends of edges, for messages.
    """

    weighted: bool
    directed: bool
    kinds: Mapping[str, float] | None = None
    adds: bool = True
    ids: str = ""
    whole: bool = False
    joined: tuple[Ends, ...] = ()
    ends: str = "these"


def merge_rows(db: DuckDBPyConnection, title: str, form: MergeForm) -> IngestReport:
    """Make the SQL table ``distinct_edges`` of ``edges`` between nodes of ``ids``: a, b and w; and say what was found.

    Weights of repeated edges are added, if there are any. An undirected edge that is given both ways has the larger weight of
    the two, and is there once, the lower index first. All this is done for each kind; then an edge of several kinds has the
    sum of their weights.
    """
    weighted, directed, kinds = form.weighted, form.directed, form.kinds
    columns = f"{', w' if weighted else ''}{'' if kinds is None else ', kind'}"
    run(
        db,
        f"CREATE TEMP TABLE indexed AS SELECT a.i AS a, b.i AS b{columns} "
        "FROM edges LEFT JOIN ids a ON s = a.id LEFT JOIN ids b ON t = b.id",
        title,
    )
    ((rows, complete, endpoints, loops),) = run(
        db,
        "SELECT count(*), count(*) FILTER (a IS NOT NULL AND b IS NOT NULL), count(a) + count(b), count(*) FILTER (a = b) "
        "FROM indexed",
        title,
    )
    hint = dangling_hint(db, title, rows, rows - complete, form.whole, form.joined) if complete < rows else ""
    if not endpoints:
        raise DataError(_no_match(db, title, form.ids) + (f"; {hint}" if hint else ""))
    if not complete:
        lacks = f"'{one_line(_dangling(db, title), 80)}' is not there"
        raise DataError(
            f"{title}: no edge has both its ends in the node table: {lacks}; "
            + (hint or f"are {form.ends} the columns of the ends? name them: --source, --target")
        )
    first = _dangling(db, title) if complete < rows else None
    run(db, "DROP TABLE edges", title)
    pair = "a, b" if directed else "least(a, b) AS a, greatest(a, b) AS b"
    measures = f"{_of_either(_measure('count(*)'), directed)} AS n, count(*) AS times"
    if weighted:
        total = partial(SumRange.of(db, "w", "indexed", title).sql, "w") if form.adds else _measure("max(w)")
        measures += f", {_of_either(total, directed)} AS w"
    if kinds is None:
        merged = f"SELECT {pair}, {measures} FROM indexed WHERE a <> b GROUP BY 1, 2"
        edge_types: dict[str, float] = {}
        several = 0
    else:
        by_kind = f"SELECT {pair}, kind, {measures} FROM indexed WHERE a <> b GROUP BY 1, 2, 3"
        run(db, f"CREATE TEMP TABLE edges_by_kind AS {by_kind}", title)
        if kinds:
            multiply_kinds(db, title, kinds)
        edge_types = dict(kinds) or normalise_kinds(db, title, directed)
        ((several,),) = run(db, "SELECT count(*) - count(DISTINCT (a, b)) FROM edges_by_kind", title)
        total_weight = SumRange.of(db, "w", "edges_by_kind", title).sql("w")
        merged = f"SELECT a, b, sum(n) - count(*) + 1 AS n, sum(times) - count(*) + 1 AS times, {total_weight} AS w"
        merged += " FROM edges_by_kind GROUP BY a, b"
    run(db, f"CREATE TEMP TABLE distinct_edges AS {merged}", title)
    run(db, "DROP TABLE indexed", title)
    of_weights = "count(*) FILTER (w = 0), coalesce(max(w), 0)" if weighted else "0, 0"
    ((edges, given, times, zeros, largest),) = run(
        db,
        f"SELECT count(*), coalesce(sum(n), 0), coalesce(sum(times), 0), {of_weights} FROM distinct_edges",
        title,
    )
    if largest > _LARGEST:
        raise DataError(f"{title}: the weights of a repeated edge add up to more than float32 holds; make them smaller")
    remarks = []
    if twins := case_twins(edge_types):
        remarks.append(f"{title}: edges have {twins} as two kinds")
    if several:
        remarks.append(f"{title}: {several:,} rows repeat an edge in another kind; its weights are added")
    if times > given:
        remarks.append(f"{title}: {int(times - given):,} rows give an edge the other way round, which is the same edge")
    if zeros:
        remarks.append(f"{title}: {zeros:,} edges have weight 0, which is no edge")
    found = IngestReport(rows, rows - complete, loops, int(given) - edges, first_dangling=first, remarks=tuple(remarks))
    return replace(found, dangling_hint=hint, edge_types=edge_types)


def read_edge_list(db: DuckDBPyConnection, title: str, form: MergeForm) -> EdgeList:
    """The edges of the SQL table ``distinct_edges``, which is dropped."""
    columns = fetch_numpy(db, f"SELECT a, b{', w' if form.weighted else ''} FROM distinct_edges", title)
    run(db, "DROP TABLE distinct_edges", title)
    return EdgeList(columns["a"], columns["b"], columns["w"].astype(np.float32) if form.weighted else None)


def _of_either(measure: Callable[[str], str], directed: bool) -> str:
    """An aggregate of an edge's rows; for an undirected edge, the larger one of its two directions."""
    if directed:
        return measure("true")
    return f"greatest({measure('indexed.a < indexed.b')}, {measure('indexed.a > indexed.b')})"


def _measure(aggregate: str) -> Callable[[str], str]:
    """An aggregate, given which rows are wanted."""
    return lambda where: f"coalesce({aggregate} FILTER ({where}), 0)"


def _no_match(db: DuckDBPyConnection, title: str, ids: str) -> str:
    """The message where edges and nodes share no id: mostly, ids are written in two ways."""
    ((end,),), ((node,),) = (run(db, f"SELECT {which} LIMIT 1", title) for which in ("s FROM edges", "id FROM ids"))
    column = f" in '{one_line(ids, 40)}'" if ids else ""
    example = f"edges name '{one_line(str(end))}', the node table has '{one_line(str(node))}'{column}"
    other = "; or are its ids in another column? name it: --id" if ids else ""
    return f"{title}: no edge has an id of the node table: {example}; are ids written alike? 7, 007 and 7.0 are not{other}"


def _dangling(db: DuckDBPyConnection, title: str) -> str:
    """An id of an edge that is no node."""
    sql = "SELECT {0} FROM edges ANTI JOIN ids ON {0} = id ORDER BY edges.rowid LIMIT 1"
    ends = [end for column in "st" for (end,) in run(db, sql.format(column), title)]
    return str(ends[0])
