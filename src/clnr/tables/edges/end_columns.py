"""Which columns are the ends of edges if no name decides: the first two, unless their values show otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations, islice

from clnr.errors import DataError, one_line, option, options
from clnr.support.humanize import plural
from clnr.tables.columns.node_columns import id_sql, ids_in, is_distinct, stacked_ids
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, quoted, run
from clnr.tables.roles.column_names import SOURCES, TARGETS
from clnr.tables.roles.parent_columns import about_parents, parent_columns
from clnr.tables.roles.roles import Roles

# Smaller tables hardly tell.
_LEAST_ROWS = 10
# Rows whose values are compared, and the most columns, of edges and of nodes.
_FIRST_ROWS, _MOST_COLUMNS, _MOST_NODE_COLUMNS = 10_000, 12, 5
# A table of children and parents with at most as many columns beside the children has edges; with more, nodes.
_FEW_COLUMNS = 2
# Of an end, the node table has nearly all ids; of an id of edges, at most half. Of two ends, the larger shares half of its ids
# with the other; fewer values are categories.
_NEARLY_ALL, _HALF, _LEAST_VALUES, _FEW_PAIRS = 0.95, 0.5, 5, 0.01
_NO_IDS = "no ids"
_DAY = r"(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](\d{4}|\d{2}))([ T].*)?"
_NUMBER_OR_DAY = rf"[-+]?\d*([.,]\d+)?([eE][-+]?\d+)?|{_DAY}|\d{{1,2}}:\d\d(:\d\d)?( ?[aApP][mM])?"
# Signs between the ids of a list; and the share of rows with lists that no longer are single mistakes.
_SEPARATORS, _MANY_LISTS = (";", "|", ","), 0.1
# Names of columns that differ by these words alone: patient_from and patient_to.
_DIRECTIONS = {
    "from": ("to",),
    "von": ("nach",),
    "start": ("end",),
    "source": ("target", "destination", "dest"),
    "src": ("dst", "dest"),
    "origin": ("destination", "dest"),
}


def find_ends(db: Connection, table: Table, roles: Roles, nodes: Table | None, key: str, has_nodes: bool) -> tuple[Roles, str]:
    """The roles of a table whose first two columns were taken for the ends of edges, and a note if two others are.

    Two others are taken if they hold ids of the node table, whose id column may be ``key``, and the first column is distinct in
    every row; or if their names differ by words for a start and an end. Raises, with what to run, on a table of nodes, on one
    with a column of parents, on two others that only share values, and on columns of few values.
    """
    a, b = roles.source, roles.target
    has_ids = all(is_distinct(db, table, a, rows, _LEAST_ROWS) for rows in (table.first_rows, table.sql))
    is_alone, others = nodes is None or nodes.name == table.name, [name for name in table.columns if name != a]
    parents = parent_columns(db, table, a, others) if has_ids and is_alone else []
    if parents and (parents != [b] or len(others) > _FEW_COLUMNS):
        raise DataError(about_parents(table, parents))
    other = _other_ends(db, table, roles, nodes, key) if has_ids else None
    if other and not other[2]:
        return _told(table, roles, *other[:2], f"both hold ids of the nodes, and '{a}' is distinct in every row")
    if called := _called_ends(db, table, roles):
        return _told(table, roles, *called, "their names differ by words for a start and an end")
    if other:
        x, y, share = other
        why = f"{share}, and '{a}' is distinct in every row"
        raise DataError(f"{table.name}: '{x}' and '{y}' may be the ends of edges: {why}; say which columns are: {_ends()}")
    forms, doubt = _forms(db, table.name, stacked_ids(table, (a, b), _FIRST_ROWS)), roles.doubt
    if _NO_IDS in forms.values() and not (table.is_text and has_nodes):
        doubt = doubt or f"'{a if forms[0] == _NO_IDS else b}' holds fractions or dates, not ids"
    elif len(set(forms.values())) > 1 and not table.is_text:
        doubt = doubt or f"'{a}' holds {forms[0]} and '{b}' holds {forms[1]}, but both ends need ids of one type"
    ids = ", ".join(f"count(DISTINCT {id_sql(table, end)})" for end in (a, b))
    both = f"({id_sql(table, a)}, {id_sql(table, b)})"
    ((rows, pairs, *values),) = run(db, f"SELECT count(*), count(DISTINCT {both}), {ids} FROM {table.first_rows}", table.name)
    is_star = min(values) == 1 and rows >= _LEAST_ROWS
    if not doubt and (is_star or (pairs < _FEW_PAIRS * rows and min(values) < _LEAST_VALUES)):
        few = "one of them has a single value" if is_star else f"the first {rows:,} rows have {plural(pairs, 'pair')} of values"
        cure = f"name the columns of the ends: {_ends()}; if its rows are nodes, give it as {option('nodes')}"
        raise DataError(f"{table.name}: '{a}' and '{b}', its first columns, are hardly the ends of edges: {few}; {cure}")
    if doubt:
        cure = f"give it as {option('nodes')}, or name the two columns of edges: {_ends()}"
        raise DataError(f"{table.name}: it looks like a table of nodes: {doubt}; {cure}")
    both = f"SELECT 1 FROM {ids_in(table, a)} SEMI JOIN {ids_in(table, b)} USING (id) LIMIT 1"
    if has_ids and not has_nodes and not run(db, both, table.name):
        raise DataError(
            f"{table.name}: it may be a table of nodes: '{a}' differs in every row, and '{b}' has none of its values; "
            f"if so, give it as {option('nodes')}; if its rows are edges, add {options(source=a, target=b)}"
        )
    return roles, ""


def known_ends(db: Connection, table: Table, roles: Roles, nodes: Table, key: str) -> tuple[Roles, str]:
    """Like ``find_ends``, for a table in which only one end was found by name; the node table decides about the other."""
    by_place = [end for end, usual in ((roles.source, SOURCES), (roles.target, TARGETS)) if end.strip().casefold() not in usual]
    if len(by_place) == 1 and is_distinct(db, table, by_place[0], table.first_rows, _LEAST_ROWS):
        other = _other_ends(db, table, roles._replace(source=by_place[0]), nodes, key)
        if other and not other[2] and is_distinct(db, table, by_place[0], table.sql, _LEAST_ROWS):
            return _told(table, roles, *other[:2], f"both hold ids of the nodes, and '{by_place[0]}' is distinct in every row")
    return roles, ""


def lists_hint(db: Connection, table: Table, roles: Roles, nodes: Iterable[tuple[Table, str]]) -> str:
    """A line about an end that holds several ids in a row; "" if none does.

    Text is a list if over half of its parts are ids by themselves, of an end or of a table of nodes, given with its id column.
    Raises if many rows have lists whose parts are nodes, and on lists that are no text.
    """
    ends, title = (roles.source, roles.target), table.name
    for end in ends:
        if table.columns[end].kind.endswith("]"):
            raise DataError(f"{title}: '{end}' has a list of ids in each row, but an edge needs one; give each a row")
    rows, around = stacked_ids(table, ends, _FIRST_ROWS), "'[] ' || chr(34) || chr(39)"
    run(db, f"CREATE OR REPLACE TEMP TABLE end_ids AS SELECT DISTINCT id, place FROM ({rows})", title)
    part = f"trim(unnest(string_split(id, sign)), if(starts_with(id, '['), {around}, ' ')) AS part"
    lists = f"end_ids, (SELECT unnest({list(_SEPARATORS)}) AS sign) WHERE contains(id, sign)"
    run(db, f"CREATE OR REPLACE TEMP TABLE end_parts AS SELECT place, id, sign, {part} FROM {lists}", title)
    if not run(db, "SELECT 1 FROM end_parts WHERE part <> '' LIMIT 1", title):
        return ""
    of_nodes = (f"SELECT id, 1 FROM {ids_in(of, key)}" for of, key in nodes)
    known = " UNION ALL ".join(["SELECT id, 0 AS in_nodes FROM end_ids", *of_nodes])
    shares = "avg(if(p.id IS NULL, 0, 1)) AS share, avg(coalesce(p.in_nodes, 0)), avg(w.in_nodes), min(e.id)"
    joined = "end_parts e LEFT JOIN known p ON part = p.id JOIN known w ON e.id = w.id WHERE part <> '' GROUP BY place, sign"
    of_all = f"known AS (SELECT id, max(in_nodes) AS in_nodes FROM ({known}) GROUP BY id)"
    found = f"WITH {of_all} SELECT place, sign, {shares} FROM {joined} ORDER BY share DESC, count(*) DESC LIMIT 1"
    ((place, sign, share, in_nodes, whole, example),) = run(db, found, title)
    if share <= _HALF or whole >= _HALF:
        return ""
    counts = f"count(*) FILTER (contains(id, {quoted(sign)})), count(*)"
    ((count, total),) = run(db, f"SELECT {counts} FROM {ids_in(table, ends[place])}", title)
    such = f"separated by '{sign}', such as '{one_line(example, 80)}'"
    line = f"{title}: {count:,} of {total:,} values of '{ends[place]}' hold several ids, {such}"
    line += "; give each a row"
    if in_nodes >= _HALF and count > _MANY_LISTS * total:
        raise DataError(line)
    return line


def _ends() -> str:
    return f"{option('source')}, {option('target')}"


def _told(table: Table, roles: Roles, source: str, target: str, why: str) -> tuple[Roles, str]:
    note = f"ends of edges are read from '{source}' and '{target}': {why}; others: {_ends()}"
    return roles._replace(source=source, target=target), f"{table.name}: {note}"


def _other_ends(db: Connection, table: Table, roles: Roles, nodes: Table | None, key: str) -> tuple[str, str, str] | None:
    """Two other columns that may have the ends, and which values they share; "" if the node table has their ids.

    Whole numbers may meet by chance, so that they must share many, or be called as ends are.
    """
    taken, title = (roles.source, roles.weight, roles.edge_type, roles.edge_time, *roles.ignored), table.name
    columns = [roles.source, *(name for name in table.columns if name not in taken)][: _MOST_COLUMNS + 1]
    rows = stacked_ids(table, columns, _FIRST_ROWS)
    run(db, f"CREATE OR REPLACE TEMP TABLE end_ids AS SELECT DISTINCT id, place FROM ({rows}) WHERE id IS NOT NULL", title)
    joined = "end_ids a JOIN end_ids b ON a.id = b.id AND a.place <= b.place GROUP BY ALL"
    shared = {(a, b): count for a, b, count in run(db, f"SELECT a.place, b.place, count(*) FROM {joined}", title)}
    words = {at: form == "words" for at, form in _forms(db, title, "FROM end_ids").items() if at and form != _NO_IDS}
    known: dict[int, int] = {}
    if nodes is not None:
        for column in dict.fromkeys((key, *islice(nodes.columns, _MOST_NODE_COLUMNS))):
            there = f"end_ids SEMI JOIN {ids_in(nodes, column)} USING (id)"
            found = dict(run(db, f"SELECT place, count(*) FROM {there} GROUP BY place", title))
            known = max(known, found, key=lambda each: sum(each.values()))
    named = {pair: _are_called_ends(*(columns[place] for place in pair)) for pair in combinations(sorted(words), 2)}
    for x, y in sorted(named, key=lambda pair: not named[pair]):
        larger, both = max(shared[x, x], shared[y, y]), shared.get((x, y), 0)
        alike = both > 0 if named[x, y] else larger >= _LEAST_VALUES and both >= _HALF * larger
        is_known = all(known.get(end, 0) >= _NEARLY_ALL * shared[end, end] for end in (x, y))
        is_known = is_known and (alike or (words[x] and words[y]))
        if known.get(0, 0) > _HALF * shared[0, 0] and not (is_known and named[x, y]):
            continue
        apart = words[x] and words[y] and (0, x) not in shared and (0, y) not in shared
        both_ids = all(columns[end].strip().casefold().endswith("id") for end in (0, x, y))
        if is_known or (alike and (apart or named[x, y] or both_ids)):
            return columns[x], columns[y], "" if is_known else f"they share {both:,} of {larger:,} values"
    return None


def _called_ends(db: Connection, table: Table, roles: Roles) -> tuple[str, str] | None:
    """Two other columns of words whose names differ by words for a start and an end alone, such as those of addresses."""
    others = [name for name in table.columns if name not in (roles.weight, roles.edge_type, roles.edge_time, *roles.ignored)]
    pairs = [pair for pair in combinations(others[:_MOST_COLUMNS], 2) if _are_called_ends(*pair)]
    for pair in pairs:
        if pair == (roles.source, roles.target):
            return None
        forms = _forms(db, table.name, stacked_ids(table, pair, _FIRST_ROWS))
        if list(forms.values()) == ["words", "words"]:
            return pair
    return None


def _are_called_ends(source: str, target: str) -> bool:
    """Whether the names of two columns differ by words for a start and an end alone."""
    names = (re.sub("(?<=[a-z])(?=[A-Z])", " ", each).casefold() for each in (source, target))
    a, b = (set(re.findall(r"[^\W_]+", name)) for name in names)
    return len(a - b) == len(b - a) == 1 and not (b - a).isdisjoint(_DIRECTIONS.get(next(iter(a - b)), ()))


def _forms(db: Connection, title: str, rows: str) -> dict[int, str]:
    """What the ids of columns are, by their places: words, numbers, or none: numbers with fractions, and days."""
    numbers = f"bool_and(regexp_full_match(id, '-?[0-9]+(\\.0*)?')) THEN 'numbers' ELSE '{_NO_IDS}'"
    form = f"CASE WHEN bool_or(NOT regexp_full_match(id, {quoted(_NUMBER_OR_DAY)})) THEN 'words' WHEN {numbers} END"
    return dict(run(db, f"SELECT place, {form} FROM ({rows}) WHERE id IS NOT NULL GROUP BY place", title))
