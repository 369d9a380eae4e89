"""How each column of the tables was read, and lines that say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from clnr.errors import one_line
from clnr.graph.table_info import ColumnInfo, title_of
from clnr.support.humanize import plural
from clnr.tables.columns.column_types import ColumnEncoder
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.edges import Staged
from clnr.tables.io.sql import Connection, plain_id, run
from clnr.tables.kinds import plain_name, qualified_name
from clnr.tables.node_rows import StagedKind, StagedNodes

# The least columns, one after the other, that share a line if they are read alike.
_ALIKE_COLUMNS = 5
_SHOWN_CLASSES = 6
_QUERY_COLUMNS = 50


def describe_tables(db: Connection, edges: Staged, staged: StagedNodes, encoder: FeatureEncoder) -> tuple[ColumnInfo, ...]:
    """How each column of all tables was read."""
    infos = []
    for named, roles in edges:
        by_column = {roles.until: "until", roles.weight: "weight"}
        by_column |= {roles.source: "source", roles.target: "target"}
        notes = dict.fromkeys(roles.ignored, "ignored")
        for column in named.table.columns:
            infos.append(
                ColumnInfo(title_of("edges", named.kind), column, by_column.get(column, "unused"), "", notes.get(column, ""))
            )
    encoders = {each.column: each for each in encoder.columns}
    if encoder.node_kinds:
        infos.append(
            ColumnInfo(
                "nodes", encoder.columns[0].column, "feature", "category", encoder.columns[0].summary, len(encoder.node_kinds)
            )
        )
    for of in staged.kinds:
        empty = _count_empty(
            db, of, [encoders[name] for column in of.table.columns if (name := qualified_name(of.kind, column)) in encoders]
        )
        for column in of.table.columns:
            name = qualified_name(of.kind, column)
            role = {of.roles.label: "label", of.names: "name", of.roles.id: "id"}.get(column, "unused")
            note = (
                _classes(db, staged, name)
                if role == "label"
                else "ignored"
                if column in of.roles.ignored
                else "it is an end of the edges"
                if column in of.roles.ends
                else encoder.unused.get(name, "")
            )
            info = ColumnInfo(title_of("nodes", of.kind), column, role, "", note)
            if (each := encoders.get(name)) is not None:
                some: dict[str, Any] = {
                    "type": each.column_type.word,
                    "note": each.summary,
                    "features": each.features,
                    "empty": empty[name],
                }
                info = info._replace(role="feature", **some)
            infos.append(info)
    if encoder.matrix is not None:
        kind = "sparse matrix" if encoder.matrix.sparse else "dense matrix"
        infos.append(ColumnInfo("matrix", "feature matrix", "feature", kind, "divided by one number", encoder.matrix.width))
    return tuple(infos)


def _count_empty(db: Connection, of: StagedKind, encoders: Sequence[ColumnEncoder]) -> dict[str, int]:
    """In how many rows the columns of some encoders are empty."""
    counts: dict[str, int] = {}
    for first in range(0, len(encoders), _QUERY_COLUMNS):
        some = encoders[first : first + _QUERY_COLUMNS]
        tests = (each.missing_sql(of.table.columns[plain_name(each.column) if of.kind else each.column]) for each in some)
        (row,) = run(
            db, f"SELECT {', '.join(f'count(*) FILTER ({test})' for test in tests)} FROM {of.table.sql}", of.table.name
        )
        counts |= dict(zip((each.column for each in some), row, strict=True))
    return counts


def _classes(db: Connection, staged: StagedNodes, label: str) -> str:
    """How many classes there are, and the most frequent."""
    value = plain_id(staged.table.columns[label].sql)
    values = f"(SELECT {value} AS v FROM node_rows) WHERE v IS NOT NULL GROUP BY v"
    rows = run(
        db, f"SELECT v, count(*) OVER () FROM {values} ORDER BY count(*) DESC, v LIMIT {_SHOWN_CLASSES}", staged.table.name
    )
    names = ", ".join(one_line(name, 20) for name, _ in rows)
    return f"{plural(rows[0][1], 'value')} ({names}{', ...' if rows[0][1] > len(rows) else ''})" if rows else ""


def column_lines(columns: Iterable[ColumnInfo]) -> list[str]:
    """A line for each column; many that are read alike share one."""
    lines = []
    for _, group in groupby(columns, lambda each: each._replace(column="")):
        alike: Sequence[ColumnInfo] = list(group)
        if len(alike) < _ALIKE_COLUMNS:
            lines += [_line(each, f"'{each.column}'", 1) for each in alike]
        else:
            names = f"'{alike[0].column}' to '{alike[-1].column}' ({len(alike):,} columns)"
            lines.append(_line(alike[0], names, len(alike)))
    return lines


def _line(info: ColumnInfo, names: str, count: int) -> str:
    parts = [f"{info.role}, {info.type}" if info.type else info.role, info.note if info.features else ""]
    if info.features:
        parts.append(plural(info.features * count, "feature"))
    if info.empty:
        parts.append(f"{info.empty:,} empty")
    why = f": {info.note}" if info.note and not info.features else ""
    return one_line(f"{info.table} {names}: {', '.join(part for part in parts if part)}{why}")
