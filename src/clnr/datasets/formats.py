"""Readers of the published file formats. None of them runs code from a file."""

from __future__ import annotations

import gzip
import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from clnr.datasets import synthetic
from clnr.errors import DataError
from clnr.graph import Graph, Split
from clnr.graph.arrays import check_csr
from clnr.graph.csr import Array
from clnr.support.humanize import describe_error

Reader = Callable[[list[Path]], Graph]

_NUMBER_KINDS = "biuf"


def read(reader: Reader, files: list[Path]) -> Graph:
    """Call a reader; any error that a damaged file causes becomes one line that names it."""
    with _naming(*files):
        return reader(files)


@contextmanager
def _naming(*files: Path) -> Iterator[None]:
    """Turn any error inside into one that names these files; a nested one is kept, since it is more precise."""
    try:
        yield
    except DamagedFile:
        raise
    except OSError as error:
        raise DamagedFile(f"cannot read {error.filename or files[0]}: {error.strerror or error}") from None
    except Exception as error:
        readable = "".join(letter if letter.isprintable() else "?" for letter in describe_error(error))
        where = files[0] if len(files) == 1 else f"{files[0].parent} ({files[0].name} and {len(files) - 1} more)"
        raise DamagedFile(f"damaged or truncated data in {where}: {readable}") from None


class DamagedFile(DataError):
    """A file that does not follow its format."""


def toy(files: list[Path]) -> Graph:
    """The built-in graph, which has no files."""
    return synthetic.toy()


# -- Planetoid: eight files a set, pickled by Python 2 ----------------------------------------------------------------


class _Inert:
    """Stands in for a class while unpickling: it only stores its arguments."""

    def __init__(self, *arguments: Any):
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type(_Inert):
    def value(self) -> np.dtype[Any]:
        dtype = np.dtype(self.arguments[0]).newbyteorder(self.state[1])
        if dtype.kind not in _NUMBER_KINDS:
            raise pickle.UnpicklingError(f"it holds an array of {dtype}, where numbers are expected")
        return dtype


class _Array(_Inert):
    def value(self) -> Array:
        _, shape, dtype, fortran, raw = self.state
        raw = raw.encode("latin1") if isinstance(raw, str) else raw
        return np.frombuffer(raw, dtype.value()).reshape(shape, order="F" if fortran else "C")


class _Rows(_Inert):
    def value(self) -> sp.csr_array:
        data, indices, indptr = (self.state[name].value() for name in ("data", "indices", "indptr"))
        return check_csr(data, indices, indptr, self.state["_shape"])


class _Unpickler(pickle.Unpickler):
    """Allows arrays of numbers, one sparse matrix class and a dictionary of lists, and refuses any other class."""

    _ALLOWED: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Type,
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("scipy.sparse.csr", "csr_matrix"): _Rows,
        ("collections", "defaultdict"): lambda *arguments: {},  # The pickle then fills it.
        ("__builtin__", "list"): _Inert,
        ("builtins", "list"): _Inert,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data file needs") from None


def unpickle(file: Path) -> Any:
    """The value in a pickle that holds nothing but an array, a sparse matrix or a dictionary of lists."""
    with _naming(file):
        content = file.read_bytes()
        # Python allocates a memo up to the highest index in it.
        for opcode, place, _ in pickletools.genops(content):
            if opcode.name in ("PUT", "LONG_BINPUT") and int(str(place)) > len(content):
                raise pickle.UnpicklingError(f"it uses entry {place} of its memo, which is more than it has bytes")
        value = _Unpickler(io.BytesIO(content), encoding="latin1").load()
        return value.value() if isinstance(value, _Array | _Rows) else value


def planetoid(files: list[Path]) -> Graph:
    """``x, tx, allx, y, ty, ally, graph, test.index``, in that order (Yang et al., 2016)."""
    x, tx, allx, y, ty, ally, neighbours = (unpickle(file) for file in files[:-1])
    listed = np.array(files[-1].read_text().split(), dtype=np.int64)
    for rows, classes, count in ((x, y, len(y)), (tx, ty, len(listed)), (allx, ally, len(ally))):
        if (rows.shape, classes.shape) != ((count, allx.shape[1]), (count, ally.shape[1])):
            raise ValueError(f"features of shape {rows.shape} and classes of shape {classes.shape} for {count} nodes")
    low, high = int(listed.min()), int(listed.max())
    if low != allx.shape[0] or high - low >= 2 * len(listed):
        raise ValueError(f"test nodes go from {low} to {high}, where they must directly follow the {allx.shape[0]} others")
    # Some test nodes of CiteSeer are in no file: they have no features, no edges, and class 0, as in other readers.
    rows = sp.lil_array((high - low + 1, tx.shape[1]), dtype=np.float32)
    rows[listed - low] = tx
    classes = np.zeros((high - low + 1, ty.shape[1]))
    classes[listed - low] = ty
    features = sp.vstack([allx, rows.tocsr()]).tocsr().astype(np.float32)
    labels = np.concatenate([ally, classes]).argmax(1)
    # A pickle can refer to one list many times.
    if sum(len(nodes) for nodes in neighbours.values()) > files[-2].stat().st_size:
        raise ValueError("it lists more neighbours than it has bytes")
    edges = np.array([(index(i), index(j)) for i, nodes in neighbours.items() for j in nodes if i != j], dtype=np.int64)
    split = Split(np.arange(len(y)), np.arange(len(y), len(y) + 500), np.sort(listed))
    return Graph.from_edges(edges[:, 0], edges[:, 1], features, undirected=True, labels=labels, split=split)


# -- npz: Amazon and Coauthor ------------------------------------------------------------------------------------------


def npz(files: list[Path]) -> Graph:
    """``adj_*``, ``attr_*`` and ``labels`` (Shchur et al., 2018); counts become 0 or 1, loops go, edges go both ways."""
    with files[0].open("rb") as stream, np.load(stream, allow_pickle=False) as parts:
        adjacency = sp.coo_array(_matrix(parts, "adj"))
        features = _matrix(parts, "attr")
        labels = parts["labels"]
    features.data = (features.data > 0).astype(np.float32)
    features.eliminate_zeros()
    source, target = adjacency.coords
    distinct = source != target
    return Graph.from_edges(source[distinct], target[distinct], features, undirected=True, labels=labels)


def _matrix(parts: Any, name: str) -> sp.csr_array:
    data, indices, indptr, shape = (parts[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    return check_csr(data, indices, indptr, shape)


# -- OGB: gzipped CSV, in a zip or unpacked ----------------------------------------------------------------------------


_OGB_TABLES = ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list", "train", "valid", "test")


def ogb(files: list[Path]) -> Graph:
    """OGB's raw tables (Hu et al., 2020), from its zip, by their names there, or from the folder it unpacks to.

    Edges go both ways.
    """
    if len(files) == 1:
        with zipfile.ZipFile(files[0]) as archive:
            members = {member.rpartition("/")[2]: member for member in archive.namelist()}
            tables = [_csv(archive.open(members[f"{name}.csv.gz"])) for name in _OGB_TABLES]
    else:
        tables = []
        for file in files:
            with _naming(file):
                tables.append(_csv(file.open("rb")))
    edges, features, labels, *counts, train, validation, test = tables
    for what, rows, count in zip(("features", "edges"), (features, edges), counts, strict=True):
        if len(rows) != int(count[0, 0]):
            raise ValueError(f"{len(rows)} rows of {what} where {int(count[0, 0])} were counted")
    source, target = edges.T
    split = Split(*(part[:, 0] for part in (train, validation, test)))
    return Graph.from_edges(source, target, features, undirected=True, labels=labels[:, 0], split=split)


def _csv(stream: IO[bytes]) -> Array:
    from pyarrow import csv

    with stream, gzip.open(stream) as text:
        options = csv.ReadOptions(autogenerate_column_names=True)
        table = csv.read_csv(io.BytesIO(text.read()), read_options=options)
    return np.stack([column.to_numpy() for column in table.columns], 1)
