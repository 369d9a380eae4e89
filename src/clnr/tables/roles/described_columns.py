"""How each column of a table was read, in a line each, and whether its values look as if they were meant otherwise."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from clnr.errors import one_line, option
from clnr.support.humanize import plural
from clnr.tables.columns.column_encoders import COLUMN_TYPES, ColumnEncoder, empty_sql
from clnr.tables.columns.column_queries import ColumnQueries, ColumnQuery, run_column_queries
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.node_columns import case_twins
from clnr.tables.columns.notations import DECIMAL_COMMA, NOTATIONS, notation_words, query_notation
from clnr.tables.columns.units import query_units
from clnr.tables.ingest_report import MUCH_SHARE, NOT_USED, ColumnInfo
from clnr.tables.io.source import Column, Table
from clnr.tables.io.sql import DATETIMES, NUMBERS, Connection, is_code, looks_like_datetime, quoted, run, stated, trimmed
from clnr.tables.roles.roles import Roles, table_title

# Dates and numbers that are not read as such.
_UNREAD = {
    "dates": (r"\d{1,2}[./-]\d{1,2}[./-](\d{2}|\d{4})([ T].*)?|\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T].*)?", "2020-12-31"),
    "numbers": (r"[$€£]? ?[-+]?(\d+|\d{1,3}([., ]\d{3})+)([.,]\d+)? ?[%$€£]?", "1234.5"),
}
# For each type of column: what its values should be, how they are usually written, and what happens to values that do not fit.
_READ_AS = {
    "number": ("numbers", "", "count as empty"),
    "datetime": ("dates", " such as 2020-12-31", "count as empty"),
    "bool": ("bools", " such as yes and no", "count as empty"),
    "category": ("the values", " of training", "have no feature"),
}
# Of fewer values, none is worth a warning.
_FEW_VALUES = 2
# From how many standard deviations on a number is far from the mean of training; and points that may be decimal.
_FAR = 100.0
_POINT_PATTERN = r"(^|[^\d.,])\d{1,3}(\.\d{3})+($|[^\d.,])"
# Names of columns whose numbers are hardly amounts.
_CODE_NAME = re.compile(r"(?i:(^|[_\W])(zip|plz|fips|isic|naics|nace)|codes?)$")


def describe_edges(db: Connection, table: Table, roles: Roles, whole: bool, kind: str | None) -> list[ColumnInfo]:
    """How each column of an edge table was read."""
    by_column = {roles.edge_time: "time", roles.edge_type: "edge type", roles.weight: "weight"}
    by_column |= {roles.source: "source", roles.target: "target"}
    ids = "whole number" if whole else "text"
    others = [column for column in table.columns if column not in (roles.source, roles.target)]
    queries = [_query_unused(table, column) for column in others]
    kinds = dict(zip(others, run_column_queries(db, table.name, queries), strict=True))
    said = dict.fromkeys(by_column, "") | dict.fromkeys(roles.ignored, "ignored")
    said |= {roles.weight: roles.weight_unit.words}
    infos = []
    for column in table.columns:
        holds, note = kinds.get(column, (ids, "")) if column != roles.weight else ("number", "")
        role = by_column.get(column, NOT_USED)
        infos.append(ColumnInfo(table_title("edges", kind), column, role, holds, said.get(column, note)))
    return infos


def describe_nodes(
    db: Connection, table: Table, roles: Roles, whole: bool, kind: str | None, names: str | None, encoder: FeatureEncoder
) -> list[ColumnInfo]:
    """How each column of a stored node table was read."""
    encoders = {each.column: each for each in encoder.column_encoders}
    by_column = {roles.label: "label", roles.id: "id"}
    queries = [_query_empty(table, name, encoders.get(name), whole and name == roles.id) for name in table.columns]
    answers = run_column_queries(db, table.name, queries)
    infos, ignored = [], dict.fromkeys(roles.ignored, "ignored")
    for column, (missing, holds) in zip(table.columns, answers, strict=True):
        role, note, features = by_column.get(column, NOT_USED), "", 0
        if (encoded := encoders.get(column)) is not None:
            role = "feature" if column not in by_column else f"{role} and feature"
            note, features = encoded.summary, encoded.width + encoded.missing
        elif role == NOT_USED:
            note = encoder.dropped.get(column) or ignored.get(column, "")
        elif role == "label":
            note = _classes(db, table, column)
        if column == names:
            role = "name" if role == NOT_USED else f"{role} and name"
        infos.append(ColumnInfo(table_title("nodes", kind), column, role, holds, note, features, int(missing)))
    return infos


def _classes(db: Connection, table: Table, label: str) -> str:
    """How many classes there are, and the six most frequent; "" if there are none."""
    values = f"(SELECT {trimmed(table.columns[label].sql)} AS v FROM {table.sql}) WHERE v IS NOT NULL GROUP BY v"
    rows = run(db, f"SELECT v, count(*) OVER () FROM {values} ORDER BY count(*) DESC, v LIMIT 6", table.name)
    names = ", ".join(one_line(name, 20) for name, _ in rows)
    return f"{plural(rows[0][1], 'value')} ({names}{', ...' if rows[0][1] > len(rows) else ''})" if rows else ""


def _query_empty(table: Table, column: str, encoder: ColumnEncoder | None, whole: bool) -> ColumnQueries[tuple[int, str]]:
    """In how many rows a column is empty, and what it holds."""
    given = table.columns[column]
    c = given._replace(sql="c")
    empty = empty_sql(c) if encoder is None else encoder.missing_sql(c)
    (count,) = yield ColumnQuery(given, table.sql, ("count(*) FILTER (v)",), empty)
    if encoder is not None:
        return count, encoder.column_type.word
    return count, "whole number" if whole else (yield from _query_kind(table, column))


def _query_unused(table: Table, column: str) -> ColumnQueries[tuple[str, str]]:
    """What a column of edges holds; and of numbers, a note if all are the same, or the first distinct and whole, like ids."""
    kind = yield from _query_kind(table, column)
    if kind != "number":
        return kind, ""
    many = "count(*) >= 100 OR (count(*) >= 20 AND max(v) - min(v) = count(*) - 1)"
    ids = (f"({many}) AND count(*) = count(DISTINCT v) FILTER (v = floor(v))",)
    (are_ids,) = yield ColumnQuery(table.columns[column], table.first_rows, ids, "TRY_CAST(c AS DOUBLE)")
    if are_ids:
        return kind, "its values are distinct whole numbers, like ids"
    for rows in (table.first_rows, table.sql):
        (differ,) = yield ColumnQuery(table.columns[column], rows, ("count(DISTINCT v) > 1",), trimmed("c"))
        if differ:
            return kind, ""
    return kind, "its values are all the same"


def _query_kind(table: Table, column: str) -> ColumnQueries[str]:
    """What a column holds, in a word; of text, by its first rows."""
    kind = table.columns[column].kind
    if kind.endswith("]"):
        return "list"
    if kind.startswith(NUMBERS):
        return "number"
    if kind.startswith(DATETIMES):
        return "date"
    if kind != "VARCHAR":
        return kind.partition("(")[0].lower()
    numbers = f"count(TRY_CAST(v AS DOUBLE)) FILTER (NOT {is_code('v')})"
    counts = ("count(v)", numbers, f"count(*) FILTER ({looks_like_datetime('v')})")
    present, numbers, dates = yield ColumnQuery(table.columns[column], table.first_rows, counts, stated("c"))
    if present and present in (numbers, dates):
        return "number" if numbers == present else "date"
    notation = yield from query_notation(table, column, by_first_rows=True)
    return COLUMN_TYPES[NOTATIONS[notation]].word if notation else "text"


def type_warnings(db: Connection, table: Table, encoders: Sequence[ColumnEncoder], chosen: Collection[str] = ()) -> list[str]:
    """Lines about columns that are not read as numbers although most values are, and about values that differ by case.

    For ``chosen`` columns, whose type the user named, only values that do not fit that type are reported.
    """
    lines = []
    outside = unread_warnings(db, table, [each for each in encoders if each.missing and (each.unit or each.column in chosen)])
    encoders = [encoder for encoder in encoders if encoder.column not in chosen]
    for encoder in (encoder for encoder in encoders if encoder.kind == "category"):
        if twins := case_twins(encoder.values):
            lines.append(f"{table.name}: '{encoder.column}' has {twins} as two values")
    for encoder in (encoder for encoder in encoders if encoder.kind == "number" and _CODE_NAME.search(encoder.column.strip())):
        cure = option("types", {encoder.column: "category"})
        lines.append(f"{table.name}: '{encoder.column}' is read as numbers; if they are codes, not amounts: {cure}")
    notes = run_column_queries(db, table.name, [_query_numbers(table, encoder) for encoder in encoders if encoder.sparse])
    return lines + [line for some in notes for line in some] + outside


def unread_warnings(db: Connection, table: Table, encoders: Iterable[ColumnEncoder], is_earlier: bool = False) -> list[str]:
    """Lines about columns with values that cannot be read: not a number, date or bool, or in another unit.

    With encoders of an earlier training, also values that are none of the categories of training.
    """
    there = [each for each in encoders if each.column in table.columns and each.kind in _READ_AS and not each.buckets]
    queries = [_query_unread_values(table, encoder, is_earlier) for encoder in there]
    queries += [_query_misread(table, each) for each in there if is_earlier and each.kind == "number"]
    return list(filter(None, run_column_queries(db, table.name, queries)))


def _query_misread(table: Table, encoder: ColumnEncoder) -> ColumnQueries[str]:
    """A line if most numbers are far from those of training, or if all points were read as thousands separators."""
    given, text, reach = table.columns[encoder.column], trimmed("c"), _FAR * abs(encoder.scale)
    value, far, pointed = encoder.sql(given._replace(sql="c")), "isfinite(v) AND v NOT BETWEEN p0 AND p1", "false"
    if encoder.notation == DECIMAL_COMMA and given.kind == "VARCHAR":
        pointed = f"v IS NOT NULL AND regexp_matches({text}, {quoted(_POINT_PATTERN)})"
    points = f"bool_or({pointed}) AND NOT bool_or(contains({text}, ','))"
    first = (f"{each} FILTER ({far} OR {pointed})" for each in ("min(i)", f"arg_min({text}, i)", "arg_min(v, i)"))
    counts = ("count(v)", f"count(*) FILTER ({far})", points, *first)
    bounds = tuple(max(min(encoder.centre + each, 1e308), -1e308) for each in (-reach, reach))
    present, distant, unsure, row, written, number = yield ColumnQuery(given, table.sql, counts, value, "i", bounds)
    if 2 * distant <= present and not unsure:
        return ""
    many = f", and {distant:,} of {present:,} values are far from those of training" if 2 * distant > present else ""
    read = f"'{one_line(written, 40)}' of '{encoder.column}' in row {row + 1:,} is read as {number:.15g}{many}"
    usual = f"numbers {notation_words(encoder.notation)}".strip() + f", {encoder.centre:.4g} on average"
    return f"{table.name}: {read}; training has {usual}; write them as in training"


def _query_unread_values(table: Table, encoder: ColumnEncoder, is_earlier: bool) -> ColumnQueries[str]:
    new = f"v NOT IN ({', '.join(map(quoted, encoder.values))})" if encoder.values else "true"
    unread = new if encoder.kind == "category" else f"({encoder.sql(Column('v', 'VARCHAR'))}) IS NULL"
    odd = f"FILTER (v IS NOT NULL AND {unread})"
    counts = ("count(v)", f"count(*) {odd}", f"min(i) {odd}", f"arg_min(v, i) {odd}")
    text = trimmed("c") if encoder.kind == "category" else stated("c")
    present, count, row, value = yield ColumnQuery(table.columns[encoder.column], table.sql, counts, text, "i")
    if not count:
        return ""
    how, usual, lost = _READ_AS[encoder.kind]
    usual = f" in {encoder.unit}" if encoder.unit else f" {notation_words(encoder.notation)}" if encoder.notation else usual
    cure = f"; {option('types', {encoder.column: 'text'})} changes that" if encoder.unit else ""
    if is_earlier and encoder.kind != "category":
        cure = "; write them as in training"
    odd = f"{count:,} of {present:,} values are not, such as '{one_line(value)}' in row {row + 1:,}, and {lost}{cure}"
    much = "warning: " if is_earlier and count > max(_FEW_VALUES, MUCH_SHARE * present) else ""
    return f"{much}{table.name}: '{encoder.column}' is read as {how}{usual}; {odd}"


def _query_numbers(table: Table, encoder: ColumnEncoder, notation: str = "") -> ColumnQueries[list[str]]:
    """A line if most values of a column are numbers, or numbers in the notation."""
    column = encoder.column
    number = ColumnEncoder(column, "number", 1, notation=notation).sql(Column("v", "VARCHAR"))
    odd = f"FILTER (v IS NOT NULL AND {number} IS NULL)"
    counts = ("count(v)", f"count({number})", f"min(i) {odd}", f"arg_min(v, i) {odd}")
    for rows in (table.first_rows, table.sql):
        present, numbers, row, value = yield ColumnQuery(table.columns[column], rows, counts, stated("c"), "i")
        if 2 * numbers <= present or (notation and numbers == present and rows == table.sql):
            notation = "" if notation else (yield from query_notation(table, column, least=0.5))
            if NOTATIONS.get(notation) != "number":
                return (yield from _query_unread(table, encoder))
            return (yield from _query_numbers(table, encoder, notation))
    if numbers == present:  # Codes, as the plan shows.
        return []
    message = f"is read as {encoder.kind}, though {numbers:,} of {present:,} values are numbers"
    cure = option("types", {column: "number"})
    other = f"'{one_line(value)}' in row {row + 1:,} is not; {cure} takes such values as empty"
    return [f"{table.name}: '{column}' {message} {notation_words(notation)}".rstrip() + f": {other}"]


def _query_unread(table: Table, encoder: ColumnEncoder) -> ColumnQueries[list[str]]:
    """A line if the first values of a column look like dates or numbers in a notation that is not read."""
    units = yield from query_units(table, encoder.column)
    if units:
        cure = option("types", {encoder.column: "number"})
        number = f"{cure} reads those in {next(iter(units))} and leaves the others empty"
        shares = ", ".join(f"{unit} ({share:.0%})" for unit, share in units.items())
        message = f"is read as {encoder.kind}, though it has numbers in several units: {shares}; {number}"
        return [f"{table.name}: '{encoder.column}' {message}"]
    for what, (pattern, right) in _UNREAD.items():
        matches = f"regexp_full_match(v, {quoted(pattern)})"
        aggregates = (f"bool_and({matches})", "arg_min(v, i) FILTER (v IS NOT NULL)")
        all_match, value = yield ColumnQuery(table.columns[encoder.column], table.first_rows, aggregates, stated("c"), "i")
        if all_match:
            cure = f"write them as {right}"
            like = f"though it looks like {what}: '{one_line(value)}'; {cure}"
            return [f"{table.name}: '{encoder.column}' is read as {encoder.kind}, {like}"]
    return []
