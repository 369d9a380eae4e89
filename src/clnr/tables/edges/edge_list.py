"""Distinct edges: ids looked up, and duplicates, loops and dangling edges counted and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from clnr.errors import DataError, one_line, option, shorten
from clnr.graph.csr import Array
from clnr.support.humanize import plural
from clnr.tables.columns.exact_sums import SumRange
from clnr.tables.columns.node_columns import case_twins, plain_id
from clnr.tables.edges.edge_weighting import multiply_kinds, normalise_kinds
from clnr.tables.ingest_report import MUCH_SHARE, IngestReport
from clnr.tables.io.sql import Connection, fetch_numpy, quoted, run
from clnr.tables.roles.column_names import node_id
from clnr.tables.table_kinds import Ends

ENDS = "(SELECT s AS id FROM edges UNION SELECT t FROM edges)"
"""The distinct ids of the SQL table ``edges``, to write after FROM."""
LARGEST_WEIGHT = float(np.finfo(np.float32).max)
# The most edges that are joined with nodes once more.
_MOST_JOINED_ROWS = 20_000_000


class EdgeList(NamedTuple):
    """Distinct edges by node index; undirected ones once, the lower index first."""

    source: Array
    target: Array
    weight: Array | None


class MergeForm(NamedTuple):
    """How repeated edges are merged.

    Attributes:
        kinds: None if edges have no kinds; else what the weights of each kind are multiplied by, as in an earlier graph, or
            nothing to normalise each kind by itself.
        adds: Whether the weights of repeated edges are added; if nobody gave weights, each edge of a kind counts once.
        ids: The column of the node table's ids, for messages.
        joined: The kinds of nodes that tables of edges join, if nodes have kinds.
        ends: The columns of the ends of edges, for messages.
    """

    directed: bool
    kinds: Mapping[str, float] | None = None
    adds: bool = False
    ids: str = ""
    whole: bool = False
    joined: tuple[Ends, ...] = ()
    ends: str = "these"

    @property
    def weighted(self) -> bool:
        return self.adds or self.kinds is not None


def merge_rows(db: Connection, title: str, form: MergeForm) -> IngestReport:
    """Make the SQL table ``distinct_edges`` of ``edges`` between nodes of ``ids``: a, b and w; and say what was found.

    Weights of repeated edges are added, if there are any. An undirected edge that is given both ways has the larger weight of
    the two, and is there once, the lower index first. All this is done for each kind; then an edge of several kinds has the
    sum of their weights.
    """
    weighted, directed, kinds = form.weighted, form.directed, form.kinds
    columns = f"{', w' if weighted else ''}{'' if kinds is None else ', kind'}"
    joined = "edges LEFT JOIN ids a ON s = a.id LEFT JOIN ids b ON t = b.id"
    run(db, f"CREATE TEMP TABLE indexed AS SELECT a.i AS a, b.i AS b{columns} FROM {joined}", title)
    counts = "count(*), count(a + b), count(a) + count(b), count(*) FILTER (a = b)"
    ((rows, complete, endpoints, loops),) = run(db, f"SELECT {counts} FROM indexed", title)
    hint = _dangling_hint(db, title, rows, rows - complete, form.whole, form.joined) if complete < rows else ""
    if not endpoints:
        raise DataError(_no_match(db, title, form.ids, hint))
    if not complete:
        lacks = f"'{one_line(_dangling(db, title), 80)}' is not there"
        raise DataError(
            f"{title}: no edge has both its ends in the node table: {lacks}; "
            + (hint or f"are {form.ends} the columns of the ends? name them: {option('source')}, {option('target')}")
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
    counts = f"count(*), coalesce(sum(n), 0), coalesce(sum(times), 0), {of_weights}"
    ((edges, given, times, zeros, largest),) = run(db, f"SELECT {counts} FROM distinct_edges", title)
    if largest > LARGEST_WEIGHT:
        raise DataError(f"{title}: the weights of a repeated edge add up to more than float32 holds; make them smaller")
    remarks = []
    if twins := case_twins(edge_types):
        remarks.append(f"{title}: edges have {twins} as two kinds")
    if several:
        remarks.append(f"{title}: {several:,} rows repeat an edge in another kind; its weights are added")
    if times > given:
        counts = ", and the larger weight counts" if form.adds else ""
        merged = f"merged: {plural(int(times - given), 'row')} repeating an edge in reverse"
        remarks.append(f"{title}: {merged}; the graph is undirected{counts}")
    if zeros:
        remarks.append(f"{title}: {zeros:,} edges have weight 0 and were dropped")
    return IngestReport(
        rows,
        dangling=rows - complete,
        loops=loops,
        duplicates=int(given) - edges,
        first_dangling=first,
        dangling_hint=hint,
        remarks=tuple(remarks),
        edge_types=edge_types,
    )


def read_edge_list(db: Connection, title: str, form: MergeForm) -> EdgeList:
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


def _no_match(db: Connection, title: str, ids: str, hint: str) -> str:
    """The message where edges and nodes share no id: mostly, ids are written in two ways."""
    ((end,),), ((node,),) = (run(db, f"SELECT {which} LIMIT 1", title) for which in ("s FROM edges", "id FROM ids"))
    column = f" in '{one_line(ids, 40)}'" if ids else ""
    example = f"edges name '{one_line(str(end))}', the node table has '{one_line(str(node))}'{column}"
    other = f"; if they are in other columns, name these: {option('source')}, {option('target')}, {option('id')}" if ids else ""
    return f"{title}: no edge has an id of the node table: {example}; {hint or 'write ids alike'}{other}"


def _dangling(db: Connection, title: str) -> str:
    """An id of an edge that is no node."""
    sql = "SELECT {0} FROM edges ANTI JOIN ids ON {0} = id ORDER BY edges.rowid LIMIT 1"
    ends = [end for column in "st" for (end,) in run(db, sql.format(column), title)]
    return str(ends[0])


def _dangling_hint(db: Connection, title: str, rows: int, lost: int, whole: bool, joined: Iterable[Ends]) -> str:
    """What may be wrong with ids, since ``lost`` of the rows are left out: other spelling, or kinds of nodes that are swapped.

    They are in the SQL tables ``edges`` (s, t) and ``ids`` (id, i); ``whole`` says that ids are integers, and ``joined`` which
    kinds of nodes tables of edges join.
    """
    if whole or rows > _MOST_JOINED_ROWS:
        return ""
    for a, b in dict.fromkeys(ends for ends in joined if ends.source != ends.target):
        if lost > MUCH_SHARE * rows and 2 * (rows - _kept_if_swapped(db, title, a, b)) < lost:
            return f"the tables of '{a}' and '{b}' look swapped: with them exchanged, most of these edges would be kept"
    return spelling_hint(db, title, f"{ENDS} ANTI JOIN ids USING (id)", "ids")


def spelling_hint(db: Connection, title: str, unknown: str, known: str, of: str = "the node table") -> str:
    """How many unknown ids are other spellings of known ones; both arguments are SQL relations. "" if there are none."""
    plain = f"{plain_id('id')} AS plain"
    spelled = f"(SELECT {plain}, min(id) AS meant FROM {known} GROUP BY 1)"
    near = f"(SELECT DISTINCT id, {plain} FROM {unknown}) JOIN {spelled} USING (plain)"
    ((count, given, meant),) = run(db, f"SELECT count(*), min(id), arg_min(meant, id) FROM {near}", title)
    if not count:
        return ""
    # Other blanks than spaces are shown by their codes.
    ways = "case, blanks, - _ . :, leading zeros and a final .0"
    example = f"such as {shorten(given, 40)!r} and {shorten(meant, 40)!r}; make them equal by a query, such as lower(name)"
    return f"{plural(count, 'unknown id')} would match {of} if {ways} were ignored, {example}"


def _kept_if_swapped(db: Connection, title: str, a: str, b: str) -> int:
    """How many edges have both ends if the nodes of two kinds are exchanged."""
    first, second = (quoted(node_id(kind, "")) for kind in (a, b))

    def swapped(end: str) -> str:
        there = f"WHEN starts_with({end}, {first}) THEN {second} || substr({end}, {len(node_id(a, '')) + 1})"
        back = f"WHEN starts_with({end}, {second}) THEN {first} || substr({end}, {len(node_id(b, '')) + 1})"
        return f"CASE {there} {back} ELSE {end} END"

    joins = f"JOIN ids a ON {swapped('s')} = a.id JOIN ids b ON {swapped('t')} = b.id"
    ((kept,),) = run(db, f"SELECT count(*) FROM edges {joins}", title)
    return int(kept)
