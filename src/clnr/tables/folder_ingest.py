"""Tables as a graph folder, in bounded memory: DuckDB joins, merges and sorts out of core, and what it gives is streamed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.folder_writer import FolderWriter
from clnr.graph.graph_folder import ARRAYS, MANIFEST, GraphFolder, check_nodes, is_graph_folder
from clnr.graph.stored_arrays import FEATURE_TYPES, array_file
from clnr.support.arguments import check_choice, check_type
from clnr.support.humanize import gigabytes, parse_bytes, plural
from clnr.support.machine.memory import unused_memory
from clnr.support.progress import Tenths
from clnr.support.storage.atomic_io import atomic_folder, check_folder, reserve_folder, resolve_path
from clnr.support.storage.checked_files import errors_name, read_stable
from clnr.support.storage.file_locks import temporary_name
from clnr.support.storage.owned_files import OwnedFiles
from clnr.tables.columns.columns import check_columns, column_sql, label_sql, register_classes
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.fit_encoder import encoder_for
from clnr.tables.columns.structural import DEGREES, StructuralFeatures, log_degree, neighbour_degrees, neighbours
from clnr.tables.edges.edge_list import IngestReport, merge_rows
from clnr.tables.io.chunks import fetch_chunks
from clnr.tables.io.sql import connect, fetch_table, run, stream_arrow
from clnr.tables.load import Loaded, load_tables, name_of
from clnr.tables.read import number_nodes
from clnr.tables.table_arguments import OpenTables, TableArguments
from clnr.tables.table_graph import TableGraph
from clnr.tables.table_info import NODES, TABLES, TableInfo

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "4 GB"
OWNED_FILES = OwnedFiles(frozenset([MANIFEST, TABLES, NODES, *map(array_file, ARRAYS)]), is_graph_folder)
"""How to recognise a graph folder that clnr wrote."""
# What Python needs beside DuckDB, for rows that are being encoded and written; and the least that DuckDB works with.
_OWN_MEMORY = 800_000_000
_LEAST = 200_000_000
# So many nodes are handled at a time.
_PART = 1 << 17
# Bytes of an edge and of a node, beside its columns, in the folder; and in DuckDB while edges are joined, merged and sorted.
# Columns are in the folder as features and as they were, and in DuckDB.
_EDGE_BYTES, _NODE_BYTES, _COPIES = 20, 50, 2
_EDGE_SPILL, _NODE_SPILL = 100, 50

Progress = Callable[[str], None]


def ingest(
    edges: Any = None,
    nodes: Any = None,
    *,
    out: str | Path,
    dtype: str = "float32",
    memory: str = MEMORY,
    force: bool = False,
    progress: Progress | None = None,
    **columns: Any,
) -> GraphFolder:
    """Write tables as a graph folder: the same graph as that of ``read_tables``, in bounded memory whatever its size.

    Text that names of classes, words and categories need is in memory besides, and so is one number per node where features
    come from the structure of the graph.

    Args:
        edges: A CSV, Parquet or JSON file, a glob of them, or a data frame; or several by their kinds, as in ``read_tables``.
        nodes: Likewise, one row per node; without it, features come from the structure of the graph.
        out: The folder to write. While it is written, the folder beside it that DuckDB spills to takes disk, too.
        dtype: How features are stored: ``float32``, ``float16`` or ``bfloat16``.
        memory: How much memory may be used, such as ``4 GB``; no more than is unused, also in a container.
        force: Whether a graph folder that clnr wrote may be overwritten.
        progress: Called with a line about each step.
        columns: Names of columns, ``edges_query``, ``directed`` and other arguments of ``read_tables``, except ``base``.
    """
    check_choice("dtype", dtype, FEATURE_TYPES)
    check_type("memory", memory, str, "text", DataError)
    if columns.get("base") is not None:
        raise DataError("a graph folder is written from tables alone; extend a graph in memory with read_tables(base=...)")
    amount = parse_bytes(memory)
    if amount is None or amount < _OWN_MEMORY + _LEAST:
        raise DataError(f"memory (--memory) must be an amount from 1 GB on, such as '4 GB', not '{memory}'")
    unused = unused_memory()
    amount = amount if unused is None else min(amount, unused)
    if amount < _OWN_MEMORY + _LEAST:
        raise DataError(f"1 GB of memory is needed to write a graph folder, and {gigabytes(amount)} are free; free some")
    arguments = TableArguments(edges, nodes, **columns)
    path = Path(out)
    with reserve_folder(path, OWNED_FILES):
        check_folder(path, force, OWNED_FILES)
        with _spill(resolve_path(path)) as spill, atomic_folder(path, force, OWNED_FILES) as part:
            db = connect(f"{amount - _OWN_MEMORY} B", spill)
            try:
                work = _Ingest(db, FolderWriter(part, dtype), arguments, progress or (lambda line: None))
                work.run(amount - _OWN_MEMORY)
            finally:
                db.close()
    return GraphFolder.open(path)


@contextlib.contextmanager
def _spill(path: Path) -> Iterator[Path]:
    """A folder beside another for what DuckDB spills; leftovers of a killed process are removed first."""
    spill = path.with_name(temporary_name(path.name, "spill"))
    shutil.rmtree(spill, ignore_errors=True)
    try:
        yield spill
    finally:
        shutil.rmtree(spill, ignore_errors=True)


class _Ingest:
    """One run of ``ingest``, whose steps share a connection and the folder that is written."""

    def __init__(self, db: DuckDBPyConnection, writer: FolderWriter, arguments: TableArguments, progress: Progress):
        self._db, self._writer, self._arguments, self._progress = db, writer, arguments, progress
        self._directed = arguments.is_directed
        self._count = 0

    def run(self, memory: int) -> None:
        """Write the folder; DuckDB may use so many bytes of memory."""
        arguments, writer = self._arguments, self._writer
        tables = arguments.open_tables(self._db)
        self._check_disk(tables, memory)
        self._progress("reading the tables")
        loaded = load_tables(self._db, tables, arguments)
        number_nodes(self._db, None, loaded.as_integers, loaded.node_table is None)
        ((self._count,),) = run(self._db, "SELECT count(*) FROM row_ids", "nodes")
        check_nodes(self._count)
        self._write_ids(loaded)
        self._progress("merging repeated edges")
        report = merge_rows(self._db, loaded.edges_title, loaded.merging)
        edges = self._write_edges(loaded)
        found = plural(edges, "directed edge") if self._directed else plural(edges // 2, "undirected edge")
        self._progress(f"{plural(self._count, 'node')}, {found}")
        classes = self._write_labels(loaded)
        encoder, remarks = encoder_for(self._db, loaded, arguments, self._progress)
        encoder = self._write_features(loaded, encoder)
        names = self._write_columns(loaded)
        report = replace(
            report,
            isolated=self._isolated(),
            remarks=(*loaded.remarks, *report.remarks, *remarks),
            directed=self._directed,
            names=names,
            columns=loaded.describe(self._db, names, encoder),
            fading=loaded.fading,
            negative_weights=arguments.with_negative_weights,
            node_kinds=arguments.node_kinds,
        )
        writer.file(TABLES).write_bytes(TableInfo(encoder, classes, report).to_json())
        writer.close(
            nodes=self._count,
            features=encoder.width,
            classes=len(classes),
            directed=self._directed,
            name=arguments.graph_name,
        )

    def _check_disk(self, tables: OpenTables, memory: int) -> None:
        """Fail before the work where the disk is clearly too small for it: DuckDB spills what exceeds its memory.

        And where tables have more nodes than a folder can; those that only edges name are counted later.
        """
        written, stored, nodes = 0, 0, 0
        for edge_table in (each.table for each in tables.edges):
            ((rows,),) = run(self._db, f"SELECT count(*) FROM {edge_table.sql}", edge_table.name)
            written, stored = written + rows * _EDGE_BYTES, stored + rows * _EDGE_SPILL
        for node_table in (each.table for each in tables.nodes):
            ((count,),) = run(self._db, f"SELECT count(*) FROM {node_table.sql}", node_table.name)
            sample = fetch_table(self._db, f"SELECT * FROM {node_table.sql} LIMIT 1000", node_table.name)
            nodes += count
            columns = sample.nbytes // max(1, sample.num_rows)
            written, stored = written + count * (_NODE_BYTES + _COPIES * columns), stored + count * (_NODE_SPILL + columns)
        check_nodes(nodes)
        needed = written + max(0, stored - memory)
        free = shutil.disk_usage(self._writer.folder).free
        self._progress(f"about {gigabytes(needed)} of disk are needed while it runs; {gigabytes(free)} are free")
        if needed > free:
            raise DataError(f"the disk is too small: about {gigabytes(needed)} are needed, and {gigabytes(free)} are free")

    # -- ids and edges ------------------------------------------------------------------------------------------------

    def _write_ids(self, loaded: Loaded) -> None:
        batches = stream_arrow(self._db, "SELECT id FROM row_ids ORDER BY i", "nodes")
        if loaded.as_integers:
            with self._writer.array("ids.values", "int64") as append:
                for (ids,) in batches:
                    append(ids.to_numpy())
            return
        import pyarrow as pa

        with self._writer.array("ids.offsets", "int64") as append, self._writer.array("ids.text", "uint8") as append_text:
            append(np.zeros(1, np.int64))
            total = 0
            for (ids,) in batches:
                wide = ids.cast(pa.large_string())
                _, offsets, text = wide.buffers()
                ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
                append(ends[1:] - ends[0] + total)
                append_text(np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]])
                total += int(ends[-1] - ends[0])

    def _write_edges(self, loaded: Loaded) -> int:
        """CSR by target and, of a directed graph, by source."""
        weight = ", CAST(w AS FLOAT) AS w" if loaded.merging.weighted else ""
        kept = "WHERE CAST(w AS FLOAT) <> 0" if weight else ""
        a, b = "CAST(a AS INTEGER)", "CAST(b AS INTEGER)"
        ways = {"incoming": [(b, a)], "outgoing": [(a, b)]} if self._directed else {"incoming": [(a, b), (b, a)]}
        edges = 0
        for way, pairs in ways.items():
            self._progress(f"sorting edges by {'target' if way == 'incoming' else 'source'}")
            parts = (f"SELECT {row} AS r, {column} AS c{weight} FROM distinct_edges {kept}" for row, column in pairs)
            sql = f"SELECT * FROM ({' UNION ALL '.join(parts)}) ORDER BY r, c"
            edges = self._write_csr(way, stream_arrow(self._db, sql, "edges"), loaded.merging.weighted)
        run(self._db, "DROP TABLE distinct_edges", "edges")
        return edges

    def _write_csr(self, name: str, batches: Iterator[list[Any]], weighted: bool) -> int:
        """Edges that come in the order of rows and columns; returns their number."""
        parts = {"indptr": "int64", "indices": "int32"} | ({"weight": "float32"} if weighted else {})
        with contextlib.ExitStack() as stack:
            ends, *columns = [stack.enter_context(self._writer.array(f"{name}.{part}", parts[part])) for part in parts]
            ends(np.zeros(1, np.int64))
            total, node = 0, 0
            for row, *values in batches:
                rows = row.to_numpy()
                # The last node of a batch may have more edges in the next one.
                for nodes in _ranges(node, int(rows[-1])):
                    ends(total + np.searchsorted(rows, np.arange(nodes.start, nodes.stop), "right"))
                node, total = int(rows[-1]), total + len(rows)
                for append, column in zip(columns, values, strict=True):
                    append(column.to_numpy())
            for nodes in _ranges(node, self._count):
                ends(np.full(nodes.stop - nodes.start, total))
        return total

    def _isolated(self) -> int:
        """The number of nodes without edges."""
        ends = [self._writer.map(f"{way}.indptr").values for way in self._ways]
        edges = (sum(np.diff(each[part.start : part.stop + 1]) for each in ends) for part in _ranges(0, self._count))
        return sum(int(np.equal(counts, 0).sum()) for counts in edges)

    @property
    def _ways(self) -> tuple[str, ...]:
        return ("incoming", "outgoing") if self._directed else ("incoming",)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _write_labels(self, loaded: Loaded) -> tuple[str, ...]:
        """The class of each node, if there is a column of labels; returns the names of classes."""
        node_table, label = loaded.node_table, loaded.roles.label
        if node_table is None or label is None:
            return ()
        names = register_classes(self._db, node_table, label, ())
        with self._writer.array("labels.values", "int64") as append:
            for (classes,) in stream_arrow(self._db, label_sql(node_table, label), node_table.name):
                append(classes.to_numpy())
        return names

    def _write_features(self, loaded: Loaded, encoder: FeatureEncoder) -> FeatureEncoder:
        """Features by the encoder, which is then complete."""
        if not encoder.encodes:
            self._progress("writing features, from the structure of the graph")
            return self._write_structure(encoder)
        assert loaded.node_table is not None
        blocks = encoder.blocks(self._db, loaded.node_table, loaded.matrix)
        kind = self._writer.feature_type
        if not encoder.sparse:
            with self._writer.array("features.values", kind, encoder.width) as append:
                for block in self._counted(blocks):
                    append(block)
            return encoder
        with (
            self._writer.array("features.indptr", "int64") as ends,
            self._writer.array("features.indices", "int32") as indices,
            self._writer.array("features.values", kind) as values,
        ):
            ends(np.zeros(1, np.int64))
            total = 0
            for block in self._counted(blocks):
                block.sum_duplicates()
                ends(block.indptr[1:].astype(np.int64) + total)
                indices(block.indices)
                values(block.data)
                total += block.nnz
        return encoder

    def _counted(self, blocks: Iterator[Any]) -> Iterator[Any]:
        done, tenths = 0, Tenths(self._progress, "writing features", self._count)
        for block in blocks:
            yield block
            done += block.shape[0]
            tenths.done(done)

    def _write_structure(self, encoder: FeatureEncoder) -> FeatureEncoder:
        degree = np.empty(self._count, np.float32)
        for nodes in _ranges(0, self._count):
            degree[nodes] = log_degree(self._neighbours(nodes))

        def columns() -> Iterator[tuple[slice, Array]]:
            for nodes in _ranges(0, self._count):
                yield nodes, neighbour_degrees(degree[nodes], degree, self._neighbours(nodes))

        structure = encoder.structure
        if structure is None:
            mean, square = np.zeros(DEGREES), np.zeros(DEGREES)
            for _, each in columns():
                mean += each.sum(0, np.float64) / self._count
                square += np.square(each, dtype=np.float64).sum(0) / self._count
            structure = StructuralFeatures.of_moments(mean, np.sqrt(np.maximum(square - mean**2, 0)))
        with self._writer.array("features.values", self._writer.feature_type, structure.width) as append:
            for nodes, each in columns():
                ids = self._writer.ids(nodes.start, nodes.stop).to_numpy(zero_copy_only=False)
                append(structure.features(each, ids))
        return replace(encoder, structure=structure)

    def _neighbours(self, nodes: slice) -> sp.csr_array:
        """A row for each of these nodes, of their neighbours in either direction."""
        incoming, *rest = [self._rows(way, nodes) for way in self._ways]
        return neighbours(incoming, *rest) if rest else incoming

    def _rows(self, way: str, nodes: slice) -> sp.csr_array:
        indptr = self._writer.map(f"{way}.indptr").values[nodes.start : nodes.stop + 1]
        indices = self._writer.map(f"{way}.indices").values[indptr[0] : indptr[-1]]
        values = np.ones(len(indices), np.float32)
        return sp.csr_array((values, indices, indptr - indptr[0]), shape=(len(indptr) - 1, self._count))

    def _write_columns(self, loaded: Loaded) -> str | None:
        """The other columns of the node table; returns the one with the names of nodes, which is guessed by the first rows."""
        table = loaded.node_table
        if table is None:
            return loaded.names
        import pyarrow as pa
        import pyarrow.parquet as pq

        kept = column_sql(table)
        texts = [name for name, column in table.columns.items() if column.kind == "VARCHAR"]
        writer, names = None, None
        for arrays in fetch_chunks(self._db, table, list(kept.values()), texts, len(kept)):
            rows = pa.table(dict(zip(kept, arrays, strict=True)))
            if writer is None:
                names = name_of(loaded, rows, self._arguments)
                writer = pq.ParquetWriter(self._writer.file(NODES), rows.schema)
            writer.write_table(rows)
        assert writer is not None
        writer.close()
        return names


def _ranges(first: int, last: int) -> Iterator[slice]:
    """Consecutive nodes in parts of a bounded size."""
    for start in range(first, last, _PART):
        yield slice(start, min(start + _PART, last))


# -- reading ----------------------------------------------------------------------------------------------------------------


def load_graph_folder(path: Path) -> TableGraph:
    """A graph folder as a graph in memory, as ``read_tables`` has it."""
    return in_memory(GraphFolder.open(path))


def in_memory(folder: GraphFolder) -> TableGraph:
    """All of a graph folder, as ``read_tables`` has it."""
    return read_stable(folder.path, MANIFEST, lambda: _in_memory(GraphFolder.open(folder.path)))


def _in_memory(folder: GraphFolder) -> TableGraph:
    info = read_table_info(folder)
    columns = None
    if NODES in folder.files:
        with errors_name(folder.path / NODES):
            import pyarrow.parquet as pq

            columns = pq.read_table(folder.path / NODES)
            columns.validate(full=True)
            check_columns(columns)
            if columns.num_rows != folder.num_nodes:
                raise DataError(f"it has {columns.num_rows:,} rows for {folder.num_nodes:,} nodes")
    graph = folder.graph()
    return TableGraph(graph, info.feature_encoder, info.classes, info.ingest_report, columns)


def read_table_info(folder: GraphFolder) -> TableInfo:
    """How the tables of a graph folder were read."""
    if TABLES not in folder.files:
        return TableInfo(None, (), IngestReport(directed=folder.directed))
    with errors_name(folder.path / TABLES):
        info = TableInfo.from_json((folder.path / TABLES).read_text(encoding="utf-8"))
        info.check_labels(folder.num_classes)
        return info
