"""Embeddings and clusters as files that other tools read."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clnr.embedding.result.artifact_files import EXPORTS
from clnr.embedding.result.node_ids import id_parts, kinds_of
from clnr.embedding.result.shards import blocks
from clnr.support.arguments import check_choice
from clnr.support.storage import write_file

if TYPE_CHECKING:
    from clnr.embedding.result.embedding_result import EmbeddingResult
    from clnr.graph import Graph
    from clnr.graph.csr import Array


def _csv(result: EmbeddingResult, path: Path) -> None:
    nodes, assignment = result.nodes, result.clusters.assignment
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for first, block in blocks(result.z):
            rows = np.arange(first, first + len(block))
            kinds = {name: column.to_pylist() for name, column in kinds_of(result.graph, rows).items()}
            columns = {"id": nodes.ids[rows].tolist(), **kinds, "cluster": assignment[rows].tolist()}
            if first == 0:
                writer.writerow([*columns, *(f"v{i}" for i in range(block.shape[1]))])
            for *values, row in zip(*columns.values(), block, strict=True):
                writer.writerow([*values, *(f"{number:.8g}" for number in row)])


def _npy(result: EmbeddingResult, path: Path) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": result.z.shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _, block in blocks(result.z):
            file.write(block.astype("<f4", order="C", copy=False).data)


WRITERS: dict[str, Callable[[EmbeddingResult, Path], None]] = {"csv": _csv, "npy": _npy}
"""What writes each of ``EXPORTS``."""


def write_clusters(graph: Graph, assignment: Array, path: Path) -> None:
    """Write ``id`` and ``cluster`` of nodes in clusters as CSV or Parquet, by the name of the file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    writer: Any = None
    first = 0
    with write_file(path) as part:
        for ids in id_parts(graph):
            of_block = assignment[first : first + len(ids)]
            table = pa.table({"id": ids, "cluster": of_block}).filter(of_block >= 0)
            if writer is None:
                writer = (pq.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter)(part, table.schema)
            writer.write_table(table)
            first += len(ids)
        writer.close()


def parse_formats(words: list[str]) -> list[str]:
    """Format names, each once; one word may hold several, separated by commas."""
    names = [name for word in words for name in word.replace(",", " ").split()]
    for name in names:
        check_choice("format", name, EXPORTS)
    return list(dict.fromkeys(names))
