"""Flat arrays in files of their own, little-endian, memory-mapped and checked as they are read.

An error names the file and the row.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array

RESIDENT = 1 << 30
"""Bytes of files that may be mapped into memory, if nothing else is said."""
FEATURE_TYPES = ("float32", "float16")
_NUMPY_TYPES = {"float16": "<f2", "float32": "<f4", "int32": "<i4", "int64": "<i8", "uint8": "|u1"}
# How many numbers are looked at before their pages are given back; and how many stay in a processor's cache.
_BLOCK_NUMBERS = 1 << 20
_CACHED_NUMBERS = 1 << 16


def array_file(name: str) -> str:
    return f"{name}.bin"


class ArrayInfo(NamedTuple):
    """The type of an array's numbers, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(_NUMPY_TYPES[self.dtype]).itemsize


class FileInfo(NamedTuple):
    """A file's size and the digest of its content."""

    bytes: int
    sha256: str


class MappedArray(NamedTuple):
    """An array in a file. Its pages are read when they are touched, and count as the process's memory until released.

    That should happen when all of its pages of files exceed ``resident`` bytes.
    """

    path: Path
    mapped: Array
    pages: mmap.mmap | None
    resident: int = RESIDENT

    @classmethod
    def open(cls, path: Path, info: ArrayInfo, resident: int = RESIDENT) -> MappedArray:
        if not info.bytes:
            return cls(path, np.empty(info.shape, _NUMPY_TYPES[info.dtype]), None)
        with path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(path, np.frombuffer(pages, _NUMPY_TYPES[info.dtype]).reshape(info.shape), pages, resident)

    @property
    def values(self) -> Array:
        """All of it; ask for it anew for each part that is read: a file that shrinks or is written to is an error."""
        # To touch a page that a file no longer has would end the process.
        if self.pages is not None and (there := self.pages.size()) < len(self.pages):
            raise self.damaged(f"it has {there:,} bytes instead of {len(self.pages):,} when it was opened")
        return self.mapped

    def damaged(self, what: str) -> DataError:
        """The error of a file whose content cannot be right."""
        return DataError(f"{self.path}: it is damaged, or was changed: {what}")

    def release(self) -> None:
        """Give pages that were read back to the system, where it can; they are read again when touched."""
        if self.pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)


def to_stored(values: Array, dtype: str) -> Array:
    """Numbers in the type of a file; floats are rounded to the nearest."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, _NUMPY_TYPES[dtype])


class StoredRows(NamedTuple):
    """The rows of a sparse array, edges or features: the entries of row ``i`` are from ``indptr[i]`` to ``indptr[i + 1]``.

    Without ``values`` all are 1. Where they ``are_edges``, columns of a row are sorted, none twice, and no value is negative.
    """

    indptr: MappedArray
    indices: MappedArray
    values: MappedArray | None
    columns: int
    are_edges: bool

    @property
    def arrays(self) -> list[MappedArray]:
        return [self.indptr, self.indices, *([] if self.values is None else [self.values])]

    def bounds(self, rows: Array) -> tuple[Array, Array]:
        """Where the entries of some rows begin, and where they end."""
        indptr, count = self.indptr.values, len(self.indices.mapped)
        starts, ends = indptr[rows], indptr[rows + 1]
        if len(rows) and not (starts.min() >= 0 and (ends - starts).min() >= 0 and ends.max() <= count):
            at = int(np.flatnonzero((starts < 0) | (ends < starts) | (ends > count))[0])
            raise self.indptr.damaged(f"row {rows[at]} is from entry {starts[at]} to {ends[at]} of {count:,}")
        return starts, ends

    def span(self, start: int, stop: int) -> tuple[Array, Array, Array | None]:
        """``indptr``, columns and values of a range of rows."""
        starts, ends = self.bounds(np.arange(start, stop))
        indptr = np.append(starts, ends[-1:]) if len(starts) else np.zeros(1, np.int64)
        entries = slice(int(indptr[0]), int(indptr[-1]))
        return self._checked(np.arange(start, stop), indptr - indptr[0], entries)

    def gather(self, rows: Array) -> tuple[Array, Array, Array | None]:
        """``indptr``, columns and values of some rows, in their order."""
        starts, ends = self.bounds(rows)
        indptr = np.concatenate([[0], np.cumsum(ends - starts)])
        return self._checked(rows, indptr, np.repeat(starts - indptr[:-1], ends - starts) + np.arange(indptr[-1]))

    def _checked(self, rows: Array, indptr: Array, entries: Array | slice) -> tuple[Array, Array, Array | None]:
        columns = self.indices.values[entries]
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.columns:
            at = np.flatnonzero((columns < 0) | (columns >= self.columns))[0]
            raise self.indices.damaged(f"row {_row(rows, indptr, at)} has column {columns[at]} of {self.columns:,}")
        if self.are_edges:
            follows = np.ones(len(columns) + 1, np.bool_)
            follows[1:-1] = columns[1:] > columns[:-1]
            follows[indptr] = True
            if not follows.all():
                raise self.indices.damaged(f"row {_row(rows, indptr, np.argmin(follows))} is not sorted, or has a column twice")
        if self.values is None:
            return indptr, columns, None
        values = self.values.values[entries].astype(np.float32, copy=False)
        right = np.isfinite(values)
        if self.are_edges:
            right &= values >= 0
        if not right.all():
            at = np.argmin(right)
            rule = "finite and not negative" if self.are_edges else "finite"
            raise self.values.damaged(f"row {_row(rows, indptr, at)} has {values[at]}, and numbers must be {rule}")
        return indptr, columns, values


def _row(rows: Array, indptr: Array, entry: int | np.integer) -> int:
    return int(rows[np.searchsorted(indptr, entry, "right") - 1])


def check_order(indptr: MappedArray) -> None:
    """Raise unless each row ends where it begins, or later."""
    for start, part in _parts(indptr, 1):
        if not (part[1:] >= part[:-1]).all():
            raise indptr.damaged(f"row {start + np.argmax(part[1:] < part[:-1])} ends before it begins")


def check_labels(labels: MappedArray, classes: int) -> None:
    """Raise unless each label is that of a class, or -1."""
    for start, part in _parts(labels):
        if not (part.min() >= -1 and part.max() < classes):
            at = np.argmax((part < -1) | (part >= classes))
            raise labels.damaged(f"row {start + at} has label {part[at]}, and there are {classes:,} classes, and -1 for none")


def _parts(array: MappedArray, more: int = 0) -> Iterator[tuple[int, Array]]:
    """Where each part of an array begins, and its numbers, with ``more`` of the next one."""
    for start in range(0, len(array.mapped) - more, _BLOCK_NUMBERS):
        yield start, array.values[start : start + _BLOCK_NUMBERS + more]
        array.release()


def finite_values(array: MappedArray, row_of: Callable[[int], int]) -> Array:
    """All of an array in memory, as float32; raise unless all numbers are finite. ``row_of`` is by the place in the file."""
    values = np.empty(array.mapped.shape, np.float32)
    flat = values.reshape(-1)
    for start in range(0, len(flat), _CACHED_NUMBERS):
        part = flat[start : start + _CACHED_NUMBERS]
        part[:] = array.values.reshape(-1)[start : start + _CACHED_NUMBERS]
        if not (finite := np.isfinite(part)).all():
            at = int(np.argmin(finite))
            raise array.damaged(f"row {row_of(start + at)} has {part[at]}, and numbers must be finite")
    return values
