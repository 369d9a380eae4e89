"""Small files of the published forms, with whatever changed in them."""

from __future__ import annotations

import gzip
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from clnr.datasets import formats
from clnr.datasets.catalog import OGB_TABLES


def read_files(reader: str, files: list[str]) -> None:
    """Read files, and let compiled code go over all that was read."""
    graph = formats.read(getattr(formats, reader), [Path(file) for file in files])
    assert len(graph.digest) == 64
    graph.to_scipy().sum()
    graph.features.sum(1)
    if graph.sparse:
        graph.features.tocoo()


# -- pickles as Python 2 wrote them, opcode by opcode ------------------------------------------------------------------


def pickled(body: bytes) -> bytes:
    return b"\x80\x02" + body + b"."


def integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def text(value: str) -> bytes:
    return b"U" + bytes([len(value)]) + value.encode("ascii")


def raw(value: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(value)) + value


def dtype(kind: str, order: str = "<", flags: int = 0) -> bytes:
    made = b"cnumpy\ndtype\n" + text(kind) + integer(0) + integer(1) + b"\x87R"
    return made + b"(" + integer(3) + text(order) + b"NNN" + integer(-1) + integer(-1) + integer(flags) + b"tb"


def array(shape: tuple[int, ...], kind: bytes, data: bytes) -> bytes:
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + integer(0) + b"\x85" + text("b") + b"\x87R"
    return made + b"(" + integer(1) + b"(" + b"".join(map(integer, shape)) + b"t" + kind + b"\x89" + data + b"tb"


def rows(parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> bytes:
    """A sparse matrix of any parts, fitting or not."""
    state = text("_shape") + b"(" + b"".join(map(integer, shape)) + b"t" + text("format") + text("csr")
    state += b"".join(text(name) + python2(parts[name]) for name in ("indptr", "indices", "data"))
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + state + b"ub"


def rows_of(matrix: sp.csr_array) -> dict[str, np.ndarray]:
    return {name: getattr(matrix, name) for name in ("indptr", "indices", "data")}


def python2(value: np.ndarray | sp.csr_array | dict[int, list[int]]) -> bytes:
    """A value as Python 2's ``cPickle.dump(value, file, 2)`` wrote it."""
    if isinstance(value, dict):
        lists = b"".join(integer(i) + b"](" + b"".join(map(integer, nodes)) + b"e" for i, nodes in value.items())
        return b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(" + lists + b"u"
    if isinstance(value, np.ndarray):
        return array(value.shape, dtype(value.dtype.str[1:]), raw(value.tobytes()))
    return rows(rows_of(value), value.shape)


# -- Planetoid ---------------------------------------------------------------------------------------------------------

TRAINED, KNOWN, WORDS, CLASSES = 6, 510, 5, 3
WHOLE = [514, 510, 513, 511, 512, 515]
WITH_GAPS = [514, 510, 517, 511]
NEIGHBOURS = {0: [1, 1, 0], 1: [0, 509], 7: [514], 511: [510, 3, 511], 509: []}
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def one_hot(classes: np.ndarray) -> np.ndarray:
    return (classes[:, None] == np.arange(CLASSES)).astype("<i4")


def planetoid_parts(listed: list[int]) -> dict[str, np.ndarray | sp.csr_array | dict[int, list[int]]]:
    random = np.random.default_rng(7)
    words = ((random.random((KNOWN + len(listed), WORDS)) < 0.5) * random.random((KNOWN + len(listed), WORDS))).astype("<f4")
    classes = one_hot(random.integers(0, CLASSES, KNOWN + len(listed)))
    return {
        "x": sp.csr_array(words[:TRAINED]),
        "tx": sp.csr_array(words[KNOWN:]),
        "allx": sp.csr_array(words[:KNOWN]),
        "y": classes[:TRAINED],
        "ty": classes[KNOWN:],
        "ally": classes[:KNOWN],
        "graph": NEIGHBOURS,
    }


def planetoid_files(folder: Path, listed: list[int] = WHOLE, **changed: bytes) -> list[Path]:
    """The eight files of a small set, some of them replaced."""
    for part, value in planetoid_parts(listed).items():
        (folder / f"ind.small.{part}").write_bytes(pickled(python2(value)))
    (folder / "ind.small.test.index").write_text("".join(f"{node}\n" for node in listed))
    for part, content in changed.items():
        (folder / f"ind.small.{part.replace('_', '.')}").write_bytes(content)
    return [folder / f"ind.small.{part}" for part in PARTS]


# -- npz ---------------------------------------------------------------------------------------------------------------

ADJACENCY = np.array([[0, 1, 0, 0], [0, 1, 2, 0], [0, 3, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
ATTRIBUTES = np.array([[0, 2, 0], [1, 0, 5], [0, 0, 0], [-1, 0, 0.5]], dtype=np.float32)
LABELS = np.array([1, 0, 2, 1])


def npz_parts() -> dict[str, np.ndarray]:
    parts = {"labels": LABELS}
    for name, dense in (("adj", ADJACENCY), ("attr", ATTRIBUTES)):
        matrix = sp.csr_array(dense)
        parts |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        parts[f"{name}_shape"] = np.array(matrix.shape)
    return parts


def npz_file(folder: Path, **changed: np.ndarray | None) -> Path:
    """A small npz file, some of its arrays replaced, or left out where None."""
    parts = {name: value for name, value in (npz_parts() | changed).items() if value is not None}
    np.savez(folder / "small.npz", **parts)
    return folder / "small.npz"


# -- OGB ---------------------------------------------------------------------------------------------------------------

EDGES = [(0, 1), (1, 0), (2, 3), (2, 3), (4, 1)]
FEATURES = [[0.5, -1.25, 3], [0, 0, 1], [1e-3, 2, -7], [8, 9, 10], [0.1, 0.2, 0.3]]
TABLES = {
    "raw/edge.csv.gz": EDGES,
    "raw/node-feat.csv.gz": FEATURES,
    "raw/node-label.csv.gz": [[2], [0], [1], [1], [0]],
    "raw/num-node-list.csv.gz": [[5]],
    "raw/num-edge-list.csv.gz": [[5]],
    "split/time/train.csv.gz": [[3], [0]],
    "split/time/valid.csv.gz": [[1]],
    "split/time/test.csv.gz": [[4], [2]],
}


def packed(table: list) -> bytes:
    return gzip.compress("".join(",".join(map(str, row)) + "\n" for row in table).encode())


def ogb_folder(folder: Path, changed: dict[str, bytes] | None = None) -> list[Path]:
    """The unpacked form, some of its files replaced."""
    for name, content in ({name: packed(table) for name, table in TABLES.items()} | (changed or {})).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return [folder / name for name in OGB_TABLES]


def ogb_zip(folder: Path, changed: dict[str, bytes | None] | None = None) -> list[Path]:
    """The published form, one folder in a zip, some of its files replaced, or left out where None."""
    with zipfile.ZipFile(folder / "arxiv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ({name: packed(table) for name, table in TABLES.items()} | (changed or {})).items():
            if content is not None:
                archive.writestr(f"arxiv/{name}", content)
        archive.writestr("arxiv/mapping/README.md", "not read")
    return [folder / "arxiv.zip"]


# -- what is wrong with files -----------------------------------------------------------------------------------------------


def run_by_pickle(marker: Path) -> dict[str, bytes]:
    """Pickles that make a file when they are loaded without care."""
    command = f"touch '{marker}'"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"

    def long(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    in_system = b"cos\nsystem\n" + long(command) + b"\x85R"
    return {
        "os.system": pickled(in_system),
        "eval": pickled(b"c__builtin__\neval\n" + long(code) + b"\x85R"),
        "exec of protocol 4": b"\x80\x04" + long("builtins") + long("exec") + b"\x93" + long(code) + b"\x85R.",
        "an element of an object array": pickled(array((1,), dtype("O8", "|", 63), b"](" + in_system + b"e")),
        "an attribute of a matrix": pickled(b"cscipy.sparse.csr\ncsr_matrix\n)\x81}" + text("data") + in_system + b"sb"),
    }


# The features of all nodes that are no test nodes; ``check_csr``, which is tested by itself, finds what is wrong in them.
ALL_WORDS = planetoid_parts(WHOLE)["allx"]
FAR = np.full(ALL_WORDS.nnz, 10**9, "<i4")
MANY = b"](" + integer(1) * 10**5 + b"e"
PICKLES = {
    "garbage": b"garbage, not a pickle",
    "unfinished": pickled(python2(NEIGHBOURS))[:-9],
    "only a number": pickled(integer(3)),
    "a class alone": pickled(b"cnumpy\nndarray\n"),
    "a matrix without parts": pickled(b"cscipy.sparse.csr\ncsr_matrix\n)\x81"),
    "a string of 2^64 bytes": pickled(b"\x8d" + b"\xff" * 8 + b"abc"),
    "an array of 2^62 numbers": pickled(array((2**31 - 1, 2**31 - 1), dtype("i4"), raw(b"1234"))),
    "a call for 16 TiB": pickled(b"cnumpy\nndarray\n(" + integer(2**31 - 1) + integer(1024) + b"t\x85R"),
    "a memo of 2^31 places": pickled(b"]r\xff\xff\xff\x7f"),
    "a memo of 2^26 places in digits": pickled(b"]p67108864\n"),
    "a list copied 500 times": pickled(b"(" + MANY + b"q\x00" + b"c__builtin__\nlist\nh\x00\x85R" * 500 + b"t"),
    "a list for 500 nodes": pickled(b"}(" + MANY + b"q\x000" + b"".join(integer(i) + b"h\x00" for i in range(500)) + b"u"),
    "too deep": pickled(b"]" * 10**5 + b"a" * (10**5 - 1)),
    "objects from raw addresses": pickled(array((KNOWN, CLASSES), dtype("O8", "|", 0), raw(b"AAAAAAAA" * KNOWN * CLASSES))),
    "integers called objects": pickled(array((2, 2), dtype("i8", "<", 63), b"](" + integer(1) * 4 + b"e")),
}
MISFITS = {
    "one training row too many": ("x", pickled(python2(sp.csr_array(np.ones((TRAINED + 1, WORDS), "<f4"))))),
    "one word too many": ("tx", pickled(python2(sp.csr_array(np.ones((len(WHOLE), WORDS + 1), "<f4"))))),
    "one test label too few": ("ty", pickled(python2(np.ones((len(WHOLE) - 1, CLASSES), "<i4")))),
    "one class too many": ("ty", pickled(python2(np.ones((len(WHOLE), CLASSES + 1), "<i4")))),
    "labels that are no matrix": ("ally", pickled(python2(np.ones(KNOWN, "<i4")))),
    "columns far above": ("allx", pickled(rows(rows_of(ALL_WORDS) | {"indices": FAR}, ALL_WORDS.shape))),
    "more classes than numbers": ("y", pickled(array((2**30, 0), dtype("i4"), raw(b"")))),
    "a neighbour that is a fraction": ("graph", pickled(b"}" + integer(0) + b"](G?\xf8" + b"\x00" * 6 + b"es")),
    "a neighbour above": ("graph", pickled(python2({0: [1], 1: [516]}))),
    "no neighbours": ("graph", pickled(python2({}))),
    "neighbours in an array": ("graph", pickled(python2(np.ones(3, "<i4")))),
    "no test nodes": ("test_index", b""),
    "a test node twice": ("test_index", b"514\n510\n513\n511\n512\n512\n"),
    "a test node that trains": ("test_index", b"514\n510\n513\n511\n512\n3\n"),
    "a test node far above": ("test_index", b"514\n510\n513\n511\n512\n99999999999999\n"),
}
TABLE_MISFITS = {
    "no table": ("split/time/valid.csv.gz", None),
    "a ragged edge": ("raw/edge.csv.gz", packed([*EDGES[:4], (4,)])),
    "an edge to nothing": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, "")])),
    "an edge to a node above": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, 5)])),
    "edges with three ends": ("raw/edge.csv.gz", packed([(*edge, 0) for edge in EDGES])),
    "a feature that is no number": ("raw/node-feat.csv.gz", packed([*FEATURES[:4], ["nan", 0, 0]])),
    "one label too few": ("raw/node-label.csv.gz", packed([[0], [1], [2], [0]])),
    "labels that are not compressed": ("raw/node-label.csv.gz", b"2\n0\n1\n1\n0\n"),
    "no count": ("raw/num-node-list.csv.gz", gzip.compress(b"", mtime=0)),
    "other counts": ("raw/num-edge-list.csv.gz", packed([[4]])),
    "a training node above": ("split/time/train.csv.gz", packed([[3], [9]])),
    "a training node that tests": ("split/time/train.csv.gz", packed([[3], [4]])),
}
