"""Columns found by name, ids of one type everywhere, classes, and what a table of nodes holds beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.tables.source import Column, Table, stored
from clnr.tables.sql import MOMENTS, NUMBERS, arrow_table, fetched, quoted, run, trimmed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SOURCES = ("source", "src", "from", "source_id", "from_id", "head", "u", "node1", "subject")
TARGETS = ("target", "dst", "to", "target_id", "to_id", "dest", "destination", "tail", "v", "node2", "object")
WEIGHTS = ("weight", "w", "edge_weight", "strength")
IDS = ("id", "node", "node_id", "nodeid", "key", "name", "index")
LABELS = ("label", "class", "y", "category_label")

_WHOLE = "0|-?[1-9][0-9]{0,17}"
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT")
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "BIT", "GEOMETRY", "VARIANT")


def found(given: Table, asked: str | None, usual: Sequence[str], what: str, others: Sequence[str | None] = ()) -> str | None:
    """A column by the name that was asked for, else by a usual one, unless it is one of some others."""
    names = {column.strip().casefold(): column for column in given.columns}
    if asked is not None:
        if (plain := asked.strip().casefold()) not in names:
            raise DataError(f"{given.name}: there is no column '{asked}' for {what}; there are {', '.join(given.columns)}")
        return names[plain]
    taken = {other.strip().casefold() for other in others if other}
    return next((names[name] for name in usual if name in names and name not in taken), None)


def refuse(base: DuckDBPyConnection, given: Table, rows: str, wrong: str, column: str, said: str) -> None:
    """Fail on the first of some rows that is wrong, if there is one; a row is counted from 1, a header not counted."""
    if run(base, f"SELECT 1 FROM {rows} WHERE {wrong} LIMIT 1", given.name):
        numbered = f"(SELECT *, row_number() OVER () AS place FROM {rows})"
        ((first,),) = run(base, f"SELECT min(place) FROM {numbered} WHERE {wrong}", given.name)
        raise DataError(f"{given.name}: '{column}' {said} in row {first:,}")


# -- ids --------------------------------------------------------------------------------------------------------------------


def all_whole(base: DuckDBPyConnection, given: Table, *columns: str) -> bool:
    """Whether all ids are whole numbers, written as such: '007' and '7' are two ids."""
    unsure = [column for column in columns if given.columns[column].kind not in _INTEGERS]
    if not unsure:
        return True
    tests = ", ".join(f"bool_and({_whole_sql(given, column)})" for column in unsure)
    # The first rows mostly tell, and spare a look at millions.
    for rows in (f"(SELECT * FROM {given.sql} LIMIT 1000)", given.sql):
        if any(value is False for value in run(base, f"SELECT {tests} FROM {rows}", given.name)[0]):
            return False
    return True


def _whole_sql(given: Table, column: str) -> str:
    c, kind = given.columns[column]
    if given.texts:
        return f"regexp_full_match(trim({c}), {quoted(_WHOLE)})"
    if kind in _WIDE:
        return f"{c} BETWEEN -999999999999999999 AND 999999999999999999"
    if kind.startswith(NUMBERS) and not kind.endswith("]"):
        v = f"CAST({c} AS DOUBLE)"
        # Beyond 2^53 a floating number no longer tells one whole number from the next.
        return f"isnan({v}) OR {v} = floor({v}) AND abs({v}) <= 9007199254740992"
    return f"{c} IS NULL"


def id_sql(given: Table, column: str, whole: bool) -> str:
    """An id in SQL: of one type everywhere; an empty text, or no number, is none."""
    c, kind = given.columns[column]
    floating = kind.startswith(("DOUBLE", "FLOAT", "REAL", "DECIMAL")) and not kind.endswith("]")
    if whole:
        return f"CAST(nullif(CAST({c} AS DOUBLE), 'nan') AS BIGINT)" if floating else f"CAST({c} AS BIGINT)"
    text = f"CAST({c} AS VARCHAR)"
    if floating:
        short = f"CAST(CAST({c} AS BIGINT) AS VARCHAR)"
        return f"CASE WHEN {_whole_sql(given, column)} THEN CASE WHEN NOT isnan({c}) THEN {short} END ELSE {text} END"
    return f"nullif(trim({text}), '')" if given.texts else f"nullif({text}, '')"


def load_nodes(base: DuckDBPyConnection, given: Table, key: str, whole: bool) -> Table:
    """The table ``people``, its rows numbered, and ``mine``, the id of each of them."""
    people = stored(base, given, "people")
    run(base, f"CREATE TEMP TABLE mine AS SELECT {id_sql(people, key, whole)} AS id, i FROM people", people.name)
    if not run(base, "SELECT 1 FROM mine LIMIT 1", people.name):
        raise DataError(f"{people.name}: there is no node in it")
    refuse(base, people, "mine", "id IS NULL", key, "is empty")
    twice = run(base, "SELECT id, min(i), max(i) FROM mine GROUP BY id HAVING count(*) > 1 ORDER BY 2 LIMIT 1", people.name)
    for node, first, last in twice:
        raise DataError(f"{people.name}: node '{node}' is there twice, in rows {first + 1:,} and {last + 1:,}")
    return people


# -- beside ids -------------------------------------------------------------------------------------------------------------


def labels_of(base: DuckDBPyConnection, people: Table, label: str, known: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """The class of each row of ``people``, -1 where there is none; new classes come after those that are known.

    They stand in the order of numbers, where they are such, else of texts.
    """
    import pyarrow as pa

    value = trimmed(people.columns[label].sql)
    sql = f"SELECT DISTINCT {value} AS class FROM people WHERE {value} IS NOT NULL"
    rows = run(base, f"SELECT class FROM ({sql}) ORDER BY TRY_CAST(class AS DOUBLE) NULLS LAST, class", people.name)
    seen = set(known)
    names = (*known, *(name for (name,) in rows if name not in seen))
    base.register("given_classes", pa.table({"class": pa.array(names, pa.string()), "c": np.arange(len(names))}))
    joined = f"(SELECT {value} AS class, i FROM people) LEFT JOIN given_classes USING (class)"
    return fetched(base, f"SELECT coalesce(c, -1) AS c FROM {joined} ORDER BY i", people.name)["c"].astype(np.int64), names


def plain(people: Table) -> dict[str, Column]:
    """Its columns, but for lists and other nested values."""
    nested = {name for name, (_, kind) in people.columns.items() if kind.endswith("]") or kind.startswith(_NESTED)}
    return {name: column for name, column in people.columns.items() if name not in nested}


def columns_of(base: DuckDBPyConnection, people: Table) -> Any:
    """The rows of ``people`` as an Arrow table; lists and other nested values are left out, unusual types become texts.

    Moments of a time zone are told in UTC, since not every machine knows every zone.
    """
    kept = {}
    for column, (c, kind) in plain(people).items():
        if kind in _WIDE or kind.startswith("DECIMAL"):  # Of decimals DuckDB makes types that not every Arrow knows.
            c = f"CAST({c} AS DOUBLE)"
        elif kind == "TIMESTAMP WITH TIME ZONE":
            c = f"CAST({c} AS TIMESTAMP)"
        elif not kind.startswith(("VARCHAR", "BOOLEAN", *NUMBERS, *MOMENTS)):
            c = f"CAST({c} AS VARCHAR)"
        kept[column] = c
    found = arrow_table(base, f"SELECT {', '.join(kept.values())} FROM people ORDER BY i", people.name)
    return found.rename_columns(list(kept))


def check_columns(table: Any) -> None:
    """Refuse an Arrow table with a column of a type that ``columns_of`` never makes, and that later steps need not know."""
    import pyarrow as pa

    is_ = pa.types
    numbers = (is_.is_null, is_.is_boolean, is_.is_integer, is_.is_floating, is_.is_decimal)
    kinds = (*numbers, is_.is_string, is_.is_large_string, is_.is_date, is_.is_timestamp)
    for column in table.schema:
        right = any(is_one(column.type) for is_one in kinds)
        try:
            # A time zone that is not known here shows when a moment is written.
            pa.scalar(0 if pa.types.is_timestamp(column.type) else None, column.type).cast(pa.string())
        except pa.ArrowException:
            right = False
        if not right:
            raise DataError(f"column '{column.name}' is of type {column.type}, which clnr neither writes nor reads")
