"""Flat arrays in files of their own, little-endian, memory-mapped when they are read."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.storage.file_locks import is_wanted

RESIDENT = 1 << 30
"""Bytes of files that may be mapped into memory, if nothing else is said."""
FEATURE_TYPES = ("float32", "float16", "bfloat16")
# bfloat16 is the upper half of a float32, which NumPy does not know.
_NUMPY_TYPES = {"bfloat16": "<u2", "float16": "<f2", "float32": "<f4", "int32": "<i4", "int64": "<i8", "uint8": "|u1"}


def array_file(name: str) -> str:
    """The file of an array."""
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
    dtype: str
    pages: mmap.mmap | None
    resident: int = RESIDENT

    @classmethod
    def open(cls, path: Path, info: ArrayInfo, resident: int = RESIDENT) -> MappedArray:
        if not info.bytes:
            return cls(path, np.empty(info.shape, _NUMPY_TYPES[info.dtype]), info.dtype, None)
        with path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(path, np.frombuffer(pages, _NUMPY_TYPES[info.dtype]).reshape(info.shape), info.dtype, pages, resident)

    @property
    def values(self) -> Array:
        """All of it; ask for it anew for each part that is read: a file that shrinks or is written to is an error."""
        # To touch a page that a file no longer has would end the process.
        if self.pages is not None and (there := self.pages.size()) < len(self.pages):
            raise self.damaged(f"it has {there:,} bytes, and had {len(self.pages):,} when it was opened")
        if is_wanted(self.path):
            raise DataError(f"{self.path}: another program is about to write to it; start anew when it is as it should be")
        return self.mapped

    def damaged(self, what: str) -> DataError:
        """The error of a file whose content cannot be right."""
        return DataError(f"{self.path}: it is damaged, or was changed: {what}")

    def release(self) -> None:
        """Give pages that were read back to the system, where it can; they are read again when touched."""
        if self.pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)


def to_float32(stored: Array, dtype: str) -> Array:
    """Stored features as numbers; not copied where they are float32 already."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)


def to_stored(values: Array, dtype: str) -> Array:
    """Numbers in the type of a file; floats are rounded to the nearest."""
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values, _NUMPY_TYPES[dtype])
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2")
