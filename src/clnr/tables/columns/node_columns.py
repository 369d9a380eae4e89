"""The node table: incomplete rows, ids (all integers or all text), labels and other columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from clnr.errors import DataError, one_line, option
from clnr.support.humanize import plural
from clnr.tables.io.source import Column, Table, store
from clnr.tables.io.sql import DATETIMES, FLOATS, MISSING_WORDS, NUMBERS, Connection, quoted, run, trimmed

_INTEGER = "0|-?[1-9][0-9]{0,17}"
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT")
_STORED = ("node_table", "row_ids")
# Labels that are hardly classes are as many as nodes, or nearly; fewer nodes do not tell.
_NEARLY_ALL, _LEAST_LABELLED = 0.8, 20
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "BIT", "GEOMETRY", "VARIANT")


def check_rows(
    db: Connection, table: Table, rows: str, wrong: str, column: str, message: str, cure: str, value: str = "NULL"
) -> None:
    """Raise on the first of ``rows`` that is ``wrong``, if any, with its ``value`` as text, all in SQL.

    Rows count from 1, without the header. The user's table and column are for the message.
    """
    if run(db, f"SELECT 1 FROM {rows} WHERE {wrong} LIMIT 1", table.name):
        numbered = f"(SELECT *, row_number() OVER () AS number FROM {rows})"
        first_one = f"min(number), arg_min({value}, number), count(*)"
        ((first, text, count),) = run(db, f"SELECT {first_one} FROM {numbered} WHERE {wrong}", table.name)
        row = f"in row {first:,}" + (f" (and {count - 1:,} more)" if count > 1 else "")
        finding = f"{message} {row}" if text is None else f"is '{one_line(text, 80)}' {row}, which {message}"
        raise DataError(f"{table.name}: '{column}' {finding}; {cure}")


def check_filled(db: Connection, table: Table, rows: str, empty: str, column: str, other: str = "") -> None:
    """Raise if a column is empty in some rows: where, in how many, and what to do; ``other`` is one thing more."""
    check_rows(db, table, rows, empty, column, "is empty", f"fill it in, or leave such rows out{other}")


# -- ids --------------------------------------------------------------------------------------------------------------------


def all_integers(db: Connection, table: Table, *columns: str) -> bool:
    """Whether all ids are integers in their usual notation: '007' and '7' are two ids."""
    unsure = [column for column in columns if table.columns[column].kind not in _INTEGERS]
    if not unsure:
        return True
    tests = ", ".join(f"bool_and({_is_integer_sql(table, column)})" for column in unsure)
    for rows in (table.first_rows, table.sql):
        if any(value is False for value in run(db, f"SELECT {tests} FROM {rows}", table.name)[0]):
            return False
    return True


def _is_integer_sql(table: Table, column: str) -> str:
    c, kind = table.columns[column]
    if table.is_text:
        return f"regexp_full_match(trim({c}, ' '), {quoted(_INTEGER)})"
    if kind in _WIDE:
        return f"{c} BETWEEN -999999999999999999 AND 999999999999999999"
    if kind.startswith(NUMBERS) and not kind.endswith("]"):
        v = f"CAST({c} AS DOUBLE)"
        # Beyond 2^53 a float no longer tells one integer from the next.
        return f"isnan({v}) OR {v} = floor({v}) AND abs({v}) <= 9007199254740992"
    return f"{c} IS NULL"


def id_sql(table: Table, column: str, whole: bool = False) -> str:
    """An id in SQL, as BIGINT or VARCHAR; empty text and NaN are NULL.

    Spaces around ids are no part of them in a text file, where they align columns; any other character is, such as a no-break
    space. Text of nothing but blanks of any sort is empty.
    """
    c, kind = table.columns[column]
    floating = kind.startswith(FLOATS) and not kind.endswith("]")
    if whole:
        return f"CAST(nullif(CAST({c} AS DOUBLE), 'nan') AS BIGINT)" if floating else f"CAST({c} AS BIGINT)"
    text = f"CAST({c} AS VARCHAR)"
    if floating:
        short = f"CAST(CAST({c} AS BIGINT) AS VARCHAR)"
        return f"CASE WHEN {_is_integer_sql(table, column)} THEN CASE WHEN NOT isnan({c}) THEN {short} END ELSE {text} END"
    return f"CASE WHEN trim({text}) <> '' THEN trim({text}, ' ') END" if table.is_text else f"nullif({text}, '')"


def plain_id(text: str) -> str:
    """SQL that normalises an id, to find other spellings of it: no case, blanks, signs, leading zeros or final .0."""
    return f"regexp_replace(lower({text}), '(^|:)0+|\\.0$|[-_.:\\s\\p{{Z}}]', '', 'g')"


def stacked_ids(table: Table, columns: Sequence[str], rows: int) -> str:
    """Selects the ids in several columns of the first rows, below each other: ``id``, and the ``place`` of its column."""
    ids = ", ".join(id_sql(table, column) for column in columns)
    stacked = f"unnest([{ids}]) AS id, unnest(range({len(columns)})) AS place"
    return f"SELECT {stacked} FROM (SELECT * FROM {table.sql} LIMIT {rows})"


def ids_in(table: Table, column: str, rows: str = "") -> str:
    """The ids in a column of a table, or of some rows of it, to write after FROM."""
    return f"(SELECT {id_sql(table, column)} AS id FROM {rows or table.sql})"


def is_distinct(db: Connection, table: Table, column: str, rows: str, least: int = 0) -> bool:
    """Whether the ids in a column of some rows are distinct, and ``least`` or more."""
    counts = f"count(DISTINCT id) = count(id) AND count(id) >= {least}"
    return bool(run(db, f"SELECT {counts} FROM {ids_in(table, column, rows)}", table.name)[0][0])


def load_nodes(db: Connection, table: Table, key: str, whole: bool, into: tuple[str, str] = _STORED) -> tuple[Table, list[str]]:
    """Load the SQL table ``node_table``, with numbered rows, and ``row_ids``, the id of each row; or ``into`` two others.

    Rows of a node that are alike in all columns are one row, and a note counts them.
    """
    rows, ids = into
    node_table = store(db, table, rows)
    load_ids = f"CREATE OR REPLACE TEMP TABLE {ids} AS SELECT {id_sql(node_table, key, whole)} AS id, i FROM {rows}"
    run(db, load_ids, table.name)
    ((count, more),) = run(db, f"SELECT count(*), count(id) - count(DISTINCT id) FROM {ids}", table.name)
    if not count:
        raise DataError(f"{table.name}: it has no nodes")
    check_filled(db, table, ids, "id IS NULL", key, f"; or name another column of ids: {option('id')}")
    if not more:
        return node_table, []
    repeats = f"(SELECT id, i, min(i) OVER (PARTITION BY id) AS first FROM {ids} QUALIFY first < i)"
    _check_alike(db, node_table, key, repeats)
    store(db, replace(table, sql=f"(SELECT * EXCLUDE (i) FROM {rows} ANTI JOIN {repeats} USING (i) ORDER BY i)"), rows)
    run(db, load_ids, table.name)
    return node_table, [f"{table.name}: merged: {plural(more, 'row')} repeating a node, alike in all columns"]


def _check_alike(db: Connection, table: Table, key: str, repeats: str) -> None:
    """Raise if two rows of a node differ; the error names the rows."""
    others = [column for column in table.columns if column != key]
    tests = ["false", *(f"a.{c} IS DISTINCT FROM b.{c}" for c in (table.columns[other].sql for other in others))]
    place = f"list_position([{', '.join(tests)}], true) AS place"
    rows = f"{repeats} r JOIN {table.sql} a ON a.i = first JOIN {table.sql} b ON b.i = r.i"
    found = f"SELECT id, first, r.i, {place} FROM {rows} WHERE place > 0 ORDER BY r.i LIMIT 1"
    for node, first, second, differs in run(db, found, table.name):
        cure = f"keep one row per node, or name another column of ids than '{key}': {option('id')}"
        where = f"in rows {first + 1:,} and {second + 1:,}, which differ in '{others[differs - 2]}'"
        raise DataError(f"{table.name}: node '{node}' occurs twice, {where}; {cure}")


# -- other columns ----------------------------------------------------------------------------------------------------------


def register_classes(db: Connection, node_table: Table, label: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Make the SQL table ``known_classes``, and return the names of all classes.

    New classes come after the known ones, in the order of numbers if they are numbers, else of text.
    """
    value = trimmed(node_table.columns[label].sql)
    sql = f"SELECT DISTINCT {value} AS class FROM node_table WHERE {value} IS NOT NULL"
    rows = run(db, f"SELECT class FROM ({sql}) ORDER BY TRY_CAST(class AS DOUBLE) NULLS LAST, class", node_table.name)
    seen = set(known)
    names = (*known, *(name for (name,) in rows if name not in seen))
    # To register a table of Arrow, DuckDB would import pandas.
    listed = "SELECT unnest(CAST(? AS VARCHAR[])) AS class, unnest(range(?)) AS c"
    run(db, f"CREATE OR REPLACE TEMP TABLE known_classes AS {listed}", node_table.name, [list(names), len(names)])
    return names


def case_twins(values: Iterable[str]) -> str:
    """Two values that differ only by case, in words; "" if there are none."""
    seen: dict[str, str] = {}
    for value in values:
        if (first := seen.setdefault(value.casefold(), value)) != value:
            return f"'{one_line(first, 40)}' and '{one_line(value, 40)}', which differ only by case,"
    return ""


def class_warnings(db: Connection, table: Table, label: str, classes: Sequence[str], known: Collection[str]) -> list[str]:
    """Lines about suspicious classes: unknown to a model (``known``), words for missing values, or too many."""
    twins = case_twins(classes)
    lines = [f"{table.name}: the label '{label}' has {twins} as two classes"] if twins else []
    if known:
        new = one_line(", ".join(quoted(each) for each in classes if each not in known), 200)
        if new:
            lines.append(f"{table.name}: the model knows no class {new} of '{label}'; if misspelt, correct it")
        return lines
    if missing := [each for each in classes if each.casefold() in MISSING_WORDS]:
        words = ", ".join(map(quoted, missing))
        lines.append(f"{table.name}: '{label}' has the class {words}; if that is not a label, leave such cells empty")
    value = trimmed(table.columns[label].sql)
    ((labelled,),) = run(db, f"SELECT count({value}) FROM {table.sql}", table.name)
    if labelled < _LEAST_LABELLED or len(classes) < _NEARLY_ALL * labelled:
        return lines
    return [*lines, f"{table.name}: nearly every class of '{label}' has a single node; name another {option('label')}"]


def label_sql(node_table: Table, label: str) -> str:
    """Selects the class ``c`` of each row of ``node_table``, in order; see ``register_classes``."""
    value = trimmed(node_table.columns[label].sql)
    joined = f"(SELECT {value} AS class, i FROM node_table) LEFT JOIN known_classes USING (class)"
    return f"SELECT coalesce(c, -1) AS c FROM {joined} ORDER BY i"


def flat_columns(node_table: Table) -> dict[str, Column]:
    """Its columns without lists and other nested values; or its ``outputs``, if it has some."""
    columns = node_table.columns if node_table.outputs is None else node_table.outputs
    return {
        name: column for name, column in columns.items() if not (column.kind.endswith("]") or column.kind.startswith(_NESTED))
    }


def column_sql(node_table: Table, key: str, whole: bool) -> dict[str, str]:
    """What to keep of ``node_table``, by the names of its columns, without nested values; unusual types become text.

    Ids, in the column ``key``, are those of the graph. Times with a time zone become UTC, since not every machine knows every
    zone.
    """
    kept = {}
    for column, (c, kind) in flat_columns(node_table).items():
        if column == key and node_table.outputs is None:
            c = id_sql(node_table, key, whole)
        elif kind in _WIDE or kind.startswith("DECIMAL"):  # DuckDB's decimals become types that not every Arrow knows.
            c = f"CAST({c} AS DOUBLE)"
        elif kind == "TIMESTAMP WITH TIME ZONE":
            c = f"CAST({c} AS TIMESTAMP)"
        elif not kind.startswith(("VARCHAR", "BOOLEAN", *NUMBERS, *DATETIMES)):
            c = f"CAST({c} AS VARCHAR)"
        kept[column] = c
    return kept


def digest_unused(db: Connection, table: Table, key: str | None, whole: bool, used: Collection[str]) -> str:
    """A digest of the columns that make no features, such as names, with their values in the order of nodes."""
    columns = column_sql(table, key or "", whole)
    unused = {column: columns[column] for column in columns if column not in used}
    values = ", ".join(["i", *(f"coalesce(CAST({c} AS VARCHAR), chr(30))" for c in unused.values())])
    sql = f"SELECT bit_xor(md5_number_lower(concat_ws(chr(31), {values}))) FROM {table.sql}"
    return " ".join([str(run(db, sql, table.name)[0][0]), *unused])


def check_columns(table: Any) -> None:
    """Raise if an Arrow table has a column of a type that ``column_sql`` never makes, which later steps may not know."""
    import pyarrow as pa

    is_ = pa.types
    numbers = (is_.is_null, is_.is_boolean, is_.is_integer, is_.is_floating, is_.is_decimal)
    kinds = (*numbers, is_.is_string, is_.is_large_string, is_.is_date, is_.is_timestamp)
    for column in table.schema:
        right = any(is_one(column.type) for is_one in kinds)
        try:
            # An unknown time zone only shows when a time is written.
            pa.scalar(0 if pa.types.is_timestamp(column.type) else None, column.type).cast(pa.string())
        except pa.ArrowException:
            right = False
        if not right:
            raise DataError(f"column '{column.name}' is of type {column.type}, which clnr neither writes nor reads")
