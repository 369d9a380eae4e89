"""Nodes found by the ids that users have, before and after they were saved, and by their names."""

from __future__ import annotations

import datetime
import difflib
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from benchmarks._graph_folders import write_graph

from clnr.embedding.result import node_ids
from clnr.embedding.result.node_ids import lasting_ids, near_texts
from clnr.embedding.result.nodes import Nodes
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.tables import read_tables

KINDS = {
    "numbers": [7, 3, -1],
    "text": ["a", "b", "é\x1b"],
    "numbers with fractions": [0.5, 1.0, -2.25],
    "tuples": [(0, 0), (0, 1), (1, 0)],
    "tuples of NumPy's numbers": [(np.int64(0), np.float64(1.5)), (np.int64(1), np.float64(0)), (np.str_("a"), np.int32(3))],
    "several kinds": [1, "a", (2, 3)],
    "nothing": [None, "a", "b"],
    "huge numbers": [2**70, 1, 2],
    "moments": [datetime.datetime(2020, 1, 2, 3, 4, 5, each) for each in range(3)],
    "bytes": [b"a", b"b", b"\xff"],
}


def graph(ids) -> Graph:
    return Graph.from_edges([0], [1], np.eye(3), ids=ids)


def nodes_of(ids) -> Nodes:
    return Nodes(graph(ids))


def stored(nodes: Nodes, path) -> Graph:
    return write_graph(replace(nodes.graph, ids=lasting_ids(nodes.graph)), path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_is_found_by_its_id_before_and_after_saving(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(node_ids, "_PART", 2)
    ids, nodes = KINDS[kind], nodes_of(KINDS[kind])
    folder = stored(nodes, tmp_path / "graph")
    in_files = Nodes(folder)
    for found in (nodes, in_files, Nodes(folder.in_memory()), pickle.loads(pickle.dumps(in_files))):
        assert [found.find(name) for name in ids] == [0, 1, 2]
        assert found.rows(ids[::-1]).tolist() == [2, 1, 0]
        with pytest.raises(DataError, match="there is no node 'nobody'"):
            found.rows(["nobody"])
    # There may be more of them than memory has room for.
    assert "_index" not in vars(in_files)


def test_numbers_and_their_text_are_one_id():
    found = nodes_of(np.array([5, 6, 7]))
    assert [found.find(name) for name in (6, "6", np.int32(6), np.float64(6))] == [1] * 4
    assert nodes_of(["5", "6", "7"]).find(6) == 1
    assert nodes_of([5, "5", "x"]).rows([5, "5"]).tolist() == [0, 1]


TUPLES = KINDS["tuples"]


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        *((TUPLES, names) for names in (TUPLES[1:], np.array(TUPLES[1:]), [[0, 1], [1, 0]], iter(TUPLES[1:]))),
        (TUPLES, {(0, 1): 0, (1, 0): 0}),
        *(([-1, 7, 3], names) for names in (np.array([7, 3]), np.array([[7], [3]]), [[7], [3]], ["7", "3"])),
    ],
)
def test_ids_may_come_in_many_ways(ids, names):
    assert nodes_of(ids).rows(names).tolist() == [1, 2]


@pytest.mark.parametrize("name", [{}, [0, 0], {1}, np.arange(2)])
def test_what_can_be_no_id_is_said(name):
    with pytest.raises(DataError, match="hashable"):
        nodes_of(np.arange(3)).find(name)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1, "1", (2, 3)], "have the same text"),
        ([frozenset("ab"), 1, 2], "its text changes from process to process"),
        ([(object(), 1), 1, 2], "its text changes from process to process"),
        (np.array(["\ud800", "a", "b"], object), "cannot be written"),
    ],
)
def test_ids_that_could_not_be_found_again_are_not_saved(ids, words):
    with pytest.raises(DataError, match=words):
        lasting_ids(graph(ids))


# -- names and near matches --------------------------------------------------------------------------------------------------


WORDS = ["graph", "learning", "belief", "network", "random", "forest", "neural", "decision"]


def parts(texts, size=7):
    return [pa.array(texts[at : at + size], pa.string()) for at in range(0, len(texts), size)]


def test_near_texts_are_those_that_difflib_finds_among_all(monkeypatch):
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abcdef"), 8)) for _ in range(300)]
    for node in range(0, 300, 10):
        letters = list(texts[node])
        letters[random.integers(8)] = "z"
        wanted = "".join(letters)
        found = [texts[each] for each in near_texts([parts(texts)], wanted)]
        assert found[0] == difflib.get_close_matches(wanted, texts, 1)[0] == texts[node]
    # Of many, few are compared, and the most alike are among them.
    monkeypatch.setattr(node_ids, "_MOST_COMPARED_TEXTS", 20)
    texts = [f"{WORDS[i % 8]} {WORDS[i // 8 % 8]} {i}" for i in range(2000)]
    assert near_texts([parts(texts, 300)], texts[1700].replace("e", "3", 1))[0] == 1700


def named(names) -> Nodes:
    """Nodes P1, P2 ... with names."""
    ids = [f"P{i}" for i in range(1, 5)]
    edges = pa.table({"source": ids, "target": ids[::-1]})
    return Nodes(read_tables(edges, pa.table({"id": ids, "title": names}), names="title"))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("p11", r"did you mean 'P1' \(Deep Sea\)"),
        ("sea", r"did you mean 'P1' \(Deep Sea\), 'P2' \(Deep Seas\)\?"),
        ("montain", r"did you mean 'P3' \(High Mountain, far away\)\?"),
        ("(", "ids are such as 'P1' .Deep Sea., 'P2' .Deep Seas., 'P3'"),
        ("", "ids are such as"),
    ],
)
def test_an_unknown_node_is_answered_with_near_ones(wanted, said):
    nodes = named(["Deep Sea", "Deep Seas", "High Mountain, far away", None])
    with pytest.raises(DataError, match=f"^there is no node '{'[(]' if wanted == '(' else wanted}'.*{said}"):
        nodes.find(wanted)


def test_a_name_is_found_in_its_own_case_first():
    nodes = named(["Oak", "oak", "Elm", None])
    assert [nodes.find(name) for name in ("Oak", "oak", "ELM", "p4")] == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"2 nodes are called 'OAK'; use the id of one: 'P1' .Oak., 'P2' .oak."):
        nodes.find("OAK")
    with pytest.raises(DataError, match="2 nodes are called 'OAK'; use the id of one: 'Oak', 'oak'"):
        nodes_of(["Oak", "oak", "Elm"]).find("OAK")


def test_an_id_without_its_kind_is_answered_with_that_of_each_kind():
    ids = [f"{kind}:{i}" for kind in ("user", "movie") for i in range(1, 20)]
    nodes = Nodes(Graph.from_edges([0], [1], np.zeros((38, 1)), ids=ids))
    with pytest.raises(DataError, match="did you mean 'user:1', 'movie:1', 'user:"):
        nodes.rows(["1"])
