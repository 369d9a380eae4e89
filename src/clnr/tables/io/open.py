"""Tables opened as relations of a DuckDB connection: files, globs, data frames and queries."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clnr.errors import DataError, did_you_mean, one_line
from clnr.tables.io.query import run_query
from clnr.tables.io.sql import MISSING_WORDS, Column, Connection, copies_folder, identifier, quoted, run, spill_folder, trimmed
from clnr.tables.io.text_files import check_names, ending_of, in_plain_text, read_head

TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".edges", ".edgelist")
PARQUET_ENDINGS = (".parquet", ".pq")
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
ENDINGS = (*TEXT_ENDINGS, *PARQUET_ENDINGS, *JSON_ENDINGS)
"""How the names of files end that tables are read from."""
_IN_PYTHON = "read it with networkx in Python, and give the graph to NodeEmbedder"
_AS_CSV = "save the sheet as CSV"
_GRAPH_FORMATS = {".graphml": "GraphML", ".gexf": "GEXF", ".gml": "GML", ".net": "a graph of Pajek"}
_ELSEWHERE = {
    **{ending: (name, _IN_PYTHON) for ending, name in _GRAPH_FORMATS.items()},
    **dict.fromkeys((".xlsx", ".xls", ".ods"), ("an Excel file", _AS_CSV)),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), ("an SQLite database", "export its tables as CSV")),
    ".mat": ("a Matlab file", "read it with scipy.io.loadmat in Python, and give the matrix to NodeEmbedder"),
}
# Types that DuckDB infers for text in JSON that looks like it.
_FROM_TEXT = re.compile(r"DATE|TIME(STAMP)?(_[A-Z]+)?( WITH TIME ZONE)?|UUID")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_GLOB = re.compile(r"[*?[]")
# At the start of a path, DuckDB reads these as a home folder or a URL.
_SPECIAL = re.compile(r"~|[^/\\]{2,}:")
_QUERY = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)
_LINKS = ("links", "edges")


@dataclass(frozen=True)
class Table:
    """A relation that can be queried.

    Attributes:
        name: What to call it in messages: the file, or the argument.
        sql: What to write after FROM: text is trimmed; words for a missing value, and numbers that are not finite, are NULL.
        columns: By name, in order.
        has_header: Whether its columns have names of their own.
        raw: The same as it was given.
        in_order: Whether its rows are in the order in which they were given.
    """

    name: str
    sql: str
    columns: dict[str, Column]
    has_header: bool = True
    raw: str = ""
    in_order: bool = True


def open_table(
    db: Connection, given: Any, role: str, known: Collection[str], header: bool | None, encoding: str | None
) -> Table:
    """Open what the user gave: a path, a glob or a query, or a data frame of pandas, polars or Arrow.

    The role is ``edges`` or ``nodes``, followed by a kind, if there is one. A first line of text with ``known`` names, in lower
    case, is a header.
    """
    if is_query(given):
        name, rows, in_order = run_query(db, given, role)
        return replace(describe(db, name, rows), in_order=in_order)
    if not isinstance(given, str | Path):
        return _frame(db, given, role)
    path = os.fspath(given)
    files, ending = find_files(path), ending_of(path)
    if ending in PARQUET_ENDINGS:
        return describe(db, path, f"read_parquet({_listed(files)}, hive_partitioning = false)")
    with in_plain_text(files, encoding, copies_folder(spill_folder(db))) as copies:
        table = _json(db, path, copies, role) if ending in JSON_ENDINGS else _text(path, copies, known, header)
        if copies == files:
            return table
        view = identifier(f"{role} in UTF-8")
        run(db, f"CREATE TEMP TABLE {view} AS SELECT * FROM {table.raw}", path)
    stored = _with_columns(path, view, {name: column.kind for name, column in table.columns.items()})
    return replace(stored, has_header=table.has_header)


def describe(db: Connection, name: str, sql: str) -> Table:
    """A relation with the columns that DuckDB sees."""
    rows = run(db, f"DESCRIBE SELECT * FROM {sql}", name)
    check_names([row[0] for row in rows], name)
    return _with_columns(name, sql, {row[0]: row[1] for row in rows})


def _with_columns(name: str, sql: str, kinds: dict[str, str]) -> Table:
    columns = {column: Column(f"c{place}", kind) for place, (column, kind) in enumerate(kinds.items())}
    raw = f"(SELECT * FROM {sql} AS given({', '.join(c for c, _ in columns.values())}))"
    clean = ", ".join(map(_clean, columns.values()))
    # In two steps, or text would be trimmed twice.
    texts = ", ".join(f"{trimmed(c)} AS {c}" if kind == "VARCHAR" else c for c, kind in columns.values())
    return Table(one_line(name), f"(SELECT {clean} FROM (SELECT {texts} FROM {raw}))", columns, raw=raw)


def _clean(column: Column) -> str:
    c, kind = column
    if kind == "VARCHAR":
        return f"CASE WHEN {c} NOT IN {MISSING_WORDS} THEN {c} END AS {c}"
    return f"CASE WHEN isfinite({c}) THEN {c} END AS {c}" if kind in ("DOUBLE", "FLOAT") else c


def is_query(given: Any) -> bool:
    """Whether it is a query: text that begins with SELECT, WITH or FROM and does not end as a file."""
    return isinstance(given, str) and _QUERY.match(given) is not None and ending_of(given) not in ENDINGS


# -- files ------------------------------------------------------------------------------------------------------------


def find_files(path: str) -> list[str]:
    """The file of exactly this name if there is one, else those that match a glob; and fail if the format is not read."""
    if not path.strip():
        raise DataError("a table must be a file or a data frame, not empty text")
    if "\0" in path or path != path.encode("utf-8", "ignore").decode():
        raise DataError(f"{path!a}: the file name is not UTF-8")
    if _ADDRESS.match(path):
        raise DataError(f"{path}: it is a URL, and only files on this machine are read; download it first")
    if (ending := ending_of(path)) not in ENDINGS:
        what, cure = _ELSEWHERE.get(ending, ("", ""))
        raise DataError(f"{one_line(path)}: {f'it is {what}, which is not read; {cure}' if what else _unknown_format()}")
    there = os.path.expanduser(path)
    files = [there] if _is_file(there) else sorted(filter(_is_file, glob.glob(there, recursive=True)))  # noqa: PTH207
    if not files:
        raise _no_file(path)
    return files


def _unknown_format() -> str:
    return f"its format is unknown; the name should end in one of {', '.join(ENDINGS)}"


def _is_file(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    if stat.S_ISDIR(mode):
        raise DataError(f"{path}: it is a folder; name a file, or a glob such as {Path(path, '*.parquet')}")
    if not stat.S_ISREG(mode):
        raise DataError(f"{path}: it is a pipe or a device, and a table is read more than once; save it to a file first")
    return True


def _no_file(path: str) -> DataError:
    folder = Path(os.path.expanduser(path)).parent
    there = [] if _GLOB.search(path) or not folder.is_dir() else [each.name for each in folder.iterdir() if each.is_file()]
    near = did_you_mean(Path(path).name, (name for name in there if ending_of(name) in ENDINGS)).strip()
    return DataError(f"{path}: there is no such file{f'; {near}' if near else ''}")


def escaped(path: str) -> str:
    """A path in which no sign is one of a glob."""
    return _GLOB.sub(r"[\g<0>]", path)


def _listed(files: Sequence[str]) -> str:
    """Files in SQL, so that DuckDB opens exactly these."""
    return f"[{', '.join(map(_one_file, files))}]"


def _one_file(file: str) -> str:
    return quoted(f"./{escaped(file)}" if _SPECIAL.match(file) else escaped(file))


def _text(path: str, files: list[str], known: Collection[str], header: bool | None) -> Table:
    """Text files, whose first lines must be alike; those without a line are skipped."""
    heads = {file: read_head(Path(file), known, header) for file in files}
    some = {file: head for file, head in heads.items() if head is not None}
    if not some:
        raise DataError(f"{path}: it is empty")
    (first, like), *others = some.items()
    for file, head in others:
        if (head.delimiter, head.names) != (like.delimiter, like.names):
            raise DataError(f"{file}: its first line has other columns than that of {first}")
    rows = " UNION ALL BY NAME ".join(f"SELECT * FROM {head.sql([_one_file(file)])}" for file, head in some.items())
    table = _with_columns(path, f"({rows})", dict.fromkeys(like.names, "VARCHAR"))
    return replace(table, has_header=like.has_header)


def _json(db: Connection, path: str, files: list[str], role: str) -> Table:
    """Rows, a list of them, or an object with lists of nodes and of links. Text stays text, even if it looks like a date."""
    plain = f"{_listed(files)}, hive_partitioning = false"
    table = describe(db, path, f"read_json_auto({plain}, sample_size = -1, map_inference_threshold = -1)")
    lists = {name.casefold(): column for name, column in table.columns.items() if column.kind.endswith("[]")}
    if "nodes" in lists and any(name in lists for name in _LINKS):
        wanted = "nodes" if role.startswith("nodes") else next(name for name in _LINKS if name in lists)
        if not lists[wanted].kind.startswith("STRUCT"):
            raise DataError(f"{path}: its '{wanted}' are no list of objects")
        table = describe(db, path, f"(SELECT unnest(x) FROM (SELECT unnest({lists[wanted].sql}) AS x FROM {table.raw}))")
    elif list(table.columns) == ["json"]:
        raise DataError(f"{path}: it has no rows with named columns")
    texts = {name: column.kind for name, column in table.columns.items()}
    as_text = {name for name, kind in texts.items() if _FROM_TEXT.fullmatch(kind) or kind == "JSON"}
    if not as_text:
        return table
    selected = (
        f"{c} ->> '$'" if kind == "JSON" else f"CAST({c} AS VARCHAR)" if name in as_text else c
        for name, (c, kind) in table.columns.items()
    )
    kinds = {name: "VARCHAR" if name in as_text else kind for name, kind in texts.items()}
    return _with_columns(path, f"(SELECT {', '.join(selected)} FROM {table.raw})", kinds)


def is_node_link(db: Connection, given: Any, encoding: str | None) -> bool:
    """Whether a file is JSON that has its nodes beside its links."""
    if not isinstance(given, str | Path) or is_query(given) or ending_of(os.fspath(given)) != ".json":
        return False
    path = os.fspath(given)
    with in_plain_text(find_files(path), encoding, copies_folder(spill_folder(db))) as copies:
        rows = run(db, f"DESCRIBE SELECT * FROM read_json_auto({_listed(copies)})", path)
    names = {row[0].casefold() for row in rows if row[1].endswith("[]")}
    return "nodes" in names and not names.isdisjoint(_LINKS)


# -- frames -----------------------------------------------------------------------------------------------------------


def is_frame(given: Any) -> bool:
    """Whether it is a data frame of pandas, polars or Arrow. Its type is asked, since a column may have any name."""
    return hasattr(type(given), "columns") and not isinstance(given, tuple)


def is_table(given: Any) -> bool:
    """Whether it is a file or a data frame."""
    return isinstance(given, str | Path) or is_frame(given)


def _frame(db: Connection, given: Any, role: str) -> Table:
    if not is_frame(given):
        raise DataError(f"{role} must be a file or a data frame, not a {type(given).__name__}")
    name, view = f"the data frame of {role}", f"given_{role.encode().hex()}"
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


def _as_columns(given: Any) -> Any:
    """A frame with all its data in columns: pandas' named index becomes one, and a lazy frame of polars is collected."""
    kind = type(given)
    if hasattr(kind, "reset_index") and any(name is not None for name in given.index.names):
        return given.reset_index()
    return given.collect() if hasattr(kind, "collect_schema") and not hasattr(kind, "shape") else given
