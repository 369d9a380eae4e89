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

import hashlib
import json
import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, option
from clnr.graph.csr import CSR, Array
from clnr.graph.digest import graph_digest, id_arrays
from clnr.graph.graph import Graph, Stored
from clnr.graph.manifest import ARRAYS, MANIFEST, array_file, find_manifest
from clnr.graph.stored_ids import StoredIds
from clnr.graph.validation import check_class_count
from clnr.support.storage import check_count, check_version, errors_name, parse_json, read_stable, sha256

FORMAT_VERSION = 2
MOST_NODES = 2**31 - 1
"""The most nodes of a graph: places and rows of nodes are 32-bit numbers. Edges are counted in 64 bits."""
FEATURE_TYPES = ("float32", "float16")
_NUMPY_TYPES = {"float16": "<f2", "float32": "<f4", "int32": "<i4", "int64": "<i8", "uint8": "|u1"}
Files = Mapping[str, Callable[[Path], object]]
"""What writes each of other files, by its name."""


class _ArrayInfo(NamedTuple):
    """The type of an array's numbers, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(_NUMPY_TYPES[self.dtype]).itemsize


class _FileInfo(NamedTuple):
    """A file's size and the digest of its content."""

    bytes: int
    sha256: str


class _Manifest(NamedTuple):
    """What graph.json says."""

    nodes: int
    edges: int
    features: int
    classes: int
    directed: bool
    name: str
    facts: str
    digest: str
    arrays: Mapping[str, _ArrayInfo]
    files: Mapping[str, _FileInfo]


def check_nodes(count: int) -> None:
    """Fail if a graph has more nodes than a folder can have."""
    if count > MOST_NODES:
        raise DataError(
            f"{count:,} nodes are too many: a graph folder has at most {MOST_NODES:,} (2^31 - 1); leave some out, or split it "
            "into several graphs"
        )


def is_graph_folder(path: Path) -> bool:
    """Whether a folder has a manifest such as ours; its arrays may be damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return "incoming.indptr" in json.loads((path / MANIFEST).read_text(encoding="utf-8"))["arrays"]
    return False


# -- reading ----------------------------------------------------------------------------------------------------------


def open_graph(path: str | Path) -> Graph:
    """The graph in a folder, of which nothing is in memory until it is read.

    Checked are the manifest, the size of every file, and that rows end with the last entry; all else is checked as it is read:
    places, columns, signs, and that numbers are finite. Only ``verify`` compares digests.
    """
    return read_stable(Path(path), MANIFEST, lambda: _open(Path(path)))


def verify(path: Path, progress: Callable[[str], None] | None = None) -> None:
    """Read every file of a folder, and raise if one is not as it was written; ``progress`` is told each name before that."""
    for name, (_, digest) in _read_manifest(path).files.items():
        if progress is not None:
            progress(name)
        with errors_name(path / name):
            if sha256(path / name) != digest:
                raise DataError("it is damaged, or was changed; write the folder again")


def check_unchanged(graph: Graph) -> None:
    """Raise if the folder that a graph is in has another graph by now."""
    if graph.stored is not None and open_graph(graph.stored.path).digest != graph.digest:
        raise DataError(f"{graph.stored.path} has changed during this run; start again")


def _open(path: Path) -> Graph:
    manifest = _read_manifest(path)
    for name, (size, _) in manifest.files.items():
        with errors_name(path / name):
            if (there := (path / name).stat().st_size) != size:
                raise DataError(f"it has {there:,} bytes instead of {size:,}: it is damaged, or was changed")
    arrays = {name: map_array(path / array_file(name), *info) for name, info in manifest.arrays.items()}
    for name in ("incoming.indptr", "outgoing.indptr", "features.indptr", "ids.offsets"):
        if name in arrays:
            entries = "ids.text" if name == "ids.offsets" else name.replace("indptr", "indices")
            first, last, count = arrays[name][0], arrays[name][-1], len(arrays[entries])
            if (first, last) != (0, count):
                wrong = f"it goes from {first} to {last} instead of from 0 to {count}"
                raise DataError(f"{path / array_file(name)}: it is damaged, or was changed: {wrong}")
    incoming = _edges(arrays, "incoming")
    texts = "ids.values" not in arrays
    return Graph(
        features=_features(arrays, manifest),
        incoming=incoming,
        outgoing=_edges(arrays, "outgoing") if manifest.directed else incoming,
        labels=arrays.get("labels.values"),
        ids=StoredIds(arrays["ids.offsets"], arrays["ids.text"], path) if texts else arrays["ids.values"],
        name=manifest.name,
        facts=manifest.facts,
        stored=Stored(path, manifest.digest, manifest.classes),
    )


def map_array(path: Path, dtype: str, shape: tuple[int, ...]) -> Array:
    """An array in a file, which cannot be written to; its pages are read when they are touched."""
    with errors_name(path):
        if 0 in shape:
            values = np.empty(shape, _NUMPY_TYPES[dtype])
            values.flags.writeable = False
            return values
        with path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(pages, _NUMPY_TYPES[dtype]).reshape(shape)


def _edges(arrays: Mapping[str, Array], way: str) -> CSR:
    return CSR(arrays[f"{way}.indptr"], arrays[f"{way}.indices"], arrays.get(f"{way}.weight"))


def _features(arrays: Mapping[str, Array], manifest: _Manifest) -> Any:
    if "features.indptr" not in arrays:
        return arrays["features.values"]
    matrix: Any = sp.csr_array((manifest.nodes, manifest.features), dtype=np.float32)
    # Its constructor would copy the indices, for one type of both.
    matrix.indptr, matrix.indices = (arrays[f"features.{part}"] for part in ("indptr", "indices"))
    matrix.data = arrays["features.values"]
    return matrix


def _read_manifest(path: Path) -> _Manifest:
    file = find_manifest(path)
    with errors_name(file):
        content = parse_json(file.read_text(encoding="utf-8"))
        check_version(content["form"], FORMAT_VERSION)
        arrays = {
            str(name): _ArrayInfo(str(info["dtype"]), tuple(check_count(each) for each in info["shape"]))
            for name, info in content["arrays"].items()
        }
        files = {
            str(name): _FileInfo(check_count(info["bytes"]), str(info["sha256"])) for name, info in content["files"].items()
        }
        counts: dict[str, Any] = {name: check_count(content[name]) for name in ("nodes", "edges", "features", "classes")}
        others = {name: content[name] for name in ("directed", "name", "facts", "digest")}
        manifest = _Manifest(**counts, **others, arrays=arrays, files=files)
        _check_manifest(manifest)
        return manifest


def _check_manifest(manifest: _Manifest) -> None:
    """Every array must be there, of the size that follows from the counts, and of the type that is read."""
    check_nodes(manifest.nodes)
    check_class_count(manifest.classes, manifest.nodes)
    for each in manifest.files:
        if Path(each).name != each:
            raise DataError(f"'{each}' is not the name of a file in this folder")
    texts = manifest.name, manifest.facts, manifest.digest
    if not isinstance(manifest.directed, bool) or not all(isinstance(each, str) for each in texts):
        given = f"{manifest.directed!r:.40}, {texts!r:.120}"
        raise DataError(f"directed is true or false, and name, facts and digest are text, not {given}")
    arrays, nodes = manifest.arrays, manifest.nodes
    expected = dict[str, tuple[tuple[str, ...], tuple[int, ...]]]()
    for way in ("incoming", "outgoing")[: 1 + manifest.directed]:
        expected |= {f"{way}.indptr": (("int64",), (nodes + 1,)), f"{way}.indices": (("int32",), (manifest.edges,))}
        if "incoming.weight" in arrays:
            expected[f"{way}.weight"] = ("float32",), (manifest.edges,)
    if "features.indptr" in arrays:
        entries = _length(arrays, "features.indices")
        expected |= {"features.indptr": (("int64",), (nodes + 1,)), "features.indices": (("int32",), entries)}
        expected["features.values"] = FEATURE_TYPES, entries
    else:
        expected["features.values"] = FEATURE_TYPES, (nodes, manifest.features)
    if "ids.values" in arrays:
        expected["ids.values"] = ("int64",), (nodes,)
    else:
        expected |= {"ids.offsets": (("int64",), (nodes + 1,)), "ids.text": (("uint8",), _length(arrays, "ids.text"))}
    if "labels.values" in arrays:
        expected["labels.values"] = ("int64",), (nodes,)
    for name, (types, shape) in expected.items():
        info = arrays.get(name)
        if info is None or info.dtype not in types or info.shape != shape:
            raise DataError(f"the array {name} is not {' or '.join(types)} of shape {shape}, but {info}")
        if manifest.files.get(array_file(name), _FileInfo(-1, "")).bytes != info.bytes:
            raise DataError(f"the file of {name} does not have {info.bytes:,} bytes")
    if odd := sorted(arrays.keys() - expected.keys()):
        raise DataError(f"the array {odd[0]} is not one of a graph")


def _length(arrays: Mapping[str, _ArrayInfo], name: str) -> tuple[int, ...]:
    return arrays[name].shape[:1] if name in arrays else (-1,)


# -- writing ----------------------------------------------------------------------------------------------------------


class GraphWriter:
    """Writes the arrays of a graph into an empty folder, one piece after the other; the last step makes it a graph folder."""

    def __init__(self, folder: Path, feature_type: str = "float32"):
        self.folder, self.feature_type = folder, feature_type
        self._arrays: dict[str, _ArrayInfo] = {}
        self._digests: dict[str, str] = {}
        self._files: dict[str, _FileInfo] = {}

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
                with np.errstate(over="ignore"):
                    stored = np.ascontiguousarray(values, _NUMPY_TYPES[dtype])
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
        self._arrays[name] = _ArrayInfo(dtype, (count,) if width is None else (count, width))
        self._files[array_file(name)] = _FileInfo(size, total.hexdigest())
        self._digests[name] = (as_read or total).hexdigest()

    def read_back(self, name: str) -> Array:
        """An array that is written."""
        return map_array(self.folder / array_file(name), *self._arrays[name])

    def file(self, name: str) -> Path:
        """The path of another file; ``close`` takes its digest."""
        self._files[name] = _FileInfo(0, "")
        return self.folder / name

    def close(self, *, nodes: int, features: int, classes: int, directed: bool, name: str, facts: str = "") -> None:
        """Write the manifest, without which nothing opens the folder; ``facts`` are those of a ``Graph``."""
        check_nodes(nodes)
        for each, (_, digest) in self._files.items():
            if not digest:
                path = self.folder / each
                self._files[each] = _FileInfo(path.stat().st_size, sha256(path))
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


def write_graph(graph: Graph, folder: Path, feature_type: str = "float32", files: Files | None = None) -> None:
    """Write a graph into an empty folder, with other ``files`` beside it; ids that are no numbers become text."""
    writer, x = GraphWriter(folder, feature_type), graph.features
    arrays: dict[str, tuple[str, Array]] = {}
    for way, edges in zip(("incoming", "outgoing"), graph.edges_by_end, strict=False):
        arrays |= {f"{way}.indptr": ("int64", edges.indptr), f"{way}.indices": ("int32", edges.indices)}
        if edges.weight is not None:
            arrays[f"{way}.weight"] = "float32", edges.weight
    if graph.sparse:
        arrays |= {"features.indptr": ("int64", x.indptr), "features.indices": ("int32", x.indices)}
    arrays["features.values"] = feature_type, x.data if graph.sparse else x
    arrays |= {name: ("uint8" if name == "ids.text" else "int64", part) for name, part in id_arrays(graph.node_ids).items()}
    if graph.labels is not None:
        arrays["labels.values"] = "int64", graph.labels
    for name, (dtype, values) in arrays.items():
        with writer.array(name, dtype, None if values.ndim == 1 else values.shape[1]) as append:
            append(values)
    for name, write in (files or {}).items():
        write(writer.file(name))
    sizes = {"nodes": graph.num_nodes, "features": graph.num_features, "classes": graph.num_classes}
    writer.close(**sizes, directed=graph.directed, name=graph.name, facts=graph.facts)
