"""Edges of a table: their ends looked up among the nodes, what repeats or leads nowhere counted and left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.humanize import one_line
from clnr.tables.columns import SOURCES, TARGETS, WEIGHTS, found, id_sql, refuse
from clnr.tables.source import Table
from clnr.tables.sql import fetched, run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class IngestReport:
    """What was found in the tables, each counted, and what was done about it.

    Attributes:
        rows: Lines of the table of edges.
        dangling: Edges with an end that the table of nodes lacks: left out.
        loops: Edges from a node to itself: left out.
        duplicates: Edges that were there already: one is kept, weights added.
        isolated: Nodes without an edge: kept.
        first_dangling: An end that is not there, to look into.
        remarks: What else a user should know, a line each.
        directed: Whether an edge holds one way only.
        names: The column that says what nodes are called, where there is one.
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


class EdgeList(NamedTuple):
    """Distinct edges by their nodes' places; undirected ones once, the lower place first."""

    source: Array
    target: Array
    weight: Array | None

    @classmethod
    def none(cls) -> EdgeList:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), None)


def ends_of(links: Table, source: str | None, target: str | None, weight: str | None) -> tuple[str, str, str | None]:
    """The columns of edges' ends and weights."""
    if len(links.columns) < 2:
        raise DataError(f"{links.name}: it has one column, and an edge has two ends; are columns divided by another letter?")
    a = found(links, source, SOURCES, "source", (target, weight)) or next(iter(links.columns))
    b = found(links, target, TARGETS, "target", (a, weight)) or list(links.columns)[1]
    if a == b:
        raise DataError(f"{links.name}: column '{a}' cannot be both ends of an edge; name source and target")
    w = found(links, weight, WEIGHTS, "weight", (a, b))
    if w is None and links.headless and len(links.columns) == 3:
        w = list(links.columns)[2]
    return a, b, w


def load_ends(base: DuckDBPyConnection, links: Table, a: str, b: str, w: str | None, whole: bool) -> None:
    """The table ``ends`` of sources s, targets t and weights w, all of them in order."""
    weight = "" if w is None else f", TRY_CAST({links.columns[w].sql} AS DOUBLE) AS w"
    columns = f"{id_sql(links, a, whole)} AS s, {id_sql(links, b, whole)} AS t{weight}"
    run(base, f"CREATE TEMP TABLE ends AS SELECT {columns} FROM {links.sql}", links.name)
    if not run(base, "SELECT 1 FROM ends LIMIT 1", links.name):
        raise DataError(f"{links.name}: there is no edge in it")
    for column, title in (("s", a), ("t", b)):
        refuse(base, links, "ends", f"{column} IS NULL", title, "is empty")
    if w is not None:
        wrong = f"w IS NULL OR isnan(w) OR w < 0 OR w > {_LARGEST!r}"
        refuse(base, links, "ends", wrong, w, "is no weight: not a number from 0 on")


def linked(base: DuckDBPyConnection, links: Table, w: str | None, directed: bool) -> tuple[EdgeList, IngestReport]:
    """Distinct edges of ``ends`` between nodes of ``ids``, and what was found.

    Weights of rows that repeat an edge are added; of an undirected edge given both ways, the direction with more counts.
    """
    weight = ", w" if w is not None else ""
    run(
        base,
        f"CREATE TEMP TABLE found AS SELECT a.i AS a, b.i AS b{weight} "
        "FROM ends LEFT JOIN ids a ON s = a.id LEFT JOIN ids b ON t = b.id",
        links.name,
    )
    ((rows, joined, known, loops),) = run(
        base,
        "SELECT count(*), count(*) FILTER (a IS NOT NULL AND b IS NOT NULL), count(a) + count(b), count(*) FILTER (a = b) "
        "FROM found",
        links.name,
    )
    if not known:
        raise DataError(_nowhere(base, links))
    pair = "a, b" if directed else "least(a, b) AS a, greatest(a, b) AS b"
    total = ", " + _of_either("sum(w)", directed) + " AS w" if weight else ""
    counted = f"{pair}, {_of_either('count(*)', directed)} AS n, count(*) AS times{total}"
    got = fetched(base, f"SELECT {counted} FROM found WHERE a <> b GROUP BY 1, 2", links.name)
    if weight and len(got["w"]) and got["w"].max() > _LARGEST:
        raise DataError(f"{links.name}: '{w}' of an edge that is there several times adds up to no number")
    duplicates, both_ways = int(got["n"].sum()) - len(got["n"]), int(got["times"].sum() - got["n"].sum())
    remarks = []
    if both_ways:
        remarks.append(f"{links.name}: {both_ways:,} rows give an edge the other way round, which is the same edge")
    if weight and (none := int((got["w"] == 0).sum())):
        remarks.append(f"{links.name}: {none:,} edges have weight 0, which is no edge")
    first = _dangling(base, links) if joined < rows else None
    told = IngestReport(rows, rows - joined, loops, duplicates, first_dangling=first, remarks=tuple(remarks))
    return EdgeList(got["a"], got["b"], got["w"].astype(np.float32) if weight else None), told


def _of_either(measure: str, directed: bool) -> str:
    """A measure of an edge's rows; of an undirected one, of the direction that has more of it."""
    if directed:
        return measure
    there, back = (f"coalesce({measure} FILTER (found.a {sign} found.b), 0)" for sign in "<>")
    return f"greatest({there}, {back})"


def _nowhere(base: DuckDBPyConnection, links: Table) -> str:
    """What is wrong where edges and nodes have nothing in common: mostly, ids are written otherwise."""
    ((end,),), ((node,),) = (run(base, f"SELECT {which} LIMIT 1", links.name) for which in ("s FROM ends", "id FROM ids"))
    kinds = f"edges name '{one_line(str(end))}', the table of nodes has '{one_line(str(node))}'"
    return f"{links.name}: no end of an edge is a node: {kinds}; are ids written alike, as 7, 007 and 7.0 are not?"


def _dangling(base: DuckDBPyConnection, links: Table) -> str:
    """An end that is no node."""
    sql = "SELECT {0} FROM ends ANTI JOIN ids ON {0} = id LIMIT 1"
    ends = [end for column in "st" for (end,) in run(base, sql.format(column), links.name)]
    return str(ends[0])
