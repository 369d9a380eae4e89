"""Nodes found by the ids that users have, before and after they were saved."""

from __future__ import annotations

import datetime
import pickle
import uuid
from decimal import Decimal

import numpy as np
import pytest

from clnr.embedding.search.node_ids import ArrayIds
from clnr.embedding.store.export import id_column, read_vectors, vector_table
from clnr.errors import DataError
from clnr.graph import Graph

KINDS = {
    "numbers": [7, 3, -1],
    "text": ["a", "b", "é\x1b"],
    "numbers with fractions": [0.5, 1.0, -2.25],
    "tuples": [(0, 0), (0, 1), (1, 0)],
    "tuples of several lengths": [(0,), ("a", 1.5), ((1, 2), None)],
    "tuples of NumPy's numbers": [(np.int64(0), np.float64(1.5)), (np.int64(1), np.float64(0)), (np.str_("a"), np.int32(3))],
    "several kinds": [1, "a", (2, 3)],
    "truths": [True, False, 7],
    "nothing": [None, "a", "b"],
    "huge numbers": [2**70, 1, 2],
    "dates": [datetime.date(2020, 1, 2), datetime.date(2021, 1, 2), datetime.date(1999, 1, 2)],
    "moments": [datetime.datetime(2020, 1, 2, 3, 4, 5, each) for each in range(3)],
    "bytes": [b"a", b"b", b"\xff"],
    "UUIDs": [uuid.UUID(int=each) for each in range(3)],
    "decimals": [Decimal("1.5"), Decimal(2), Decimal("-0.25")],
    "complex numbers": [1j, 2j, 3 + 1j],
}


def graph(ids) -> Graph:
    return Graph.from_edges([0], [1], np.eye(3), ids=ids)


def saved(ids, path):
    import pyarrow.parquet as pq

    pq.write_table(vector_table(id_column(graph(ids)), np.eye(3, dtype=np.float32)), path)
    return read_vectors(path)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_is_found_by_its_id_before_and_after_saving(kind, tmp_path):
    ids = KINDS[kind]
    for found in (ArrayIds(graph(ids).node_ids), ArrayIds(saved(ids, tmp_path / "ids.parquet"))):
        assert [found.get(name) for name in ids] == [0, 1, 2]
        assert found.rows(ids).tolist() == [0, 1, 2]
        with pytest.raises(DataError, match="there is no node 'nobody'"):
            found.rows(["nobody"])


def test_numbers_and_their_text_are_one_id():
    found = ArrayIds(np.array([5, 6, 7]))
    assert [found.get(name) for name in (6, "6", np.int32(6), np.float64(6))] == [1] * 4
    assert ArrayIds(np.array(["5", "6"])).get(6) == 1
    assert ArrayIds(graph([5, "5", "x"]).node_ids).rows([5, "5"]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "names", [[(0, 1), (1, 0)], np.array([(0, 1), (1, 0)]), [[0, 1], [1, 0]], iter([(0, 1), (1, 0)]), {(0, 1): 0, (1, 0): 0}]
)
def test_tuples_may_come_in_many_ways(names):
    assert ArrayIds(graph(KINDS["tuples"]).node_ids).rows(names).tolist() == [1, 2]


@pytest.mark.parametrize("names", [[3, 7], np.array([3, 7]), np.array([[3], [7]]), [[3], [7]], ["3", "7"]])
def test_numbers_may_come_in_a_column(names):
    assert ArrayIds(np.array([7, 3, -1])).rows(names).tolist() == [1, 0]


@pytest.mark.parametrize("name", [{}, [0, 0], {1}, np.arange(2)])
def test_what_can_be_no_id_is_said(name):
    with pytest.raises(DataError, match="hashable"):
        ArrayIds(np.arange(3)).get(name)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, "1", (2, 3)], "have the same text"),
        ([frozenset("ab"), 1, 2], "its text changes from process to process"),
        ([(object(), 1), 1, 2], "its text changes from process to process"),
    ],
)
def test_ids_that_could_not_be_found_again_are_not_saved(ids, words):
    with pytest.raises(DataError, match=words):
        vector_table(id_column(graph(ids)), np.eye(3, dtype=np.float32))


def test_lists_that_earlier_versions_saved_are_tuples(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(4, np.float32)), 2)
    pq.write_table(pa.table({"id": [[0, 0], [0, 1]], "vector": vectors}), tmp_path / "ids.parquet")
    assert ArrayIds(read_vectors(tmp_path / "ids.parquet")[0]).get((0, 1)) == 1


def test_what_was_made_for_questions_is_made_once_and_not_pickled():
    found = ArrayIds(np.arange(1000).astype(object))
    found.get(3)
    assert found._by_id is found._by_id
    assert "_by_text" not in vars(found)
    assert vars(pickle.loads(pickle.dumps(found))).keys() == {"_ids"}
