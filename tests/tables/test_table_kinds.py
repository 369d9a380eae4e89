"""Several tables of edges and of nodes, by the names of their kinds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import ingest, load_graph_folder, read_tables
from tests.tables.edges.test_edge_weighting import EDGES, ROWS, normalised, weights
from tests.tables.files import columns_of, saved

USERS = "user_id,age,name,joined\n7,30,Ann,2020-01-01\n8,,Bob,2021-01-01\n9,50,Cy,2022-01-01\n"
ITEMS = "price,item id,name,genre\n2.5,7,pen,tool\n3.5,1,ink,\n4.0,2,ink,fluid\n"
BOUGHT = "day,item_id,user_id\n2020-01-01,7,7\n2020-01-02,7,8\n2020-01-03,1,9\n2020-01-04,1,7\n2020-01-05,2,8\n"
KNOWS = "from,to,weight\n7,8,2\n8,9,1\n"
ENDS = ("user", "bought", "item"), ("user", "knows", "user")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    for name, text in (("users", USERS), ("items", ITEMS), ("bought", BOUGHT), ("knows", KNOWS)):
        saved(folder, f"{name}.csv", text)
    return folder


@pytest.fixture(scope="module")
def tables(files):
    edges = dict(zip(ENDS, (files / "bought.csv", files / "knows.csv"), strict=True))
    return {"edges": edges, "nodes": {"user": files / "users.csv", "item": files / "items.csv"}}


@pytest.fixture(scope="module")
def shop(tables):
    return read_tables(**tables, label="genre")


# -- kinds of edges -----------------------------------------------------------------------------------------------------------


def by_kind(kind):
    columns = zip(*(row[:3] for row in ROWS if row[3] == kind), strict=True)
    return pa.table(dict(zip(("a", "b", "strength"), columns, strict=True)))


@pytest.mark.parametrize(("weight", "how"), [("", "each edge counts once"), (",weight", "their weights are added")])
def test_a_repeated_edge_of_a_kind_counts_once_unless_it_has_weights(tmp_path, weight, how):
    from clnr.embedding.graph_facts import table_warnings

    one = ",1" if weight else ""
    rows = [f"a,b{one}", f"b,c{one}", f"c,d{one}"]
    once, twice = (
        read_tables(
            {
                "met": saved(tmp_path, f"met{len(more)}.csv", "\n".join([f"source,target{weight}", *rows, *more, ""])),
                "wrote": saved(tmp_path, f"wrote{len(more)}.csv", f"source,target{weight}\na,d{one}\n"),
            }
        )
        for more in ([], rows[:1])
    )
    assert (once.graph.digest == twice.graph.digest) == (not weight)
    assert f"merged: 1 row repeating an edge; {how}" in table_warnings(twice.graph, twice.info)


def test_tables_by_name_are_as_a_column_of_kinds():
    named = read_tables({kind: by_kind(kind) for kind in ("buys", "knows")})
    column = read_tables(EDGES, edge_type="sort")
    assert named.graph.digest == column.graph.digest
    assert named.ingest_report.edge_types == column.ingest_report.edge_types
    assert [info.role for info in named.ingest_report.columns[:3]] == ["source", "target", "weight"]


def test_times_hold_for_all_tables(tmp_path):
    dated = saved(tmp_path, "dated.csv", "source,target,day\na,b,2020-01-01\nb,c,2020-01-11\n")
    years = saved(tmp_path, "years.csv", "source,target,day\na,c,2019\n")
    plain = saved(tmp_path, "plain.csv", "source,target\na,c\n")
    again = saved(tmp_path, "again.csv", dated.read_bytes())
    assert read_tables({"one": dated, "two": again}, until="day=2020-01-05").graph.num_edges == 2
    for second, said in (
        (years, r"dates in .*dated\.csv and numbers in .*years\.csv; write them alike"),
        (plain, r"plain\.csv: there is no column 'day' for --until"),
    ):
        with pytest.raises(DataError, match=said):
            read_tables({"one": dated, "two": second}, until="day=2020")


# -- kinds of nodes -----------------------------------------------------------------------------------------------------------


def test_ids_of_two_kinds_are_apart(shop):
    assert shop.graph.ids.tolist() == ["user:7", "user:8", "user:9", "item:7", "item:1", "item:2"]
    assert shop.ingest_report.node_kinds == ("user", "item")
    rows = shop.columns.to_pydict()
    assert rows["node_kind"] == ["user"] * 3 + ["item"] * 3
    assert rows["original_id"] == [7, 8, 9, 7, 1, 2]
    assert rows["name"] == ["Ann", "Bob", "Cy", "pen", "ink", "ink"]
    assert rows["age"] == ["30", None, "50", None, None, None]
    bought = [("user:7", "item:7"), ("user:8", "item:7"), ("user:9", "item:1"), ("user:7", "item:1"), ("user:8", "item:2")]
    knows = [("user:7", "user:8", 2.0), ("user:8", "user:9", 1.0)]
    expected, _ = normalised([*((a, b, 1.0, "bought") for a, b in bought), *((*row, "knows") for row in knows)])
    found = weights(shop)
    assert found == pytest.approx({tuple(sorted(pair)): w for pair, w in expected.items()}, rel=1e-5)
    assert sorted(shop.ingest_report.edge_types) == ["user,bought,item", "user,knows,user"]


def test_features_are_side_by_side(shop):
    """Each column is scaled over the nodes of its kind, and is 0 for others: only nodes of its kind can lack it."""
    x = shop.graph.features.toarray()
    encoders = shop.feature_encoder.column_encoders
    of_users, of_items = ["user.age", "user.name", "user.joined"], ["item.price", "item.name"]
    assert [each.column for each in encoders] == ["node_kind", *of_users, *of_items]
    assert x[:, :2].tolist() == [[1, 0]] * 3 + [[0, 1]] * 3
    at = {each.column: sum(other.width + other.missing for other in encoders[:i]) for i, each in enumerate(encoders)}
    np.testing.assert_allclose(x[:, at["user.age"]], [-1, 0, 1, 0, 0, 0], atol=1e-6)
    assert x[:, at["user.age"] + 1].tolist() == [0, 1, 0, 0, 0, 0]
    price = np.array([2.5, 3.5, 4.0])
    np.testing.assert_allclose(x[3:, at["item.price"]], (price - price.mean()) / price.std(), rtol=1e-5)
    assert not x[:3, at["item.price"] :].any()
    assert not x[3:, at["user.age"] : at["item.price"]].any()
    assert (x[:, at["user.name"] : at["user.joined"]].sum(1) == [1, 1, 1, 0, 0, 0]).all()


def test_labels_are_those_of_one_kind(tables, files, tmp_path, shop):
    assert shop.graph.labels.tolist() == [-1, -1, -1, 1, -1, 0]
    assert shop.classes == ("fluid", "tool")
    users = saved(tmp_path, "users.csv", "user_id,label\n7,x\n8,y\n9,x\n")
    items = saved(tmp_path, "items.csv", "item_id,label\n7,x\n1,z\n2,z\n")
    both = {"user": users, "item": items}
    with pytest.raises(DataError, match=r"labels of several kinds.* user.label and item.label.* choose one: --label"):
        read_tables(tables["edges"], both)
    chosen = read_tables(tables["edges"], both, label="item.label")
    assert chosen.graph.labels.tolist()[3:] == [0, 1, 1]
    assert list(columns_of(chosen)) == ["node_kind", "user.label"]


def test_columns_are_named_alone_or_with_their_kind(tables):
    read = read_tables(**tables, ignore=["user.name,joined"], types={"price": "category"})
    assert list(columns_of(read)) == ["node_kind", "user.age", "item.price", "item.name", "item.genre"]
    assert columns_of(read)["item.price"] == "category"
    some = read_tables(**tables, features=["age", "item.name"])
    assert list(columns_of(some)) == ["node_kind", "user.age", "item.name"]
    with pytest.raises(DataError, match=r"there is no column 'item.age' to ignore; .*bought\.csv has day, item_id, user_id; "):
        read_tables(**tables, ignore=["item.age"])


def test_nodes_of_edges_alone_have_kinds(tables, tmp_path):
    read = read_tables(tables["edges"])
    assert read.graph.ids.tolist() == ["item:1", "item:2", "item:7", "user:7", "user:8", "user:9"]
    assert read.columns.to_pydict() == {"node_kind": ["item"] * 3 + ["user"] * 3, "original_id": [1, 2, 7, 7, 8, 9]}
    assert read.feature_encoder.structure is not None
    assert read.ingest_report.remarks == ()
    words = pa.table({"user": ["x", "007"], "item": ["7", "8"]})
    assert read_tables({ENDS[0]: words}).columns["original_id"].to_pylist() == ["7", "8", "007", "x"]


def test_a_folder_of_kinds(tables, shop, tmp_path):
    ingest(**tables, label="genre", out=tmp_path / "graph", memory="1 GB")
    again = load_graph_folder(tmp_path / "graph")
    assert again.graph.digest == shop.graph.digest
    assert again.ingest_report == read_tables(**tables, label="genre").ingest_report
    assert again.columns.equals(shop.columns)
    assert again.feature_encoder == shop.feature_encoder
    infos = {(info.table, info.column): info for info in again.ingest_report.columns}
    assert infos["edges user,bought,item", "day"].role == "not used"
    assert (infos["nodes item", "item id"].role, infos["nodes item", "genre"].role) == ("id", "label")
    assert (infos["nodes user", "age"].empty, infos["nodes", "node_kind"].features) == (1, 2)


def test_unseen_nodes_of_kinds(shop):
    edges = {ENDS[0]: pa.table({"user_id": [10, 7], "item_id": [1, 3]})}
    alone = read_tables(edges, base=shop)
    assert alone.graph.ids.tolist() == [*shop.graph.ids.tolist(), "item:3", "user:10"]
    assert alone.columns["node_kind"].to_pylist()[-2:] == ["item", "user"]
    assert alone.columns["original_id"].to_pylist()[-2:] == [3, 10]
    assert alone.ingest_report.remarks == ("without values: 2 new nodes; a node table (--nodes) would give them",)
    x = alone.graph.features.toarray()
    assert x[-1].nonzero()[0].tolist() == [0, 3]  # A user without an age.
    assert x[-2].nonzero()[0].tolist() == [1]  # No item lacked a price.
    users = pa.table({"user_id": [10], "age": [40], "name": ["Ann"], "joined": ["2021-01-01"]})
    known = read_tables(edges, {"user": users}, base=shop)
    assert known.graph.ids.tolist() == [*shop.graph.ids.tolist(), "user:10"]
    assert (known.ingest_report.dangling, known.ingest_report.first_dangling) == (1, "item:3")
    np.testing.assert_array_equal(known.graph.features.toarray()[:-1], shop.graph.features.toarray())
    assert known.columns["name"].to_pylist()[-1] == "Ann"
    apart = read_tables(
        edges, {"user": users, "item": pa.table({"item_id": [1, 3], "price": [2.5, 3.5]})}, feature_encoder=shop.feature_encoder
    )
    assert apart.graph.num_features == shop.graph.num_features


FRAME = pa.table({"source": [1], "target": [2]})
NODES = pa.table({"id": [1, 2], "x": [0.5, 1.5]})


def test_what_does_not_extend_a_graph(shop):
    """Nor can a matrix be of several kinds; what the command line can ask for is in transcripts."""
    apart = {"feature_encoder": shop.feature_encoder}
    for edges, nodes, more, said in (
        (FRAME, NODES, apart, "several kinds"),
        ({ENDS[0]: FRAME}, None, apart, "a node table"),
        ({3: FRAME}, None, {}, "not 3"),
        ({"a": FRAME, "b": pa.table({"source": [1], "target": [None]})}, None, {}, "'b': 'target' .* row 1"),
        ({ENDS[1]: FRAME}, {"user": NODES}, {"feature_matrix": np.eye(2)}, "matrix"),
    ):
        with pytest.raises(DataError, match=said):
            read_tables(edges, nodes, **more)


def test_weights_of_several_tables(tmp_path):
    """Each named column holds for the tables that have it; one that no table has, or two of one table, are refused."""
    bought = saved(tmp_path, "bought.csv", "a,b,qty,price\nu,x,2,9\nv,x,1,9\nv,y,3,9\n")
    rated = saved(tmp_path, "rated.csv", "a,b,rating\nu,x,4\nu,y,5\nv,y,1\n")
    edges = {"bought": bought, "rated": rated, "met": saved(tmp_path, "met.csv", "a,b,weight\nu,x,7\nv,y,7\n")}
    read = read_tables(edges, weight=["rating", "qty"])
    columns = {info.column for info in read.ingest_report.columns if info.role == "weight"}
    assert columns == {"qty", "rating", "weight"}
    for given in ("qty", ["QTY", "qty"]):
        assert weights(read_tables({"bought": bought}, weight=given)) == {("u", "x"): 2.0, ("v", "x"): 1.0, ("v", "y"): 3.0}
    for tables, asked, said in (
        (edges, {"weight": ["rating", "stars"]}, "'stars' for weight; .*bought.csv has a, b, qty, price; "),
        (bought, {"weight": ["price", "qty"], "until": "qty=3"}, "'qty' cannot be both time and weight"),
    ):
        with pytest.raises(DataError, match=said):
            read_tables(tables, **asked)
