"""Options that commands share, and tables of several kinds."""

from __future__ import annotations

import inspect
import json
import re

import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from clnr.cli import app, cmd_embed, cmd_ingest, cmd_transform, worker_options
from clnr.cli.app import PANELS
from clnr.cli.options import tables_by_name
from clnr.errors import ClnrError
from tests.command_line import assert_refused, outside

SMALL = ["--set", "method=SVD", "--set", "dimension=4", "--set", "device=cpu", "--no-baselines", "--no-report"]
ENDS = ("user", "source"), ("item", "target")
_TITLES = re.compile(r"^([A-Z][^:]*):$", re.MULTILINE)
SHOP = [
    *("--edges", "user,bought,item=bought.csv", "--edges", "user,knows,user=knows.csv"),
    *("--nodes", "user=users.csv", "--nodes", "item=items.csv"),
]


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


def test_names_and_paths():
    assert tables_by_name("--edges", None) is None
    assert tables_by_name("--edges", ["a.csv"]) == "a.csv"
    assert tables_by_name("--edges", ["a=b.csv"]) == {"a": "b.csv"}
    assert tables_by_name("--edges", [query := "SELECT * FROM e WHERE a = 'b.csv'"]) == query
    assert tables_by_name("--edges", ["a=b.csv", "c = d=e.csv"]) == {"a": "b.csv", "c": " d=e.csv"}
    assert tables_by_name("--edges", ["user, bought ,item=b.csv"]) == {("user", "bought", "item"): "b.csv"}
    assert tables_by_name("--edges", ["data/year=2020/b.csv"]) == "data/year=2020/b.csv"
    with pytest.raises(ClnrError, match=r"several --edges needs a name, NAME=b\.csv"):
        tables_by_name("--edges", ["a=a.csv", "b.csv"])
    with pytest.raises(ClnrError, match="two --nodes are called 'a'"):
        tables_by_name("--nodes", ["a=a.csv", "a=b.csv"])


@pytest.mark.full
def test_kinds_from_tables_to_similar_and_unseen_nodes(clnr, tmp_path):
    made = tmp_path / "made"
    assert clnr("embed", *SHOP, *SMALL, "--out", str(made)).code == 0
    assert clnr("export", str(made), "--format", "csv").code == 0
    vectors = pq.read_table(made / "embeddings.parquet")
    assert vectors.column_names == ["id", "node_kind", "original_id", "vector"]
    assert vectors["original_id"].to_pylist() == [str(i) for i in (*range(20), *range(10))]
    assert (made / "embeddings.csv").read_text().startswith("id,node_kind,original_id,cluster,v0,")
    assert "there is no node '3'; did you mean 'user:3' (person 3), 'item:3'" in assert_refused(clnr("similar", str(made), "3"))
    for_user = json.loads(clnr("similar", str(made), "user:3", "-k", "10", "--kind", "item", "--json").out)
    assert {row["id"] for row in for_user} == {f"item:{i}" for i in range(10)}
    assert {row["id"] for row in for_user if row["linked"]} == {"item:3", "item:4"}
    of_items = json.loads(clnr("clusters", str(made), "--kind", "item", "-k", "2", "--json").out)["clusters"]
    assert sum(each["size"] for each in of_items) == 10
    larger = tmp_path / "larger"
    more = ["transform", str(made), "--edges", "user,bought,item=new.csv"]
    assert clnr(*more, "--no-report", "-q", "--out", str(larger)).code == 0
    assert pq.read_table(larger / "embeddings.parquet").to_pylist()[-1]["id"] == "user:20"
    plan = json.loads(clnr(*more, "--dry-run", "--json").out)
    assert plan["columns"] == [f"edges user,bought,item '{each}_id': {role}" for each, role in ENDS]
    refused = clnr("transform", str(made), "--edges", "new.csv", "--out", str(tmp_path / "no"))
    assert "user,bought,item; user,knows,user" in assert_refused(refused)


def test_ray_is_handed_what_the_command_takes(clnr, monkeypatch):
    handed = {}
    monkeypatch.setattr(worker_options, "run_on_ray", lambda command, options: handed.update(options) or 0)
    tables = ["--edges", "e.csv", "--weight", "a", "--weight", "b", "--directed"]
    assert clnr("embed", *tables, "--out", "o", "--ray", "auto", "--workers", "2", "--set", "epochs=3").code == 0
    assert handed["tables"] == {"edges": "e.csv", "nodes": None, "weight": ["a", "b"], "directed": True}
    assert handed["assign"] == ["epochs=3"]
    assert inspect.signature(inspect.unwrap(cmd_embed.embed)).parameters.keys() == handed.keys()


def test_options_and_commands_stand_in_groups_and_embeds_fit_two_screens():
    for module in (cmd_embed, cmd_ingest, cmd_transform):
        placed = [each for names in module.PANELS.values() for each in names]
        taken = inspect.signature(getattr(module, module.__name__.rpartition("_")[2])).parameters
        assert (len(placed), taken.keys() - placed) == (len(set(placed)), set())
    assert len(get_command(app).commands["embed"].params) <= 30
    shown = outside("embed", "--help", COLUMNS="100").out
    assert _TITLES.findall(shown) == [*cmd_embed.PANELS, "Options"]
    assert shown.count("\n") <= 100
    shown = outside("--help", COLUMNS="80").out
    assert _TITLES.findall(shown) == ["Options", *PANELS]
    assert sorted(re.findall(r"^  ([a-z]+)  ", shown, re.MULTILINE)) == sorted(get_command(app).commands)
