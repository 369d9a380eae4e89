"""The index of approximate search (usearch), kept in the folder of the vectors that it was made of."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clnr.embedding.artifact_files import INDEX, INDEX_INFO
from clnr.embedding.neighbors import load_index, new_index
from clnr.graph.csr import Array
from clnr.support.atomic_io import atomic_file, write_atomic
from clnr.support.checked_files import parse_json
from clnr.support.humanize import gigabytes, plural

_FORM = 1
_NUMBER, _NODE = 2, 150
logger = logging.getLogger("clnr")


def index_bytes(nodes: int, dimension: int) -> int:
    """The size of an index, in memory and on disk: numbers of 16 bits, and the links of each node."""
    return nodes * (_NUMBER * dimension + _NODE)


def digest_of(paths: Iterable[Path]) -> str:
    """Tells files from others by their names, sizes and times of writing; their content, of any size, is not read."""
    found = ((path.name, path.stat()) for path in paths)
    lines = [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in found]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class StoredIndex:
    """The index of the vectors in a folder.

    Attributes:
        folder: The folder.
        shape: Nodes, and numbers of a vector.
        vectors: A digest of these vectors: an index of others is not taken.
    """

    folder: Path
    shape: tuple[int, int]
    vectors: str

    def open(self, parts: Callable[[], Iterator[tuple[int, Array]]]) -> Any:
        """The index that is kept; or, if there is none of these vectors, a new one, which is kept where there is room.

        Args:
            parts: Gives the number of the first node and the vectors of one part after the other.
        """
        found = self._load()
        if found is not None:
            return found
        size = index_bytes(*self.shape)
        logger.info("building the index of %s, which is kept: about %s", plural(self.shape[0], "node"), gigabytes(size))
        index = new_index(self.shape[1], "f16")
        for first, z in parts():
            index.add(np.arange(first, first + len(z)), z)
        try:
            self._save(index, size)
        except OSError as error:
            logger.info("the index is not kept: %s", error.strerror or error)
        return index

    def _load(self) -> Any:
        """The index that is there, if it was made of these vectors and is as it was written."""
        path = self.folder / INDEX
        try:
            if parse_json((self.folder / INDEX_INFO).read_text(encoding="utf-8")) == self._info(path):
                return load_index(path, self.shape)
        except (OSError, ValueError):
            pass
        return None

    def _info(self, path: Path) -> dict[str, Any]:
        return {"form": _FORM, "vectors": self.vectors, "index": digest_of([path])}

    def _save(self, index: Any, size: int) -> None:
        """Keep an index. What tells of it is written last, so that a stopped process leaves none that is taken."""
        if shutil.disk_usage(self.folder).free < size:
            raise OSError(f"{gigabytes(size)} are needed on the disk of {self.folder}")
        with atomic_file(self.folder / INDEX) as part:
            index.save(str(part))
        write_atomic(self.folder / INDEX_INFO, json.dumps(self._info(self.folder / INDEX)).encode())
