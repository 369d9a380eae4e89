"""Readers of raw files: small files of the published forms, and everything that can be wrong with them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from clnr.datasets import formats
from clnr.errors import DataError
from tests.datasets import made

# -- Planetoid ---------------------------------------------------------------------------------------------------------


def edge_set(graph) -> set[tuple[int, int]]:
    source, target, weight = graph.edges()
    assert weight is None
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@pytest.mark.parametrize("listed", [made.WHOLE, made.WITH_GAPS], ids=["whole", "test nodes missing as in CiteSeer"])
def test_planetoid_files_are_read_as_their_makers_meant(tmp_path, listed):
    graph = formats.read(formats.planetoid, made.planetoid_files(tmp_path, listed))

    parts = made.planetoid_parts(listed)
    nodes = max(listed) + 1
    features, labels = np.zeros((nodes, made.WORDS), np.float32), np.zeros(nodes, np.int64)
    for i in range(made.KNOWN):
        features[i], labels[i] = parts["allx"].toarray()[i], parts["ally"][i].tolist().index(1)
    for place, node in enumerate(listed):
        features[node], labels[node] = parts["tx"].toarray()[place], parts["ty"][place].tolist().index(1)
    edges = {pair for i, nodes in made.NEIGHBOURS.items() for j in nodes if i != j for pair in ((i, j), (j, i))}

    assert graph.sparse
    np.testing.assert_array_equal(graph.features.toarray(), features)
    np.testing.assert_array_equal(graph.labels, labels)
    assert edge_set(graph) == edges
    assert graph.split.train.tolist() == [0, 1, 2, 3, 4, 5]
    assert graph.split.validation.tolist() == list(range(6, 506))
    assert graph.split.test.tolist() == sorted(listed)


@pytest.mark.parametrize("trick", made.run_by_pickle(Path()))
@pytest.mark.filterwarnings("ignore:Please import `csr_matrix`:DeprecationWarning")
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path, trick):
    marker = tmp_path / "ran"
    content = made.run_by_pickle(marker)[trick]
    pickle.loads(content, encoding="latin1")
    assert marker.exists(), "the trick itself must work, or the test shows nothing"
    marker.unlink()

    for part in ("x", "graph"):
        with pytest.raises(DataError, match="which no data file needs"):
            formats.read(formats.planetoid, made.planetoid_files(tmp_path, **{part: content}))
        assert not marker.exists()


# -- npz ---------------------------------------------------------------------------------------------------------------


def test_npz_counts_become_one_loops_go_and_edges_go_both_ways(tmp_path):
    graph = formats.read(formats.npz, [made.npz_file(tmp_path)])

    edges = {(i, j) for i in range(4) for j in range(4) if i != j and (made.ADJACENCY[i, j] or made.ADJACENCY[j, i])}
    expected = [[1.0 if made.ATTRIBUTES[i, j] > 0 else 0.0 for j in range(3)] for i in range(4)]

    assert edge_set(graph) == edges
    assert graph.sparse
    assert graph.features.toarray().tolist() == expected
    assert graph.features.nnz == sum(map(sum, expected))
    assert graph.labels.tolist() == [1, 0, 2, 1]
    assert graph.split is None


class _Touch:
    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_npz_with_an_object_array_is_refused_unread(tmp_path):
    marker = tmp_path / "ran"
    names = np.empty(4, dtype=object)
    names[:] = [_Touch(marker)] * 4
    assert formats.read(formats.npz, [made.npz_file(tmp_path, node_names=names)]).num_nodes == 4
    file = made.npz_file(tmp_path, labels=names)
    with np.load(file, allow_pickle=True) as parts:
        assert len(parts["labels"]) == 4
    assert marker.exists(), "the trick itself must work, or the test shows nothing"
    marker.unlink()

    with pytest.raises(DataError, match=r"[Oo]bject arrays"):
        formats.read(formats.npz, [file])
    assert not marker.exists()


# -- OGB ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [made.ogb_zip, made.ogb_folder], ids=["zip", "folder"])
def test_ogb_tables_are_read_from_zip_and_folder_alike(tmp_path, form):
    graph = formats.read(formats.ogb, form(tmp_path))
    assert edge_set(graph) == {pair for i, j in made.EDGES for pair in ((i, j), (j, i))}
    assert graph.features.tolist() == [[float(np.float32(value)) for value in row] for row in made.FEATURES]
    assert graph.labels.tolist() == [2, 0, 1, 1, 0]
    assert [part.tolist() for part in graph.split] == [[3, 0], [1], [4, 2]]


# -- damage: each case is read in a process of its own, with little memory, so that even a crash is one case's ---------


def assert_refused(apart, reader: str, files: list[Path]) -> None:
    """The reader refuses with a message that leads to the file."""
    said = apart("tests.datasets.made:read_files", reader, [str(file) for file in files])
    assert said.startswith("DataError: "), said
    assert any(str(file.parent) in said for file in files), said
    assert "\n" not in said


@pytest.mark.parametrize("case", [*made.PICKLES, *made.MISFITS])
def test_planetoid_parts_that_are_damaged_or_do_not_fit_are_data_errors(tmp_path, apart, case):
    wrong = [made.MISFITS[case]] if case in made.MISFITS else [(part, made.PICKLES[case]) for part in ("x", "graph")]
    for part, content in wrong:
        assert_refused(apart, "planetoid", made.planetoid_files(tmp_path, **{part: content}))


def test_npz_arrays_that_do_not_fit_are_data_errors(tmp_path, apart):
    labels = made.LABELS[:3], np.full(4, np.nan), np.array([0, 1, 2, 2**62])
    wrong = [("attr_data", np.full(5, "word")), ("attr_shape", np.array([2**62, 2**62])), ("adj_shape", np.array([3, 3]))]
    for name, values in [*(("labels", each) for each in labels), *wrong, ("labels", None)]:
        assert_refused(apart, "npz", [made.npz_file(tmp_path, **{name: values})])


@pytest.mark.parametrize("case", made.TABLE_MISFITS)
def test_ogb_tables_that_do_not_fit_are_data_errors(tmp_path, apart, case):
    assert_refused(apart, "ogb", made.ogb_zip(tmp_path, dict([made.TABLE_MISFITS[case]])))


def test_a_file_that_cannot_be_opened_is_a_data_error_with_the_systems_reason(tmp_path):
    files = made.planetoid_files(tmp_path)
    files[2].unlink()
    files[2].mkdir()
    with pytest.raises(DataError, match=f"cannot read .*allx: {os.strerror(21)}"):
        formats.read(formats.planetoid, files)
