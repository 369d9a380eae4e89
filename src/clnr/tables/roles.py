"""Which column of a table holds what: declared by the user, by its kind, or by a common name; never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from clnr.errors import DataError, did_you_mean, one_line, option
from clnr.graph.table_info import title_of
from clnr.tables.io.open import Table
from clnr.tables.io.sql import Connection, as_text, plain_id, run
from clnr.tables.io.text_files import ID_NAME
from clnr.tables.kinds import NamedTable, qualified_name
from clnr.tables.table_arguments import TableArguments

ENDS = (
    *(("source", "target"), ("from", "to"), ("src", "dst"), ("src", "dest"), ("source", "destination")),
    *(("sourceid", "targetid"), ("fromid", "toid"), ("srcid", "dstid"), ("fromnode", "tonode"), ("fromnodeid", "tonodeid")),
    *(("node1", "node2"), ("nodea", "nodeb"), ("id1", "id2"), ("u", "v"), ("head", "tail"), ("subject", "object")),
    *(("sender", "receiver"), ("sender", "recipient"), ("senderid", "receiverid"), ("senderid", "recipientid")),
    *(("follower", "followee"), ("caller", "callee"), ("citing", "cited")),
)
"""Common names of the two ends of edges, in lower case and without signs."""
WEIGHTS = ("weight", "edgeweight")
IDS = ("id", "node", "nodeid", "key")
NAMES = ("name", "title", "label")
"""The names of columns that may have the names of nodes, if nearly all of these differ."""
# The arguments that name one column, which may have a comma in its name.
_SINGLE = ("until_column", "label", "names")
_OTHERS = (*WEIGHTS, *IDS, *NAMES, "class")
_TIMETABLE = ("tripid", "stopsequence", "stopid")
_YEARS, _COUNTED_ROWS = (1500, 2100), 10
_SEEN_ROWS, _SHOWN_VALUES, _VALUE_LETTERS, _ALL_LETTERS = 50, 3, (5, 24), 600


class EdgeRoles(NamedTuple):
    """The columns of a table of edges.

    Attributes:
        others: What holds facts of its rows.
        ignored: What is left out.
        declared: Whether the user has named the ends, or their kinds.
        by_place: Whether they are ends because there are no other columns.
    """

    source: str
    target: str
    weight: str | None
    until: str | None
    others: tuple[str, ...]
    ignored: tuple[str, ...]
    declared: bool
    by_place: bool


class NodeRoles(NamedTuple):
    """The columns of a table of nodes: ``free`` ones may be features or a name; ``ends`` are of edges in the same table."""

    id: str
    label: str | None
    names: str | None
    free: tuple[str, ...]
    ignored: tuple[str, ...]
    ends: tuple[str, ...]


def plain(name: str) -> str:
    """A name of a column in lower case, without signs: that of ``userId`` and ``User_ID`` is the same."""
    return re.sub(r"[\W_]+", "", name.casefold())


def known_names(arguments: TableArguments, named: NamedTable) -> set[str]:
    """Names of columns in lower case by which the first line of a text file is known for a header."""
    ends = {name for pair in ENDS for name in pair}
    kinds = {form for kind in (*(named.ends or ()), named.kind or "") for form in names_of_kind(kind) if kind}
    said = ("source", "target", "weight", "id", "features", "ignore", "until_column", "label", "names", "types")
    columns = {name.rpartition(".")[2] for argument in said for name in arguments.names_of(argument)}
    columns |= {name for argument in said for name in arguments.names_of(argument)}
    return {*ends, *kinds, *_OTHERS, *(each.casefold() for each in columns)} - {"u", "v"}


def names_of_kind(kind: str) -> tuple[str, ...]:
    """What the column of ids of a kind may be called, in lower case and without signs."""
    return plain(kind), f"{plain(kind)}id"


# -- columns by name ----------------------------------------------------------------------------------------------------


def column_called(name: str | None, table: Table, kind: str | None = None) -> str | None:
    """The column of a table that a name means, in any case, also with the name of its kind; None if there is none."""
    if name is None:
        return None
    columns = {qualified_name(kind, column).casefold(): column for column in table.columns} if kind else {}
    return (columns | {column.casefold(): column for column in table.columns}).get(name.strip().casefold())


def columns_called(names: Iterable[str], table: Table, kind: str | None = None) -> tuple[str, ...]:
    """The columns that a table has of some names, several of which may be given in one, with commas."""
    found = list[str | None]()
    for name in names:
        whole = column_called(name, table, kind)
        found += [whole] if whole else [column_called(part, table, kind) for part in name.split(",")]
    return tuple(dict.fromkeys(filter(None, found)))


def check_named(arguments: TableArguments, edges: Sequence[NamedTable], nodes: Sequence[NamedTable]) -> None:
    """Raise if a column is named that no table has where it could be."""
    of_edges: list[tuple[Table, str | None]] = [(each.table, None) for each in edges]
    of_nodes: list[tuple[Table, str | None]] = [(each.table, each.kind) for each in nodes]
    places = {**dict.fromkeys(("source", "target", "weight", "until_column"), of_edges)}
    places |= {**dict.fromkeys(("id", "label", "names", "features", "types"), of_nodes), "ignore": [*of_edges, *of_nodes]}
    for argument, tables in places.items():
        role = option(argument.removesuffix("_column"))
        for name in arguments.names_of(argument):
            whole = argument in _SINGLE or any(column_called(name, table, kind) for table, kind in tables)
            for part in [name] if whole else name.split(","):
                if any(column_called(part, table, kind) for table, kind in tables):
                    continue
                if not tables:
                    raise DataError(f"column '{one_line(part, 80)}' for {role} needs a node table: {option('nodes')}")
                known = list(dict.fromkeys(column for table, _ in tables for column in table.columns))
                titles = ", ".join(table.name for table, _ in tables)
                what = f"there is no column '{one_line(part, 80)}' for {role}"
                raise DataError(f"{titles}: {what}; {did_you_mean(part, known)}there are {', '.join(known)}")


def _one(argument: str, arguments: TableArguments, table: Table, kind: str | None = None) -> str | None:
    """The column of a table that an argument names; None if it has none of those named."""
    found = columns_called(arguments.names_of(argument), table, kind)
    if len(found) > 1:
        raise DataError(f"{table.name}: it has both '{found[0]}' and '{found[1]}', and a table has one {option(argument)}")
    return found[0] if found else None


def _as_before(arguments: TableArguments, table: Table, title: str) -> dict[str, str]:
    """The columns that have roles in the graph that is extended, by these roles."""
    known = () if arguments.base is None else arguments.base.info.columns
    return {each.role: column for each in known if each.table == title and (column := column_called(each.column, table))}


# -- edges ----------------------------------------------------------------------------------------------------------------


def edge_roles(named: NamedTable, arguments: TableArguments) -> EdgeRoles | None:
    """The roles of the columns of a table of edges; None if nothing tells which have its ends."""
    table, before = named.table, _as_before(arguments, named.table, title_of("edges", named.kind))
    ignored = columns_called(arguments.names_of("ignore"), table)
    source, target = (_one(end, arguments, table) for end in ("source", "target"))
    until = column_called(arguments.until_column, table)
    if arguments.until is not None and until is None:
        missing = one_line(str(arguments.until_column), 80)
        raise DataError(
            f"{table.name}: there is no column '{missing}' for {option('until')}, which holds for all tables of edges"
        )
    taken = {until, *ignored}
    by_name = {plain(column): column for column in reversed(table.columns) if column not in taken}
    weight = _one("weight", arguments, table) or before.get("weight")
    weight = weight or next(
        (by_name[name] for name in WEIGHTS if name in by_name and by_name[name] not in (source, target)), None
    )
    free = [column for column in table.columns if column not in {*taken, weight}]
    declared, by_place = source is not None and target is not None, False
    if not declared:
        a, b = _ends_of_kinds(named, by_name) or (None, None)
        declared = a is not None
        if a is None:
            a, b = before.get("source"), before.get("target")
        if a is None or b is None:
            pairs = ((by_name.get(x), by_name.get(y)) for x, y in ENDS)
            a, b = next(((x, y) for x, y in pairs if x is not None and y is not None), (None, None))
        if (a is None or b is None) and len(free) == 2:
            (a, b), by_place = free, source is None and target is None
        if source is not None or target is not None:
            other = next((column for column in (a, b, *free) if column is not None and column not in (source, target)), None)
            a, b = (source, b if b != source else other) if source else (a if a != target else other, target)
        source, target = a, b
    if source is None or target is None:
        return None
    for (role, column), (other, same) in combinations({"source": source, "target": target, "weight": weight}.items(), 2):
        if column == same:
            raise DataError(f"{table.name}: column '{column}' cannot be both {role} and {other}")
    used = {source, target, weight, *taken}
    others = tuple(column for column in table.columns if column not in used)
    return EdgeRoles(source, target, weight, until, others, ignored, declared, by_place)


def _ends_of_kinds(named: NamedTable, by_name: dict[str, str]) -> tuple[str, str] | None:
    """The columns that are called as the kinds of nodes that they have."""
    if named.ends is None or named.ends[0] == named.ends[1]:
        return None
    found = [next((by_name[name] for name in names_of_kind(kind) if name in by_name), None) for kind in named.ends]
    return (found[0], found[1]) if found[0] is not None and found[1] is not None else None


def node_roles(
    named: NamedTable, arguments: TableArguments, ends: Sequence[str], is_of_edges: bool, db: Connection
) -> NodeRoles:
    """The roles of the columns of a table of nodes; ``ends`` are the columns of edges that have its ids, maybe its own."""
    table, kind = named.table, named.kind
    before = _as_before(arguments, table, title_of("nodes", kind))
    ignored = columns_called(arguments.names_of("ignore"), table, kind)
    label = column_called(arguments.label, table, kind) or before.get("label")
    names = column_called(arguments.names, table, kind) or before.get("name")
    taken = {label, *ignored}
    by_name = {plain(column): column for column in reversed(table.columns) if column not in taken}
    usual = (*(names_of_kind(kind) if kind else ()), *IDS, *map(plain, ends))
    key = _one("id", arguments, table, kind) or before.get("id")
    key = key or next((by_name[name] for name in usual if name in by_name), None)
    if key is None:
        first = next((column for column in table.columns if column not in taken), None)
        key = first if first is not None and _are_distinct(db, table, first) else None
    if key is None:
        raise DataError(f"{table.name}: no column tells the ids of nodes; name it: {option('id')}; {shown(db, table)}")
    if key == label:
        raise DataError(f"{table.name}: column '{key}' cannot be both id and label")
    own = tuple(end for end in dict.fromkeys(ends) if is_of_edges and end not in {*taken, key})
    free = tuple(column for column in table.columns if column not in {*taken, key, *own})
    return NodeRoles(key, label, names, free, ignored, own)


def _are_distinct(db: Connection, table: Table, column: str) -> bool:
    value = plain_id(table.columns[column].sql)
    return bool(
        run(db, f"SELECT count({value}) = count(*) AND count(DISTINCT {value}) = count(*) FROM {table.sql}", table.name)[0][0]
    )


# -- ends that nobody declares ---------------------------------------------------------------------------------------------


def no_ends(db: Connection, edges: Table, nodes: Sequence[tuple[NamedTable, NodeRoles]]) -> DataError:
    """The error for a table whose columns of ends nothing tells."""
    by_name = {plain(column): column for column in edges.columns}
    if all(name in by_name for name in _TIMETABLE):
        trip, sequence, stop = (f'"{by_name[name]}"' for name in _TIMETABLE)
        query = (
            f"SELECT {stop} AS source, lead({stop}) OVER (PARTITION BY {trip} ORDER BY CAST({sequence} AS INTEGER)) AS target"
        )
        what = f"it is a timetable, and nothing in it is an edge; two stops in a row are one: {query} FROM '{edges.name}'"
        return DataError(f"{edges.name}: no column tells its ends: {what} ({option('edges')}; column {by_name['stopid']})")
    for named, roles in nodes:
        if (column := by_name.get(plain(roles.id))) is not None and named.table.name != edges.name:
            return two_kinds(edges, column, None, named.table, roles)
    what = "no column tells the ends of its edges; name them"
    return DataError(f"{edges.name}: {what}: {option('source')}, {option('target')}; {shown(db, edges, nodes)}")


def two_kinds(edges: Table, known: str, other: str | None, nodes: Table, roles: NodeRoles) -> DataError:
    """The error for edges one of whose ends is called as the id of the table of nodes, and the other not."""
    kind = re.sub(r"(?i)[\W_]*id$", "", known).casefold() or "node"
    unknown = "KIND" if other is None else re.sub(r"(?i)[\W_]*id$", "", other).casefold() or "KIND"
    rest = "" if other is None else f", '{other}' is not"
    forms = f"{option('edges', {(unknown, 'RELATION', kind): 'FILE'})} {option('nodes', {kind: 'FILE'})}"
    found = f"its ends are two kinds of nodes ('{known}' is the id of {nodes.name}{rest})"
    return DataError(f"{edges.name}: {found}; declare the kinds: {forms}")


def check_one_kind(edges: Table, roles: EdgeRoles, nodes: Table, of_nodes: NodeRoles) -> None:
    """Raise if undeclared ends are two kinds by their names: one is called as the id of nodes, or both as other kinds' ids."""
    if roles.declared or edges.name == nodes.name or not edges.has_header:
        return
    ends = roles.source, roles.target
    known = [end for end in ends if plain(end) == plain(of_nodes.id)]
    if len(known) == 1:
        (other,) = (end for end in ends if end not in known)
        raise two_kinds(edges, known[0], other, nodes, of_nodes)
    is_usual = any((plain(ends[0]), plain(ends[1])) == pair for pair in ENDS)
    if not known and not is_usual and all(ID_NAME.search(end) and len(plain(end)) > 2 for end in ends):
        a, b = (re.sub(r"(?i)[\W_]*id$", "", end).casefold() for end in ends)
        forms = f"{option('edges', {(a, 'RELATION', b): 'FILE'})} {option('nodes', {'KIND': 'FILE'})}"
        found = f"its ends, '{ends[0]}' and '{ends[1]}', are called as ids of two kinds of nodes, and that of {nodes.name} is "
        found += f"'{of_nodes.id}'"
        one = f"if they are one kind, name the ends: {option('source')}, {option('target')}"
        raise DataError(f"{edges.name}: {found}; declare the kinds: {forms}; {one}")


def check_no_counters(db: Connection, edges: Table, roles: EdgeRoles) -> None:
    """Raise if what is an end for want of other columns counts the rows, or has years, of which the other end has none."""
    for end, other in ((roles.source, roles.target), (roles.target, roles.source)) if roles.by_place else ():
        a, b = (f"TRY_CAST({as_text(edges.columns[column].sql)} AS DOUBLE)" for column in (end, other))
        rows = f"(SELECT {a} AS a, {b} AS b, row_number() OVER () AS row FROM {edges.sql})"
        apart = "NOT bool_or(a IN (SELECT b FROM both_ends WHERE b IS NOT NULL))"
        years = f"bool_and(a = floor(a) AND a BETWEEN {_YEARS[0]} AND {_YEARS[1]})"
        counts = f"count(*) >= {_COUNTED_ROWS} AND count(a) = count(*) AND min(a - row) = max(a - row)"
        sql = f"WITH both_ends AS {rows} SELECT {apart}, coalesce({years}, false), coalesce({counts}, false) FROM both_ends"
        ((is_apart, has_years, is_counter),) = run(db, sql, edges.name)
        if is_apart and (has_years or is_counter):
            role = "source" if end == roles.source else "target"
            what = f"'{end}', taken as the {role}, {'has years' if has_years else 'counts the rows'}; name the ends"
            raise DataError(f"{edges.name}: {what}: {option('source')}, {option('target')}; {shown(db, edges)}")


def shown(db: Connection, table: Table, nodes: Sequence[tuple[NamedTable, NodeRoles]] = ()) -> str:
    """The columns of a table, three values of each, and how many of its values are ids of nodes."""
    selected = ", ".join(f"left({as_text(c)}, 100)" for c, _ in table.columns.values())
    rows = run(db, f"SELECT {selected} FROM {table.sql} LIMIT {_SEEN_ROWS}", table.name)
    letters = sorted((_VALUE_LETTERS[0], _ALL_LETTERS // (_SHOWN_VALUES * len(table.columns)), _VALUE_LETTERS[1]))[1]
    words = []
    for place, column in enumerate(table.columns):
        some = [value for value in dict.fromkeys(row[place] for row in rows) if value is not None][:_SHOWN_VALUES]
        cut = [each if len(each) <= letters else f"{each[:letters]}..." for each in some]
        words.append(f"{column} ({', '.join(cut)}{_share_of_ids(db, table, column, nodes)})")
    return f"its columns: {one_line('; '.join(words), 2 * _ALL_LETTERS)}"


def _share_of_ids(db: Connection, table: Table, column: str, nodes: Sequence[tuple[NamedTable, NodeRoles]]) -> str:
    if not nodes or not table.columns[column].is_single:
        return ""
    named, roles = nodes[0]
    ids = f"(SELECT {plain_id(named.table.columns[roles.id].sql)} AS id FROM {named.table.sql})"
    values = f"(SELECT DISTINCT {plain_id(table.columns[column].sql)} AS id FROM (SELECT * FROM {table.sql} LIMIT 10000))"
    sql = f"SELECT avg(CASE WHEN id IN (SELECT id FROM {ids}) THEN 1 ELSE 0 END) FROM {values} WHERE id IS NOT NULL"
    ((share,),) = run(db, sql, table.name)
    return f"; {share or 0:.0%} ids" if share else ""
