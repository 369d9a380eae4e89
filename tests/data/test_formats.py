"""Readers of raw files: small files of the published forms, and everything that can be wrong with them."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from clnr.data import formats
from clnr.errors import DataError

# -- pickles as Python 2 wrote them, opcode by opcode ------------------------------------------------------------------


def pickled(body: bytes) -> bytes:
    return b"\x80\x02" + body + b"."


def integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


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


def python2(value: np.ndarray | sp.csr_array | dict[int, list[int]]) -> bytes:
    """A value as Python 2's ``cPickle.dump(value, file, 2)`` wrote it."""
    if isinstance(value, dict):
        lists = b"".join(integer(i) + b"](" + b"".join(map(integer, nodes)) + b"e" for i, nodes in value.items())
        return b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(" + lists + b"u"
    if isinstance(value, np.ndarray):
        return array(value.shape, dtype(value.dtype.str[1:]), raw(value.tobytes()))
    parts = text("_shape") + b"(" + b"".join(map(integer, value.shape)) + b"t" + text("format") + text("csr")
    parts += b"".join(text(name) + python2(getattr(value, name)) for name in ("indptr", "indices", "data"))
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + parts + b"ub"


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


def edge_set(graph) -> set[tuple[int, int]]:
    source, target, weight = graph.edges()
    assert weight is None
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@pytest.mark.parametrize("listed", [WHOLE, WITH_GAPS], ids=["whole", "test nodes missing as in CiteSeer"])
def test_planetoid_files_are_read_as_their_makers_meant(tmp_path, listed):
    graph = formats.read(formats.planetoid, planetoid_files(tmp_path, listed))

    parts = planetoid_parts(listed)
    nodes = max(listed) + 1
    features, labels = np.zeros((nodes, WORDS), np.float32), np.zeros(nodes, np.int64)
    for i in range(KNOWN):
        features[i], labels[i] = parts["allx"].toarray()[i], parts["ally"][i].tolist().index(1)
    for place, node in enumerate(listed):
        features[node], labels[node] = parts["tx"].toarray()[place], parts["ty"][place].tolist().index(1)
    edges = set()
    for i, neighbours in NEIGHBOURS.items():
        for j in neighbours:
            if i != j:
                edges |= {(i, j), (j, i)}

    assert graph.sparse
    assert graph.features.dtype == np.float32
    np.testing.assert_array_equal(graph.features.toarray(), features)
    np.testing.assert_array_equal(graph.labels, labels)
    assert edge_set(graph) == edges
    assert graph.split.train.tolist() == [0, 1, 2, 3, 4, 5]
    assert graph.split.validation.tolist() == list(range(6, 506))
    assert graph.split.test.tolist() == sorted(listed)


def test_test_nodes_in_no_file_have_no_features_no_links_and_stand_in_no_part_of_the_split(tmp_path):
    graph = formats.read(formats.planetoid, planetoid_files(tmp_path, WITH_GAPS))
    for node in (512, 513, 515, 516):
        assert graph.features[[node]].nnz == 0
        assert not any(node in edge for edge in edge_set(graph))
        assert not any(node in part for part in graph.split)


def run_by_pickle(marker: Path) -> dict[str, bytes]:
    """Pickles that make a file when they are loaded without care."""
    command = f"touch '{marker}'"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"

    def long(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    in_system = b"cos\nsystem\n" + long(command) + b"\x85R"
    return {
        "os.system": pickled(in_system),
        "posix.system": pickled(b"cposix\nsystem\n" + long(command) + b"\x85R"),
        "eval": pickled(b"c__builtin__\neval\n" + long(code) + b"\x85R"),
        "exec of protocol 4": b"\x80\x04" + long("builtins") + long("exec") + b"\x93" + long(code) + b"\x85R.",
        "an old-style instance": pickled(b"(" + long(command) + b"ios\nsystem\n"),
        "object built from a list": pickled(b"(cos\nsystem\n" + long(command) + b"o"),
        "an element of an object array": pickled(array((1,), dtype("O8", "|", 63), b"](" + in_system + b"e")),
        "an attribute of a matrix": pickled(b"cscipy.sparse.csr\ncsr_matrix\n)\x81}" + text("data") + in_system + b"sb"),
    }


@pytest.mark.parametrize("trick", run_by_pickle(Path()))
@pytest.mark.parametrize("part", ["x", "graph"])
@pytest.mark.filterwarnings("ignore:Please import `csr_matrix`:DeprecationWarning")
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path, trick, part):
    marker = tmp_path / "ran"
    content = run_by_pickle(marker)[trick]
    pickle.loads(content, encoding="latin1")
    assert marker.exists(), "the trick itself must work, or the test shows nothing"
    marker.unlink()

    with pytest.raises(DataError, match="which no data file needs"):
        formats.read(formats.planetoid, planetoid_files(tmp_path, **{part: content}))
    assert not marker.exists()


@pytest.mark.parametrize("name", ["numpy load", "numpy.core.multiarray fromfile", "collections deque", "__builtin__ set"])
def test_even_harmless_globals_are_refused_when_no_data_needs_them(tmp_path, name):
    content = pickled(b"c" + name.replace(" ", "\n").encode() + b"\n")
    with pytest.raises(DataError, match="which no data file needs"):
        formats.read(formats.planetoid, planetoid_files(tmp_path, graph=content))


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


def test_npz_counts_become_one_loops_go_and_edges_go_both_ways(tmp_path):
    graph = formats.read(formats.npz, [npz_file(tmp_path)])

    edges = set()
    for i in range(4):
        for j in range(4):
            if i != j and ADJACENCY[i, j] != 0:
                edges |= {(i, j), (j, i)}
    expected = [[1.0 if ATTRIBUTES[i, j] > 0 else 0.0 for j in range(3)] for i in range(4)]

    assert edge_set(graph) == edges
    assert graph.sparse
    assert graph.features.toarray().tolist() == expected
    assert graph.features.nnz == sum(map(sum, expected))
    assert graph.labels.tolist() == [1, 0, 2, 1]
    assert graph.split is None


@pytest.mark.parametrize("key", npz_parts())
def test_npz_without_one_of_its_arrays_is_refused_by_name(tmp_path, key):
    file = npz_file(tmp_path, **{key: None})
    with pytest.raises(DataError, match=key) as caught:
        formats.read(formats.npz, [file])
    assert str(file) in str(caught.value)


class _Touch:
    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_npz_with_an_object_array_is_refused_unread(tmp_path):
    marker = tmp_path / "ran"
    names = np.empty(4, dtype=object)
    names[:] = [_Touch(marker)] * 4
    file = npz_file(tmp_path, labels=names)
    with np.load(file, allow_pickle=True) as parts:
        assert len(parts["labels"]) == 4
    assert marker.exists(), "the trick itself must work, or the test shows nothing"
    marker.unlink()

    with pytest.raises(DataError, match=r"[Oo]bject arrays"):
        formats.read(formats.npz, [file])
    assert not marker.exists()


def test_npz_leaves_names_that_it_does_not_need_unread(tmp_path):
    names = np.array(["a", None, 3, "d"], dtype=object)
    assert formats.read(formats.npz, [npz_file(tmp_path, node_names=names)]).num_nodes == 4


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
    return gzip.compress("".join(",".join(map(str, row)) + "\n" for row in table).encode(), mtime=0)


def ogb_folder(folder: Path, changed: dict[str, bytes] | None = None) -> list[Path]:
    """The unpacked form, some of its files replaced."""
    for name, content in ({name: packed(table) for name, table in TABLES.items()} | (changed or {})).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return [folder / name for name in formats.OGB_TABLES]


def ogb_zip(folder: Path, changed: dict[str, bytes | None] | None = None) -> list[Path]:
    """The published form, one folder in a zip, some of its files replaced, or left out where None."""
    with zipfile.ZipFile(folder / "arxiv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ({name: packed(table) for name, table in TABLES.items()} | (changed or {})).items():
            if content is not None:
                archive.writestr(f"arxiv/{name}", content)
        archive.writestr("arxiv/mapping/README.md", "not read")
    return [folder / "arxiv.zip"]


OGB_FORMS = pytest.mark.parametrize("form", [ogb_zip, ogb_folder], ids=["zip", "folder"])


@OGB_FORMS
def test_ogb_tables_are_read_from_zip_and_folder_alike(tmp_path, form):
    graph = formats.read(formats.ogb, form(tmp_path))
    edges = set()
    for i, j in EDGES:
        edges |= {(i, j), (j, i)}
    assert edge_set(graph) == edges
    assert graph.features.tolist() == [[float(np.float32(value)) for value in row] for row in FEATURES]
    assert graph.labels.tolist() == [2, 0, 1, 1, 0]
    assert [part.tolist() for part in graph.split] == [[3, 0], [1], [4, 2]]


@OGB_FORMS
@pytest.mark.parametrize(
    ("table", "rows"),
    [("raw/num-node-list.csv.gz", [[6]]), ("raw/num-edge-list.csv.gz", [[4]]), ("raw/node-feat.csv.gz", FEATURES[:4])],
)
def test_ogb_counts_that_do_not_fit_are_refused(tmp_path, form, table, rows):
    with pytest.raises(DataError, match="were counted"):
        formats.read(formats.ogb, form(tmp_path, {table: packed(rows)}))


def test_ogb_zip_without_a_table_is_refused_by_name(tmp_path):
    with pytest.raises(DataError, match="valid"):
        formats.read(formats.ogb, ogb_zip(tmp_path, {"split/time/valid.csv.gz": None}))


# -- damage: each case is read in a process of its own, with little memory, so that even a crash is one case's ---------

WORKER = """
import json, os, resource, signal, sys, warnings
from pathlib import Path
import pyarrow.csv
from clnr.data import formats
from clnr.errors import DataError

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for line in sys.stdin:
    reader, files = json.loads(line)
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        with open("/proc/self/statm") as stream:
            limit = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.alarm(20)
        warnings.simplefilter("ignore")
        try:
            graph = formats.read(getattr(formats, reader), [Path(file) for file in files])
            graph.digest, graph.edges(), graph.features.sum()
            if graph.sparse:
                graph.features.toarray()
            said = "read"
        except DataError as error:
            said = f"DataError: {error}"
        except BaseException as error:
            said = f"{type(error).__module__}.{type(error).__name__}: {error}"
        os.write(send, said.encode()[:60000])
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        said = stream.read().decode()
    signalled = os.waitpid(child, 0)[1]
    print(json.dumps(said or f"crashed: {signal.strsignal(signalled)}"), flush=True)
"""


@pytest.fixture(scope="module")
def apart():
    """Reads files in a process apart; returns "read", "DataError: ..." or what went wrong."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs Linux: fork and /proc")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:

        def read(reader: str, files: list[Path]) -> str:
            worker.stdin.write(json.dumps([reader, [str(file) for file in files]]) + "\n")
            worker.stdin.flush()
            return json.loads(worker.stdout.readline())

        yield read
        worker.stdin.close()


def flips(content: bytes, count: int, seed: int) -> list[bytes]:
    """Copies with one byte changed each."""
    random = np.random.default_rng(seed)
    copies = []
    for place, other in zip(random.integers(0, len(content), count), random.integers(1, 256, count), strict=True):
        copy = bytearray(content)
        copy[place] ^= int(other)
        copies.append(bytes(copy))
    return copies


def refused(said: str, files: list[Path]) -> bool:
    """Whether a reader refused with a message that leads to the file."""
    return said.startswith("DataError: ") and any(str(file.parent) in said for file in files) and "\n" not in said


PICKLES = {
    "empty": b"",
    "garbage": b"garbage, not a pickle",
    "text": b"2048\n",
    "unfinished": pickled(python2(NEIGHBOURS))[:-9],
    "only a number": pickled(integer(3)),
    "a class alone": pickled(b"cnumpy\nndarray\n"),
    "a matrix without parts": pickled(b"cscipy.sparse.csr\ncsr_matrix\n)\x81"),
    "a string of 2^64 bytes": pickled(b"\x8d" + b"\xff" * 8 + b"abc"),
    "a string of negative length": pickled(b"T\xff\xff\xff\xff"),
    "an array of 2^62 numbers": pickled(array((2**31 - 1, 2**31 - 1), dtype("i4"), raw(b"1234"))),
    "a call for 16 TiB": pickled(b"cnumpy\nndarray\n(" + integer(2**31 - 1) + integer(1024) + b"t\x85R"),
    "a memo of 2^31 places": pickled(b"]r\xff\xff\xff\x7f"),
    "an unknown extension": pickled(b"\x82\x01"),
    "a persistent id": b"Pabc\n.",
    "too deep": pickled(b"]" * 10**5 + b"a" * (10**5 - 1)),
    "objects from raw addresses": pickled(array((KNOWN, CLASSES), dtype("O8", "|", 0), raw(b"AAAAAAAA" * KNOWN * CLASSES))),
    "integers called objects": pickled(array((2, 2), dtype("i8", "<", 63), b"](" + integer(1) * 4 + b"e")),
}


@pytest.mark.parametrize("case", PICKLES)
@pytest.mark.parametrize("part", ["x", "ally", "graph"])
def test_a_damaged_pickle_is_a_data_error_and_nothing_else(tmp_path, apart, case, part):
    files = planetoid_files(tmp_path, **{part: PICKLES[case]})
    said = apart("planetoid", files)
    assert refused(said, files), said


def swapped(matrix: sp.csr_array, **parts: np.ndarray) -> bytes:
    """A matrix with some of its parts replaced, pickled without SciPy's checks."""
    copy = sp.csr_array(matrix)
    for name, value in parts.items():
        setattr(copy, name, value.astype("<i4"))
    return pickled(python2(copy))


ALL_WORDS = planetoid_parts(WHOLE)["allx"]
MISFITS = {
    "one training row too many": ("x", pickled(python2(sp.csr_array(np.ones((TRAINED + 1, WORDS), "<f4"))))),
    "one test row too few": ("tx", pickled(python2(sp.csr_array(np.ones((len(WHOLE) - 1, WORDS), "<f4"))))),
    "one word too many": ("tx", pickled(python2(sp.csr_array(np.ones((len(WHOLE), WORDS + 1), "<f4"))))),
    "one test label too few": ("ty", pickled(python2(np.ones((len(WHOLE) - 1, CLASSES), "<i4")))),
    "one class too many": ("ty", pickled(python2(np.ones((len(WHOLE), CLASSES + 1), "<i4")))),
    "one label too few": ("ally", pickled(python2(np.ones((KNOWN - 1, CLASSES), "<i4")))),
    "labels that are no matrix": ("ally", pickled(python2(np.ones(KNOWN, "<i4")))),
    "columns far above": ("allx", swapped(ALL_WORDS, indices=np.full(ALL_WORDS.nnz, 10**9))),
    "columns far below": ("allx", swapped(ALL_WORDS, indices=np.full(ALL_WORDS.nnz, -(10**9)))),
    "rows that end far above": ("allx", swapped(ALL_WORDS, indptr=np.r_[0, np.full(KNOWN - 1, 2**31 - 1), 9])),
    "rows that end far below": ("allx", swapped(ALL_WORDS, indptr=np.r_[0, np.full(KNOWN - 1, -(2**31)), 9])),
    "a neighbour above": ("graph", pickled(python2({0: [1], 1: [516]}))),
    "a neighbour below": ("graph", pickled(python2({0: [-1]}))),
    "no neighbours": ("graph", pickled(python2({}))),
    "neighbours in an array": ("graph", pickled(python2(np.ones(3, "<i4")))),
    "no test nodes": ("test_index", b""),
    "a test node that is a word": ("test_index", b"514\n510\n513\n511\n512\nmany\n"),
    "a test node that is a fraction": ("test_index", b"514\n510\n513\n511\n512\n1.5\n"),
    "a test node twice": ("test_index", b"514\n510\n513\n511\n512\n512\n"),
    "a test node that trains": ("test_index", b"514\n510\n513\n511\n512\n3\n"),
    "a test node below": ("test_index", b"514\n510\n513\n511\n512\n-1\n"),
    "a test node far above": ("test_index", b"514\n510\n513\n511\n512\n99999999999999\n"),
    "a test node above all numbers": ("test_index", b"514\n510\n513\n511\n512\n99999999999999999999\n"),
    "test nodes that are no text": ("test_index", b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_planetoid_parts_that_do_not_fit_are_data_errors(tmp_path, apart, case):
    part, content = MISFITS[case]
    files = planetoid_files(tmp_path, **{part: content})
    said = apart("planetoid", files)
    assert refused(said, files), said


@pytest.mark.parametrize("part", PARTS)
def test_planetoid_with_a_byte_changed_is_read_or_is_a_data_error(tmp_path, apart, part):
    files = planetoid_files(tmp_path, WITH_GAPS)
    file = files[PARTS.index(part)]
    for content in flips(file.read_bytes(), 25, seed=PARTS.index(part)):
        file.write_bytes(content)
        said = apart("planetoid", files)
        assert said == "read" or refused(said, files), (said, content[:200])


@pytest.mark.parametrize("part", PARTS[:-1])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
def test_truncated_planetoid_files_are_data_errors(tmp_path, part, kept):
    files = planetoid_files(tmp_path)
    file = files[PARTS.index(part)]
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(DataError, match="damaged or truncated") as caught:
        formats.read(formats.planetoid, files)
    assert str(file) in str(caught.value)


def as_npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, LABELS)
    return stream.getvalue()


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 not really", as_npy(), pickle.dumps({"labels": [1]})])
def test_what_is_no_npz_is_a_data_error(tmp_path, content):
    file = tmp_path / "small.npz"
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        formats.read(formats.npz, [file])
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("kept", [0.01, 0.25, 0.5, 0.9, 0.99])
def test_truncated_npz_is_a_data_error(tmp_path, kept):
    file = npz_file(tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(DataError) as caught:
        formats.read(formats.npz, [file])
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": LABELS[:3]},
        {"labels": np.array(["a", "b", "c", "d"])},
        {"labels": np.full(4, np.nan)},
        {"attr_data": np.full(5, "word")},
        {"attr_data": npz_parts()["attr_data"][:2]},
        {"attr_shape": np.array([4])},
        {"attr_shape": np.array([-4, 3])},
        {"attr_shape": np.array([5, 3])},
        {"attr_shape": np.array([2**62, 2**62])},
        {"attr_indices": npz_parts()["attr_indices"] + 10**9},
        {"attr_indices": npz_parts()["attr_indices"] - 10**9},
        {"attr_indptr": np.array([0, 2**31 - 1, 2**31 - 1, 2**31 - 1, 5], dtype=np.int32)},
        {"attr_indptr": np.array([0, -(2**31), -(2**31), -(2**31), 5], dtype=np.int32)},
        {"attr_indptr": np.array([0, 1, 2])},
        {"adj_indices": npz_parts()["adj_indices"] + 2},
        {"adj_indptr": np.array([0, 2**31 - 1, 2**31 - 1, 2**31 - 1, 4], dtype=np.int32)},
        {"adj_shape": np.array([3, 3])},
    ],
    ids=lambda changed: f"{next(iter(changed))} {str(next(iter(changed.values())).tolist())[:40]}",
)
def test_npz_arrays_that_do_not_fit_are_data_errors(tmp_path, apart, changed):
    files = [npz_file(tmp_path, **changed)]
    said = apart("npz", files)
    assert refused(said, files), said


def test_npz_with_a_byte_changed_is_read_or_is_a_data_error(tmp_path, apart):
    file = npz_file(tmp_path)
    for content in flips(file.read_bytes(), 150, seed=1):
        file.write_bytes(content)
        said = apart("npz", [file])
        assert said == "read" or refused(said, [file]), said


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.7, 0.99])
def test_truncated_ogb_zip_is_a_data_error(tmp_path, kept):
    (file,) = ogb_zip(tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(DataError) as caught:
        formats.read(formats.ogb, [file])
    assert str(file) in str(caught.value)


@OGB_FORMS
@pytest.mark.parametrize("table", formats.OGB_TABLES)
@pytest.mark.parametrize("kept", [0, 12, -9, -1])
def test_truncated_ogb_table_is_a_data_error(tmp_path, form, table, kept):
    files = form(tmp_path, {table: packed(TABLES[table])[:kept]})
    with pytest.raises(DataError) as caught:
        formats.read(formats.ogb, files)
    assert str(tmp_path) in str(caught.value)


TABLE_MISFITS = {
    "a ragged edge": ("raw/edge.csv.gz", packed([*EDGES[:4], (4,)])),
    "an edge to a word": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, "one")])),
    "an edge to nothing": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, "")])),
    "an edge to a fraction": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, 0.5)])),
    "an edge to a node above": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, 5)])),
    "an edge from a node below": ("raw/edge.csv.gz", packed([*EDGES[:4], (-1, 0)])),
    "edges with three ends": ("raw/edge.csv.gz", packed([(*edge, 0) for edge in EDGES])),
    "a feature that is no number": ("raw/node-feat.csv.gz", packed([*FEATURES[:4], ["nan", 0, 0]])),
    "a feature that is a word": ("raw/node-feat.csv.gz", packed([*FEATURES[:4], ["word", 0, 0]])),
    "one label too few": ("raw/node-label.csv.gz", packed([[0], [1], [2], [0]])),
    "a label that is no number": ("raw/node-label.csv.gz", packed([[0], [1], [2], [0], ["nan"]])),
    "labels that are not compressed": ("raw/node-label.csv.gz", b"2\n0\n1\n1\n0\n"),
    "no count": ("raw/num-node-list.csv.gz", gzip.compress(b"", mtime=0)),
    "a count that is a word": ("raw/num-node-list.csv.gz", packed([["five"]])),
    "a training node above": ("split/time/train.csv.gz", packed([[3], [9]])),
    "a training node that tests": ("split/time/train.csv.gz", packed([[3], [4]])),
}


@OGB_FORMS
@pytest.mark.parametrize("case", TABLE_MISFITS)
def test_ogb_tables_that_do_not_fit_are_data_errors(tmp_path, apart, form, case):
    files = form(tmp_path, dict([TABLE_MISFITS[case]]))
    said = apart("ogb", files)
    assert refused(said, files), said


@OGB_FORMS
def test_ogb_with_a_byte_changed_is_read_or_is_a_data_error(tmp_path, apart, form):
    files = form(tmp_path)
    for index, file in enumerate(files):
        whole = file.read_bytes()
        for content in flips(whole, 120 // len(files), seed=index):
            file.write_bytes(content)
            said = apart("ogb", files)
            assert said == "read" or refused(said, files), said
        file.write_bytes(whole)


def test_a_file_that_cannot_be_opened_is_a_data_error_with_the_systems_reason(tmp_path):
    files = planetoid_files(tmp_path)
    files[2].unlink()
    files[2].mkdir()
    with pytest.raises(DataError, match=f"cannot read .*allx: {os.strerror(21)}"):
        formats.read(formats.planetoid, files)
