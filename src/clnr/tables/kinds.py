"""Tables by the kinds of edges and of nodes that they have, as the user declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line, option

_RESERVED_SIGNS = frozenset(",:=.")
NODE_KIND, ORIGINAL_ID, NODE_NAME = "node_kind", "original_id", "node_name"
"""The columns that say of which kind a node is, which id it has in its table, and its name, where nodes have kinds."""


class NamedTable(NamedTuple):
    """A table of edges or of nodes.

    Attributes:
        table: A file or a data frame; or what was opened of it.
        kind: What its edges or nodes are called; None for a single table without a name.
        ends: Of edges: the kinds of nodes at their ends; None if nodes have no kinds.
    """

    table: Any
    kind: str | None = None
    ends: tuple[str, str] | None = None


def edges_by_kind(edges: Any) -> tuple[NamedTable, ...]:
    """The tables of edges: one, or several by the names of their kinds; or by source, relation and target, as in PyG."""
    tables = _by_kind(edges, "edges")
    if len({each.ends is None for each in tables}) > 1:
        plain = next(each.kind for each in tables if each.ends is None)
        raise DataError(f"edges '{plain}': the kinds of nodes that they join are not named; {_edge_naming()}")
    return tables


def nodes_by_kind(nodes: Any) -> tuple[NamedTable, ...]:
    """The tables of nodes: one, or several by the names of their kinds."""
    return _by_kind(nodes, "nodes")


def node_kinds(edges: Any, nodes: Any) -> tuple[str, ...]:
    """The kinds of nodes: those that have a table, then others that edges join; none if nodes have no kinds."""
    named = [each.kind for each in nodes_by_kind(nodes) if each.kind is not None]
    joined = sorted({kind for each in edges_by_kind(edges) for kind in each.ends or ()})
    return tuple(dict.fromkeys([*named, *joined]))


def check_kinds(edges: Any, nodes: Any, extends: bool) -> None:
    """Raise unless tables of edges and of nodes go together: where nodes have kinds, edges must say which they join."""
    tables, of_nodes = edges_by_kind(edges), nodes_by_kind(nodes)
    named = [each.kind for each in of_nodes if each.kind is not None]
    joined = dict.fromkeys(kind for each in tables for kind in each.ends or ())
    if named and (plain := [each for each in tables if each.ends is None]):
        which = "the table of edges" if plain[0].kind is None else f"edges '{plain[0].kind}'"
        kinds = ", ".join(named)
        raise DataError(f"nodes are of several kinds ({kinds}), so {which} must name those that it joins; {_edge_naming()}")
    if joined and of_nodes and not named:
        ways = " or ".join(option("nodes", {kind: "FILE"}) for kind in joined)
        raise DataError(f"edges name kinds of nodes ({', '.join(joined)}): name that of the node table, too: {ways}")
    bare, unused = [kind for kind in joined if kind not in named], [kind for kind in named if kind not in joined]
    if bare and unused and not extends:
        both = f"edges name the kind '{bare[0]}', which has no table, and none names '{unused[0]}', which has one"
        raise DataError(f"{both}; correct one of the names")


def _by_kind(given: Any, role: str) -> tuple[NamedTable, ...]:
    if not isinstance(given, Mapping):
        return () if given is None else (NamedTable(given),)
    tables: dict[str, NamedTable] = {}
    for key, table in given.items():
        if isinstance(table, list | tuple | Mapping):  # Such as a dictionary of columns.
            raise DataError(f"{role} must be a file or a data frame, not a {type(given).__name__}")
        if role == "edges" and isinstance(key, tuple):
            if len(key) != 3:
                raise DataError(f"edges '{one_line(','.join(map(str, key)))}': {_edge_naming()}")
            source, relation, target = (_checked(name, role) for name in key)
            named = NamedTable(table, f"{source},{relation},{target}", (source, target))
        else:
            named = NamedTable(table, _checked(key, role))
        if (plain := str(named.kind).casefold()) in tables:
            raise DataError(f"two tables of {role} are called '{named.kind}'; choose two names, or give both files as one glob")
        tables[plain] = named
    return tuple(tables.values())


def _edge_naming() -> str:
    form = option("edges", {("user", "bought", "item"): "FILE"})
    return f"edges are named by source, relation and target: {form}"


def _checked(name: Any, role: str) -> str:
    """The name of a kind, trimmed."""
    plain = name.strip() if isinstance(name, str) else ""
    if not plain or not plain.isprintable() or _RESERVED_SIGNS.intersection(plain):
        more = f"; {_edge_naming()}" if role == "edges" else ", such as user"
        raise DataError(
            f"a kind of {role} is a name without any of '{''.join(sorted(_RESERVED_SIGNS))}', not {name!r:.80}{more}"
        )
    return plain


def kind_of(node: str) -> str:
    """The kind of a node, by its id among those of all."""
    return node.partition(":")[0]


def node_id(kind: str, original_id: str) -> str:
    """The id of a node of some kind among those of all."""
    return f"{kind}:{original_id}"


def qualified_name(kind: str | None, column: str) -> str:
    """A column of the table of one kind of nodes, among those of all."""
    return column if kind is None else f"{kind}.{column}"


def plain_name(column: str) -> str:
    """The same column in its own table."""
    return column.partition(".")[2]
