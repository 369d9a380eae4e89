"""A matrix of features beside the tables: its rows are those of nodes, which is checked, and nothing in a file is run."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.tables import ingest, read_tables
from tests.tables.files import dense

DENSE = np.arange(12, dtype=np.float64).reshape(4, 3) - 5
SPARSE = sp.csr_array(np.array([[1, 0, 0, 2], [0, 0, 1, 0], [0, 0, 0, 0], [3, 1, 0, 0]], np.float32))
NODES = pa.table({"id": ["d", "a", "c", "b"], "age": [3.5, 1.0, 2.0, 9.0]})
EDGES = pa.table({"source": ["a", "b", "c"], "target": ["b", "c", "d"]})


def written(folder, form):
    path = folder / f"x.{form.partition(' ')[0]}"
    if form == "npy":
        np.save(path, DENSE)
    elif form == "npz":
        sp.save_npz(path, sp.csc_array(SPARSE))
    elif form == "npz dense":
        np.savez(path, DENSE)
    else:
        return DENSE if form == "array" else SPARSE
    return path


@pytest.mark.parametrize("form", ["npy", "npz", "npz dense", "array", "sparse"])
def test_rows_are_those_of_the_node_table_and_come_after_its_columns(tmp_path, form):
    given = written(tmp_path, form)
    read = read_tables(EDGES, NODES, feature_matrix=given)
    sparse = form in ("npz", "sparse")
    x = SPARSE.toarray() if sparse else DENSE
    scale = np.sqrt(np.square(x).sum() / (4 if sparse else x.size))
    assert read.sparse == sparse
    assert read.ids.tolist() == ["d", "a", "c", "b"]
    assert np.allclose(dense(read.features)[:, 1:], x / scale, atol=1e-6)
    info = read.info.columns[-1]
    assert (info.table, info.role, info.features) == ("matrix", "feature", x.shape[1])
    assert ingest(EDGES, NODES, feature_matrix=given, out=tmp_path / "graph", memory="1 GB").digest == read.digest


def test_without_a_node_table_row_i_is_node_i():
    read = read_tables(pa.table({"source": [0, 2], "target": [1, 1]}), feature_matrix=DENSE)
    assert read.ids.tolist() == [0, 1, 2, 3]
    assert read.num_features == 3


@pytest.mark.parametrize("matrix", [DENSE, SPARSE])
def test_new_nodes_have_their_own_rows_or_zeros(matrix):
    first = read_tables(EDGES, NODES, feature_matrix=matrix)
    new = pa.table({"id": ["e", "a"], "age": [4.0, 1.0]})
    link = pa.table({"source": ["e"], "target": ["a"]})
    more = read_tables(link, new, feature_matrix=matrix[[3, 0]], base=first)
    x, old = dense(more.features)[:, 1:], dense(first.features)[:, 1:]
    assert np.allclose(x, old[[0, 0, 2, 3, 3]], atol=1e-6)
    bare = read_tables(link, new, base=first)
    assert not dense(bare.features)[4, 1:].any()
    assert "lacks the feature matrix" in "\n".join(bare.info.notes)
    assert not dense(read_tables(link, base=first).features)[4, 1:].any()
    with pytest.raises(DataError, match="it has 2 columns, and that of the earlier graph"):
        read_tables(link, new, feature_matrix=matrix[[3, 0]][:, :2], base=first)
    with pytest.raises(DataError, match="has no feature matrix"):
        read_tables(link, new, feature_matrix=matrix[:2], base=read_tables(EDGES, NODES))
    with pytest.raises(DataError, match="a feature matrix needs the table of its nodes"):
        read_tables(link, feature_matrix=matrix[:2], base=first)


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("it was run",))


def test_nothing_in_a_file_is_run(tmp_path):
    evil = np.array([[Evil()]], object)
    np.save(tmp_path / "x.npy", evil, allow_pickle=True)
    np.savez(tmp_path / "x.npz", evil)
    np.savez(tmp_path / "y.npz", format=evil, data=evil, shape=evil)
    (tmp_path / "z.npz").write_bytes(pickle.dumps(Evil()))
    (tmp_path / "z.npy").write_bytes(pickle.dumps(Evil()))
    for name in ("x.npy", "x.npz", "y.npz", "z.npz", "z.npy"):
        with pytest.raises(DataError, match=rf"{name}: it "):
            read_tables(EDGES, NODES, feature_matrix=tmp_path / name)


def test_what_is_no_matrix_of_features_is_refused(tmp_path):
    (tmp_path / "x.mtx").write_text("%%MatrixMarket matrix coordinate real general\n")
    sp.save_npz(tmp_path / "blocks.npz", sp.bsr_array(SPARSE))
    np.savez(tmp_path / "two.npz", a=DENSE, b=DENSE)
    broken = SPARSE.copy()
    broken.indices[0] = 99
    infinite = DENSE.copy()
    infinite[2, 1] = np.inf
    sparse_nan = SPARSE.copy()
    sparse_nan.data[-1] = np.nan
    for given, said in (
        (tmp_path / "x.mtx", "its format is unknown"),
        (tmp_path / "blocks.npz", "blocks.npz in the layout bsr"),
        (tmp_path / "two.npz", "it holds the arrays a, b"),
        (tmp_path / "none.npy", "cannot be read"),
        (DENSE[0], "features are a matrix of numbers, not 3 values of float64"),
        (DENSE.astype(str), "features are a matrix of numbers"),
        (DENSE[:, :0], "features are a matrix of numbers"),
        (DENSE[:3], "it has 3 rows, and the data frame of nodes 4"),
        (DENSE.tolist(), "must be a file or an array of NumPy or SciPy, not a list"),
        (broken, "a damaged sparse matrix"),
        (infinite, "a number in row 3 is not finite"),
        (sparse_nan, "a number in row 4 is not finite"),
    ):
        with pytest.raises(DataError, match=said):
            read_tables(EDGES, NODES, feature_matrix=given)
