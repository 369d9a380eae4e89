"""The options of tables: files, and files by the names of their kinds."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from clnr import NodeEmbedder
from clnr.cli.table_options import tables_by_name
from clnr.errors import ClnrError
from clnr.tables import read_tables
from tests.cli.test_cli import assert_refused, entry_point

SMALL = ["--method", "SVD", "--dimension", "4", "--device", "cpu", "--no-baselines", "--no-report", "-q"]
ENDS = ("user", "source"), ("item", "target")
SHOP = [
    *("--edges", "user,bought,item=bought.csv", "--edges", "user,knows,user=knows.csv"),
    *("--nodes", "user=users.csv", "--nodes", "item=items.csv"),
]


@pytest.fixture
def clnr(monkeypatch, capsys):
    return entry_point(monkeypatch, capsys)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Users 0 to 19 and items 0 to 9; users buy items with their last digit and the one after."""
    path = tmp_path_factory.mktemp("shop")
    (path / "users.csv").write_text("user_id,age,name\n" + "".join(f"{i},{20 + i},person {i}\n" for i in range(20)))
    (path / "items.csv").write_text("item_id,price\n" + "".join(f"{i},{i / 2}\n" for i in range(10)))
    bought = [(i, (i + step) % 10) for i in range(20) for step in (0, 1)]
    (path / "bought.csv").write_text("user_id,item_id\n" + "".join(f"{a},{b}\n" for a, b in bought))
    (path / "knows.csv").write_text("from,to\n" + "".join(f"{i},{i + 1}\n" for i in range(19)))
    (path / "new.csv").write_text("user_id,item_id\n20,0\n20,1\n")
    return path


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_names_and_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tables_by_name("--edges", None) is None
    assert tables_by_name("--edges", ["a.csv"]) == "a.csv"
    assert tables_by_name("--edges", ["a=b.csv"]) == {"a": "b.csv"}
    assert tables_by_name("--edges", ["a=b.csv", "c = d=e.csv"]) == {"a": "b.csv", "c": " d=e.csv"}
    assert tables_by_name("--edges", ["user, bought ,item=b.csv"]) == {("user", "bought", "item"): "b.csv"}
    assert tables_by_name("--edges", ["data/year=2020/b.csv"]) == "data/year=2020/b.csv"
    (tmp_path / "year=2020").mkdir()
    for name in ("a=b.csv", "year=2020/b.csv"):
        (tmp_path / name).write_text("source,target\n1,2\n")
        assert tables_by_name("--edges", [name]) == name
    assert tables_by_name("--edges", ["year=*/b.csv"]) == "year=*/b.csv"
    assert tables_by_name("--edges", ["x=a=b.csv"]) == {"x": "a=b.csv"}
    with pytest.raises(ClnrError, match=r"each of several --edges needs a name: --edges NAME=b\.csv"):
        tables_by_name("--edges", ["a=a.csv", "b.csv"])
    with pytest.raises(ClnrError, match="two --nodes are called 'a'"):
        tables_by_name("--nodes", ["a=a.csv", "a=b.csv"])


@pytest.mark.full
def test_kinds_from_tables_to_similar_and_unseen_nodes(clnr, tmp_path):
    made = tmp_path / "made"
    assert clnr("embed", *SHOP, *SMALL, "--format", "csv", "--out", str(made)).code == 0
    vectors = pq.read_table(made / "embeddings.parquet")
    assert vectors.column_names == ["id", "node_kind", "original_id", "vector"]
    assert vectors["original_id"].to_pylist() == [*range(20), *range(10)]
    assert (made / "embeddings.csv").read_text().startswith("id,node_kind,original_id,v0,")
    rows = json.loads(clnr("similar", str(made), "item:3", "-k", "29", "--json").out)
    assert {row["id"] for row in rows if row["linked"]} == {"user:3", "user:2", "user:13", "user:12"}
    assert clnr("similar", str(made), "person 3", "-k", "1").code == 0
    assert "there is no node '3'; did you mean 'user:3' (person 3), 'item:3'" in assert_refused(clnr("similar", str(made), "3"))
    items = json.loads(clnr("similar", str(made), "item:3", "-k", "3", "--kind", "item", "--json").out)
    assert items == [row for row in rows if row["id"].startswith("item:")][:3]
    for_user = json.loads(clnr("similar", str(made), "user:3", "-k", "10", "--kind", "item", "--json").out)
    assert {row["id"] for row in for_user} == {f"item:{i}" for i in range(10)}
    assert {row["id"] for row in for_user if row["linked"]} == {"item:3", "item:4"}
    assert "unknown kind of nodes 'itm'; did you mean 'item'" in assert_refused(
        clnr("similar", str(made), "user:3", "--kind", "itm")
    )
    larger = tmp_path / "larger"
    assert (
        clnr(
            "embed", "--model", str(made), "--edges", "user,bought,item=new.csv", "--no-report", "-q", "--out", str(larger)
        ).code
        == 0
    )
    assert pq.read_table(larger / "embeddings.parquet").to_pylist()[-1]["id"] == "user:20"
    plan = json.loads(clnr("embed", "--model", str(made), "--edges", "user,bought,item=new.csv", "--dry-run", "--json").out)
    assert plan["columns"] == [f"edges user,bought,item '{each}_id': {role}, whole number" for each, role in ENDS]
    refused = clnr("embed", "--model", str(made), "--edges", "new.csv", "--out", str(tmp_path / "no"))
    assert "the earlier graph has nodes of several kinds (user, item)" in assert_refused(refused)


def test_an_embedder_takes_kinds_as_dictionaries(tmp_path):
    edges = {("user", "bought", "item"): "bought.csv", ("user", "knows", "user"): "knows.csv"}
    nodes = {"user": "users.csv", "item": "items.csv"}
    embedder = NodeEmbedder("SVD", dimension=4, device="cpu").fit((edges, nodes))
    assert embedder.ids_.tolist() == read_tables(edges, nodes).graph.ids.tolist()
    assert embedder.similar("person 3", 1)[0][0] != "user:3"
    of_all = [each for each in embedder.similar("item:3", 29) if each[0].startswith("item:")]
    assert embedder.similar("item:3", 4, kind="item") == [(each, pytest.approx(cosine)) for each, cosine in of_all[:4]]
    assert {each for each, _ in embedder.similar("person 3", 10, kind="item")} == {f"item:{i}" for i in range(10)}
    for asked, said in (({"kind": "shop"}, "unknown kind of nodes 'shop'"), ({"kind": "item", "approximate": True}, "exactly")):
        with pytest.raises(ClnrError, match=said):
            embedder.similar("person 3", **asked)
    larger = embedder.extend({("user", "bought", "item"): "new.csv"})
    assert larger.ids_[-1] == "user:20"
    with pytest.raises(ClnrError, match=r"nodes of this graph have no kinds: leave out kind \(--kind\)"):
        NodeEmbedder("SVD", dimension=4, device="cpu").fit("knows.csv").similar(3, kind="item")
    embedder.save(tmp_path / "saved")
    assert NodeEmbedder.load(tmp_path / "saved").extend({("user", "bought", "item"): "new.csv"}).ids_[-1] == "user:20"
    alone = NodeEmbedder("SVD", dimension=4, device="cpu").fit(edges)
    assert alone.ids_[0] == "item:0"


@pytest.mark.full
def test_a_folder_of_kinds_and_negative_weights(clnr, tmp_path):
    assert clnr("ingest", *SHOP, "--out", str(tmp_path / "graph"), "-q").code == 0
    asked = ["--graph", str(tmp_path / "graph"), *SMALL, "--out", str(tmp_path / "made")]
    assert clnr("embed", *asked).code == 0
    assert pq.read_table(tmp_path / "made" / "embeddings.parquet").column_names[1:3] == ["node_kind", "original_id"]
    (tmp_path / "signed.csv").write_text("source,target,weight\na,b,1\nb,c,-1\n")
    signed = ["embed", "--edges", str(tmp_path / "signed.csv"), "--dry-run"]
    assert "'weight' is '-1' in row 2, which is negative" in assert_refused(clnr(*signed))
    assert "edges: 1 undirected" in clnr(*signed, "--negative-weights", "drop").out
    assert "edges: 2 undirected" in clnr(*signed, "--negative-weights", "kind").out
    (tmp_path / "rated.csv").write_text("source,target,stars\na,b,5\nb,c,1\n")
    two = ["--edges", f"a={tmp_path / 'signed.csv'}", "--edges", f"b={tmp_path / 'rated.csv'}", "--negative-weights", "drop"]
    both = clnr("embed", *two, "--weight", "stars", "--weight", "weight", "--dry-run").out
    assert "edges a 'weight': weight" in both
    assert "edges b 'stars': weight" in both
    (tmp_path / "gaps.csv").write_text("source,target\na,b\n,c\n")
    gaps = ["--edges", f"a={tmp_path / 'gaps.csv'}"]
    assert "'source' is empty in row 2" in assert_refused(clnr("embed", *gaps, "--dry-run"))
    assert "left out: 1 row of 2 with an empty" in clnr("embed", *gaps, "--drop-empty", "--dry-run").out
    assert "unknown negative_weights 'abs'" in assert_refused(clnr(*signed, "--negative-weights", "abs"))
