"""Embeddings as files: Parquet, and formats that other tools read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clnr.errors import ClnrError, DataError
from clnr.support.arguments import check_choice
from clnr.support.storage import write_file

if TYPE_CHECKING:
    import pyarrow

    from clnr.embedding.result import EmbeddingResult
    from clnr.graph import Graph
    from clnr.graph.csr import Array


def vector_table(ids: pyarrow.Array, z: Array, kinds: pyarrow.Table | None = None) -> pyarrow.Table:
    """An Arrow table of ``id``, and ``vector`` as a fixed-size list; between them, the columns of ``kinds``, if given."""
    import numpy as np
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(z, dtype=np.float32).reshape(-1))
    between = {} if kinds is None else dict(zip(kinds.column_names, kinds.columns, strict=True))
    return pa.table({"id": ids, **between, "vector": pa.FixedSizeListArray.from_arrays(flat, z.shape[1])})


def id_column(graph: Graph) -> pyarrow.Array:
    """The ids of all nodes in one plain Arrow type if there is one for all of them, else as text."""
    try:
        return _as_column(graph.node_ids)
    except UnicodeEncodeError as error:
        raise DataError(f"the id {error.object!r:.60} cannot be written as text") from None


def id_part(graph: Graph, start: int, stop: int) -> pyarrow.Array:
    """The ids of a range of nodes of a graph in a folder: numbers or text."""
    import pyarrow as pa

    return pa.array(graph.node_ids[start:stop])


def _as_column(names: Array) -> pyarrow.Array:
    import pyarrow as pa

    from clnr.embedding.search.node_ids import has_lasting_text, text_of

    try:
        ids = pa.array(names if names.dtype.kind != "O" else names.tolist())
    except (pa.ArrowException, OverflowError):
        ids = None
    if ids is not None and not pa.types.is_nested(ids.type) and not ids.null_count:
        return ids
    listed = names.tolist()
    for name in listed:
        if not has_lasting_text(name):
            raise DataError(
                f"the id {name!r:.80} cannot be saved: its text changes from process to process; use numbers or text as ids"
            )
    texts = [text_of(name) for name in listed]
    if len(set(texts)) < len(texts):
        raise DataError("ids of mixed types are saved as text, and two of them have the same text; make them distinct")
    return pa.array(texts)


def read_vectors(path: Path) -> tuple[Array, Array]:
    """Ids and vectors from a Parquet file of ``vector_table``; missing or infinite numbers and duplicate ids are refused."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from clnr.graph.arrays import as_ids

    table = pq.read_table(path, columns=["id", "vector"]).combine_chunks()
    vector = table["vector"].type
    if not pa.types.is_fixed_size_list(vector) or not pa.types.is_floating(vector.value_type):
        raise DataError("the column 'vector' must hold lists of numbers of one fixed length")
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in table["vector"].chunks]
    with np.errstate(over="ignore"):
        flat = np.concatenate([np.empty(0, np.float32), *parts], dtype=np.float32, casting="same_kind")
    if len(flat) != table.num_rows * vector.list_size or not np.isfinite(flat).all():
        raise DataError("a vector is missing, or has a number that is not finite")
    ids = table["id"]
    if ids.null_count:
        raise DataError("an id is missing")
    names = ids.to_numpy() if pa.types.is_integer(ids.type) else np.array(ids.to_pylist(), object)
    return as_ids(names, table.num_rows), flat.reshape(table.num_rows, vector.list_size)


def _csv(result: EmbeddingResult, path: Path) -> None:
    import numpy as np

    nodes, assignment, width, first = result.nodes, result.clusters.assignment, result.rows.shape[1], 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        kinds = nodes.kinds_of(np.arange(0))
        between = [] if kinds is None else kinds.column_names
        writer.writerow(["id", *between, "cluster", *(f"v{i}" for i in range(width))])
        for block in result.rows.blocks():
            rows = np.arange(first, first + len(block))
            kinds = nodes.kinds_of(rows)
            columns = [] if kinds is None else kinds.to_pydict().values()
            beside = nodes.ids[rows].tolist(), *columns, assignment[rows].tolist()
            for *values, row in zip(*beside, block, strict=True):
                writer.writerow([*values, *(f"{number:.8g}" for number in row)])
            first += len(block)


def _npy(result: EmbeddingResult, path: Path) -> None:
    import numpy as np

    header = {"descr": "<f4", "fortran_order": False, "shape": result.rows.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in result.rows.blocks():
            file.write(block.astype("<f4", order="C", copy=False).data)


EXPORT_FORMATS: dict[str, tuple[str, Callable[[EmbeddingResult, Path], None]]] = {
    "csv": ("embeddings.csv", _csv),
    "npy": ("embeddings.npy", _npy),
}


def write_clusters(ids: Iterable[pyarrow.Array], assignment: Array, path: Path) -> None:
    """Write ``id`` and ``cluster`` of nodes in clusters as CSV or Parquet, by the name of the file; ids come in blocks."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    writer: Any = None
    first = 0
    with write_file(path) as part:
        for block in ids:
            of_block = assignment[first : first + len(block)]
            table = pa.table({"id": block, "cluster": of_block}).filter(of_block >= 0)
            if writer is None:
                writer = (pq.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter)(part, table.schema)
            writer.write_table(table)
            first += len(block)
        writer.close()


def parse_formats(words: list[str]) -> list[str]:
    """Format names, each once; one word may hold several, separated by commas."""
    names = [name for word in words for name in word.replace(",", " ").split()]
    for name in names:
        if name == "parquet":
            raise ClnrError("vectors are always written as Parquet, to embeddings.parquet: leave out the format parquet")
        check_choice("format", name, EXPORT_FORMATS)
    return list(dict.fromkeys(names))
