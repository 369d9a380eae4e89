"""Ends of edges that no name tells: an id of edges in the first column is none, and a table of nodes has none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from tests.tables.files import saved, written

SHAPES = {
    "lines": ("Leitung;Von;Nach;Art", "Kennung;Name;kV", "L{}", "UW-{:03}"),
    "transfers": ("transfer_no,patient_from,patient_to,note", "name,patient_id,age", "{}", "P{}"),
    "called id": ("id,from_station,to_station,sort", "code,title,size", "{}", "S{}"),
    "no words for ends": ("trip,left,reached,sort", "id,x,y", "T{}", "S{}"),
    "addresses": ("flow,srcAddress,dstAddress,sort", "host,x,y", "{}", "10.0.0.{}"),
    "numbers": ("ride,startStation,endStation,sort", "station,x,y", "{}", "{}"),
}


def pairs(seed=0, nodes=60, count=200):
    return np.random.default_rng(seed).integers(0, nodes, (count, 2)).tolist()


def columns_of_shape(shape):
    """The columns of edges and nodes; ids of nodes are in the first column of the table, or in the second, beside a name."""
    edge_names, node_names, edge, node = SHAPES[shape]
    between = ";" if ";" in edge_names else ","
    a, b, c, d = edge_names.split(between)
    edges = {a: [edge.format(i) for i in range(200)], b: [node.format(x) for x, _ in pairs()]}
    edges |= {c: [node.format(y) for _, y in pairs()], d: ["cable" if x % 3 else "pole" for x, _ in pairs()]}
    ids, names = [node.format(i) for i in range(60)], [f"Town no {i // 2}" for i in range(60)]
    first, second, third = node_names.split(between)
    nodes = {first: names, second: ids} if first == "name" else {first: ids, second: names}
    return edges, nodes | {third: [i % 7 for i in range(60)]}


def linked(read):
    source, target, _ = read.graph.edges()
    ids = read.graph.ids.tolist()
    return {frozenset((str(ids[a]), str(ids[b]))) for a, b in zip(source.tolist(), target.tolist(), strict=True)}


@pytest.mark.parametrize(("shape", "form"), [*((shape, "csv") for shape in SHAPES), ("numbers", "jsonl"), ("numbers", "arrow")])
def test_an_id_of_edges_is_no_end_where_two_columns_hold_ids_of_nodes(tmp_path, shape, form):
    edges, nodes = columns_of_shape(shape)
    (a, _), (b, sources), (c, targets), _ = edges.items()
    if form != "csv" and SHAPES[shape][2] == "{}":
        edges[a] = [int(each) for each in edges[a]]
    tables = written(tmp_path, form, edges, "e"), written(tmp_path, form, nodes)
    read = read_tables(*tables)
    assert linked(read) == {frozenset(pair) for pair in zip(sources, targets, strict=True) if pair[0] != pair[1]}
    (line,) = (line for line in read.ingest_report.remarks if "ends of edges are read" in line)
    assert (
        f"from '{b}' and '{c}': both hold ids of the nodes, and '{a}' is distinct in every row; others: --source, --target"
        in line
    )
    named = read_tables(*tables, source=b, target=c)
    assert named.graph.digest == read.graph.digest
    assert not [line for line in named.ingest_report.remarks if "ends of edges are" in line]
    more = read_tables(pa.table({a: ["new"], b: [sources[0]], c: [targets[1]]}), base=read)
    assert more.graph.num_nodes == read.graph.num_nodes


@pytest.mark.parametrize("shape", ["lines", "transfers", "called id", "addresses"])
def test_without_a_node_table_columns_called_as_ends_are_taken(tmp_path, shape):
    columns, _ = columns_of_shape(shape)
    a, b, c, _ = columns
    read = read_tables(edges := written(tmp_path, "csv", columns, "e"))
    assert read.graph.num_nodes == len({*columns[b], *columns[c]})
    why = "their names differ by words for a start and an end; others: --source, --target"
    assert f"{edges}: ends of edges are read from '{b}' and '{c}': {why}" in read.ingest_report.remarks
    assert read_tables(edges, source=a, target=b).graph.num_nodes == len({*columns[a], *columns[b]})


# -- tables of nodes --------------------------------------------------------------------------------------------------------

STAFF = "staff no,full name,team\n" + "".join(f"{7 * i},Person {i % 19},T{i % 3}\n" for i in range(30))
NODES = {
    "numbers and names": STAFF,
    "a sort for each": "who,sort\n" + "".join(f"P{i},{'wo' * (i % 2)}man\n" for i in range(12)),
    "dates": "hired,team\n2020-01-01,1\n2020-01-02,2\n",
    "fractions": "depth,size\n1,0.5\n2,1\n",
}
EDGES = {
    "users and items": "user,item\n" + "".join(f"{i // 2},B{i % 7}\n" for i in range(30)),
    "a child and its parent": "child,parent\n" + "".join(f"{i},{i // 2}\n" for i in range(1, 30)),
    "a path": "a,b\n" + "".join(f"P{i},P{i + 1}\n" for i in range(30)),
    "a few pairs": "a,b\n1,2\n3,4\n",
    "whole numbers as pandas writes them": "a,b\n1.0,2.0\n2.0,3.0\n",
    "named": "source,target\n" + STAFF.partition("\n")[2].replace(",T", "-T"),
}


@pytest.mark.parametrize("text", NODES.values(), ids=NODES)
def test_a_table_of_nodes_is_recognised_by_its_values(tmp_path, text):
    a, b = text.splitlines()[0].split(",")[:2]
    path = saved(tmp_path, "t.csv", text)
    with pytest.raises(DataError, match=r"t\.csv: it (may be|looks like) a table of nodes: .*--nodes[,;] .*--source.*--target"):
        read_tables(path, header=True)
    assert read_tables(path, source=a, target=b).ingest_report.rows == len(text.splitlines()) - 1


@pytest.mark.parametrize("text", EDGES.values(), ids=EDGES)
def test_a_table_of_edges_is_read(tmp_path, text):
    found = read_tables(saved(tmp_path, "t.csv", text))
    assert found.ingest_report.rows == len(text.splitlines()) - 1


def test_a_membership_with_all_its_nodes_is_read():
    """The node table says that both columns have nodes."""
    people, groups = [f"p{i}" for i in range(12)], ["g0", "g1"] * 6
    nodes = pa.table({"id": [*people, "g0", "g1"], "x": list(range(14))})
    members = pa.table({"person": people, "group": groups})
    assert read_tables(members, nodes).graph.num_edges == 24
    with pytest.raises(DataError, match="it may be a table of nodes: 'person' differs in every row"):
        read_tables(members)
