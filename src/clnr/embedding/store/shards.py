"""An embedding in shards, embeddings/part-*.parquet in the order of nodes: written and searched one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clnr.embedding.search.neighbors import NeighborList
from clnr.embedding.search.node_ids import text_of
from clnr.embedding.search.node_search import NodeTexts
from clnr.embedding.search.stored_index import StoredIndex, digest_of
from clnr.embedding.store.artifact_files import FORMAT_VERSION, SHARDS, SOURCE, ArtifactFiles, check_version
from clnr.embedding.store.export import vector_table
from clnr.errors import ClnrError, DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.kind_rows import unit
from clnr.support.storage.checked_files import check_count, errors_name, parse_json

if TYPE_CHECKING:
    import pyarrow


def shard_path(folder: Path, number: int) -> Path:
    return folder / SHARDS / f"part-{number:05d}.parquet"


def write_shard(path: Path, ids: pyarrow.Array, z: Array, kinds: pyarrow.Table | None = None) -> None:
    """Write the vectors of some nodes as one row group, as ``vector_table``; a shard is complete, or not there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = vector_table(ids if pa.types.is_integer(ids.type) else ids.cast(pa.string()), z, kinds)
    part = path.with_suffix(".unfinished")
    # Vectors hardly repeat: to look for what does costs more than to write them.
    others = table.column_names[:-1]
    plain = {
        "use_dictionary": others,
        "write_statistics": others,
        "compression": dict.fromkeys(others, "snappy") | {"vector.list.element": "none"},
    }
    pq.write_table(table, part, row_group_size=max(1, len(z)), **plain)
    part.replace(path)


def shard_width(path: Path) -> int:
    """The numbers of a vector in a shard."""
    import pyarrow.parquet as pq

    with errors_name(path):
        return int(pq.read_schema(path).field("vector").type.list_size)


def shard_columns(path: Path) -> list[str]:
    """The names of a shard's columns."""
    import pyarrow.parquet as pq

    with errors_name(path):
        return pq.read_schema(path).names


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


@dataclass(frozen=True)
class Shards:
    """The shards of a folder that ``clnr embed --graph`` wrote; one of them is in memory at a time.

    Attributes:
        folder: The folder.
        nodes: Number of nodes in all of them.
        dimension: Numbers of a vector.
        shards: Number of shards.
        graph: The path of the graph folder, and its digest.
    """

    folder: Path
    nodes: int
    dimension: int
    shards: int
    graph: tuple[Path, str]

    @classmethod
    def open(cls, files: ArtifactFiles) -> Shards:
        with files.reading(SOURCE) as path:
            content = parse_json(path.read_text(encoding="utf-8"))
            check_version(content["form"])
            nodes, dimension, count = (check_count(content[name]) for name in ("nodes", "dimension", "shards"))
            return cls(files.folder, nodes, dimension, count, (Path(str(content["folder"])), str(content["digest"])))

    def graph_folder(self) -> GraphFolder | None:
        """The graph that was embedded, if it is still where it was."""
        path, digest = self.graph
        try:
            found = GraphFolder.open(path)
        except DataError:
            return None
        return found if found.digest == digest else None

    def linked(self, node: int, needed: bool) -> set[int]:
        """The neighbours of a node in the graph, in either direction; without its folder none, or an error if ``needed``."""
        folder = self.graph_folder()
        if folder is None and needed:
            raise ClnrError(
                f"which nodes are linked is told by the graph folder, {self.graph[0]}, which is not there, or was changed "
                "(unlinked=True, --unlinked)"
            )
        return set() if folder is None else folder.neighbours(node)

    @cached_property
    def _starts(self) -> Array:
        """The first row of each shard, and the number of all."""
        import pyarrow.parquet as pq

        counts = []
        for path in self.paths():
            with errors_name(path):
                counts.append(pq.read_metadata(path).num_rows)
        if sum(counts) != self.nodes:
            raise DataError(f"{self.folder}: its shards have {sum(counts):,} nodes where {self.nodes:,} are right")
        return np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])

    def paths(self) -> Iterator[Path]:
        """The files, in the order of nodes."""
        return (shard_path(self.folder, number) for number in range(self.shards))

    def _column(self, number: int, name: str) -> Any:
        """A column of a shard, in one piece."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = shard_path(self.folder, number)
        with errors_name(path):
            column = pq.read_table(path, columns=[name])[name].combine_chunks()
            column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            if column.null_count:
                raise DataError(f"a value is missing in the column '{name}'")
            return column

    def vectors(self, number: int) -> Array:
        """The vectors of a shard."""
        import pyarrow as pa

        column = self._column(number, "vector")
        with errors_name(shard_path(self.folder, number)):
            if column.type != pa.list_(pa.float32(), self.dimension):
                raise DataError(f"the column 'vector' must hold lists of {self.dimension} float32 numbers, not {column.type}")
            flat = column.flatten().to_numpy(zero_copy_only=False)
            if len(flat) != len(column) * self.dimension or not np.isfinite(flat).all():
                raise DataError("a vector is missing, or has a number that is not finite")
        return flat.reshape(-1, self.dimension)

    def parts(self) -> Iterator[tuple[int, Array]]:
        """The first row and the vectors of each shard."""
        for number, first in enumerate(self._starts[:-1].tolist()):
            yield first, self.vectors(number)

    def rows(self, nodes: Array) -> Array:
        """The vectors of some nodes, in their order."""
        out = np.empty((len(nodes), self.dimension), np.float32)
        for number, places in self._by_shard(nodes):
            out[places] = self.vectors(number)[nodes[places] - self._starts[number]]
        return out

    def ids(self, nodes: Array) -> Array:
        """The ids of some nodes, in their order: numbers, or text."""
        import pyarrow as pa

        found = [(places, self._column(number, "id"), number) for number, places in self._by_shard(nodes)]
        numbers = all(pa.types.is_integer(column.type) for _, column, _ in found)
        out = np.empty(len(nodes), np.int64 if numbers else object)
        for places, column, number in found:
            out[places] = column.take(nodes[places] - self._starts[number]).to_numpy(zero_copy_only=False)
        return out

    def _by_shard(self, nodes: Array) -> Iterator[tuple[int, Array]]:
        """The shards that hold some nodes, and the places of these nodes among the given ones."""
        of = np.searchsorted(self._starts, nodes, "right") - 1
        order = np.argsort(of, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(of[order])) + 1):
            if len(places):
                yield int(of[places[0]]), places

    def id_texts(self) -> Iterator[Any]:
        """The ids of each shard as Arrow text."""
        import pyarrow as pa

        for number in range(self.shards):
            yield self._column(number, "id").cast(pa.string())

    def locate(self, names: list[Any]) -> Array:
        """The rows of the nodes with these ids, -1 where there is none; a number and its text are the same id."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = [text_of(name) for name in names]
        wanted, rows = pa.array(dict.fromkeys(texts), pa.string()), np.full(len(set(texts)), -1, np.int64)
        for start, ids in zip(self._starts[:-1].tolist(), self.id_texts(), strict=True):
            places = pc.index_in(wanted, value_set=ids).to_numpy(zero_copy_only=False)
            rows[~np.isnan(places)] = start + places[~np.isnan(places)].astype(np.int64)
            if (rows >= 0).all():
                break
        return rows[pc.index_in(pa.array(texts, pa.string()), value_set=wanted).to_numpy(zero_copy_only=False).astype(np.int64)]

    def find(self, names: list[Any]) -> Array:
        """The rows of the nodes with these ids."""
        rows = self.locate(names)
        if (rows < 0).any():
            raise NodeTexts(self.id_texts).unknown(text_of(names[int(np.flatnonzero(rows < 0)[0])]))
        return rows

    def nearest(self, queries: Array | list[int], k: int, approximate: bool = False) -> NeighborList:
        """The ``k`` nodes of largest cosine similarity to each of some nodes, as ``NeighborSearch.nearest``.

        Args:
            queries: The nodes; each costs a pass over all shards, unless ``approximate``.
            k: How many; fewer if there are not so many.
            approximate: Search an index (usearch). It is built by the first search, from one shard after the other, which
                takes ``index_bytes`` of memory, and is kept in the user's cache.
        """
        k, found = max(0, min(k, self.nodes - 1)), []
        for row, query in zip(queries, unit(self.rows(np.asarray(queries, np.int64))), strict=True):
            nodes, cosine = self._by_index(query, k + 1) if approximate else self._exactly(query, k + 1)
            others = np.flatnonzero(nodes != row)[:k]
            found.append((nodes[others], cosine[others]))
        return NeighborList(*(np.stack(each) for each in zip(*found, strict=True)))

    def _exactly(self, query: Array, k: int) -> tuple[Array, Array]:
        nodes, best = np.empty(0, np.int64), np.empty(0, np.float32)
        for first, z in self.parts():
            cosine = unit(z) @ query
            # Stable: of equally similar nodes the first come first.
            near = np.argsort(-cosine, kind="stable")[:k]
            nodes, best = np.concatenate([nodes, first + near]), np.concatenate([best, cosine[near]])
            order = np.argsort(-best, kind="stable")[:k]
            nodes, best = nodes[order], best[order]
        return nodes, best

    @cached_property
    def _index(self) -> Any:
        return StoredIndex((self.nodes, self.dimension), digest_of(self.paths())).open(self.parts)

    def _by_index(self, query: Array, k: int) -> tuple[Array, Array]:
        nodes = np.asarray(self._index.search(query, k).keys).astype(np.int64)
        # The index computes at lower precision: cosines, and their order, are computed again.
        cosine = unit(self.rows(nodes)) @ query
        order = np.argsort(-cosine, kind="stable")
        return nodes[order], cosine[order]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self.nodes, self.dimension, self.shards, self.graph)
