"""The index of approximate search (usearch), kept in the user's cache: nobody else's file is ever mapped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from clnr.errors import ClnrError
from clnr.graph.csr import Array
from clnr.support.humanize import gigabytes, plural
from clnr.support.machine.paths import cache_folder
from clnr.support.storage.atomic_io import atomic_file, write_atomic
from clnr.support.storage.checked_files import sha256

_FORMAT_VERSION = 2
_DTYPE, _NUMBER_BYTES, _NODE_BYTES = "f16", 2, 150
_MOST_BYTES = 10_000_000_000
"""The limit on the size of all cached indexes; the latest one is kept even if it is larger."""
logger = logging.getLogger("clnr")


def index_bytes(nodes: int, dimension: int) -> int:
    """The size of an index, in memory and on disk: numbers of 16 bits, and the links of each node."""
    return nodes * (_NUMBER_BYTES * dimension + _NODE_BYTES)


def digest_of(paths: Iterable[Path]) -> str:
    """Tells files from others by their paths, sizes and times; their content, of any size, is not read.

    Whoever writes a file can set the time of writing, but not that of the last change.
    """
    stats = ((path.resolve(), path.stat()) for path in paths)
    lines = [f"{path} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}" for path, stat in stats]
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def new_index(width: int, dtype: str = "f32") -> Any:
    """An empty index of cosines (usearch), for rows of ``width`` numbers, stored as ``dtype``."""
    return _usearch().Index(ndim=width, metric="cos", dtype=dtype)


def build_index(width: int, blocks: Iterable[Array], dtype: str = "f32") -> Any:
    """The index of rows in blocks, by the numbers of these rows."""
    index, first = new_index(width, dtype), 0
    for z in blocks:
        index.add(np.arange(first, first + len(z)), z)
        first += len(z)
    return index


def usearch_version() -> str:
    """The version of usearch: another one may write other files."""
    _usearch()
    import usearch

    return str(usearch.__version__)


def load_index(path: Path, shape: tuple[int, int]) -> Any:
    """An index in a file, which is mapped and not read as a whole; None if its shape differs.

    usearch does not check what it maps: the file must be one that was written by ``save`` and has not changed since.
    """
    try:
        index = _usearch().Index.restore(str(path), view=True)
    except (RuntimeError, ValueError):
        return None
    return index if index is not None and (len(index), index.ndim) == shape else None


def _usearch() -> Any:
    try:
        import usearch.index
    except ImportError:
        raise ClnrError(
            "approximate search needs usearch: pip install 'clnr[approximate]'; without it, search is exact"
        ) from None
    return usearch.index


def kept_index(shape: tuple[int, int], vectors: str, blocks: Callable[[], Iterable[Array]]) -> Any:
    """The index that is kept; or, if there is none of these vectors, a new one, which is kept where there is room.

    ``vectors`` is a digest of them: an index of others is not taken.
    """
    about = json.dumps([_FORMAT_VERSION, usearch_version(), _DTYPE, shape, vectors])
    name = f"{hashlib.sha256(about.encode()).hexdigest()}.usearch"
    kept = _load(name, shape)
    if kept is not None:
        return kept
    size = index_bytes(*shape)
    logger.info("building and caching the index of %s: about %s", plural(shape[0], "node"), gigabytes(size))
    index = build_index(shape[1], blocks(), _DTYPE)
    try:
        _save(index, name, size)
    except (ClnrError, OSError, RuntimeError) as error:  # The last one is usearch's.
        logger.info("the index was not cached: %s", getattr(error, "strerror", None) or error)
    return index


def _load(name: str, shape: tuple[int, int]) -> Any:
    """The index that is kept, if it is as it was written."""
    with contextlib.suppress(ClnrError, OSError, ValueError):
        path = _users_folder() / name
        digest = path.with_suffix(".sha256")
        if digest.read_text() == sha256(path):
            with contextlib.suppress(OSError):  # It is in use: others are removed before it.
                os.utime(path)
                os.utime(digest)
            return load_index(path, shape)
    return None


def _users_folder() -> Path:
    """Where indexes are kept: a folder of this user's, to which nobody else may write."""
    folder = cache_folder() / "neighbors"
    stat = folder.stat()
    if sys.platform != "win32" and (stat.st_uid != os.getuid() or stat.st_mode & 0o022):
        raise OSError(f"{folder} belongs to another user, or others may write to it")
    return folder


def _save(index: Any, name: str, size: int) -> None:
    """Keep an index and its digest, and remove those that were not used for longest."""
    (cache_folder() / "neighbors").mkdir(mode=0o700, parents=True, exist_ok=True)
    path = _users_folder() / name
    if shutil.disk_usage(path.parent).free < size:
        raise OSError(f"{gigabytes(size)} are needed on the disk of {path.parent}")
    with atomic_file(path) as part:
        index.save(str(part))
        write_atomic(path.with_suffix(".sha256"), sha256(part).encode())
    _remove_old(path)


def _remove_old(kept: Path) -> None:
    """Remove the least recently used files beyond a total size, but none of an index that has just been made."""
    files, total_bytes = [], 0
    for path in kept.parent.iterdir():
        with contextlib.suppress(OSError):
            stat = path.stat()
            files.append((stat.st_mtime_ns, stat.st_size, path))
    for _, size, path in sorted(files, reverse=True):
        total_bytes += size
        if total_bytes > _MOST_BYTES and path.stem != kept.stem:
            with contextlib.suppress(OSError):
                path.unlink()
