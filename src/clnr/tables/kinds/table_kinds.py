"""Several tables of edges or of nodes, each by the name of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line
from clnr.tables.io.source import is_table

NODE_KIND, ORIGINAL_ID, NODE_NAME = "node_kind", "original_id", "node_name"
"""The columns that say of which kind a node is, which id it has in its table, and its name if kinds have several columns."""
_RESERVED_SIGNS = frozenset(",:=.")
_EDGE_NAMING = "edges are named by source, relation and target, as user,bought,item: --edges user,bought,item=FILE"


def qualified_name(kind: str, column: str) -> str:
    """A column of the table of one kind of nodes, among those of all."""
    return f"{kind}.{column}"


def plain_name(column: str) -> str:
    """The same column in its own table."""
    return column.partition(".")[2]


def node_id(kind: str, original_id: str) -> str:
    """The id of a node of some kind among those of all."""
    return f"{kind}:{original_id}"


def kind_of(node: str) -> str:
    """The kind of a node, by its id among those of all."""
    return node.partition(":")[0]


class Ends(NamedTuple):
    """The kinds of nodes at the two ends of edges."""

    source: str
    target: str


class NamedTable(NamedTuple):
    """A table of edges or of nodes.

    Attributes:
        table: A file or a data frame; or what was opened of it.
        kind: What its edges or nodes are called; None for a single table without a name.
        ends: Of edges: the kinds of nodes at their ends; None if nodes have no kinds.
    """

    table: Any
    kind: str | None = None
    ends: Ends | None = None


def edges_by_kind(edges: Any) -> tuple[NamedTable, ...]:
    """The tables of edges: one, or several by the names of their kinds; or by source, relation and target, as in PyG."""
    if not isinstance(edges, Mapping):
        return () if edges is None else (NamedTable(edges),)
    _check_values(edges, "edges")
    tables = tuple(_edges_of(key, table) for key, table in edges.items())
    if len({each.ends is None for each in tables}) > 1:
        plain = next(each.kind for each in tables if each.ends is None)
        raise DataError(f"edges '{plain}': it is not said which kinds of nodes they join, as it is for others; {_EDGE_NAMING}")
    _check_distinct([each.kind for each in tables], "edges")
    return tables


def _edges_of(key: Any, table: Any) -> NamedTable:
    if isinstance(key, tuple):
        if len(key) != 3:
            raise DataError(f"edges '{one_line(','.join(map(str, key)))}': {_EDGE_NAMING}")
        source, relation, target = (_checked(name, "edges") for name in key)
        return NamedTable(table, f"{source},{relation},{target}", Ends(source, target))
    return NamedTable(table, _checked(key, "edges"))


def nodes_by_kind(nodes: Any) -> tuple[NamedTable, ...]:
    """The tables of nodes: one, or several by the names of their kinds."""
    if not isinstance(nodes, Mapping):
        return () if nodes is None else (NamedTable(nodes),)
    _check_values(nodes, "nodes")
    tables = tuple(NamedTable(table, _checked(kind, "nodes")) for kind, table in nodes.items())
    _check_distinct([each.kind for each in tables], "nodes")
    return tables


def check_node_kinds(
    edges: Sequence[NamedTable], nodes: Sequence[NamedTable], earlier: Sequence[str] | None, extends: bool
) -> None:
    """Raise unless tables of edges and nodes go together, and with the kinds of nodes of an earlier graph, if there is one.

    Where nodes have kinds, edges must say which they join; and where one kind has a table, all that are joined must, unless
    they extend the earlier graph.
    """
    named = [each.kind for each in nodes if each.kind is not None]
    joined = dict.fromkeys(kind for each in edges if each.ends is not None for kind in each.ends)
    if earlier is not None and bool(earlier) != bool(named or joined):
        known = ", ".join(earlier)
        raise DataError(
            f"the earlier graph has nodes of several kinds ({known}), so new tables must say of which theirs are: "
            f"--nodes {earlier[0]}=FILE; {_EDGE_NAMING}"
            if earlier
            else "the earlier graph has nodes of one kind: give --nodes FILE and --edges FILE without names of kinds of nodes"
        )
    if earlier and (new := [kind for kind in (*named, *joined) if kind not in earlier]):
        raise DataError(f"the earlier graph has no nodes of the kind '{new[0]}', only {', '.join(earlier)}")
    if named and (plain := [each for each in edges if each.ends is None]):
        which = "the table of edges" if plain[0].kind is None else f"edges '{plain[0].kind}'"
        raise DataError(f"nodes are of several kinds ({', '.join(named)}), and {which} must say which it joins; {_EDGE_NAMING}")
    if joined and nodes and not named:
        ways = " ".join(f"--nodes {kind}=FILE" for kind in joined)
        raise DataError(f"edges join nodes of the kinds {', '.join(joined)}: give a table for each: {ways}")
    if named and not extends and (lacking := [kind for kind in joined if kind not in named]):
        raise DataError(
            f"edges join nodes of the kind '{lacking[0]}', and there are only {', '.join(named)}; correct the name, or give "
            f"their table: --nodes {lacking[0]}=FILE (a column of ids is enough)"
        )


def _check_values(tables: Mapping[Any, Any], role: str) -> None:
    """Raise if a dictionary has no table in it, such as one of columns."""
    if not any(map(is_table, tables.values())):
        raise DataError(f"{role} must be a file or a data frame, not a {type(tables).__name__}")


def _checked(name: Any, role: str) -> str:
    """The name of a kind, trimmed."""
    plain = name.strip() if isinstance(name, str) else ""
    if not plain or not plain.isprintable() or _RESERVED_SIGNS.intersection(plain):
        more = f", or (source, relation, target); {_EDGE_NAMING}" if role == "edges" else ", such as user"
        raise DataError(
            f"a kind of {role} is a name without any of '{''.join(sorted(_RESERVED_SIGNS))}'{more}, not {name!r:.80}"
        )
    return plain


def _check_distinct(kinds: list[str | None], role: str) -> None:
    seen: set[str] = set()
    for kind in map(str, kinds):
        if kind.casefold() in seen:
            raise DataError(f"two tables of {role} are called '{kind}'; choose two names, or give both files as one glob")
        seen.add(kind.casefold())
