"""A graph as a folder: flat little-endian arrays in files of their own, memory-mapped when they are read.

graph.json                          counts; size and SHA-256 of each file: written last
incoming.indptr.bin, .indices.bin   edges by target, and .weight.bin where they have weights
outgoing.indptr.bin, ...            the same edges by source; left out where the graph is undirected
features.values.bin                 one row per node; sparse ones also have .indptr.bin and .indices.bin
ids.values.bin                      numbers; or ids.offsets.bin and ids.text.bin, which is UTF-8
labels.values.bin                   class per node, -1 where unknown, if there are any

tables.json                         how tables became the graph
nodes.parquet                       the columns of the node table, if there was one
"""

from __future__ import annotations

import hashlib
import itertools
import json
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, option
from clnr.graph.arrays import most_classes
from clnr.graph.csr import CSR, Array, check_ends
from clnr.graph.digest import graph_arrays, graph_digest
from clnr.graph.graph import Graph, Stored
from clnr.graph.manifest import ARRAYS, MANIFEST, NODES, TABLES, array_file, find_manifest
from clnr.graph.node_table import NodeTable
from clnr.graph.table_info import TableInfo
from clnr.support.arguments import check_choice, check_type
from clnr.support.storage import check_count, check_version, errors_name, parse_json, read_stable, sha256

if TYPE_CHECKING:
    import pyarrow

FORMAT_VERSION = 4
MOST_NODES = 2**31 - 1
"""The most nodes of a graph: places and rows of nodes are 32-bit numbers. Edges are counted in 64 bits."""
FEATURE_TYPES = ("float32", "float16")
_FEATURES = "features.values"
_COUNTS = ("nodes", "edges", "features", "classes")


def array_types(manifest: Mapping[str, Any]) -> dict[str, np.dtype[Any]]:
    """The arrays whose files a manifest lists, and the types of their numbers."""
    types = ARRAYS | {_FEATURES: check_choice("feature type", manifest["feature_type"], FEATURE_TYPES)}
    return {name: np.dtype(dtype) for name, dtype in types.items() if array_file(name) in manifest["files"]}


def check_nodes(count: int) -> None:
    """Fail if a graph has more nodes than a folder can have."""
    if count > MOST_NODES:
        raise DataError(f"{count:,} nodes are too many: a graph folder has at most {MOST_NODES:,} (2^31 - 1)")


def is_graph_folder(path: Path) -> bool:
    """Whether a folder has a manifest such as ours; its arrays may be damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return array_file("incoming.indptr") in json.loads((path / MANIFEST).read_text(encoding="utf-8"))["files"]
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
    for name, info in _read_manifest(path)["files"].items():
        if progress is not None:
            progress(name)
        with errors_name(path / name):
            if sha256(path / name) != info["sha256"]:
                raise DataError("it is damaged, or was changed; write the folder again")


def check_unchanged(graph: Graph) -> None:
    """Raise if the folder that a graph is in has another graph by now."""
    if graph.stored is not None and open_graph(graph.stored.path).digest != graph.digest:
        raise DataError(f"{graph.stored.path} has changed during this run; start again")


def _open(path: Path) -> Graph:
    manifest, arrays = _read_manifest(path), dict[str, Array]()
    for name, info in manifest["files"].items():
        with errors_name(path / name):
            if (there := (path / name).stat().st_size) != info["bytes"]:
                raise DataError(f"it has {there:,} bytes instead of {info['bytes']:,}: it is damaged, or was changed")
    for name, dtype in array_types(manifest).items():
        file = array_file(name)
        arrays[name] = map_array(path / file, dtype, (manifest["files"][file]["bytes"] // dtype.itemsize,))
    incoming = _edges(arrays, "incoming")
    texts = "ids.values" not in arrays
    with errors_name(path / TABLES):
        info = TableInfo.from_json((path / TABLES).read_text(encoding="utf-8"))
        if info.encoder is not None and manifest["classes"] > len(info.classes):
            raise DataError(f"it lists {len(info.classes):,} classes, and the graph has {manifest['classes']:,}")
    return Graph(
        features=_features(arrays, (manifest["nodes"], manifest["features"])),
        incoming=incoming,
        outgoing=_edges(arrays, "outgoing") if "outgoing.indptr" in arrays else incoming,
        labels=arrays.get("labels.values"),
        ids=StoredIds(arrays["ids.offsets"], arrays["ids.text"], path) if texts else arrays["ids.values"],
        name=manifest["name"],
        info=info,
        columns=NodeTable(path / NODES, manifest["nodes"]) if NODES in manifest["files"] else None,
        stored=Stored(path, manifest["digest"], manifest["classes"]),
    )


def map_array(path: Path, dtype: Any, shape: tuple[int, ...]) -> Array:
    """An array in a file, which cannot be written to; its pages are read when they are touched."""
    with errors_name(path):
        if 0 in shape:
            values = np.empty(shape, dtype)
            values.flags.writeable = False
            return values
        with path.open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(pages, np.dtype(dtype).newbyteorder("<")).reshape(shape)


def _edges(arrays: Mapping[str, Array], way: str) -> CSR:
    return CSR(arrays[f"{way}.indptr"], arrays[f"{way}.indices"], arrays.get(f"{way}.weight"))


def _features(arrays: Mapping[str, Array], shape: tuple[int, int]) -> Any:
    if "features.indptr" not in arrays:
        return arrays[_FEATURES].reshape(shape)
    matrix: Any = sp.csr_array(shape, dtype=np.float32)
    # Its constructor would copy the indices, for one type of both.
    matrix.indptr, matrix.indices = (arrays[f"features.{part}"] for part in ("indptr", "indices"))
    matrix.data = arrays[_FEATURES]
    return matrix


def _read_manifest(path: Path) -> dict[str, Any]:
    """What graph.json says, checked: every array of a graph must be there, of the size that follows from the counts."""
    file = find_manifest(path)
    with errors_name(file):
        manifest = parse_json(file.read_text(encoding="utf-8"))
        check_version(manifest["form"], FORMAT_VERSION)
        nodes, edges, features, classes = (check_count(manifest[name]) for name in _COUNTS)
        check_nodes(nodes)
        if classes > most_classes(nodes):
            raise DataError(f"{classes:,} classes are too many for {nodes:,} nodes")
        for name in ("name", "digest"):
            check_type(name, manifest[name], str, "text")
        for name, info in manifest["files"].items():
            check_count(info["bytes"])
            if Path(name).name != name:
                raise DataError(f"'{name}' is not the name of a file in this folder")
        types, files = array_types(manifest), manifest["files"]
        sizes = {name: files[array_file(name)]["bytes"] / dtype.itemsize for name, dtype in types.items()}
        expected = _sizes(sizes, nodes, edges, features)
        for name in (*expected, *sizes):
            if sizes.get(name) != expected.get(name):
                raise DataError(f"the array {name} is missing, or its size does not follow from the counts")
        return manifest


def _sizes(there: Mapping[str, float], nodes: int, edges: int, features: int) -> dict[str, float]:
    """How many numbers each array must have, given those that are there."""
    sizes: dict[str, float] = {_FEATURES: nodes * features}
    for way in ("incoming", "outgoing")[: 1 + ("outgoing.indptr" in there)]:
        sizes |= {f"{way}.indptr": nodes + 1, f"{way}.indices": edges}
        if "incoming.weight" in there:
            sizes[f"{way}.weight"] = edges
    if "features.indptr" in there:
        entries = there["features.indices"]
        sizes |= {"features.indptr": nodes + 1, "features.indices": entries, _FEATURES: entries}
    if "labels.values" in there:
        sizes["labels.values"] = nodes
    texts = {"ids.offsets": nodes + 1, "ids.text": there.get("ids.text", -1)}
    return sizes | ({"ids.values": nodes} if "ids.values" in there else texts)


class StoredIds:
    """Texts in one piece, and where each begins: as an array of objects, read when they are asked for."""

    dtype: ClassVar[np.dtype[Any]] = np.dtype(object)

    def __init__(self, offsets: Array, text: Array, folder: Path):
        self._offsets, self._text, self._folder = offsets, text, folder
        check_ends(offsets, len(text), self._damaged)

    def _damaged(self, part: str, what: str) -> DataError:
        return DataError(f"{self._folder / 'ids.offsets.bin'}: it is damaged, or was changed: {what}")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def take(self, rows: Array) -> pyarrow.Array:
        """The ids of some nodes as Arrow text, checked."""
        import pyarrow as pa

        starts, ends = self._offsets[rows], self._offsets[rows + 1]
        if not ((starts >= 0) & (starts <= ends) & (ends <= len(self._text))).all():
            raise self._damaged("indptr", "its numbers are not in order")
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._text)]
        ids = pa.Array.from_buffers(pa.large_string(), len(self), buffers).take(pa.array(rows))
        with errors_name(self._folder / "ids.text.bin"):
            ids.validate(full=True)
        return ids

    def __getitem__(self, index: Any) -> Any:
        rows = np.arange(*index.indices(len(self))) if isinstance(index, slice) else np.asarray(index)
        ids = self.take(rows.reshape(-1)).to_numpy(zero_copy_only=False)
        return ids.reshape(rows.shape) if rows.ndim else ids[0]

    def tolist(self) -> list[str]:
        return self[:].tolist()


# -- writing ----------------------------------------------------------------------------------------------------------


class GraphWriter:
    """Writes the arrays of a graph into an empty folder, one piece after the other; the last step makes it a graph folder."""

    def __init__(self, folder: Path, feature_type: str = "float32"):
        self.folder, self.feature_type = folder, feature_type
        self._digests: dict[str, str] = {}
        self._files: dict[str, dict[str, Any]] = {}

    def _dtype(self, name: str) -> np.dtype[Any]:
        return np.dtype(self.feature_type if name == _FEATURES else ARRAYS[name])

    @contextmanager
    def array(self, name: str) -> Iterator[Callable[[Array], None]]:
        """Open one of ``ARRAYS``; what is yielded appends numbers, or rows of them, to it."""
        dtype, total = self._dtype(name), hashlib.sha256()
        # Of what is read back, which enters the digest of the graph.
        as_read = hashlib.sha256() if dtype.itemsize == 2 else None
        with (self.folder / array_file(name)).open("wb") as file:

            def append(values: Array) -> None:
                with np.errstate(over="ignore"):
                    stored = np.ascontiguousarray(values, dtype)
                if name == _FEATURES and not np.isfinite(stored).all():
                    raise DataError(f"a feature is too large for {dtype}; choose float32 ({option('dtype')})")
                content = stored.reshape(-1).data.cast("B") if stored.size else b""
                file.write(content)
                total.update(content)
                if as_read is not None:
                    as_read.update(stored.astype(np.float32).reshape(-1).view(np.uint8).data)

            yield append
            size = file.tell()
        self._files[array_file(name)] = {"bytes": size, "sha256": total.hexdigest()}
        self._digests[name] = (as_read or total).hexdigest()

    def read_back(self, name: str) -> Array:
        """An array that is written, as one of one dimension."""
        dtype, file = self._dtype(name), array_file(name)
        return map_array(self.folder / file, dtype, (self._files[file]["bytes"] // dtype.itemsize,))

    def ids(self, batches: Iterable[Any]) -> None:
        """Write ids that come as Arrow arrays, of whole numbers or of text."""
        import pyarrow as pa

        batches = iter(batches)
        first = next(batches)
        if pa.types.is_integer(first.type):
            with self.array("ids.values") as append:
                for batch in (first, *batches):
                    append(batch.to_numpy())
            return
        with self.array("ids.offsets") as append, self.array("ids.text") as append_text:
            append(np.zeros(1, np.int64))
            total = 0
            for batch in itertools.chain([first], batches):
                wide = batch.cast(pa.large_string())
                _, offsets, text = wide.buffers()
                ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
                append(ends[1:] - ends[0] + total)
                append_text(np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]])
                total += int(ends[-1] - ends[0])

    def columns(self, parts: Iterator[Any], count: int) -> None:
        """Write the columns of the node table, which come as Arrow tables, one below the other."""
        import pyarrow.parquet as pq

        first = next(parts)
        with pq.ParquetWriter(self._file(NODES), first.schema) as writer:
            for part in itertools.chain([first], parts):
                writer.write_table(part)

    def _file(self, name: str) -> Path:
        """The path of another file, whose digest is taken at the end."""
        self._files[name] = {}
        return self.folder / name

    def close(self, info: TableInfo, name: str, features: int, classes: int | None = None) -> None:
        """Write how tables were read, and the manifest, without which nothing opens the folder."""
        self._file(TABLES).write_bytes(info.to_json())
        for path in (self.folder / each for each, content in self._files.items() if not content):
            self._files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
        nodes = len(self.read_back("incoming.indptr")) - 1
        check_nodes(nodes)
        counts = nodes, len(self.read_back("incoming.indices")), features, len(info.classes) if classes is None else classes
        content = {
            "form": FORMAT_VERSION,
            "name": name,
            **dict(zip(_COUNTS, counts, strict=True)),
            "feature_type": self.feature_type,
            "digest": graph_digest(self._digests, features, info.facts),
            "files": self._files,
        }
        (self.folder / MANIFEST).write_text(json.dumps(content, indent=1), encoding="utf-8")


def write_graph(graph: Graph, folder: Path, feature_type: str = "float32") -> None:
    """Write a graph into an empty folder; ids that are no numbers become text."""
    writer = GraphWriter(folder, feature_type)
    for name, values in graph_arrays(graph).items():
        with writer.array(name) as append:
            append(values)
    if graph.columns is not None:
        writer.columns(iter([graph.columns.table()]), graph.num_nodes)
    writer.close(graph.info, graph.name, graph.num_features, graph.num_classes)
