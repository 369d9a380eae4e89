"""The index of approximate search (usearch), kept in the user's cache: nobody else's file is ever mapped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clnr.embedding.search.neighbors import load_index, new_index, usearch_version
from clnr.errors import ClnrError
from clnr.graph.csr import Array
from clnr.support.humanize import gigabytes, plural
from clnr.support.machine.paths import cache_folder
from clnr.support.storage.atomic_io import atomic_file, write_atomic
from clnr.support.storage.checked_files import sha256

_FORM = 2
_DTYPE = "f16"
_NUMBER, _NODE = 2, 150
# Bytes of all that are kept; the last one that was built is, whatever its size.
_MOST = 10_000_000_000
logger = logging.getLogger("clnr")


def index_bytes(nodes: int, dimension: int) -> int:
    """The size of an index, in memory and on disk: numbers of 16 bits, and the links of each node."""
    return nodes * (_NUMBER * dimension + _NODE)


def digest_of(paths: Iterable[Path]) -> str:
    """Tells files from others by their paths, sizes and times; their content, of any size, is not read.

    Whoever writes a file can set the time of writing, but not that of the last change.
    """
    found = ((path.resolve(), path.stat()) for path in paths)
    lines = [f"{path} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}" for path, stat in found]
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True)
class StoredIndex:
    """The index of some vectors.

    Attributes:
        shape: Nodes, and numbers of a vector.
        vectors: A digest of these vectors: an index of others is not taken.
    """

    shape: tuple[int, int]
    vectors: str

    def open(self, parts: Callable[[], Iterator[tuple[int, Array]]]) -> Any:
        """The index that is kept; or, if there is none of these vectors, a new one, which is kept where there is room.

        Args:
            parts: Gives the number of the first node and the vectors of one part after the other.
        """
        about = json.dumps([_FORM, usearch_version(), _DTYPE, self.shape, self.vectors])
        name = f"{hashlib.sha256(about.encode()).hexdigest()}.usearch"
        found = self._load(name)
        if found is not None:
            return found
        size = index_bytes(*self.shape)
        logger.info("building the index of %s, which is kept: about %s", plural(self.shape[0], "node"), gigabytes(size))
        index = new_index(self.shape[1], _DTYPE)
        for first, z in parts():
            index.add(np.arange(first, first + len(z)), z)
        try:
            _save(index, name, size)
        except (ClnrError, OSError, RuntimeError) as error:  # The last one is usearch's.
            logger.info("the index is not kept: %s", getattr(error, "strerror", None) or error)
        return index

    def _load(self, name: str) -> Any:
        """The index that is kept, if it is as it was written."""
        with contextlib.suppress(ClnrError, OSError, ValueError):
            path = _own_folder() / name
            told = _digest_path(path)
            if told.read_text() == sha256(path):
                with contextlib.suppress(OSError):  # It is in use: others are removed before it.
                    os.utime(path)
                    os.utime(told)
                return load_index(path, self.shape)
        return None


def _digest_path(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _own_folder() -> Path:
    """Where indexes are kept: a folder of this user's, to which nobody else may write."""
    folder = cache_folder() / "neighbors"
    stat = folder.stat()
    if sys.platform != "win32" and (stat.st_uid != os.getuid() or stat.st_mode & 0o022):
        raise OSError(f"{folder} belongs to another user, or others may write to it")
    return folder


def _save(index: Any, name: str, size: int) -> None:
    """Keep an index and its digest, and remove those that were not used for longest."""
    (cache_folder() / "neighbors").mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _own_folder() / name
    if shutil.disk_usage(path.parent).free < size:
        raise OSError(f"{gigabytes(size)} are needed on the disk of {path.parent}")
    with atomic_file(path) as part:
        index.save(str(part))
        write_atomic(_digest_path(path), sha256(part).encode())
    _remove_old(path)


def _remove_old(kept: Path) -> None:
    """Remove the files that were used last before others of so many bytes, but none of an index that has just been made."""
    found, total = [], 0
    for path in kept.parent.iterdir():
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((stat.st_mtime_ns, stat.st_size, path))
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > _MOST and path.stem != kept.stem:
            with contextlib.suppress(OSError):
                path.unlink()
