"""One digest of a graph: another for whatever its user would call another graph, the same in memory and in files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from clnr import read_tables
from clnr.graph.graph import Split
from clnr.graph.table_info import TableInfo
from clnr.tables import ingest
from tests.conftest import tiny

ROWS = [f"n{i},n{i * 7 % 30},{i % 4 + 1}" for i in range(1, 30)]
EDGES = {kind: "\n".join(["source,target,weight", *ROWS[place::2]]) for place, kind in enumerate("ab")}
NODES = "id,title,age,colour,about,field\n" + "".join(
    f"n{i},Title {i},{i * i % 13},{('red', 'blue')[i % 2]},{('tall', 'short')[i % 3 > 0]} and old,{'xy'[i * 7 % 11 > 4]}\n"
    for i in range(30)
)


def digest(folder, edges=EDGES, nodes=NODES, **columns):
    """The digest of tables, read into memory, into a folder, and from the folder into memory."""
    folder.mkdir()
    for kind, rows in edges.items():
        (folder / f"{kind}.csv").write_text(rows)
    (folder / "n.csv").write_text(nodes)
    files = {kind: folder / f"{kind}.csv" for kind in edges}
    tables = {"edges": files if len(files) > 1 else files["a"], "nodes": folder / "n.csv" if nodes else None}
    given = {"label": "field", "names": "title"} | columns
    in_memory = read_tables(**tables, **given)
    in_files = ingest(**tables, **given, out=folder / "graph")
    assert in_memory.digest == in_files.digest == in_files.in_memory().digest
    return in_memory.digest


def replaced(old, new):
    return {kind: rows.replace(old, new) for kind, rows in EDGES.items()}


OTHERS = {
    "an edge": {"edges": replaced("n3,n21", "n3,n22")},
    "a weight": {"edges": replaced("n3,n21,4", "n3,n21,5")},
    "no weights": {"edges": replaced("weight", "hours")},
    "a kind of edges": {"edges": {"a": EDGES["a"], "c": EDGES["b"]}},
    "directed": {"directed": True},
    "an id": {"nodes": NODES.replace("n0,", "zero,")},
    "a value": {"nodes": NODES.replace("Title 3,9", "Title 3,10")},
    "a column's name": {"nodes": NODES.replace("age", "years")},
    "a category": {"nodes": NODES.replace("red", "rot")},
    "a word": {"nodes": NODES.replace("tall", "thin")},
    "a type": {"types": {"colour": "text"}},
    "a label": {"nodes": NODES.replace("and old,x", "and old,y", 1)},
    "a class": {"nodes": NODES.replace(",x\n", ",w\n")},
    "no label": {"label": None, "ignore": ["field"]},
    "a name": {"nodes": NODES.replace("Title 3,", "Title three,")},
    "a column that is no feature": {"ignore": ["age"]},
}


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return digest(tmp_path_factory.mktemp("usual") / "tables")


@pytest.mark.parametrize("what", OTHERS)
def test_whatever_makes_another_graph_gives_another_digest(usual, tmp_path, what):
    assert digest(tmp_path / "tables", **OTHERS[what]) != usual


def test_the_order_of_edges_the_name_and_ids_that_count_nodes_do_not_count(usual, tmp_path):
    lines = {kind: rows.splitlines() for kind, rows in EDGES.items()}
    turned = {kind: "\n".join([first, *rows[::-1]]) for kind, (first, *rows) in lines.items()}
    assert digest(tmp_path / "tables", edges=turned) == usual
    graph = tiny(40)
    assert graph.named("another").digest == dataclasses.replace(graph, ids=np.arange(40)).digest == graph.digest


@pytest.mark.parametrize("edges", [EDGES, {"a": EDGES["a"]}])
def test_graphs_without_columns_have_one_digest_as_well(tmp_path, edges):
    assert digest(tmp_path / "tables", edges=edges, nodes="", label=None, names=None)


def test_several_kinds_of_nodes_have_one_digest(tmp_path):
    (tmp_path / "buys.csv").write_text("user,item\n" + "".join(f"{i},{i * 3 % 20}\n" for i in range(40)))
    (tmp_path / "users.csv").write_text("user,age\n" + "".join(f"{i},{i % 9}\n" for i in range(40)))
    (tmp_path / "items.csv").write_text("item,price\n" + "".join(f"{i},{i % 7}\n" for i in range(20)))
    found = []
    for item in ("item", "thing"):
        tables = {
            "edges": {("user", "bought", item): tmp_path / "buys.csv"},
            "nodes": {"user": tmp_path / "users.csv", item: tmp_path / "items.csv"},
        }
        found.append(read_tables(**tables).digest)
        assert ingest(**tables, out=tmp_path / f"graph of {item}").digest == found[-1]
    assert found[0] != found[1]


def test_features_that_are_rounded_in_files_are_what_is_read_back(tmp_path):
    digest(tmp_path / "tables")
    tables = {"edges": tmp_path / "tables" / "a.csv", "nodes": tmp_path / "tables" / "n.csv"}
    folder = ingest(**tables, out=tmp_path / "graph", dtype="float16")
    assert folder.digest == folder.in_memory().digest != read_tables(**tables).digest


PAIRS = np.array([*((i, "a") for i in range(39)), None], object)


@pytest.mark.parametrize(
    "change",
    [
        lambda graph: {"features": np.hstack([graph.features, np.zeros((40, 1), np.float32)])},
        lambda graph: {"features": sp.csr_array(graph.features)},
        lambda graph: {"split": Split(np.arange(3), np.arange(3, 5), np.arange(5, 9))},
        lambda graph: {"ids": np.array([str(i) for i in range(40)], object)},
        lambda graph: {"ids": PAIRS},
        lambda graph: {"info": TableInfo(classes=("a", "b", "c"))},
    ],
)
def test_what_only_a_graph_in_memory_has_counts_as_well(change):
    graph = tiny(40)
    changed = dataclasses.replace(graph, **change(graph))
    assert changed.digest != graph.digest
    assert dataclasses.replace(graph, **change(graph)).digest == changed.digest
