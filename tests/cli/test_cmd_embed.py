"""One's own graph from the command line: tables in, a folder out, whatever happens on the way."""

from __future__ import annotations

import json
import re
import shlex
import webbrowser
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from clnr import NodeEmbedder
from clnr.cli.app import JSON_FORMAT
from clnr.embedding.result.artifact import load_result
from clnr.support.stage_clock import STAGES
from tests.command_line import assert_refused, only_json
from tests.conftest import tiny

SMALL = ["--set", "epochs=3", "--set", "hidden=16", "--set", "dimension=8", "--set", "probe_steps=20"]
SMALL += ["--set", "device=cpu"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Edges in CSV, nodes in Parquet, ids as text."""
    monkeypatch.chdir(tmp_path)
    graph = tiny(80, 200)
    source, target, _ = graph.edges()
    lines = [f"paper:{a},paper:{b}" for a, b in zip(source, target, strict=True) if a < b]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *lines]) + "\n")
    columns = {"id": [f"paper:{i}" for i in range(80)], "words": graph.features.astype(float).tolist()}
    pq.write_table(pa.table({**columns, "label": [f"field {c}" for c in graph.labels]}), tmp_path / "nodes.parquet")
    return tmp_path


EMBED = ["embed", "--edges", "edges.csv", "--nodes", "nodes.parquet", "--label", "label"]


def test_from_two_tables_to_vectors_a_model_and_a_report(clnr, files):
    ended = clnr(*EMBED, "--out", "mine", *SMALL)
    assert ended.code == 0, ended.err
    assert {path.name for path in files.iterdir()} == {"edges.csv", "nodes.parquet", "mine"}
    table = pq.read_table(files / "mine" / "embeddings.parquet")
    assert table["id"].to_pylist() == [f"paper:{i}" for i in range(80)]
    assert np.array(table["vector"].to_pylist()).shape == (80, 8)
    assert "paper:79" in (files / "mine" / "report.html").read_text()


@pytest.mark.parametrize("ids", [("-1", "-2"), ("$HOME", "it's")])
def test_the_command_that_comes_next_can_be_pasted(clnr, files, ids):
    pq.write_table(pa.table({"source": ids, "target": [ids[1], "b"]}), files / "few.parquet")
    ended = clnr("embed", "--edges", "few.parquet", "--effort", "quick", "--no-report", "--out", "my graph")
    assert ended.code == 0, ended.err
    words = shlex.split(ended.out.splitlines()[-2])
    assert words[:3] == ["clnr", "similar", "my graph"]
    found = only_json(clnr(*words[1:3], "--json", *words[3:]))
    assert {each["id"] for each in found} == {*ids, "b"} - {words[-1]}


def test_every_stage_is_measured(clnr, files):
    content = only_json(clnr(*EMBED, "--out", "mine", *SMALL, "--json"))
    names = [each["stage"] for each in content["stages"]]
    assert names == [name for name in STAGES if name in names]
    assert {"read", "train", "fit the read-out", "score", "baselines", "draw", "write"} <= set(names)
    assert sum(each["seconds"] for each in content["stages"]) <= content["seconds"]
    assert 2**26 < content["peak_bytes"] < 2**36


def test_how_columns_are_read_is_told_and_changed(clnr, files):
    (files / "e.csv").write_text("buyer,seller,year\nann,bob,1999\nbob,cy,2000\n")
    (files / "n.csv").write_text("person,age,zip,code\nann,30,1000,7\nbob,40,1000,9\ncy,31,2000,9\n")
    np.save(files / "x.npy", np.eye(3))
    words = ["--edges", "e.csv", "--nodes", "n.csv", "--features", "zip,code", "--as", "zip=category", "--as", "code=number"]
    words += ["--ignore", "year", "--features", "x.npy", "--header"]
    columns = only_json(clnr("embed", *words, "--dry-run", "--json"))["columns"]
    assert columns[2] == "edges 'year': unused: ignored"
    assert [line.split(", ")[:2] for line in columns if ": feature" in line] == [
        ["nodes 'zip': feature", "category"],
        ["nodes 'code': feature", "number"],
        ["matrix 'feature matrix': feature", "dense matrix"],
    ]
    assert not {path.name for path in files.iterdir()} - {"edges.csv", "nodes.parquet", "e.csv", "n.csv", "x.npy"}
    told = only_json(clnr("ingest", *words, "--out", "graph", "--quiet", "--json"))
    plan = only_json(clnr("embed", "--graph", "graph", "--dry-run", "--json"))
    assert plan["columns"] == columns
    assert told["edges"] == plan["graph"]["edges"] == 2


@pytest.mark.full
def test_tomorrows_nodes_join_todays_and_nothing_is_trained(clnr, files):
    clnr(*EMBED, "--out", "mine", *SMALL)
    (files / "new-edges.csv").write_text("source,target\npaper:80,paper:3\npaper:80,paper:81\n")
    words = pq.read_table("nodes.parquet")["words"].to_pylist()
    pq.write_table(pa.table({"id": ["paper:80", "paper:81"], "words": [words[3], words[4]]}), "new-nodes.parquet")
    tables = ["mine", "--edges", "new-edges.csv", "--nodes", "new-nodes.parquet"]
    plan = only_json(clnr("transform", *tables, "--dry-run", "--json"))
    assert (plan["new_nodes"], plan["graph"]["nodes"], len(plan["columns"])) == (2, 82, 5)
    ended = clnr("transform", *tables, "--out", "tomorrow")
    assert ended.code == 0, ended.err
    assert load_result(files / "tomorrow").graph.ids.tolist() == [f"paper:{i}" for i in range(82)]
    assert clnr("transform", "mine", "--alone", *EMBED[1:], "--no-report", "--out", "same").code == 0
    np.testing.assert_allclose(load_result(files / "same").z, load_result(files / "mine").z, atol=1e-5)
    here = clnr("transform", *tables, "--out", "./mine", "--force", "--no-report", "-q")
    assert "mine is the folder of the model itself: its graph and vectors are replaced" in here.err
    assert load_result(files / "mine").graph.num_nodes == 82


def test_export_formats(clnr, files):
    (files / "two.csv").write_text("source,target\na b,a\na b,c d\n")
    assert clnr("embed", "--edges", "two.csv", "--effort", "quick", "--no-report", "--out", "mine").code == 0
    written = clnr("export", "mine", "--format", "csv,npy").out.split()
    assert written == [str(Path("mine", name)) for name in ("embeddings.csv", "embeddings.npy")]
    z = load_result(files / "mine").z
    assert (np.load(files / "mine" / "embeddings.npy", allow_pickle=False) == z).all()
    rows = [line.split(",") for line in (files / "mine" / "embeddings.csv").read_text().splitlines()]
    assert rows[0][:3] == ["id", "cluster", "v0"]
    np.testing.assert_allclose(np.array([row[2:] for row in rows[1:]], float), z, rtol=1e-6)
    assert [row[0] for row in rows[1:]] == load_result(files / "mine").graph.ids.tolist()
    assert [int(row[1]) for row in rows[1:]] == NodeEmbedder.load(files / "mine").clusters().assignment.tolist()


def test_an_error_that_is_not_known_gives_json_that_others_can_read(clnr, files):
    (files / "ring.csv").write_text("source,target\n" + "".join(f"{i},{(i + 1) % 25}\n" for i in range(25)))
    given = ("--edges", "ring.csv", "--effort", "quick", "--no-report")
    told = only_json(clnr("embed", *given, "--out", "ring", "--json"))
    assert told["scores"]["links_held_out"] == 1
    assert told["baselines"]["Raw"]["link_auc_error"] is None
    assert "NaN" not in (files / "ring" / "metrics.jsonl").read_text()
    assert np.isnan(load_result(files / "ring").baselines["Raw"]["link_auc_error"])


def test_clusters(clnr, files):
    clnr(*EMBED, "--out", "mine", *SMALL, "--no-report")
    found = NodeEmbedder.load("mine").clusters(3)
    ids = [f"paper:{i}" for i in range(80)]
    for file, read in (("c.csv", pa.csv.read_csv), ("c.parquet", pq.read_table)):
        told = only_json(clnr("clusters", "mine", "-k", "3", "--json", "--out", file))
        assert read(file).to_pydict() == {"id": ids, "cluster": found.assignment.tolist()}
    assert told == {"format": JSON_FORMAT} | json.loads(json.dumps(found.to_dict()))
    assert {each["cluster"]: each["size"] for each in told["clusters"]} == Counter(found.assignment.tolist())
    (files / "there.csv").mkdir()
    assert "there.csv" in assert_refused(clnr("clusters", "mine", "--out", "there.csv"))


@pytest.mark.full
def test_names_are_shown_and_found(clnr, files):
    nodes = pq.read_table("nodes.parquet")
    titles, others = ([f"{word} \x1b[31m{i}" for i in range(80)] for word in ("Title", "Other"))
    pq.write_table(nodes.append_column("title", [titles]).append_column("other", [others]), "nodes.parquet")
    assert clnr(*EMBED, "--out", "mine", *SMALL).code == 0
    nearest = only_json(clnr("similar", "mine", "paper:5", "-k", "3", "--json"))
    assert [row["name"] for row in nearest] == [titles[int(row["id"].removeprefix("paper:"))] for row in nearest]
    assert clnr("similar", "mine", "paper:5", "-k", "3").out.split()[:2] == ["name", "id"]
    by_name = clnr("similar", "mine", "TITLE \x1b[31m5", "-k", "3", "--json")
    assert (json.loads(by_name.out), "is the name of 'paper:5'" in by_name.err) == (nearest, True)
    assert clnr("report", "mine", "--name", "OTHER").code == 0
    page = (files / "mine" / "report.html").read_text(encoding="utf-8")
    assert json.loads(re.search(r'id="words">(.*?)</script>', page, re.DOTALL)[1])["names"] == others


@pytest.mark.full
def test_a_report_is_drawn_again_only_if_something_changed(clnr, files, monkeypatch):
    opened, page = [], files / "mine" / "report.html"
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    assert clnr(*EMBED, "--out", "mine", *SMALL).code == 0
    drawn = page.read_bytes()
    page.write_bytes(drawn.replace(b"<body>", b"<body>seen before"))
    assert clnr("report", "mine", "--open").out.strip() == str(Path("mine", "report.html"))
    assert b"seen before" in page.read_bytes()
    assert opened == [page.absolute().as_uri()]
    assert clnr("report", "mine").code == 0
    assert page.read_bytes() == drawn
    page.write_bytes(drawn[:-1])
    assert clnr("report", "mine", "--open").code == 0
    assert page.read_bytes() == drawn
