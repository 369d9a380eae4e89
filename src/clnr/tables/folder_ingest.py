"""Tables as a graph folder, in bounded memory: DuckDB joins, merges and sorts out of core, and what it gives is streamed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.folder import FEATURE_TYPES, GraphWriter, is_graph_folder, open_graph
from clnr.support.arguments import LEAST_MEMORY, check_choice, check_memory, check_type
from clnr.support.humanize import gigabytes
from clnr.support.machine.memory import unused_memory
from clnr.support.storage import OwnFiles, check_folder, reserve_folder, resolve_path, temporary_path, write_folder
from clnr.tables.argument_checks import check_arguments
from clnr.tables.folder_sink import FolderSink
from clnr.tables.ingest_report import GRAPH_FILES
from clnr.tables.io.sql import connect, spill_folders
from clnr.tables.table_driver import build_graph

MEMORY = "4 GB"
OWN_FILES = OwnFiles(GRAPH_FILES, is_graph_folder)
"""How to recognise a graph folder that clnr wrote."""
# What Python needs beside DuckDB, for rows that are being encoded and written.
_PYTHON_BYTES = 800_000_000


def ingest(
    edges: Any = None,
    nodes: Any = None,
    *,
    out: str | Path,
    dtype: str = "float32",
    memory: str = MEMORY,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
    **columns: Any,
) -> Graph:
    """Write tables as a graph folder: the graph of ``read_tables``, in bounded memory whatever its size.

    On top of ``memory`` come the texts of classes, words and categories, and one number per node for structural features.

    Args:
        edges: A CSV, Parquet or JSON file, a glob of them, or a data frame; or several by their kinds, as in ``read_tables``.
        nodes: Likewise, one row per node; without it, features come from the structure of the graph.
        out: The folder to write. Meanwhile DuckDB spills to a folder next to it.
        dtype: How features are stored: ``float32`` or ``float16``.
        memory: How much memory may be used, such as ``4 GB``; no more than is unused, also in a container.
        force: Whether a graph folder that clnr wrote may be overwritten.
        progress: Called with a line about each step.
        columns: Names of columns, ``weight``, ``directed`` and other arguments of ``read_tables``, except ``base``.
    """
    check_choice("dtype", dtype, FEATURE_TYPES)
    check_type("memory", memory, str, "text", DataError)
    if columns.get("base") is not None:
        raise DataError("ingest cannot extend a graph; use read_tables(base=...)")
    amount = check_memory(memory)
    unused = unused_memory()
    amount = amount if unused is None else min(amount, unused)
    if amount < LEAST_MEMORY:
        raise DataError(f"1 GB of memory is needed to write a graph folder, and {gigabytes(amount)} are free; free some")
    arguments = check_arguments("ingest", edges, nodes, progress=progress, **columns)
    path = Path(out)
    with reserve_folder(path):
        check_folder(path, force, OWN_FILES)
        with (
            _spill(resolve_path(path)) as spill,
            write_folder(path, force, OWN_FILES) as part,
            contextlib.closing(connect(f"{amount - _PYTHON_BYTES} B", spill)) as db,
        ):
            sink = FolderSink(db, GraphWriter(part, dtype), arguments, amount - _PYTHON_BYTES)
            sink.write_manifest(build_graph(db, arguments, sink))
    return open_graph(path)


@contextlib.contextmanager
def _spill(path: Path) -> Iterator[Path]:
    """A folder beside another for what DuckDB spills; leftovers of a killed process are removed first."""
    spill = temporary_path(path, "spill")

    def remove() -> None:
        for folder in spill_folders(spill):
            shutil.rmtree(folder, ignore_errors=True)

    remove()
    try:
        yield spill
    finally:
        remove()
