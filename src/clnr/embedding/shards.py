"""An embedding in shards, embeddings/part-*.parquet in the order of nodes: written and searched one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.embedding.artifact_files import FORMAT_VERSION, SHARDS, SOURCE, ArtifactFiles, check_version
from clnr.embedding.export import read_vectors
from clnr.embedding.neighbors import new_index
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.support.checked_files import check_count, errors_name, parse_json

if TYPE_CHECKING:
    import pyarrow


def shard_path(folder: Path, number: int) -> Path:
    return folder / SHARDS / f"part-{number:05d}.parquet"


def write_shard(path: Path, ids: pyarrow.Array, z: Array) -> None:
    """Write the vectors of some nodes as one row group; a shard is complete, or not there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.array(np.ascontiguousarray(z, np.float32).reshape(-1))
    table = pa.table({"id": ids, "vector": pa.FixedSizeListArray.from_arrays(flat, z.shape[1])})
    part = path.with_suffix(".unfinished")
    pq.write_table(table, part, row_group_size=max(1, len(z)))
    part.replace(path)


def shard_width(path: Path) -> int:
    """The numbers of a vector in a shard."""
    import pyarrow.parquet as pq

    with errors_name(path):
        return int(pq.read_schema(path).field("vector").type.list_size)


def source_json(graph: GraphFolder, dimension: int, shards: int) -> bytes:
    """The content of source.json: which graph folder was embedded, and into what."""
    content = {
        "form": FORMAT_VERSION,
        "folder": str(graph.path.resolve()),
        "digest": graph.digest,
        "nodes": graph.num_nodes,
        "dimension": dimension,
        "shards": shards,
    }
    return json.dumps(content, indent=1).encode()


class Shards(NamedTuple):
    """The shards of a folder that ``clnr embed --graph`` wrote.

    Attributes:
        folder: The folder.
        nodes: Number of nodes in all of them.
        shards: Number of shards.
        graph: The path of the graph folder, and its digest.
    """

    folder: Path
    nodes: int
    shards: int
    graph: tuple[Path, str]

    @classmethod
    def open(cls, files: ArtifactFiles) -> Shards:
        with files.reading(SOURCE) as path:
            content = parse_json(path.read_text(encoding="utf-8"))
            check_version(content["form"])
            nodes, count = check_count(content["nodes"]), check_count(content["shards"])
            return cls(files.folder, nodes, count, (Path(str(content["folder"])), str(content["digest"])))

    def graph_folder(self) -> GraphFolder | None:
        """The graph that was embedded, if it is still where it was."""
        path, digest = self.graph
        try:
            found = GraphFolder.open(path)
        except DataError:
            return None
        return found if found.digest == digest else None

    def _paths(self) -> Iterator[Path]:
        return (shard_path(self.folder, number) for number in range(self.shards))

    def find(self, node: str) -> tuple[int, Array]:
        """The row and the vector of a node, given its id as text."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        before = 0
        first: list[str] = []
        for path in self._paths():
            with errors_name(path):
                ids = pq.read_table(path, columns=["id"])["id"].cast(pa.string())
                first = first or ids.slice(0, 3).to_pylist()
                row = pc.index(ids, pa.scalar(node, pa.string())).as_py()
                if row >= 0:
                    return before + row, read_vectors(path)[1][row]
                before += len(ids)
        raise DataError(f"{self.folder}: there is no node '{node}'; its ids are such as {', '.join(map(repr, first))}")

    def parts(self) -> Iterator[tuple[int, Array, Array]]:
        """The first row, the ids and the vectors of each shard."""
        first = 0
        for path in self._paths():
            with errors_name(path):
                ids, z = read_vectors(path)
            yield first, ids, z
            first += len(ids)
        if first != self.nodes:
            raise DataError(f"{self.folder}: its shards have {first:,} nodes where {self.nodes:,} are right")

    def nearest(self, node: str, k: int, approximate: bool = False) -> tuple[int, list[tuple[int, str, float]]]:
        """The row of a node, and row, id and cosine similarity of the ``k`` nodes nearest to it, nearest first.

        Args:
            node: Its id as text.
            k: How many.
            approximate: Search an index (usearch), which is built from one shard after the other.
        """
        row, vector = self.find(node)
        query = unit(vector[None])[0]
        search = _by_index if approximate else _exactly
        return row, search(self, row, query, k)


def unit(z: Array) -> Array:
    """Rows scaled to length 1; a row of zeros stays."""
    length = np.linalg.norm(z, axis=1, keepdims=True)
    return np.divide(z, length, out=np.zeros_like(z), where=length > 0)


def _exactly(shards: Shards, row: int, query: Array, k: int) -> list[tuple[int, str, float]]:
    best: list[tuple[int, str, float]] = []
    for first, ids, z in shards.parts():
        cosine = unit(z) @ query
        if first <= row < first + len(ids):
            cosine[row - first] = -np.inf
        near = np.argsort(-cosine, kind="stable")[:k]
        best += [(first + int(i), str(ids[i]), float(cosine[i])) for i in near if np.isfinite(cosine[i])]
        # Stable: of equally similar nodes the first come first.
        best = sorted(best, key=lambda each: -each[2])[:k]
    return best


def _by_index(shards: Shards, row: int, query: Array, k: int) -> list[tuple[int, str, float]]:
    index: Any = None
    for first, ids, z in shards.parts():
        index = new_index(z.shape[1]) if index is None else index
        index.add(np.arange(first, first + len(ids)), z)
    found = [int(key) for key in index.search(query, k + 1).keys.tolist() if int(key) != row][:k]
    names: dict[int, tuple[str, float]] = {}
    for first, ids, z in shards.parts():
        for i in (each - first for each in found if first <= each < first + len(ids)):
            names[first + i] = str(ids[i]), float(unit(z[i : i + 1])[0] @ query)
    return sorted(((key, *names[key]) for key in found), key=lambda each: -each[2])
