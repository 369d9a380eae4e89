"""An earlier graph, extended by tables: its nodes come first, in their order; new rows and new weights replace old ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.graph import Graph
from clnr.graph.table_info import ColumnInfo
from clnr.graph.writer import MemoryWriter
from clnr.support.humanize import plural
from clnr.tables.io.sql import Connection, fetch_numpy, run
from clnr.tables.node_rows import StagedNodes


class Extension:
    """What an earlier graph adds to the tables that extend it, in the SQL relations ``base_ids`` and ``distinct_edges``."""

    def __init__(self, db: Connection, base: Graph, whole: bool):
        import pyarrow as pa

        ids = base.node_ids
        self._db, self._base, self.whole = db, base, whole and ids.dtype.kind in "iu"
        texts = pa.array([str(each) for each in ids.tolist()], pa.string())
        db.register("base_ids", pa.table({"id": texts, "i": pa.array(np.arange(len(ids)))}))
        self._new = MemoryWriter()

    def merge_edges(self, edges: bool, directed: bool) -> list[str]:
        """Add the earlier edges to ``distinct_edges``; an edge of both has the new weight, if there is one."""
        import pyarrow as pa

        db, (source, target, weight) = self._db, self._base.edges()
        kept = source != target if directed else source < target
        columns = {
            "a": source[kept],
            "b": target[kept],
            "w": np.ones(kept.sum(), np.float64) if weight is None else weight[kept].astype(np.float64),
        }
        db.register("old_edges", pa.table(columns))
        if not edges:
            run(db, f"CREATE TEMP TABLE distinct_edges AS SELECT a, b{'' if weight is None else ', w'} FROM old_edges", "edges")
            return []
        is_weighted = "w" in {name for name, *_ in run(db, "DESCRIBE distinct_edges", "edges")}
        new = "w" if is_weighted else "coalesce(o.w, 1) AS w" if weight is not None else None
        both = "distinct_edges n LEFT JOIN old_edges o USING (a, b)"
        ((shared,),) = run(db, f"SELECT count(o.w) FROM {both}", "edges")
        measure = "" if new is None else f", {'n.w' if is_weighted else new}"
        old = "" if new is None else ", w"
        merged = (
            f"SELECT a, b{measure} FROM {both} UNION ALL SELECT a, b{old} FROM old_edges ANTI JOIN distinct_edges USING (a, b)"
        )
        run(db, f"CREATE TEMP TABLE merged AS {merged}", "edges")
        run(db, "DROP TABLE distinct_edges", "edges")
        run(db, "ALTER TABLE merged RENAME TO distinct_edges", "edges")
        notes = []
        if is_weighted != (weight is not None):
            which = "earlier" if is_weighted else "new"
            notes.append(f"warning: the {which} edges have no weights, unlike the others, and count as 1")
        if shared:
            how = (
                "the new weight counts"
                if is_weighted
                else "the earlier weight counts"
                if weight is not None
                else "each edge counts once"
            )
            notes.append(f"merged: {plural(shared, 'edge')} that the earlier graph has; {how}")
        return notes

    def parts(self, staged: StagedNodes) -> MemoryWriter:
        """What takes the labels, features and columns of the new rows."""
        sql = "SELECT ids.i AS i FROM node_rows JOIN ids USING (id) ORDER BY node_rows.i"
        index, count = (
            fetch_numpy(self._db, sql, staged.table.name)["i"],
            int(run(self._db, "SELECT count(*) FROM ids", "nodes")[0][0]),
        )
        # For each node, its row among those of the earlier graph followed by the new ones, which replace them.
        self._rows = np.arange(count)
        self._rows[index] = self._base.num_nodes + np.arange(len(index))
        return self._new

    def write(self, writer: Any, has_features: bool) -> None:
        """Write labels, features and columns of all nodes."""
        base, new, rows = self._base, self._new, self._rows
        added = len(rows) - base.num_nodes
        labels = new.read_back("labels.values") if new.has("labels.values") else None
        if labels is not None or base.labels is not None:
            old = np.full(base.num_nodes, -1) if base.labels is None else base.labels
            with writer.array("labels.values") as append:
                # Without a column of labels in the new tables, nodes that are there again keep theirs.
                append(np.concatenate([old, np.full(added, -1)]) if labels is None else np.concatenate([old, labels])[rows])
        if has_features:
            self._write_features(writer)
        columns = self._merged_columns(added)
        if columns is not None:
            writer.columns(iter([columns]), len(rows))

    def _write_features(self, writer: Any) -> None:
        base, new = self._base.features, self._new
        if not sp.issparse(base):
            values = new.read_back("features.values").reshape(-1, base.shape[1])
            with writer.array("features.values") as append:
                append(np.concatenate([base, values])[self._rows])
            return
        values, indices, indptr = (new.read_back(f"features.{part}") for part in ("values", "indices", "indptr"))
        added = sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, base.shape[1]))
        x = sp.vstack([base, added], format="csr")[self._rows]
        for part, array in (("indptr", x.indptr), ("indices", x.indices), ("values", x.data)):
            with writer.array(f"features.{part}") as append:
                append(array)

    def _merged_columns(self, added: int) -> Any:
        """The columns of the earlier nodes and of the new rows, by name; those that one lacks are empty there."""
        import pyarrow as pa

        old, new = (None if each is None else each.table() for each in (self._base.columns, self._new.table))
        # Rows of edges alone have no columns, and an Arrow table without columns has no rows.
        new = new if new is not None and new.num_columns else None
        if old is None and new is None:
            return None
        old = pa.table({"": pa.nulls(self._base.num_nodes)}).select([]) if old is None else old
        pairs = {}
        for name in dict.fromkeys([*old.column_names, *([] if new is None else new.column_names)]):
            pair = [
                table.column(name) if table is not None and name in table.column_names else pa.chunked_array([pa.nulls(length)])
                for table, length in ((old, self._base.num_nodes), (new, added if new is None else new.num_rows))
            ]
            pairs[name] = _concatenate(pair).take(pa.array(self._rows))
        return pa.table(pairs)

    def with_columns(self, columns: tuple[ColumnInfo, ...]) -> tuple[ColumnInfo, ...]:
        """How columns were read, those of tables not given again too, and what new ones lack of label, names and features."""
        tables, given = {each.table for each in columns}, {(each.table, each.column.casefold()) for each in columns}
        kept = ("label", "name", "feature")
        earlier = (each for each in self._base.info.columns if (each.table, each.column.casefold()) not in given)
        return (*columns, *(each for each in earlier if each.table not in tables or each.role in kept))


def _concatenate(pair: list[Any]) -> Any:
    """One column below the other: of their common type, or as text if they have two."""
    import pyarrow as pa

    kinds = {column.type for column in pair if not pa.types.is_null(column.type)}
    kind, chunks = kinds.pop() if len(kinds) == 1 else pa.string(), []
    kind = pa.large_string() if kind == pa.string() else kind
    for column in pair:
        try:
            chunks += column.cast(kind).chunks
        except pa.ArrowException:
            chunks.append(pa.array([None if each is None else str(each) for each in column.to_pylist()], kind))
    return pa.chunked_array(chunks, kind)
