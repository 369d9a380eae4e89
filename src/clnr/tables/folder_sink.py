"""A graph from tables in a graph folder: each part is streamed from DuckDB into its files."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import CSR, Array
from clnr.graph.folder import GraphWriter, check_nodes
from clnr.support.humanize import gigabytes, plural
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.node_columns import column_sql, label_sql
from clnr.tables.columns.structural import (
    NODES_AT_A_TIME,
    StructuralFeatures,
    log_degree,
    neighbour_degrees,
    neighbours,
)
from clnr.tables.ingest_report import NODES, TABLES
from clnr.tables.io.source import Table, fetch_chunks, measure_rows
from clnr.tables.io.sql import Connection, run, stream_arrow
from clnr.tables.load import Loaded
from clnr.tables.table_arguments import TableArguments
from clnr.tables.table_driver import GraphSink
from clnr.tables.table_graph import TableInfo
from clnr.tables.table_kinds import OpenTables

# Of an edge and of a node, beside its columns, in the folder; and in DuckDB while edges are joined, merged and sorted.
# Columns are in the folder as features and as they were, and in DuckDB.
_EDGE_BYTES, _NODE_BYTES, _COLUMN_COPIES = 20, 50, 2
_EDGE_SPILL_BYTES, _NODE_SPILL_BYTES = 100, 50


class FolderSink(GraphSink):
    """Takes a graph into a folder, in bounded memory."""

    def __init__(self, db: Connection, writer: GraphWriter, arguments: TableArguments, duckdb_bytes: int):
        self._db, self._writer, self._arguments, self._duckdb_bytes = db, writer, arguments, duckdb_bytes
        self._progress = arguments.progress or (lambda line: None)
        self._directed = arguments.is_directed

    def check_tables(self, tables: OpenTables) -> None:
        """Raise where the disk is clearly too small, since DuckDB spills what exceeds its memory.

        And where tables have more nodes than a folder can; those that only edges name are counted later.
        """
        written, stored, nodes = 0, 0, 0
        for edge_table in (each.table for each in tables.edges):
            ((rows,),) = run(self._db, f"SELECT count(*) FROM {edge_table.sql}", edge_table.name)
            written, stored = written + rows * _EDGE_BYTES, stored + rows * _EDGE_SPILL_BYTES
        for node_table in (each.table for each in tables.nodes):
            count, row_bytes = measure_rows(self._db, node_table)
            nodes += count
            written += count * (_NODE_BYTES + _COLUMN_COPIES * row_bytes)
            stored += count * (_NODE_SPILL_BYTES + row_bytes)
        check_nodes(nodes)
        needed = written + max(0, stored - self._duckdb_bytes)
        free = shutil.disk_usage(self._writer.folder).free
        self._progress(f"about {gigabytes(needed)} of disk are needed while it runs; {gigabytes(free)} are free")
        if needed > free:
            raise DataError(f"the disk is too small: about {gigabytes(needed)} are needed, and {gigabytes(free)} are free")
        self._progress("reading the tables")

    # -- ids and edges ------------------------------------------------------------------------------------------------

    def take_ids(self, as_integers: bool) -> None:
        ((self._count,),) = run(self._db, "SELECT count(*) FROM ids", "nodes")
        check_nodes(self._count)
        batches = stream_arrow(self._db, "SELECT id FROM ids ORDER BY i", "nodes")
        if as_integers:
            with self._writer.array("ids.values") as append:
                for (ids,) in batches:
                    append(ids.to_numpy())
        else:
            self._write_texts(batches)
        self._progress("merging repeated edges")

    def _write_texts(self, batches: Iterator[list[Any]]) -> None:
        import pyarrow as pa

        with self._writer.array("ids.offsets") as append, self._writer.array("ids.text") as append_text:
            append(np.zeros(1, np.int64))
            total = 0
            for (ids,) in batches:
                wide = ids.cast(pa.large_string())
                _, offsets, text = wide.buffers()
                ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
                append(ends[1:] - ends[0] + total)
                append_text(np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]])
                total += int(ends[-1] - ends[0])

    def take_edges(self, loaded: Loaded) -> list[str]:
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
        edge_count = plural(edges, "directed edge") if self._directed else plural(edges // 2, "undirected edge")
        self._progress(f"{plural(self._count, 'node')}, {edge_count}")
        return []

    def _write_csr(self, name: str, batches: Iterator[list[Any]], weighted: bool) -> int:
        """Edges that come in the order of rows and columns; returns their number."""
        parts = CSR._fields if weighted else CSR._fields[:2]
        with contextlib.ExitStack() as stack:
            ends, *columns = [stack.enter_context(self._writer.array(f"{name}.{part}")) for part in parts]
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

    @property
    def _ways(self) -> tuple[str, ...]:
        return ("incoming", "outgoing") if self._directed else ("incoming",)

    # -- nodes --------------------------------------------------------------------------------------------------------

    def take_labels(self, node_table: Table | None, label: str | None) -> None:
        if node_table is None or label is None:
            return
        with self._writer.array("labels.values") as append:
            for (classes,) in stream_arrow(self._db, label_sql(node_table, label), node_table.name):
                append(classes.to_numpy())

    def take_features(self, loaded: Loaded, encoder: FeatureEncoder) -> list[str]:
        assert loaded.node_table is not None
        blocks = self._counted(encoder.blocks(self._db, loaded.node_table, loaded.matrix))
        if not encoder.sparse:
            with self._writer.array("features.values") as append:
                for block in blocks:
                    append(block)
            return []
        with (
            self._writer.array("features.indptr") as ends,
            self._writer.array("features.indices") as indices,
            self._writer.array("features.values") as values,
        ):
            ends(np.zeros(1, np.int64))
            total = 0
            for block in blocks:
                block.sum_duplicates()
                ends(block.indptr[1:].astype(np.int64) + total)
                indices(block.indices)
                values(block.data)
                total += block.nnz
        return []

    def _counted(self, blocks: Iterator[Any]) -> Iterator[Any]:
        done, shown = 0, -1
        for block in blocks:
            yield block
            done += block.shape[0]
            if (tenth := 10 * done // max(1, self._count)) > shown:
                self._progress(f"writing features: {100 * done // max(1, self._count)} %")
                shown = tenth

    def take_structure(self, structure: StructuralFeatures | None) -> StructuralFeatures:
        self._progress("writing features, from the structure of the graph")
        degree = np.empty(self._count, np.float32)
        for nodes in _ranges(0, self._count):
            degree[nodes] = log_degree(self._neighbours(nodes))

        def columns() -> Iterator[Array]:
            for nodes in _ranges(0, self._count):
                yield neighbour_degrees(degree[nodes], degree, self._neighbours(nodes))

        if structure is None:
            structure = StructuralFeatures.fit_parts(columns(), self._count)
        with self._writer.array("features.values") as append:
            for each in columns():
                append(structure.features(each))
        return structure

    def _neighbours(self, nodes: slice) -> sp.csr_array:
        """A row for each of these nodes, of their neighbours in either direction."""
        incoming, *rest = [self._rows(way, nodes) for way in self._ways]
        return neighbours(incoming, *rest) if rest else incoming

    def _rows(self, way: str, nodes: slice) -> sp.csr_array:
        indptr = self._writer.read_back(f"{way}.indptr")[nodes.start : nodes.stop + 1]
        indices = self._writer.read_back(f"{way}.indices")[indptr[0] : indptr[-1]]
        values = np.ones(len(indices), np.float32)
        return sp.csr_array((values, indices, indptr - indptr[0]), shape=(len(indptr) - 1, self._count))

    def take_columns(self, loaded: Loaded) -> Any:
        if (node_table := loaded.node_table) is None:
            return None
        import pyarrow as pa
        import pyarrow.parquet as pq

        kept = column_sql(node_table, loaded.roles.id, loaded.as_integers)
        texts = [name for name, column in node_table.columns.items() if column.kind == "VARCHAR"]
        chunks = fetch_chunks(self._db, node_table, list(kept.values()), texts, len(kept))
        first = pa.table(dict(zip(kept, next(chunks), strict=True)))
        with pq.ParquetWriter(self._writer.file(NODES), first.schema) as writer:
            writer.write_table(first)
            for arrays in chunks:
                writer.write_table(pa.table(dict(zip(kept, arrays, strict=True))))
        return first

    def finish(self) -> int:
        ends = [self._writer.read_back(f"{way}.indptr") for way in self._ways]
        edges = (sum(np.diff(each[part.start : part.stop + 1]) for each in ends) for part in _ranges(0, self._count))
        return sum(int(np.equal(counts, 0).sum()) for counts in edges)

    def write_manifest(self, info: TableInfo) -> None:
        """Write how tables were read, and the manifest, without which nothing opens the folder."""
        self._writer.file(TABLES).write_bytes(info.to_json())
        assert info.feature_encoder is not None
        self._writer.close(
            nodes=self._count,
            features=info.feature_encoder.width,
            classes=len(info.classes),
            name=self._arguments.graph_name,
            facts=info.facts,
        )


def _ranges(first: int, last: int) -> Iterator[slice]:
    """Consecutive nodes in parts of a bounded size."""
    for start in range(first, last, NODES_AT_A_TIME):
        yield slice(start, min(start + NODES_AT_A_TIME, last))
