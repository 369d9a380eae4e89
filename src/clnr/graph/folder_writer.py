"""Graph folders written: array by array, or from a graph in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import CSR, Array
from clnr.graph.graph import Graph
from clnr.graph.graph_folder import ARRAYS, FORMAT_VERSION, MANIFEST, GraphFolder, check_nodes, id_range
from clnr.graph.stored_arrays import (
    FEATURE_TYPES,
    ArrayInfo,
    FileInfo,
    MappedArray,
    array_file,
    to_float32,
    to_stored,
)
from clnr.support.storage.checked_files import sha256

if TYPE_CHECKING:
    import pyarrow


class FolderWriter:
    """Writes the arrays of a graph into an empty folder, one piece after the other; the last step makes it a graph folder.

    Args:
        folder: Where to write.
        feature_type: How features are stored: one of ``FEATURE_TYPES``.
    """

    def __init__(self, folder: Path, feature_type: str = "float32"):
        self.folder, self.feature_type = folder, feature_type
        self._arrays: dict[str, ArrayInfo] = {}
        self._files: dict[str, FileInfo] = {}

    @contextmanager
    def array(self, name: str, dtype: str, width: int | None = None) -> Iterator[Callable[[Array], None]]:
        """Open an array; what is yielded appends to it.

        Args:
            name: One of ``ARRAYS``.
            dtype: The type of its numbers.
            width: Numbers in a row; None for an array of one dimension.
        """
        assert name in ARRAYS
        total, count = hashlib.sha256(), 0
        with (self.folder / array_file(name)).open("wb") as file:

            def append(values: Array) -> None:
                nonlocal count
                stored = to_stored(values, dtype)
                if dtype in FEATURE_TYPES and not np.isfinite(to_float32(stored, dtype)).all():
                    raise DataError(f"a feature is too large for {dtype}; choose bfloat16 or float32 (--dtype)")
                content = stored.reshape(-1).data.cast("B") if stored.size else b""
                file.write(content)
                total.update(content)
                count += len(stored)

            yield append
            size = file.tell()
        self._arrays[name] = ArrayInfo(dtype, (count,) if width is None else (count, width))
        self._files[array_file(name)] = FileInfo(size, total.hexdigest())

    def map(self, name: str) -> MappedArray:
        """An array that is written."""
        return MappedArray.open(self.folder / array_file(name), self._arrays[name])

    def ids(self, start: int, stop: int) -> pyarrow.Array:
        """The ids of a range of nodes, which are written."""
        return id_range(self.map, self._arrays, start, stop)

    def file(self, name: str) -> Path:
        """The path of another file; ``close`` takes its digest."""
        self._files[name] = FileInfo(0, "")
        return self.folder / name

    def close(self, *, nodes: int, features: int, classes: int, directed: bool, name: str) -> None:
        """Write the manifest, without which nothing opens the folder."""
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
            "arrays": {each: info._asdict() for each, info in self._arrays.items()},
            "files": {each: info._asdict() for each, info in self._files.items()},
        }
        (self.folder / MANIFEST).write_text(json.dumps(content, indent=1), encoding="utf-8")


def write_graph(graph: Graph, path: Path, feature_type: str = "float32") -> GraphFolder:
    """Write a graph in memory, whose ids are numbers or text, to a folder that is not there yet."""
    import pyarrow as pa

    path.mkdir(parents=True)
    writer, x = FolderWriter(path, feature_type), graph.features
    arrays: dict[str, tuple[str, Array]] = {}
    for way in ("incoming", "outgoing") if graph.directed else ("incoming",):
        edges: CSR = getattr(graph, way)
        arrays |= {f"{way}.indptr": ("int64", edges.indptr), f"{way}.indices": ("int32", edges.indices)}
        if edges.weight is not None:
            arrays[f"{way}.weight"] = "float32", edges.weight
    if sp.issparse(x):
        arrays |= {"features.indptr": ("int64", x.indptr), "features.indices": ("int32", x.indices)}
    arrays["features.values"] = feature_type, x.data if sp.issparse(x) else x
    ids = pa.array(graph.node_ids)
    if pa.types.is_integer(ids.type):
        arrays["ids.values"] = "int64", ids.to_numpy()
    else:
        text = ids.cast(pa.large_string())
        offsets = np.frombuffer(text.buffers()[1], np.int64)[: len(text) + 1]
        content = np.frombuffer(text.buffers()[2] or b"", np.uint8)[: offsets[-1]]
        arrays |= {"ids.offsets": ("int64", offsets), "ids.text": ("uint8", content)}
    if graph.labels is not None:
        arrays["labels.values"] = "int64", graph.labels
    for name, (dtype, values) in arrays.items():
        with writer.array(name, dtype, None if values.ndim == 1 else values.shape[1]) as append:
            append(values)
    sizes = {"nodes": graph.num_nodes, "features": graph.num_features, "classes": graph.num_classes}
    writer.close(**sizes, directed=graph.directed, name=graph.name)
    return GraphFolder.open(path)
