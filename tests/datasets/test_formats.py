"""Readers of raw files: small files of the published forms, and everything that can be wrong with them."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from clnr.datasets import formats
from clnr.errors import DataError
from tests.datasets.made import (
    ADJACENCY,
    ATTRIBUTES,
    CLASSES,
    EDGES,
    FEATURES,
    KNOWN,
    LABELS,
    NEIGHBOURS,
    TRAINED,
    WHOLE,
    WITH_GAPS,
    WORDS,
    array,
    dtype,
    integer,
    npz_file,
    npz_parts,
    ogb_folder,
    ogb_zip,
    packed,
    pickled,
    planetoid_files,
    planetoid_parts,
    python2,
    raw,
    rows,
    rows_of,
    text,
)

# -- Planetoid ---------------------------------------------------------------------------------------------------------


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
    np.testing.assert_array_equal(graph.features.toarray(), features)
    np.testing.assert_array_equal(graph.labels, labels)
    assert edge_set(graph) == edges
    assert graph.split.train.tolist() == [0, 1, 2, 3, 4, 5]
    assert graph.split.validation.tolist() == list(range(6, 506))
    assert graph.split.test.tolist() == sorted(listed)


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
        "an old-style instance": pickled(b"(" + long(command) + b"ios\nsystem\n"),
        "an element of an object array": pickled(array((1,), dtype("O8", "|", 63), b"](" + in_system + b"e")),
        "an attribute of a matrix": pickled(b"cscipy.sparse.csr\ncsr_matrix\n)\x81}" + text("data") + in_system + b"sb"),
    }


@pytest.mark.parametrize("trick", run_by_pickle(Path()))
@pytest.mark.filterwarnings("ignore:Please import `csr_matrix`:DeprecationWarning")
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path, trick):
    marker = tmp_path / "ran"
    content = run_by_pickle(marker)[trick]
    pickle.loads(content, encoding="latin1")
    assert marker.exists(), "the trick itself must work, or the test shows nothing"
    marker.unlink()

    for part in ("x", "graph"):
        with pytest.raises(DataError, match="which no data file needs"):
            formats.read(formats.planetoid, planetoid_files(tmp_path, **{part: content}))
        assert not marker.exists()


# -- npz ---------------------------------------------------------------------------------------------------------------


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


# -- damage: each case is read in a process of its own, with little memory, so that even a crash is one case's ---------


def assert_refused(apart, reader: str, files: list[Path]) -> None:
    """The reader refuses with a message that leads to the file."""
    said = apart("tests.datasets.made:read_files", reader, [str(file) for file in files])
    assert said.startswith("DataError: "), said
    assert any(str(file.parent) in said for file in files), said
    assert "\n" not in said


ALL_WORDS = planetoid_parts(WHOLE)["allx"]


def with_parts(**parts: np.ndarray) -> bytes:
    """The features of all nodes that are no test nodes, with some of their parts replaced."""
    return pickled(rows(rows_of(ALL_WORDS) | {name: value.astype("<i4") for name, value in parts.items()}, ALL_WORDS.shape))


MANY = b"](" + integer(1) * 10**5 + b"e"
PICKLES = {
    "empty": b"",
    "garbage": b"garbage, not a pickle",
    "unfinished": pickled(python2(NEIGHBOURS))[:-9],
    "only a number": pickled(integer(3)),
    "a class alone": pickled(b"cnumpy\nndarray\n"),
    "a harmless function": pickled(b"cnumpy\nload\n"),
    "a matrix without parts": pickled(b"cscipy.sparse.csr\ncsr_matrix\n)\x81"),
    "a string of 2^64 bytes": pickled(b"\x8d" + b"\xff" * 8 + b"abc"),
    "a string of negative length": pickled(b"T\xff\xff\xff\xff"),
    "an array of 2^62 numbers": pickled(array((2**31 - 1, 2**31 - 1), dtype("i4"), raw(b"1234"))),
    "a call for 16 TiB": pickled(b"cnumpy\nndarray\n(" + integer(2**31 - 1) + integer(1024) + b"t\x85R"),
    "a memo of 2^31 places": pickled(b"]r\xff\xff\xff\x7f"),
    "a memo of 2^26 places in digits": pickled(b"]p67108864\n"),
    "a list copied 500 times": pickled(b"(" + MANY + b"q\x00" + b"c__builtin__\nlist\nh\x00\x85R" * 500 + b"t"),
    "a list for 500 nodes": pickled(b"}(" + MANY + b"q\x000" + b"".join(integer(i) + b"h\x00" for i in range(500)) + b"u"),
    "an unknown extension": pickled(b"\x82\x01"),
    "a persistent id": b"Pabc\n.",
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
    "columns far above": ("allx", with_parts(indices=np.full(ALL_WORDS.nnz, 10**9))),
    "rows that end far above": ("allx", with_parts(indptr=np.r_[0, np.full(KNOWN - 1, 2**31 - 1), 9])),
    "rows that end within and begin far above": ("allx", with_parts(indptr=np.r_[0, 10**5, np.zeros(KNOWN - 1)])),
    "rows that begin below": ("allx", with_parts(indptr=np.r_[-7, np.full(KNOWN, ALL_WORDS.nnz)])),
    "rows in fractions": ("allx", pickled(rows(rows_of(ALL_WORDS) | {"indptr": ALL_WORDS.indptr / 1}, ALL_WORDS.shape))),
    "more classes than numbers": ("y", pickled(array((2**30, 0), dtype("i4"), raw(b"")))),
    "a neighbour that is a fraction": ("graph", pickled(b"}" + integer(0) + b"](G?\xf8" + b"\x00" * 6 + b"es")),
    "a neighbour above all numbers": ("graph", pickled(python2({0: [1], 1: [2**200]}))),
    "a neighbour above": ("graph", pickled(python2({0: [1], 1: [516]}))),
    "no neighbours": ("graph", pickled(python2({}))),
    "neighbours in an array": ("graph", pickled(python2(np.ones(3, "<i4")))),
    "no test nodes": ("test_index", b""),
    "a test node that is a word": ("test_index", b"514\n510\n513\n511\n512\nmany\n"),
    "a test node twice": ("test_index", b"514\n510\n513\n511\n512\n512\n"),
    "a test node that trains": ("test_index", b"514\n510\n513\n511\n512\n3\n"),
    "a test node far above": ("test_index", b"514\n510\n513\n511\n512\n99999999999999\n"),
    "test nodes that are no text": ("test_index", b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("case", [*PICKLES, *MISFITS])
def test_planetoid_parts_that_are_damaged_or_do_not_fit_are_data_errors(tmp_path, apart, case):
    wrong = [MISFITS[case]] if case in MISFITS else [(part, PICKLES[case]) for part in ("x", "graph")]
    for part, content in wrong:
        assert_refused(apart, "planetoid", planetoid_files(tmp_path, **{part: content}))


@pytest.mark.parametrize(
    ("array", "values"),
    [
        ("labels", LABELS[:3]),
        ("labels", np.full(4, np.nan)),
        ("labels", np.array([0, 1, 2, 2**62])),
        ("attr_data", np.full(5, "word")),
        ("attr_shape", np.array([2**62, 2**62])),
        ("attr_indices", npz_parts()["attr_indices"] + 10**9),
        ("attr_indptr", np.array([0, 2**31 - 1, 2**31 - 1, 2**31 - 1, 5])),
        ("attr_indptr", npz_parts()["attr_indptr"] / 1),
        ("attr_data", npz_parts()["attr_data"][:2]),
        ("adj_shape", np.array([3, 3])),
    ],
)
def test_npz_arrays_that_do_not_fit_are_data_errors(tmp_path, apart, array, values):
    assert_refused(apart, "npz", [npz_file(tmp_path, **{array: values})])


TABLE_MISFITS = {
    "no table": ("split/time/valid.csv.gz", None),
    "a ragged edge": ("raw/edge.csv.gz", packed([*EDGES[:4], (4,)])),
    "an edge to nothing": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, "")])),
    "an edge to a fraction": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, 0.5)])),
    "an edge to a node above": ("raw/edge.csv.gz", packed([*EDGES[:4], (4, 5)])),
    "edges with three ends": ("raw/edge.csv.gz", packed([(*edge, 0) for edge in EDGES])),
    "a feature that is no number": ("raw/node-feat.csv.gz", packed([*FEATURES[:4], ["nan", 0, 0]])),
    "one label too few": ("raw/node-label.csv.gz", packed([[0], [1], [2], [0]])),
    "labels that are not compressed": ("raw/node-label.csv.gz", b"2\n0\n1\n1\n0\n"),
    "no count": ("raw/num-node-list.csv.gz", gzip.compress(b"", mtime=0)),
    "a count that is a word": ("raw/num-node-list.csv.gz", packed([["five"]])),
    "a training node above": ("split/time/train.csv.gz", packed([[3], [9]])),
    "a training node that tests": ("split/time/train.csv.gz", packed([[3], [4]])),
}


@pytest.mark.parametrize("case", TABLE_MISFITS)
def test_ogb_tables_that_do_not_fit_are_data_errors(tmp_path, apart, case):
    assert_refused(apart, "ogb", ogb_zip(tmp_path, dict([TABLE_MISFITS[case]])))


def test_a_file_that_cannot_be_opened_is_a_data_error_with_the_systems_reason(tmp_path):
    files = planetoid_files(tmp_path)
    files[2].unlink()
    files[2].mkdir()
    with pytest.raises(DataError, match=f"cannot read .*allx: {os.strerror(21)}"):
        formats.read(formats.planetoid, files)
