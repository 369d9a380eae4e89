"""Two tables as a graph: ids kept, edges looked up, counted and cleaned, and what was found along the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.edges import Array
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.tables.encoding import Encoding
from clnr.tables.source import Table, connect, named, quoted, run, table
from clnr.tables.structure import structural

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SOURCES = ("source", "src", "from", "source_id", "from_id", "head", "u", "node1", "subject")
TARGETS = ("target", "dst", "to", "target_id", "to_id", "dest", "destination", "tail", "v", "node2", "object")
WEIGHTS = ("weight", "w", "edge_weight", "strength")
IDS = ("id", "node", "node_id", "nodeid", "key", "name", "index")
LABELS = ("label", "class", "y", "category_label")

_WHOLE = "0|-?[1-9][0-9]{0,17}"
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


@dataclass(frozen=True)
class Findings:
    """What was found in the tables, each counted, and what was done about it.

    Attributes:
        rows: Lines of the table of edges.
        dangling: Edges with an end that the table of nodes lacks: left out.
        loops: Edges from a node to itself: left out.
        duplicates: Edges that were there already: one is kept, weights added.
        isolated: Nodes without an edge: kept.
        first_dangling: An end that is not there, to look into.
        remarks: What else a user should know, a line each.
    """

    rows: int
    dangling: int
    loops: int
    duplicates: int
    isolated: int
    first_dangling: str | None = None
    remarks: tuple[str, ...] = ()


class Read(NamedTuple):
    """A graph from tables, how its features were encoded (None where they come from structure), and what was found."""

    graph: Graph
    encoding: Encoding | None
    classes: tuple[str, ...]
    findings: Findings | None
    columns: Any = None


def read_tables(
    edges: Any,
    nodes: Any = None,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,  # noqa: A002
    label: str | None = None,
    time: str | None = None,
    directed: bool = False,
    encoding: Encoding | None = None,
    memory: str | None = None,
    name: str = "graph",
) -> Read:
    """A graph from a table of edges and one of nodes.

    Args:
        edges: A CSV, Parquet or JSON file, a glob of them, a query over anything that DuckDB reads, or a data frame.
        nodes: Likewise, one row a node; without it, features come from the structure of the graph.
        source: The column of edges' sources; found by common names if not given, else the first.
        target: That of their targets; likewise, else the second.
        weight: That of their weights, if they have any; likewise.
        id: The column of nodes' ids; found by common names if not given, else the first.
        label: The column of classes, if there is one; never a feature.
        time: A column of times, never a feature.
        directed: Whether an edge holds one way only.
        encoding: How features were encoded before, to encode these alike; made anew if not given.
        memory: A bound on what DuckDB takes while reading, as ``4 GB``.
        name: What to call the graph.
    """
    base = connect(memory)
    try:
        return _read(base, edges, nodes, (source, target, weight), (id, label, time), directed, encoding, name)
    finally:
        base.close()


def _read(
    base: DuckDBPyConnection,
    edges: Any,
    nodes: Any,
    ends: tuple[str | None, ...],
    about: tuple[str | None, ...],
    directed: bool,
    encoding: Encoding | None,
    name: str,
) -> Read:
    links = table(base, edges, "edges", [*SOURCES, *TARGETS, *(each for each in ends if each)])
    people = None if nodes is None else table(base, nodes, "nodes", [*IDS, *LABELS, *(each for each in about if each)])
    a, b, w = _ends(links, *ends)
    remarks = []
    if links.headless:
        said = "no names were seen in the first line, which is taken for an edge; name the columns if it is a header"
        remarks.append(f"{links.name}: {said}")
    key = "" if people is None else _column(people, about[0], IDS, "id") or next(iter(people.columns))
    whole = _whole(base, links, a, b) and (people is None or _whole(base, people, key))
    _load_edges(base, links, a, b, w, whole)
    label = None
    if people is None:
        base.execute(
            "CREATE TEMP TABLE ids AS SELECT id, row_number() OVER (ORDER BY id) - 1 AS i "
            "FROM (SELECT s AS id FROM ends UNION SELECT t FROM ends)"
        )
    else:
        label = _column(people, about[1], LABELS, "label")
        _load_nodes(base, people, key, whole)
    i, j, weights, findings = _links(base, links, w is not None, directed, tuple(remarks))
    ids = _fetched(base, "SELECT id FROM ids ORDER BY i")["id"]
    labels, classes = (None, ()) if label is None else _labels(base, label)
    features: Any
    if people is None:
        features = structural(i, j, ids, len(ids))
    else:
        left_out = (key, label, _column(people, about[2], (), "time"))
        kept = [column for column in people.columns if column not in left_out]
        encoding = encoding or Encoding.fit(base, "people", kept, people.name)
        features = encoding.transform(base, "people")
    graph = Graph.from_edges(i, j, features, weight=weights, undirected=not directed, labels=labels, ids=ids, name=name)
    touched = np.zeros(len(ids), bool)
    touched[i] = touched[j] = True
    return Read(graph, encoding, classes, replace(findings, isolated=int((~touched).sum())))


# -- columns ----------------------------------------------------------------------------------------------------------------


def _ends(links: Table, source: str | None, target: str | None, weight: str | None) -> tuple[str, str, str | None]:
    if len(links.columns) < 2:
        raise DataError(f"{links.name}: it has one column, and an edge has two ends; are columns divided by another letter?")
    a = _column(links, source, SOURCES, "source") or next(iter(links.columns))
    b = _column(links, target, TARGETS, "target") or list(links.columns)[1]
    if a == b:
        raise DataError(f"{links.name}: column '{a}' cannot be both ends of an edge; name source and target")
    w = _column(links, weight, WEIGHTS, "weight")
    if w is None and links.headless and len(links.columns) == 3:
        w = list(links.columns)[2]
    return a, b, w


def _column(given: Table, asked: str | None, usual: Sequence[str], what: str) -> str | None:
    """A column by the name that was asked for, else by a usual one."""
    names = {column.strip().casefold(): column for column in given.columns}
    if asked is not None:
        if asked.casefold() not in names:
            raise DataError(f"{given.name}: there is no column '{asked}' for {what}; there are {', '.join(given.columns)}")
        return names[asked.casefold()]
    return next((names[name] for name in usual if name in names), None)


# -- ids --------------------------------------------------------------------------------------------------------------------


def _whole(base: DuckDBPyConnection, given: Table, *columns: str) -> bool:
    """Whether all ids are whole numbers written as such: '007' and '7' are two ids."""
    if not given.texts:
        return all(given.columns[column] in _INTEGERS for column in columns)
    tests = ", ".join(f"bool_and(regexp_full_match(trim({named(column)}), {quoted(_WHOLE)}))" for column in columns)
    # The first rows mostly tell, and spare a look at millions.
    for rows in (f"(SELECT * FROM {given.sql} LIMIT 1000)", given.sql):
        if any(value is False for value in run(base, f"SELECT {tests} FROM {rows}", given.name)[0]):
            return False
    return True


def _id(given: Table, column: str, whole: bool) -> str:
    """An id in SQL: of one type everywhere, an empty text being none."""
    if whole:
        return f"CAST({named(column)} AS BIGINT)"
    text = f"CAST({named(column)} AS VARCHAR)"
    return f"nullif(trim({text}), '')" if given.texts else f"nullif({text}, '')"


def _load_edges(base: DuckDBPyConnection, links: Table, a: str, b: str, w: str | None, whole: bool) -> None:
    weight = "" if w is None else f", TRY_CAST({named(w)} AS DOUBLE) AS w"
    columns = f"{_id(links, a, whole)} AS s, {_id(links, b, whole)} AS t{weight}"
    run(base, f"CREATE TEMP TABLE ends AS SELECT {columns} FROM {links.sql}", links.name)
    if not run(base, "SELECT 1 FROM ends LIMIT 1", links.name):
        raise DataError(f"{links.name}: there is no edge in it")
    wrong = {"s": (a, "IS NULL", "is empty"), "t": (b, "IS NULL", "is empty")}
    for column, (title, test, said) in wrong.items():
        _refuse(base, links, f"ends WHERE {column} {test}", title, said)
    if w is not None:
        _refuse(base, links, "ends WHERE w IS NULL OR isnan(w) OR isinf(w) OR w < 0", w, "is no weight: not a number from 0 on")


def _refuse(base: DuckDBPyConnection, given: Table, rows: str, column: str, said: str) -> None:
    """Fail on the first of some rows, if there is one; a row is counted from 1, a header not counted."""
    ((first,),) = run(base, f"SELECT min(rowid) FROM {rows}", given.name)
    if first is not None:
        raise DataError(f"{given.name}: '{column}' {said} in row {first + 1:,}")


def _load_nodes(base: DuckDBPyConnection, people: Table, key: str, whole: bool) -> None:
    run(base, f"CREATE TEMP TABLE people AS SELECT * FROM {people.sql}", people.name)
    run(base, f"CREATE TEMP TABLE ids AS SELECT {_id(people, key, whole)} AS id, rowid AS i FROM people", people.name)
    if not run(base, "SELECT 1 FROM ids LIMIT 1", people.name):
        raise DataError(f"{people.name}: there is no node in it")
    _refuse(base, people, "ids WHERE id IS NULL", key, "is empty")
    twice = run(base, "SELECT id, min(i), max(i) FROM ids GROUP BY id HAVING count(*) > 1 ORDER BY 2 LIMIT 1", people.name)
    for node, first, last in twice:
        raise DataError(f"{people.name}: node '{node}' is there twice, in rows {first + 1:,} and {last + 1:,}")


# -- edges ------------------------------------------------------------------------------------------------------------------


def _links(
    base: DuckDBPyConnection, links: Table, weighted: bool, directed: bool, remarks: tuple[str, ...]
) -> tuple[Array, Array, Array | None, Findings]:
    """Distinct edges by their nodes' places.

    Weights of rows that repeat an edge are added; of an undirected edge given both ways, the direction with more counts.
    """
    w = ", w" if weighted else ""
    base.execute(
        f"CREATE TEMP TABLE found AS SELECT a.i AS a, b.i AS b{w} "
        "FROM ends LEFT JOIN ids a ON s = a.id LEFT JOIN ids b ON t = b.id"
    )
    ((rows, joined, loops),) = run(
        base,
        "SELECT count(*), count(*) FILTER (a IS NOT NULL AND b IS NOT NULL), count(*) FILTER (a = b) FROM found",
        links.name,
    )
    pair = "a, b" if directed else "least(a, b) AS a, greatest(a, b) AS b"
    total = ", " + _of_either("sum(w)", directed) + " AS w" if weighted else ""
    found = _fetched(
        base, f"SELECT {pair}, {_of_either('count(*)', directed)} AS n{total} FROM found WHERE a <> b GROUP BY 1, 2"
    )
    duplicates = int(found["n"].sum()) - len(found["n"])
    told = Findings(rows, rows - joined, loops, duplicates, 0, _dangling(base, links) if joined < rows else None, remarks)
    return found["a"], found["b"], found["w"].astype(np.float32) if weighted else None, told


def _of_either(measure: str, directed: bool) -> str:
    """A measure of an edge's rows; of an undirected one, of the direction that has more of it."""
    if directed:
        return measure
    there, back = (f"coalesce({measure} FILTER (found.a {sign} found.b), 0)" for sign in "<>")
    return f"greatest({there}, {back})"


def _dangling(base: DuckDBPyConnection, links: Table) -> str:
    """An end that is no node."""
    sql = "SELECT {0} FROM ends ANTI JOIN ids ON {0} = id LIMIT 1"
    ends = [end for column in "st" for (end,) in run(base, sql.format(column), links.name)]
    return str(ends[0])


def _labels(base: DuckDBPyConnection, label: str) -> tuple[Array, tuple[str, ...]]:
    """Classes in the order of numbers, where they are, else of texts; -1 where there is none."""
    value = f"nullif(trim(CAST({named(label)} AS VARCHAR)), '')"
    base.execute(f"CREATE TEMP TABLE labels AS SELECT {value} AS class, rowid AS i FROM people")
    base.execute(
        "CREATE TEMP TABLE classes AS SELECT class, "
        "row_number() OVER (ORDER BY TRY_CAST(class AS DOUBLE) NULLS LAST, class) - 1 AS c "
        "FROM (SELECT DISTINCT class FROM labels WHERE class IS NOT NULL)"
    )
    names = base.execute("SELECT class FROM classes ORDER BY c").fetchall()
    found = _fetched(base, "SELECT coalesce(c, -1) AS c FROM labels LEFT JOIN classes USING (class) ORDER BY i")
    return found["c"].astype(np.int64), tuple(name for (name,) in names)


def _fetched(base: DuckDBPyConnection, sql: str) -> dict[str, Array]:
    return {name: np.ma.getdata(values) for name, values in base.execute(sql).fetchnumpy().items()}
