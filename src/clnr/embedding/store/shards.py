"""An embedding in shards, embeddings/part-*.parquet in the order of nodes: written and read one after the other."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clnr.embedding.search.neighbors import Rows
from clnr.embedding.store.artifact_files import FORMAT_VERSION, SHARDS, SOURCE, ArtifactFiles
from clnr.embedding.store.export import vector_table
from clnr.errors import ClnrError, DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.folder import open_unchanged
from clnr.support.storage import check_count, check_version, errors_name, parse_json

if TYPE_CHECKING:
    import pyarrow


def stored_path(graph: Graph) -> Path:
    """The folder that a graph is in."""
    assert graph.stored is not None
    return graph.stored.path


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


def shard_schema(path: Path) -> pyarrow.Schema:
    import pyarrow.parquet as pq

    with errors_name(path):
        return pq.read_schema(path)


class TemporaryFolder:
    """A folder of the system's temporary ones (``TMPDIR``), removed with the last that refers to this."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="clnr-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, repr=False)
class Shards(Rows):
    """The shards of a folder that ``clnr embed --graph`` wrote: an array whose rows are read when they are asked for.

    ``z[5]``, ``z[10:20]``, ``z[[3, 1]]`` and ``z[mask]`` are NumPy arrays. ``for part in z.blocks()`` gives all rows, one shard
    at a time. ``numpy.asarray(z)`` reads everything.

    ``graph`` is the path of the graph folder, and its digest; a temporary folder is removed with the last that refers to it.
    """

    folder: Path
    nodes: int
    dimension: int
    shards: int
    graph: tuple[Path, str]
    temporary: TemporaryFolder | None = field(default=None, compare=False)

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)
    ndim: ClassVar[int] = 2

    @classmethod
    def open(cls, files: ArtifactFiles, temporary: TemporaryFolder | None = None) -> Shards:
        with files.reading(SOURCE) as path:
            content = parse_json(path.read_text(encoding="utf-8"))
            check_version(content["form"], FORMAT_VERSION)
            nodes, dimension, count = (check_count(content[name]) for name in ("nodes", "dimension", "shards"))
            graph = Path(str(content["folder"])), str(content["digest"])
            return cls(files.folder, nodes, dimension, count, graph, temporary)

    def to_json(self) -> bytes:
        """The content of source.json: which graph folder was embedded, and into what."""
        path, digest = self.graph
        content = {"form": FORMAT_VERSION, "folder": str(path.resolve()), "digest": digest}
        sizes = {"nodes": self.nodes, "dimension": self.dimension, "shards": self.shards}
        return json.dumps(content | sizes, indent=1).encode()

    def link(self, folder: Path) -> None:
        """Put the shards into another folder: linked, or copied where a file system has no links."""
        (folder / SHARDS).mkdir()
        for path in self.paths():
            with errors_name(path):
                target = folder / SHARDS / path.name
                try:
                    target.hardlink_to(path)
                except OSError:
                    shutil.copyfile(path, target)

    def graph_folder(self) -> Graph | None:
        """The graph that was embedded, if it is still where it was."""
        return open_unchanged(*self.graph)

    @cached_property
    def _starts(self) -> Array:
        """The first row of each shard, and the number of all."""
        import pyarrow.parquet as pq

        counts = []
        for path in self.paths():
            with errors_name(path):
                counts.append(pq.read_metadata(path).num_rows)
        if sum(counts) != self.nodes:
            raise DataError(f"{self.folder}: its shards have {sum(counts):,} nodes instead of {self.nodes:,}")
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
        import pyarrow as pa

        column = self._column(number, "vector")
        with errors_name(shard_path(self.folder, number)):
            if column.type != pa.list_(pa.float32(), self.dimension):
                raise DataError(f"the column 'vector' must hold lists of {self.dimension} float32 numbers, not {column.type}")
            flat = column.flatten().to_numpy(zero_copy_only=False)
            if len(flat) != len(column) * self.dimension or not np.isfinite(flat).all():
                raise DataError("a vector is missing, or has a number that is not finite")
        return flat.reshape(-1, self.dimension)

    @property
    def shape(self) -> tuple[int, int]:
        return self.nodes, self.dimension

    def __len__(self) -> int:
        return self.nodes

    def __getitem__(self, index: Any) -> Array:
        rows, columns = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        nodes = chosen(rows, len(self))
        vectors = self.rows(nodes.reshape(-1)).reshape(*nodes.shape, self.dimension)
        return vectors[(..., *columns)] if columns else vectors

    def __iter__(self) -> Iterator[Array]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[Array]:
        """The vectors of each shard; together, they must be as many as there are nodes."""
        return (self.vectors(number) for number in range(len(self._starts) - 1))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.concatenate([np.empty((0, self.dimension), np.float32), *self.blocks()]).astype(
            dtype or self.dtype, copy=False
        )

    def copy(self) -> Shards:
        """Itself: nothing is ever written to it."""
        return self

    def __repr__(self) -> str:
        return f"Shards(shape={self.shape}, folder={str(self.folder)!r})"

    def rows(self, nodes: Array) -> Array:
        """The vectors of some nodes, in their order."""
        out = np.empty((len(nodes), self.dimension), np.float32)
        for number, places in self._by_shard(nodes):
            out[places] = self.vectors(number)[nodes[places] - self._starts[number]]
        return out

    def ids(self, nodes: Array) -> Array:
        """The ids of some nodes, in their order: numbers, or text."""
        import pyarrow as pa

        columns = [(places, self._column(number, "id"), number) for number, places in self._by_shard(nodes)]
        numbers = all(pa.types.is_integer(column.type) for _, column, _ in columns)
        out = np.empty(len(nodes), np.int64 if numbers else object)
        for places, column, number in columns:
            out[places] = column.take(nodes[places] - self._starts[number]).to_numpy(zero_copy_only=False)
        return out

    def _by_shard(self, nodes: Array) -> Iterator[tuple[int, Array]]:
        """The shards that hold some nodes, and the places of these nodes among the given ones."""
        shard = np.searchsorted(self._starts, nodes, "right") - 1
        order = np.argsort(shard, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(shard[order])) + 1):
            if len(places):
                yield int(shard[places[0]]), places

    def id_columns(self) -> Iterator[Any]:
        """The ids of each shard as an Arrow array."""
        return (self._column(number, "id") for number in range(self.shards))

    def __reduce__(self) -> tuple[Any, ...]:
        if self.temporary is not None:
            raise ClnrError("an embedding in temporary files cannot be pickled: save(folder), then NodeEmbedder.load(folder)")
        return type(self), (self.folder, self.nodes, self.dimension, self.shards, self.graph)


class ShardIds:
    """The ids beside vectors in shards, where the graph that has them is gone: read when they are asked for."""

    dtype: ClassVar[np.dtype[Any]] = np.dtype(object)

    def __init__(self, shards: Shards):
        self._shards = shards

    def __len__(self) -> int:
        return self._shards.nodes

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    def __getitem__(self, nodes: Any) -> Any:
        rows = chosen(nodes, len(self))
        return self._shards.ids(rows) if np.ndim(rows) else self._shards.ids(np.array([rows]))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)


def chosen(index: Any, count: int) -> Array:
    """``numpy.arange(count)[index]``; for a number, a slice or numbers without an array of all."""
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    numbers = np.asarray(index)
    if numbers.dtype.kind not in "iu":
        return np.flatnonzero(numbers) if numbers.dtype == bool and numbers.shape == (count,) else np.arange(count)[index]
    numbers = numbers.astype(np.int64, copy=False)
    outside = (numbers < -count) | (numbers >= count)
    if outside.any():
        raise IndexError(f"index {numbers[outside][0]} is out of bounds for {count} rows")
    return np.where(numbers < 0, numbers + count, numbers)
