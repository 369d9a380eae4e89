"""Whether the two ends of edges are two kinds of nodes, such as users and films, where nobody said so.

Their ids may be the same numbers, and user 1 and film 1 would become one node. Names of columns alone decide nothing: an
employee and a manager, a buyer and a seller are one kind. Values must agree with them.
"""

from __future__ import annotations

import re
from os.path import commonprefix
from typing import NamedTuple

from clnr.errors import DataError, options
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, run
from clnr.tables.io.table_files import is_query
from clnr.tables.roles.column_names import RESERVED_SIGNS, of_kind
from clnr.tables.roles.roles import Roles
from clnr.tables.table_arguments import TableArguments

# Names of columns that say the same of two nodes begin or end alike, as citing and cited do, or share a word; shorter ones say
# nothing, nor do parts that two names share elsewhere, as customer and store do.
_ALIKE_SHARE, _WORD_LETTERS = 0.5, 3
_ID_ENDING = re.compile(r"[\s_.]*ids?$", re.IGNORECASE)
# The most rows that are looked at, and the least that are enough to stop.
_MOST_ROWS, _LEAST_ROWS = 20_000_000, 10
# A node table has nearly all ids of its kind. Of another it has fewer; if it has less than half of them, that is enough.
_NEARLY_ALL, _FEWER, _HALF, _HARDLY_ANY = 0.95, 0.9, 0.5, 0.01
_LEAST_UNKNOWN = 5
# Counts are as chance has them up to this factor, and up to as many more; a smaller number of expected ones tells nothing.
_CHANCE_FACTOR, _LEAST_EXPECTED = 4.0, 5.0
# Ends that share at least this part of all ids are likely one kind.
_SAME_SHARE = 0.8


class Evidence(NamedTuple):
    """What the values of the two ends of edges tell; repeated edges count once.

    Attributes:
        edges: How many there are.
        whole: Whether ids are whole numbers, of which two kinds may have the same.
        named: The end whose column is called as the id column of the node table; None if neither is.
        ids: The number of ids of each end.
        shared: The number of ids of both.
        has_nodes: Whether there is a node table.
        known: How many ids of each end it has.
        loops: Edges from an id to the same, and how many there would be by chance, as where these are two nodes.
        reversed: Edges that are also there the other way round, likewise.
    """

    edges: int
    whole: bool
    named: int | None
    ids: tuple[int, int]
    shared: int
    has_nodes: bool
    known: tuple[int, int]
    loops: tuple[int, float]
    reversed: tuple[int, float]

    @property
    def shares(self) -> tuple[float, float]:
        """The share of the ids of each end that the node table has."""
        return self.known[0] / self.ids[0], self.known[1] / self.ids[1]

    @property
    def node_end(self) -> int:
        """The end that a node table is of: by its name, else the one that it knows better."""
        better = int((self.shares[1], self.known[1]) >= (self.shares[0], self.known[0]))
        return better if self.named is None else self.named

    def is_strong(self) -> bool:
        """Whether it is so likely that there are two kinds that nothing else should be read."""
        if self.edges < _LEAST_ROWS or self._is_one_kind():
            return False
        if not self.whole:
            return self._knows_one_end(_HARDLY_ANY)
        return self._knows_one_end(_HALF) or (self.loops[1] >= _LEAST_EXPECTED and not self._has_same_ids())

    def is_weak(self) -> bool:
        if self._is_one_kind():
            return False
        if not self.shared and not self.has_nodes:
            return True
        if not self.whole:
            return self._knows_one_end(_HARDLY_ANY)
        meets = min(self.loops[0], self.reversed[0]) > 0 and (self.named is not None or not self._has_same_ids())
        return meets or self._knows_one_end(_FEWER)

    def _is_one_kind(self) -> bool:
        """Ids of text meet by no chance. Where numbers do, some edges are loops or reversed; of one kind, none or many are."""
        if not self.whole:
            return self.shared > _HARDLY_ANY * min(self.ids)
        return any(
            count > _CHANCE_FACTOR * (expected + 1) or (expected >= _LEAST_EXPECTED and count < expected / _CHANCE_FACTOR)
            for count, expected in (self.loops, self.reversed)
        )

    def _has_same_ids(self) -> bool:
        return self.shared >= _SAME_SHARE * (sum(self.ids) - self.shared)

    def _knows_one_end(self, most: float) -> bool:
        unknown = max(all_ids - known for all_ids, known in zip(self.ids, self.known, strict=True))
        return max(self.shares) >= _NEARLY_ALL and min(self.shares) < most and unknown >= _LEAST_UNKNOWN

    def reasons(self, columns: tuple[str, str], node_table: str) -> str:
        """What speaks for two kinds, in words."""
        reasons = []
        if self._knows_one_end(_FEWER):
            at = self.node_end
            reasons.append(
                f"{node_table} has {self.shares[at]:.0%} of the ids in '{columns[at]}' and {self.shares[1 - at]:.0%} of those "
                f"in '{columns[1 - at]}'"
            )
        if not self.shared:
            reasons.append("no id is in both")
        elif self.loops[0]:
            reversed_too = f" and reversed edges ({self.reversed[0]:,})" if self.reversed[0] else ""
            reasons.append(f"self-loops ({self.loops[0]:,}){reversed_too} occur as often as by chance")
        return "; ".join(reasons)


def two_kinds_hint(
    db: Connection, table: Table, roles: Roles, arguments: TableArguments, node_table: Table | None, whole: bool
) -> str:
    """A line where ends may be two kinds of nodes, "" if they are one; raises where two are likely.

    The SQL tables ``edges`` (s, t) and, with a node table, ``row_ids`` (id) are loaded.
    """
    columns = roles.source, roles.target
    kinds = _kinds(*columns)
    if kinds is None or table.no_header:
        return ""
    evidence = _weigh(db, table.name, columns, None if node_table is None else roles.id, whole)
    strong = evidence.is_strong()
    if not (strong or evidence.is_weak()):
        return ""
    ends = f"'{columns[0]}' and '{columns[1]}'"
    two = f"two kinds of nodes: {evidence.reasons(columns, '' if node_table is None else node_table.name)}"
    files: dict[str, object] = {"edges": {(kinds[0], "NAME", kinds[1]): "FILE"}}
    if node_table is not None:
        files["nodes"] = {kinds[evidence.node_end]: "FILE"}
    ends_named = options(source=columns[0], target=columns[1])
    one = f"if they are one kind, add {ends_named}; if not, declare both: {options(**files)}"
    queries = is_query(arguments.edges) or is_query(arguments.nodes)
    if strong and not (queries or arguments.edge_type is not None or arguments.feature_matrix is not None):
        raise DataError(f"{table.name}: {ends} look like {two}; {one}")
    return f"{table.name}: {ends} may be {two}; {one}"


def _kinds(source: str, target: str) -> tuple[str, str] | None:
    """The kinds of nodes that two columns are called by; None if their names are alike, or say nothing."""
    stems = [_ID_ENDING.sub("", column.strip()) for column in (source, target)]
    if min(map(len, stems)) < _WORD_LETTERS:
        return None
    plain = [stem.casefold() for stem in stems]
    words = [{*re.findall(rf"[^\W_]{{{_WORD_LETTERS},}}", stem)} for stem in plain]
    alike = max(len(commonprefix(each)) for each in (plain, [stem[::-1] for stem in plain]))  # noqa: RUF071
    if words[0] & words[1] or alike >= max(_WORD_LETTERS, _ALIKE_SHARE * min(map(len, plain))):
        return None
    a, b = (_kind(column, stem) for column, stem in zip((source, target), stems, strict=True))
    return a, b


def _kind(column: str, stem: str) -> str:
    """A kind by whose name the column is found; of a name that no kind can have, what is left of it."""
    name = stem if column.strip().casefold() in of_kind(stem) else column.strip()
    return "".join("_" if sign in RESERVED_SIGNS or not sign.isprintable() else sign for sign in name)


def _weigh(db: Connection, title: str, columns: tuple[str, str], key: str | None, whole: bool) -> Evidence:
    run(db, f"CREATE TEMP TABLE pairs AS SELECT DISTINCT s, t FROM (SELECT s, t FROM edges LIMIT {_MOST_ROWS})", title)
    for end in "st":
        run(db, f"CREATE TEMP TABLE {end}_ids AS SELECT {end} AS id, count(*) AS n FROM pairs GROUP BY 1", title)
    ((edges, loops),) = run(db, "SELECT count(*), count(*) FILTER (s = t) FROM pairs", title)
    # With two nodes for each id, an edge from a to b is as likely as a has edges and b has, of all that there are.
    chance = f"coalesce(sum(least(1, a.n * b.n / {max(1, edges)})), 0)"
    ((shared, by_chance),) = run(db, f"SELECT count(*), {chance} FROM s_ids a JOIN t_ids b USING (id)", title)
    back, back_by_chance = 0, 0.0
    if shared:
        both_ways = "pairs p SEMI JOIN pairs q ON p.s = q.t AND p.t = q.s WHERE p.s <> p.t"
        ((back,),) = run(db, f"SELECT count(*) FROM {both_ways}", title)
        joined = "pairs JOIN s_ids a ON a.id = t JOIN t_ids b ON b.id = s WHERE s <> t"
        ((back_by_chance,),) = run(db, f"SELECT {chance} FROM {joined}", title)
    known = "0" if key is None else "SELECT count(*) FROM {}_ids SEMI JOIN row_ids USING (id)"
    counts = ", ".join(f"({each.format(end)})" for each in ("SELECT count(*) FROM {}_ids", known) for end in "st")
    ((sources, targets, known_sources, known_targets),) = run(db, f"SELECT {counts}", title)
    for name in ("pairs", "s_ids", "t_ids"):
        run(db, f"DROP TABLE {name}", title)
    plain = [each.strip().casefold() for each in (*columns, key or "")]
    return Evidence(
        edges=edges,
        whole=whole,
        named=next((end for end in range(2) if plain[end] == plain[2]), None),
        ids=(sources, targets),
        shared=shared,
        has_nodes=key is not None,
        known=(known_sources, known_targets),
        loops=(loops, float(by_chance)),
        reversed=(back, float(back_by_chance)),
    )
