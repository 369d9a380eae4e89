"""How each column of a table was read, in a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clnr.tables.columns.column_asks import Ask, Asks, answer_all
from clnr.tables.columns.column_encoders import ColumnEncoder, empty_sql
from clnr.tables.columns.column_info import NOT_USED, ColumnInfo
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.notations import NOTATIONS, ask_notation, notation_words
from clnr.tables.io.source import Table
from clnr.tables.io.sql import DATETIMES, NUMBERS, is_code, looks_like_datetime, trimmed
from clnr.tables.roles.roles import Roles, table_title

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# What ``--as`` calls a kind of encoder, where that is another word.
_KIND_WORDS = {"datetime": "date"}


def describe_edges(
    db: DuckDBPyConnection, table: Table, roles: Roles, whole: bool, kind: str | None = None
) -> list[ColumnInfo]:
    """How each column of an edge table was read."""
    by_column = {roles.edge_time: "time", roles.edge_type: "edge type", roles.weight: "weight"}
    by_column |= {roles.source: "source", roles.target: "target"}
    ids = "whole number" if whole else "text"
    others = [column for column in table.columns if column not in (roles.source, roles.target)]
    kinds = dict(zip(others, answer_all(db, table.name, [_ask_kind(table, column) for column in others]), strict=True))
    infos = []
    for column in table.columns:
        role, holds = by_column.get(column, NOT_USED), kinds.get(column, ids)
        note = notation_words(roles.weight_notation) if role == "weight" and roles.weight_notation else _why(column, roles)
        infos.append(ColumnInfo(table_title("edges", kind), column, role, holds, note))
    return infos


def describe_nodes(
    db: DuckDBPyConnection,
    table: Table,
    roles: Roles,
    whole: bool,
    names: str | None,
    encoder: FeatureEncoder,
    node_kind: str | None = None,
) -> list[ColumnInfo]:
    """How each column of a stored node table was read."""
    encoders = {each.column: each for each in encoder.column_encoders}
    by_column = {roles.time: "time", roles.label: "label", roles.id: "id"}
    asks = [_ask_empty(table, name, encoders.get(name), whole and name == roles.id) for name in table.columns]
    answers = answer_all(db, table.name, asks)
    infos = []
    for column, (missing, kind) in zip(table.columns, answers, strict=True):
        role, note, features = by_column.get(column, NOT_USED), "", 0
        if (encoded := encoders.get(column)) is not None:
            role = "feature" if column not in by_column else f"{role} and feature"
            note, features = encoded.summary, encoded.width + encoded.missing
        elif role == NOT_USED:
            note = encoder.dropped.get(column) or _why(column, roles)
        if column == names:
            role = "name" if role == NOT_USED else f"{role} and name"
        infos.append(ColumnInfo(table_title("nodes", node_kind), column, role, kind, note, features, int(missing)))
    return infos


def _why(column: str, roles: Roles) -> str:
    return "ignored" if column in roles.ignored else ""


def _ask_empty(table: Table, column: str, encoder: ColumnEncoder | None, whole: bool) -> Asks[tuple[int, str]]:
    """In how many rows a column is empty, and what it holds."""
    given = table.columns[column]
    c = given._replace(sql="c")
    empty = empty_sql(c) if encoder is None else encoder.missing_sql(c)
    (count,) = yield Ask(given, table.sql, ("count(*) FILTER (v)",), empty)
    if encoder is not None:
        return count, _KIND_WORDS.get(encoder.kind, encoder.kind)
    return count, "whole number" if whole else (yield from _ask_kind(table, column))


def _ask_kind(table: Table, column: str) -> Asks[str]:
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
    present, numbers, dates = yield Ask(table.columns[column], f"(SELECT * FROM {table.sql} LIMIT 1000)", counts, trimmed("c"))
    if present and present in (numbers, dates):
        return "number" if numbers == present else "date"
    notation = yield from ask_notation(table, column, by_first_rows=True)
    return _KIND_WORDS.get(NOTATIONS[notation], NOTATIONS[notation]) if notation else "text"
