"""The vectors and ids of an embedding in shards as arrays that are read when they are asked for. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from clnr.embedding.search.neighbors import Rows
from clnr.embedding.search.node_ids import NodeIds, text_of
from clnr.embedding.search.stored_index import StoredIndex, digest_of
from clnr.embedding.store.shards import Shards
from clnr.graph.csr import Array


class StoredEmbedding(Rows):
    """The vectors of all nodes, in shards: an array whose rows are read when they are asked for.

    ``z[5]``, ``z[10:20]``, ``z[[3, 1]]`` and ``z[mask]`` are NumPy arrays. ``for part in z.blocks()`` gives all rows, one shard
    at a time. ``numpy.asarray(z)`` reads everything.

    Args:
        shards: Where they are.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, shards: Shards):
        self._shards = shards

    @property
    def shape(self) -> tuple[int, int]:
        return self._shards.nodes, self._shards.dimension

    def __len__(self) -> int:
        return self._shards.nodes

    def __getitem__(self, index: Any) -> Array:
        rows, columns = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        nodes = _chosen(rows, len(self))
        vectors = self._shards.rows(nodes.reshape(-1)).reshape(*nodes.shape, self.shape[1])
        return vectors[(..., *columns)] if columns else vectors

    def __iter__(self) -> Iterator[Array]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[Array]:
        """All rows in order, one shard at a time."""
        return self._shards.blocks()

    @cached_property
    def index(self) -> Any:
        """The index of approximate search: built from one shard after the other, which takes ``index_bytes`` of memory, and
        kept in the user's cache."""
        return StoredIndex(self.shape, digest_of(self._shards.paths())).open(self.blocks)

    def copy(self) -> StoredEmbedding:
        """Itself: nothing is ever written to it."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.concatenate([np.empty((0, self.shape[1]), np.float32), *self.blocks()]).astype(
            dtype or self.dtype, copy=False
        )

    def __repr__(self) -> str:
        return f"StoredEmbedding(shape={self.shape}, folder={str(self._shards.folder)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._shards,)


def _chosen(index: Any, count: int) -> Array:
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


class StoredIds(NodeIds):
    """The ids of all nodes, in shards: an array whose elements are read when they are asked for.

    It finds rows by a pass over all ids.
    """

    def __init__(self, shards: Shards):
        self._shards = shards

    @property
    def shape(self) -> tuple[int]:
        return (self._shards.nodes,)

    def __len__(self) -> int:
        return self._shards.nodes

    @property
    def values(self) -> StoredIds:
        return self

    def __getitem__(self, nodes: Any) -> Any:
        chosen = _chosen(nodes, len(self))
        return self._shards.ids(chosen) if np.ndim(chosen) else self._shards.ids(np.array([chosen]))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def texts(self) -> Iterator[Any]:
        return self._shards.id_texts()

    def find(self, names: list[Any]) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = [text_of(name) for name in names]
        wanted, rows = pa.array(dict.fromkeys(texts), pa.string()), np.full(len(set(texts)), -1, np.int64)
        first = 0
        for ids in self.texts():
            places = pc.index_in(wanted, value_set=ids).to_numpy(zero_copy_only=False)
            rows[~np.isnan(places)] = first + places[~np.isnan(places)].astype(np.int64)
            if (rows >= 0).all():
                break
            first += len(ids)
        return rows[pc.index_in(pa.array(texts, pa.string()), value_set=wanted).to_numpy(zero_copy_only=False).astype(np.int64)]
