"""Graph folders written, array by array."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from clnr.errors import DataError, option
from clnr.graph.csr import Array
from clnr.graph.digest import graph_digest
from clnr.graph.graph_folder import ARRAYS, FORMAT_VERSION, check_nodes
from clnr.graph.manifest import MANIFEST
from clnr.graph.stored_arrays import (
    FEATURE_TYPES,
    ArrayInfo,
    FileInfo,
    MappedArray,
    array_file,
    to_stored,
)
from clnr.support.storage import sha256


class FolderWriter:
    """Writes the arrays of a graph into an empty folder, one piece after the other; the last step makes it a graph folder."""

    def __init__(self, folder: Path, feature_type: str = "float32"):
        self.folder, self.feature_type = folder, feature_type
        self._arrays: dict[str, ArrayInfo] = {}
        self._digests: dict[str, str] = {}
        self._files: dict[str, FileInfo] = {}

    @contextmanager
    def array(self, name: str, dtype: str, width: int | None = None) -> Iterator[Callable[[Array], None]]:
        """Open one of ``ARRAYS``, with ``width`` columns, or one-dimensional; what is yielded appends to it."""
        assert name in ARRAYS
        total, count = hashlib.sha256(), 0
        # Of what is read back, which enters the digest of the graph.
        as_read = hashlib.sha256() if dtype == "float16" else None
        with (self.folder / array_file(name)).open("wb") as file:

            def append(values: Array) -> None:
                nonlocal count
                stored = to_stored(values, dtype)
                if dtype in FEATURE_TYPES and not np.isfinite(stored).all():
                    raise DataError(f"a feature is too large for {dtype}; choose float32 ({option('dtype')})")
                content = stored.reshape(-1).data.cast("B") if stored.size else b""
                file.write(content)
                total.update(content)
                if as_read is not None:
                    as_read.update(stored.astype(np.float32).reshape(-1).view(np.uint8).data)
                count += len(stored)

            yield append
            size = file.tell()
        self._arrays[name] = ArrayInfo(dtype, (count,) if width is None else (count, width))
        self._files[array_file(name)] = FileInfo(size, total.hexdigest())
        self._digests[name] = (as_read or total).hexdigest()

    def map(self, name: str) -> MappedArray:
        """An array that is written."""
        return MappedArray.open(self.folder / array_file(name), self._arrays[name])

    def file(self, name: str) -> Path:
        """The path of another file; ``close`` takes its digest."""
        self._files[name] = FileInfo(0, "")
        return self.folder / name

    def close(self, *, nodes: int, features: int, classes: int, directed: bool, name: str, facts: str = "") -> None:
        """Write the manifest, without which nothing opens the folder; ``facts`` are those of a ``Graph``."""
        check_nodes(nodes)
        for each, (_, digest) in self._files.items():
            if not digest:
                path = self.folder / each
                self._files[each] = FileInfo(path.stat().st_size, sha256(path))
        content = {
            "form": FORMAT_VERSION,
            "name": name,
            "nodes": nodes,
            "edges": self._arrays["incoming.indices"].shape[0],
            "features": features,
            "classes": classes,
            "directed": directed,
            "facts": facts,
            "digest": graph_digest(self._digests, features, facts),
            "arrays": {each: info._asdict() for each, info in self._arrays.items()},
            "files": {each: info._asdict() for each, info in self._files.items()},
        }
        (self.folder / MANIFEST).write_text(json.dumps(content, indent=1), encoding="utf-8")
