"""A graph as a folder: flat little-endian arrays in files of their own, memory-mapped when they are read.

graph.json                          sizes and types of all arrays; size and SHA-256 of each file: written last
incoming.indptr.bin, .indices.bin   edges by target, and .weight.bin where they have weights
outgoing.indptr.bin, ...            the same edges by source; left out where the graph is undirected
features.values.bin                 one row per node; sparse ones also have .indptr.bin and .indices.bin
ids.values.bin                      numbers; or ids.offsets.bin and ids.text.bin, which is UTF-8
labels.values.bin                   class per node, -1 where unknown, if there are any

Other files may stand beside them, such as tables.json of ``clnr ingest``; they are checked alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import CSR, Array, median_weight
from clnr.graph.graph import Graph
from clnr.graph.manifest import MANIFEST, find_manifest
from clnr.graph.stored_arrays import (
    FEATURE_TYPES,
    RESIDENT,
    ArrayInfo,
    FileInfo,
    MappedArray,
    StoredRows,
    array_file,
    check_labels,
    check_order,
    finite_values,
)
from clnr.graph.validation import check_class_count
from clnr.support.storage import (
    check_count,
    check_positive,
    check_version,
    errors_name,
    parse_json,
    read_stable,
    sha256,
)

if TYPE_CHECKING:
    import pyarrow

FORMAT_VERSION = 2
MOST_NODES = 2**31 - 1
"""The most nodes of a graph in files: places and rows of nodes are 32-bit numbers. Edges are counted in 64 bits."""
_CSR = ("indptr", "indices")
ARRAYS = (
    *(f"{way}.{part}" for way in ("incoming", "outgoing") for part in (*_CSR, "weight")),
    *(f"features.{part}" for part in (*_CSR, "values")),
    *("ids.values", "ids.offsets", "ids.text", "labels.values"),
)
"""The names of all arrays that a folder may have."""


def check_nodes(count: int) -> None:
    """Fail if a graph has more nodes than a folder can have."""
    if count > MOST_NODES:
        raise DataError(
            f"{count:,} nodes are too many: a graph folder has at most {MOST_NODES:,} (2^31 - 1); leave some out, or split it "
            "into several graphs"
        )


@dataclass(frozen=True, eq=False)
class GraphFolder:
    """A graph in a folder, of which nothing is in memory until it is asked for; what it shares with ``Graph`` is named so.

    At most ``resident`` bytes of its files should be mapped into memory at a time.
    """

    path: Path
    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int
    directed: bool
    name: str
    facts: str
    digest: str
    arrays: Mapping[str, ArrayInfo]
    files: Mapping[str, FileInfo]
    resident: int = RESIDENT
    loop_weight: float = 1.0

    @classmethod
    def open(cls, path: Path) -> GraphFolder:
        """Open a folder.

        Checked are the manifest, the size of every file, and that rows end with the last entry; all else is checked as it is
        read: places, columns, signs, and that numbers are finite. Only ``verify`` compares digests.
        """
        return read_stable(path, MANIFEST, lambda: cls._open(path))

    @classmethod
    def _open(cls, path: Path) -> GraphFolder:
        manifest = find_manifest(path)
        with errors_name(manifest):
            folder = cls._of(path, parse_json(manifest.read_text(encoding="utf-8")))
        for name, (size, _) in folder.files.items():
            with errors_name(path / name):
                if (there := (path / name).stat().st_size) != size:
                    raise DataError(f"it has {there:,} bytes instead of {size:,}: it is damaged, or was changed")
        for name, count in folder._places:
            array = folder.map(name)
            if array.values[[0, -1]].tolist() != [0, count]:
                raise array.damaged(f"it goes from {array.values[0]} to {array.values[-1]} instead of from 0 to {count}")
        return folder

    @classmethod
    def _of(cls, path: Path, content: dict[str, Any]) -> GraphFolder:
        check_version(content["form"], FORMAT_VERSION)
        nodes, edges, features, classes = (check_count(content[name]) for name in ("nodes", "edges", "features", "classes"))
        check_nodes(nodes)
        arrays = {
            str(name): ArrayInfo(str(info["dtype"]), tuple(check_count(each) for each in info["shape"]))
            for name, info in content["arrays"].items()
        }
        files = {
            str(name): FileInfo(check_count(info["bytes"]), str(info["sha256"])) for name, info in content["files"].items()
        }
        for each in files:
            if Path(each).name != each:
                raise DataError(f"'{each}' is not the name of a file in this folder")
        check_class_count(classes, nodes)
        directed, name, facts, digest = (content[each] for each in ("directed", "name", "facts", "digest"))
        if not isinstance(directed, bool) or not all(isinstance(each, str) for each in (name, facts, digest)):
            given = f"{directed!r:.40}, {name!r:.40}, {facts!r:.40} and {digest!r:.40}"
            raise DataError(f"directed is true or false, and name, facts and digest are text, not {given}")
        folder = cls(path, nodes, edges, features, classes, directed, name, facts, digest, arrays, files)
        folder._check_shapes()
        return folder

    def _check_shapes(self) -> None:
        """Every array must be there, of the size that follows from the counts, and of the type that is read."""
        nodes, edges = self.num_nodes, self.num_edges
        index, expected = ("int32", "int64"), dict[str, tuple[tuple[str, ...], tuple[int, ...]]]()
        for way in self._ways:
            expected |= {f"{way}.indptr": (("int64",), (nodes + 1,)), f"{way}.indices": (index, (edges,))}
            if "incoming.weight" in self.arrays:
                expected[f"{way}.weight"] = ("float32",), (edges,)
        if self.sparse:
            entries = self._shape("features.indices")
            expected |= {"features.indptr": (("int64",), (nodes + 1,)), "features.indices": (("int32",), entries)}
            expected["features.values"] = FEATURE_TYPES, entries
        else:
            expected["features.values"] = FEATURE_TYPES, (nodes, self.num_features)
        if "ids.values" in self.arrays:
            expected["ids.values"] = ("int64",), (nodes,)
        else:
            expected |= {"ids.offsets": (("int64",), (nodes + 1,)), "ids.text": (("uint8",), self._shape("ids.text"))}
        if "labels.values" in self.arrays:
            expected["labels.values"] = ("int64",), (nodes,)
        for name, (types, shape) in expected.items():
            info = self.arrays.get(name)
            if info is None or info.dtype not in types or info.shape != shape:
                raise DataError(f"the array {name} is not {' or '.join(types)} of shape {shape}, but {info}")
            if self.files.get(array_file(name), FileInfo(-1, "")).bytes != info.bytes:
                raise DataError(f"the file of {name} does not have {info.bytes:,} bytes")
        if odd := sorted(self.arrays.keys() - expected.keys()):
            raise DataError(f"the array {odd[0]} is not one of a graph")

    @property
    def _ways(self) -> tuple[str, ...]:
        return ("incoming", "outgoing") if self.directed else ("incoming",)

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.arrays[name].shape[:1] if name in self.arrays else (-1,)

    @property
    def _places(self) -> list[tuple[str, int]]:
        """The arrays that say where rows begin and end, and where the last one ends."""
        counted = {f"{way}.indptr": f"{way}.indices" for way in (*self._ways, "features")} | {"ids.offsets": "ids.text"}
        return [(name, self.arrays[of].shape[0]) for name, of in counted.items() if name in self.arrays]

    def check_places(self) -> None:
        """Read where all rows begin and end, and all labels; raise if one cannot be right."""
        for name, _ in self._places:
            check_order(self.map(name))
        if "labels.values" in self.arrays:
            check_labels(self.map("labels.values"), self.num_classes)

    def check_unchanged(self) -> None:
        """Raise if the folder has another graph by now than when it was opened."""
        if GraphFolder.open(self.path).digest != self.digest:
            raise DataError(f"{self.path} has changed during this run; start again")

    def verify(self, progress: Callable[[str], None] | None = None) -> None:
        """Read every file, and raise if one is not as it was written; ``progress`` is told the name of each before that."""
        for name, (_, digest) in self.files.items():
            if progress is not None:
                progress(name)
            with errors_name(self.path / name):
                if sha256(self.path / name) != digest:
                    raise DataError("it is damaged, or was changed; write the folder again (clnr ingest)")

    @property
    def sparse(self) -> bool:
        return "features.indptr" in self.arrays

    @property
    def median_weight(self) -> float:
        """The median weight of its edges, as ``Graph.with_median_loops`` takes it."""
        if "incoming.weight" not in self.arrays:
            return 1.0
        with errors_name(self.path / array_file("incoming.weight")):
            return check_positive(median_weight(self.map("incoming.weight").values))

    @property
    def feature_type(self) -> str:
        return self.arrays["features.values"].dtype

    @property
    def loaded_bytes(self) -> int:
        """The memory that ``graph`` takes."""
        edges = (12 if "incoming.weight" in self.arrays else 8) * self.num_edges
        entries = int(np.prod(self.arrays["features.values"].shape, dtype=np.int64))
        return (1 + self.directed) * (edges + 8 * self.num_nodes) + (2 if self.sparse else 1) * 4 * entries

    @property
    def labels(self) -> Array | None:
        return self.map("labels.values").values if "labels.values" in self.arrays else None

    @property
    def dataset(self) -> None:
        """It is none of the catalogue."""

    def map(self, name: str) -> MappedArray:
        """An array of the folder; each call maps it anew."""
        path = self.path / array_file(name)
        with errors_name(path):
            return MappedArray.open(path, self.arrays[name], self.resident)

    def rows(self, name: str) -> StoredRows:
        """The rows of ``incoming``, ``outgoing`` or sparse ``features``; each call maps them anew."""
        of_features = name == "features"
        values = f"{name}.{'values' if of_features else 'weight'}"
        indptr, indices = (self.map(f"{name}.{part}") for part in _CSR)
        mapped = self.map(values) if values in self.arrays else None
        return StoredRows(indptr, indices, mapped, self.num_features if of_features else self.num_nodes, not of_features)

    def ids(self, start: int, stop: int) -> pyarrow.Array:
        """The ids of a range of nodes: numbers or text."""
        with errors_name(self.path / array_file("ids.offsets" if "ids.offsets" in self.arrays else "ids.values")):
            return id_range(self.map, self.arrays, start, stop)

    def neighbours(self, node: int) -> set[int]:
        """The nodes with an edge to or from a node."""
        nodes: set[int] = set()
        for way in self._ways:
            nodes.update(self.rows(way).span(node, node + 1)[1].tolist())
        return nodes

    def degrees(self, nodes: Array) -> Array:
        """The number of edges of some nodes, in either direction."""
        bounds = [self.rows(way).bounds(nodes) for way in self._ways]
        return np.sum([ends - starts for starts, ends in bounds], axis=0)

    def graph(self) -> Graph:
        """All of it in memory, checked as any graph."""
        self.check_places()
        features = self._features()
        try:
            with errors_name(self.path):
                incoming = self._edges("incoming")
                labels = self.labels
                return Graph(
                    features=features,
                    incoming=incoming,
                    outgoing=self._edges("outgoing") if self.directed else incoming,
                    labels=None if labels is None else labels.astype(np.int64),
                    ids=self.ids(0, self.num_nodes).to_numpy(zero_copy_only=False),
                    name=self.name,
                    facts=self.facts,
                )
        except DataError:
            # An error that names the file and the row is better.
            for name in (*self._ways, *(["features"] if self.sparse else [])):
                self.rows(name).span(0, self.num_nodes)
            raise

    def _edges(self, way: str) -> CSR:
        indptr, indices = (self.map(f"{way}.{part}").values.astype(np.int64) for part in _CSR)
        weight = self.map(f"{way}.weight").values.copy() if "incoming.weight" in self.arrays else None
        return CSR(indptr, indices, weight)

    def _features(self) -> Any:
        array = self.map("features.values")
        if not self.sparse:
            return finite_values(array, lambda at: at // self.num_features)
        indptr, indices = (self.map(f"features.{part}").values for part in _CSR)
        values = finite_values(array, lambda at: int(np.searchsorted(indptr, at, "right")) - 1)
        shape = self.num_nodes, self.num_features
        return sp.csr_array((values, indices.astype(np.int32), indptr.astype(np.int64)), shape=shape)


def id_range(map_array: Callable[[str], MappedArray], arrays: Mapping[str, ArrayInfo], start: int, stop: int) -> pyarrow.Array:
    import pyarrow as pa

    if "ids.values" in arrays:
        return pa.array(map_array("ids.values").values[start:stop])
    offsets, text = map_array("ids.offsets").values[start : stop + 1], map_array("ids.text").values
    first, last = int(offsets[0]), int(offsets[-1])
    if not (0 <= first <= last <= len(text) and (np.diff(offsets) >= 0).all()):
        raise DataError("it is damaged: its numbers are not in order")
    buffers = [None, pa.py_buffer(offsets - first), pa.py_buffer(text[first:last].tobytes())]
    ids = pa.Array.from_buffers(pa.large_string(), stop - start, buffers)
    ids.validate(full=True)
    return ids


def is_graph_folder(path: Path) -> bool:
    """Whether a folder has a manifest such as ours; its arrays may be damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return "incoming.indptr" in json.loads((path / MANIFEST).read_text(encoding="utf-8"))["arrays"]
    return False
