"""The vectors of a folder: in one Parquet file, or in shards, embeddings/part-*.parquet in the order of nodes."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clnr.embedding.result.artifact_files import GRAPH_FILE, SHARDS, VECTORS, ArtifactFiles
from clnr.embedding.result.node_ids import id_part, kinds_of
from clnr.errors import ClnrError, DataError
from clnr.graph.csr import Array
from clnr.support.storage import errors_name

if TYPE_CHECKING:
    from clnr.graph import Graph

_MOST_ROWS_OF_A_GROUP = 1 << 20
_ALL_ROWS = 1 << 62


def shard_path(folder: Path, number: int) -> Path:
    return folder / SHARDS / f"part-{number:05d}.parquet"


def write_shard(path: Path, graph: Graph, first: int, z: Array) -> None:
    """Write id, kind and vector of the nodes from the ``first`` on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat, last = pa.array(np.ascontiguousarray(z, dtype=np.float32).reshape(-1)), first + len(z)
    columns = {"id": id_part(graph, first, last), **kinds_of(graph, np.arange(first, last))}
    table = pa.table({**columns, "vector": pa.FixedSizeListArray.from_arrays(flat, z.shape[1])})
    # Vectors hardly repeat: to look for what does costs more than to write them.
    others = [*columns]
    plain = {
        "use_dictionary": others,
        "write_statistics": others,
        "compression": dict.fromkeys(others, "snappy") | {"vector.list.element": "none"},
    }
    pq.write_table(table, path, row_group_size=_MOST_ROWS_OF_A_GROUP, **plain)


def read_vectors(path: Path) -> Array:
    """The vectors in a file; one that is missing, and numbers that are not finite, are refused."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pq.read_table(path, columns=["vector"])["vector"]
    if not pa.types.is_fixed_size_list(column.type) or column.type.value_type != pa.float32():
        raise DataError(f"the column 'vector' must hold lists of float32 numbers of one length, not {column.type}")
    flat = [part.flatten().to_numpy(zero_copy_only=False) for part in column.chunks]
    z = flat[0] if len(flat) == 1 else np.concatenate([np.empty(0, np.float32), *flat])
    if len(z) != len(column) * column.type.list_size or not np.isfinite(z).all():
        raise DataError("a vector is missing, or has a number that is not finite")
    return z.reshape(len(column), column.type.list_size)


def load_vectors(files: ArtifactFiles, nodes: int) -> Array | Shards:
    """The vectors of a folder, one for each of its nodes: an array of those in one file, or shards."""
    if files.has(VECTORS):
        with files.reading(VECTORS) as path:
            z: Any = read_vectors(path)
    else:
        z = Shards(files.folder)
    if len(z) != nodes:
        raise DataError(f"{files.folder / GRAPH_FILE}: it has {nodes:,} nodes, but there are {len(z):,} vectors")
    return z


def blocks(z: Any, most: int = _ALL_ROWS) -> Iterator[tuple[int, Array]]:
    """The first node and the vectors of each shard, or of all of an array; in parts of at most so many rows, if given."""
    first = 0
    for block in z.blocks() if isinstance(z, Shards) else [z]:
        for start in range(0, len(block), most):
            yield first + start, block[start : start + most]
        first += len(block)


class TemporaryFolder:
    """A folder of the system's temporary ones (``TMPDIR``), removed with the last that refers to this."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="clnr-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        raise ClnrError("an embedding in temporary files cannot be pickled: save(folder), then NodeEmbedder.load(folder)")


@dataclass(frozen=True, repr=False)
class Shards:
    """The shards of a folder that ``clnr embed --graph`` wrote: an array whose rows are read when they are asked for.

    ``z[5]``, ``z[10:20]``, ``z[[3, 1]]`` and ``z[mask]`` are NumPy arrays. ``for part in z.blocks()`` gives all rows, one shard
    at a time. ``numpy.asarray(z)`` reads everything.

    A temporary folder is removed with the last that refers to it.
    """

    folder: Path
    temporary: TemporaryFolder | None = field(default=None, compare=False)

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)
    ndim: ClassVar[int] = 2

    @cached_property
    def paths(self) -> list[Path]:
        """The files, in the order of nodes."""
        count = len(list((self.folder / SHARDS).glob("part-*.parquet")))
        return [shard_path(self.folder, number) for number in range(count)]

    @cached_property
    def _starts(self) -> Array:
        """The first row of each shard, and the number of all."""
        import pyarrow.parquet as pq

        counts = [0]
        for path in self.paths:
            with errors_name(path):
                counts.append(pq.read_metadata(path).num_rows)
        return np.cumsum(counts)

    @cached_property
    def shape(self) -> tuple[int, int]:
        import pyarrow.parquet as pq

        path = shard_path(self.folder, 0)
        with errors_name(path):
            return len(self), int(pq.read_schema(path).field("vector").type.list_size)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: Any) -> Array:
        rows, columns = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        nodes = _chosen(rows, len(self))
        vectors, shard = np.empty((*nodes.shape, self.shape[1]), np.float32), np.searchsorted(self._starts, nodes, "right") - 1
        for number in np.unique(shard).tolist():
            vectors[shard == number] = self._block(number)[nodes[shard == number] - self._starts[number]]
        return vectors[(..., *columns)] if columns else vectors

    def __iter__(self) -> Iterator[Array]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[Array]:
        """The vectors of each shard."""
        return map(self._block, range(len(self.paths)))

    def _block(self, number: int) -> Array:
        shape = self._starts[number + 1] - self._starts[number], self.shape[1]
        with errors_name(self.paths[number]):
            if (z := read_vectors(self.paths[number])).shape != shape:
                raise DataError(f"its vectors have the shape {z.shape} instead of {shape}")
            return z

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.concatenate([*self.blocks()]).astype(dtype or self.dtype, copy=False)

    def copy(self) -> Shards:
        """Itself: nothing is ever written to it."""
        return self

    def __repr__(self) -> str:
        return f"Shards(shape={self.shape}, folder={str(self.folder)!r})"


def _chosen(index: Any, count: int) -> Array:
    """``numpy.arange(count)[index]``; for a number, a slice or numbers without an array of all."""
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    numbers = np.asarray(index)
    if numbers.dtype.kind not in "iu":
        return np.arange(count)[index]
    numbers = numbers.astype(np.int64, copy=False)
    if ((numbers < -count) | (numbers >= count)).any():
        raise IndexError(f"index {index!r:.80} is out of bounds for {count} rows")
    return np.where(numbers < 0, numbers + count, numbers)
