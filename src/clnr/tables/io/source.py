"""Sources of tables: files, globs and data frames, each opened as a relation of a DuckDB connection."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line
from clnr.tables.io.csv_header import Header, KnownNames, check_names, read_header
from clnr.tables.io.encodings import in_utf_8
from clnr.tables.io.sql import Connection, decoded_folder, fetch_columns, fetch_table, quoted, run
from clnr.tables.io.table_files import ENDINGS, JSON_ENDINGS, PARQUET_ENDINGS, ending_of, files_sql, find_file, find_files

_NUMBERED = re.compile(r"_[0-9]+$")
# Types that DuckDB infers for text in JSON that looks like it.
_FROM_TEXT = re.compile(r"DATE|TIME(STAMP)?(_[A-Z]+)?( WITH TIME ZONE)?|UUID")
# The most rows, dense features and characters of a chunk.
_CHUNK_ROWS = 1 << 18
_CHUNK_NUMBERS = 1 << 21
_CHUNK_CHARACTERS = 1 << 24
_SAMPLE_ROWS = 1000


class Column(NamedTuple):
    """A column of a table: its name in SQL, which is its position and never the user's name, and its type in DuckDB."""

    sql: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A relation that can be queried.

    Attributes:
        name: What to call it in messages: the file, or the argument.
        sql: What to write after FROM.
        columns: By name, in order.
        is_text: Whether all columns are text, as in a CSV file, so that types must be inferred.
        no_header: Whether its columns have no names.
        looks_otherwise: Whether its first line does not look like what the user said of it.
        encoding: The encoding that it was found to have, in words; "" for UTF-8, or the one that the user named.
        outputs: What is kept of it beside the graph, if that is not its columns.
    """

    name: str
    sql: str
    columns: dict[str, Column]
    is_text: bool = False
    no_header: bool = False
    looks_otherwise: bool = False
    encoding: str = ""
    outputs: dict[str, Column] | None = None

    @property
    def first_rows(self) -> str:
        """Its first rows, which mostly tell, and save a scan of millions; to write after FROM."""
        return f"(SELECT * FROM {self.sql} LIMIT {_SAMPLE_ROWS})"


def open_table(
    db: Connection, given: Any, role: str, known: KnownNames, header: bool | None, kind: str, encoding: str | None
) -> Table:
    """Open what the user gave: a path or a glob, or a data frame of pandas, polars or Arrow.

    The role, ``edges`` or ``nodes``, and the name of a kind are for messages. A text file's first line is a header if it has
    known names, else as ``header`` says, else as the lines below tell; its encoding is found, if it is not given.
    """
    if not isinstance(given, str | Path):
        return with_fields(db, _frame(db, given, role, kind))
    path = os.fspath(given)
    files, ending = find_files(db, path), _ending(path)
    if ending in PARQUET_ENDINGS:
        return with_fields(db, _parquet(db, path, files))
    with in_utf_8(files, encoding, decoded_folder(db)) as (copies, found):
        if ending in JSON_ENDINGS:
            table = _json(db, path, copies)
        else:
            head = read_header([Path(file) for file in copies], role, known, header)
            table = _text(path, copies, head)
        if copies != files:
            view = _view("decoded", role, kind)
            run(db, f"CREATE TEMP TABLE {view} AS SELECT * FROM {table.sql}", path)
            table = replace(table, sql=view)
    return replace(with_fields(db, table), encoding=found)


def check_table(path: str) -> None:
    """Fail as ``open_table`` would where there is no such file, or its format is unknown; globs are for DuckDB to find."""
    find_file(path)
    _ending(path)


def _ending(path: str) -> str:
    """How the name of a table's file ends, without that of a compression; it determines the format."""
    if (ending := ending_of(path)) not in ENDINGS:
        raise DataError(f"{one_line(path)}: its format is unknown; the name should end in one of {', '.join(ENDINGS)}")
    return ending


def describe(db: Connection, name: str, sql: str) -> Table:
    """A relation with the columns that DuckDB sees."""
    rows = run(db, f"DESCRIBE SELECT * FROM {sql}", name)
    check_names((row[0] for row in rows), name)
    return _with_columns(name, sql, {row[0]: row[1] for row in rows})


def is_struct(kind: str) -> bool:
    """Whether a type of DuckDB has named fields."""
    return kind.startswith("STRUCT(") and not kind.endswith("]")


def fields_of(db: Connection, table: Table, struct: str) -> dict[str, str]:
    """The types of the fields of a struct, in SQL, by their names; none if these have no names."""
    with contextlib.suppress(DataError):
        return {row[0]: row[1] for row in run(db, f"DESCRIBE SELECT unnest({struct}) FROM {table.sql}", table.name)}
    return {}


def with_fields(db: Connection, table: Table) -> Table:
    """A table in which each field of a struct is a column: ``meta.studio``; of a struct within it, the whole is one."""
    columns: dict[str, Column] = {}
    for name, (c, kind) in table.columns.items():
        fields = fields_of(db, table, c) if is_struct(kind) else {}
        named = {f"{name}.{field}": Column(f"struct_extract({c}, {quoted(field)})", of) for field, of in fields.items()}
        taken = {each.casefold() for each in (*columns, *table.columns)}
        columns |= named if named and taken.isdisjoint(map(str.casefold, named)) else {name: Column(c, kind)}
    if columns == table.columns:
        return table
    selected = ", ".join(c for c, _ in columns.values())
    flat = _with_columns(table.name, f"(SELECT {selected} FROM {table.sql})", {name: of for name, (_, of) in columns.items()})
    return replace(table, sql=flat.sql, columns=flat.columns)


def store(db: Connection, given: Table, name: str) -> Table:
    """A copy of a table under a name in SQL, its rows numbered from 0 by ``i``."""
    run(db, f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT *, row_number() OVER () - 1 AS i FROM {given.sql}", given.name)
    return replace(given, sql=name)


def measure_rows(db: Connection, table: Table) -> tuple[int, int]:
    """The number of rows of a table, and about how many bytes a row has."""
    ((count,),) = run(db, f"SELECT count(*) FROM {table.sql}", table.name)
    sample = fetch_table(db, f"SELECT * FROM {table.first_rows}", table.name)
    return int(count), sample.nbytes // max(1, sample.num_rows)


def fetch_chunks(
    db: Connection, table: Table, selected: Sequence[str], texts: Iterable[str], width: int = 0
) -> Iterator[list[Any]]:
    """What is selected of a stored table's rows, in order, as Arrow arrays; an empty table is one empty chunk.

    Chunks are smaller where the text of some columns is long, and where a row will have many dense features: ``width``.
    """
    lengths = (f"coalesce(sum(strlen(CAST({table.columns[name].sql} AS VARCHAR))), 0)" for name in texts)
    ((count, size),) = run(db, f"SELECT count(*), list_sum([{', '.join(['0', *lengths])}]) FROM {table.sql}", table.name)
    step = max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // max(1, width), count * _CHUNK_CHARACTERS // max(1, int(size))))
    for start in range(0, max(1, count), step):
        rows = f"{table.sql} WHERE i >= {start} AND i < {start + step} ORDER BY i"
        yield [column.combine_chunks() for column in fetch_columns(db, selected, rows, table.name)]


def _with_columns(name: str, sql: str, kinds: dict[str, str]) -> Table:
    columns = {column: Column(f"c{i}", kind) for i, (column, kind) in enumerate(kinds.items())}
    return Table(one_line(name), f"{sql} AS given({', '.join(column.sql for column in columns.values())})", columns)


# -- frames -----------------------------------------------------------------------------------------------------------------


def is_frame(given: Any) -> bool:
    """Whether it is a data frame of pandas, polars or Arrow. Its type is asked, since a column may have any name."""
    return hasattr(type(given), "columns") and not isinstance(given, tuple)


def is_table(given: Any) -> bool:
    """Whether it is a file or a data frame."""
    return isinstance(given, str | Path) or is_frame(given)


def _frame(db: Connection, given: Any, role: str, kind: str) -> Table:
    if not is_frame(given):
        raise DataError(f"{role} must be a file or a data frame, not a {type(given).__name__}")
    name, view = f"the data frame of {role}" + (f" '{kind}'" if kind else ""), _view("given", role, kind)
    try:
        frame = _as_columns(given)
        names = [str(each) for each in (frame.column_names if hasattr(type(frame), "column_names") else frame.columns)]
        if names:
            db.register(view, frame)
    except Exception as error:
        raise DataError(f"{name}: {one_line(str(error))}") from None
    if not names:
        raise DataError(f"{name}: it has no columns")
    check_names(names, name)
    return describe(db, name, view)


def _view(what: str, role: str, kind: str) -> str:
    """The name in SQL of what holds a table."""
    return f"{what}_{role}_{kind.encode().hex()}"


def _as_columns(given: Any) -> Any:
    """A frame with all its data in columns: pandas' named index becomes one, and a lazy frame of polars is collected."""
    kind = type(given)
    if hasattr(kind, "reset_index") and any(name is not None for name in given.index.names):
        return given.reset_index()
    return given.collect() if hasattr(kind, "collect_schema") and not hasattr(kind, "shape") else given


# -- files ------------------------------------------------------------------------------------------------------------------


def _text(path: str, files: list[str], header: Header) -> Table:
    sql = f"read_csv({files_sql(files)}, {header.options})"
    table = _with_columns(path, sql, dict.fromkeys(header.names, "VARCHAR"))
    return replace(
        table, is_text=True, no_header=not (header.in_file or header.in_comment), looks_otherwise=header.looks_otherwise
    )


def _parquet(db: Connection, path: str, files: list[str]) -> Table:
    rows = run(db, f"SELECT file_name, name, num_children FROM parquet_schema({files_sql(files)})", path)
    for file in dict.fromkeys(file for file, _, _ in rows):
        check_names(_outermost([row[1:] for row in rows if row[0] == file]), file)
    return describe(db, path, f"read_parquet({files_sql(files)}, hive_partitioning = false)")


def _outermost(rows: Sequence[tuple[str, int | None]]) -> list[str]:
    """The top-level columns of a Parquet file's schema, which lists each column before its children."""
    names, within = [], 0
    for name, children in rows[1:]:
        if not within:
            names.append(name)
        within += (children or 0) - (within > 0)
    return names


def _json(db: Connection, path: str, files: list[str]) -> Table:
    """Text stays text, even if it looks like a date; columns with several types become text."""
    plain = f"{files_sql(files)}, hive_partitioning = false"
    table = describe(db, path, f"read_json_auto({plain}, sample_size = -1, map_inference_threshold = -1)")
    if list(table.columns) == ["json"] and _keys(db, path, files) != ["json"]:
        raise DataError(f"{path}: it has no rows with named columns")
    small = {column.casefold() for column in table.columns}
    if any(_NUMBERED.search(column) and _NUMBERED.sub("", column) in small for column in small):
        # DuckDB may have made such a name from one that differs from another only by case.
        check_names(_keys(db, path, files), path)
    kinds = {column: "VARCHAR" if _FROM_TEXT.fullmatch(kind) else kind for column, (_, kind) in table.columns.items()}
    if list(kinds.values()) != [kind for _, kind in table.columns.values()]:
        columns = ", ".join(f"{quoted(column)}: {quoted(kind)}" for column, kind in kinds.items())
        table = _with_columns(path, f"read_json({plain}, columns = {{{columns}}})", kinds)
    if "JSON" not in kinds.values():
        return table
    texts = ", ".join(f"{c} ->> '$'" if kind == "JSON" else c for c, kind in table.columns.values())
    mixed = {column: "VARCHAR" if kind == "JSON" else kind for column, kind in kinds.items()}
    return _with_columns(path, f"(SELECT {texts} FROM {table.sql})", mixed)


def _keys(db: Connection, path: str, files: list[str]) -> list[str]:
    """All keys in JSON files, as written."""
    rows = run(db, f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects_auto({files_sql(files)})", path)
    return sorted(key for (key,) in rows)
