"""One's own graph from the command line: tables in, a folder out, whatever happens on the way."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import webbrowser
from math import nan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr import NodeEmbedder, cli, read_tables
from clnr.embedding import job
from clnr.embedding.planning import memory_plan
from clnr.embedding.reporting.report_file import drawn_layout
from clnr.embedding.scoring.baseline_comparison import compare
from clnr.embedding.stages import stages
from clnr.embedding.stages.graph_in_memory import GraphInMemory
from clnr.embedding.store import output_folder
from clnr.embedding.store.artifact import OWNED_FILES, load_folder
from clnr.methods import CLNR_MIX
from clnr.methods.model import Model
from clnr.support.storage.atomic_io import reserve_folder
from tests.command_line import assert_refused, only_json
from tests.conftest import tiny
from tests.kills import Killed, killed

SMALL = ["--set", "epochs=3", "--set", "hidden=16", "--set", "dimension=8", "--set", "probe_steps=20", "--device", "cpu"]
FILES = {
    *("digests.json", "embeddings.parquet", "graph.safetensors", "metrics.jsonl", "model.safetensors", "nodes.parquet"),
    "recipe.toml",
}


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


EMBED = ["embed", "--edges", "edges.csv", "--nodes", "nodes.parquet"]


def left(folder):
    """What there is beside the files that were there, hidden ones too."""
    return {path.name for path in folder.iterdir()} - {"edges.csv", "nodes.parquet"}


def test_from_two_tables_to_vectors_a_model_and_a_report(clnr, files):
    ended = clnr(*EMBED, "--out", "mine", *SMALL)
    assert ended.code == 0, ended.err
    assert {path.name for path in (files / "mine").iterdir()} == {*FILES, "tables.json", "report.html"}
    assert left(files) == {"mine"}
    table = pq.read_table(files / "mine" / "embeddings.parquet")
    assert table["id"].to_pylist() == [f"paper:{i}" for i in range(80)]
    assert np.array(table["vector"].to_pylist()).shape == (80, 8)
    for said in ("nodes: 80", "structure=0: few features (12), but edges tell little", "rough estimate"):
        assert said in ended.err
    for said in ("80 nodes in 8 dimensions", "AUC of held-out edges", "effective rank", "(strict)"):
        assert said in ended.out
    assert "paper:79" in (files / "mine" / "report.html").read_text()


def test_sampled_steps_are_asked_for_by_their_keys(clnr, files):
    sampled = ["--set", "sampled_nodes=20", "--set", "moments=sampled", "--set", "max_neighbors=3"]
    assert clnr(*EMBED, "--out", "mine", *SMALL, *sampled, "--no-report").code == 0
    recipe = tomllib.loads((files / "mine" / "recipe.toml").read_text())["recipe"]
    assert (recipe["sampled_nodes"], recipe["moments"], recipe["max_neighbors"]) == (20, "sampled", 3)


@pytest.mark.full
def test_baselines_stand_beside_it_unless_told_otherwise(clnr, files):
    ended = clnr(*EMBED, "--out", "mine", *SMALL, "--no-report")
    assert ended.code == 0, ended.err
    compared = compare(CLNR_MIX, (back := load_folder(files / "mine")).scores, back.baselines)
    for said in ("raw features", "CLNR-mix: this embedding", "strict accuracy %", compared.sentence):
        assert ended.out.count(said) >= 1
    assert ended.out.count(compared.sentence) == 1
    told = only_json(clnr(*EMBED, "--out", "json", *SMALL, "--no-report", "--json", "--quiet"))
    assert told["comparison"] == compared.sentence
    assert told["baselines"]["Raw"] == pytest.approx(back.baselines["Raw"])
    told = only_json(clnr(*EMBED, "--out", "none", *SMALL, "--no-report", "--no-baselines", "--json", "--quiet"))
    assert (told["baselines"], told["comparison"]) == ({}, None)
    assert "raw features" not in clnr(*EMBED, "--out", "plain", *SMALL, "--no-report", "--no-baselines").out


def test_a_link_score_below_chance_is_a_warning(clnr, files):
    """Nodes of two sides, each with the features of its side: linked nodes are unlike."""
    pairs = [(f"a{i}", f"b{(i * k + k) % 40}") for i in range(40) for k in (1, 3, 7, 9)]
    (files / "sides.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    lines = "".join(f"{side}{i},{1.0 if side == 'a' else -1.0},{i % 7}\n" for side in "ab" for i in range(40))
    (files / "side-nodes.csv").write_text("id,side,other\n" + lines)
    words = ["embed", "--edges", "sides.csv", "--nodes", "side-nodes.csv", "--out", "mine", "--method", "Raw", *SMALL[-2:]]
    ended = clnr(*words, "--hold-out", "0.4")
    assert ended.code == 0, ended.err
    assert re.search(r"- the link AUC of 0\.[0-4]\d* is below chance, 0\.5; the graph is bipartite", ended.out)
    assert "below chance" in (files / "mine" / "report.html").read_text()


def test_tables_may_be_queries(clnr, files):
    queries = ["--edges-query", "SELECT * FROM 'edges.csv'", "--nodes-query", "SELECT * FROM 'nodes.parquet' ORDER BY id DESC"]
    told = only_json(clnr("embed", *queries, "--dry-run", "--json"))
    plain = only_json(clnr(*EMBED, "--dry-run", "--json"))
    assert told["graph"] == plain["graph"]
    assert (told["graph"]["nodes"], told["graph"]["classes"]) == (80, 3)
    assert clnr("embed", *queries[:2], "--out", "mine", *SMALL, "--no-report", "--quiet").code == 0
    more = ["--edges-query", "SELECT 'paper:0' AS source, 'one more' AS target", "--out", "more", "--no-report", "--quiet"]
    assert clnr("embed", "--model", "mine", *more).code == 0
    assert "one more" in load_folder(files / "more").table_graph.graph.ids.tolist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--edges", "SELECT 1 AS source, 2 AS target"], "there is no such file"),
        (["--edges", "https://example.org/edges.csv"], "it is a URL"),
        (["--edges", "/dev/null"], "it is a pipe or a device"),
        (["--edges-query", "COPY (SELECT 1) TO 'evil.csv'"], "a query is one SELECT and nothing else"),
        (["--edges-query", "WITH x AS (COPY (SELECT 1) TO 'evil.csv') FROM x"], "the query of edges: a query only reads"),
        (["--edges", "edges.csv", "--edges-query", "SELECT 1"], "edges and edges_query are one table"),
        (["--edges", "edges.csv", "--nodes", "rowid.csv"], "it has two columns of the same name, 'rowid' and 'ROWID'"),
        (["--edges", "edges.csv", "--nodes", "wide.csv"], "wide.csv: "),
    ],
)
def test_what_is_no_table_is_one_line_and_leaves_nothing(clnr, files, words, said):
    (files / "rowid.csv").write_text("id,rowid,ROWID\na,1,2\n")
    (files / "wide.csv").write_text("x" * 1_000_000 + "\na\n")
    ended = clnr("embed", *words, "--out", "mine", *SMALL)
    assert_refused(ended)
    assert said in ended.err
    assert left(files) == {"rowid.csv", "wide.csv"}


def test_the_first_line_of_one_table_is_named(clnr, files):
    (files / "e.tsv").write_text("ann\tA\nann\tB\nbob\tB\n")
    (files / "n.csv").write_text("who,sort\nann,woman\nbob,woman\nA,event\nB,event\n")
    words = ["embed", "--edges", "e.tsv", "--nodes", "n.csv", "--dry-run", "--json"]
    assert "say which: --nodes-header or --no-nodes-header" in assert_refused(clnr(*words))
    assert only_json(clnr(*words, "--nodes-header"))["graph"]["edges"] == 3
    assert only_json(clnr(*words, "--header", "--no-edges-header"))["graph"]["edges"] == 3


def test_how_columns_are_read_is_told_and_changed(clnr, files):
    (files / "e.csv").write_text("buyer,seller,year\nann,bob,1999\nbob,cy,2000\n")
    (files / "n.csv").write_text("person,age,zip,code\nann,30,1000,7\nbob,40,1000,9\ncy,31,2000,9\n")
    np.save(files / "x.npy", np.eye(3))
    words = ["--edges", "e.csv", "--nodes", "n.csv", "--features", "zip,code", "--as", "zip=category", "--as", "code=number"]
    words += ["--ignore", "year", "--feature-matrix", "x.npy", "--header"]
    expected = [
        "edges 'buyer': source, text",
        "edges 'seller': target, text",
        "edges 'year': not used, number: ignored",
        "nodes 'person': id, text, none empty",
        "nodes 'age': not used, number, none empty",
        "nodes 'zip': feature, category, 2 values (1000, 2000), 2 features, none empty",
        "nodes 'code': feature, number, scaled to mean 0 and variance 1, 1 feature, none empty",
        "matrix 'x.npy': feature, dense matrix, divided by one number, 3 features",
    ]
    assert only_json(clnr("embed", *words, "--dry-run", "--json"))["columns"] == expected
    told = only_json(clnr("ingest", *words, "--out", "graph", "--quiet", "--json"))
    plan = only_json(clnr("embed", "--graph", "graph", "--dry-run", "--json"))
    assert plan["columns"] == expected
    assert told["edges"] == plan["graph"]["edges"] == 2
    assert clnr("embed", *words, "--out", "mine", *SMALL, "--quiet").code == 0
    shown = (files / "mine" / "report.html").read_text()
    assert "not used, number: ignored" in shown
    (files / "new.csv").write_text("source,target\nann,dan\n")
    (files / "dan.csv").write_text("person,zip,code\ndan,2000,8\n")
    np.save(files / "y.npy", np.ones((1, 3)))
    more = ["--edges", "new.csv", "--nodes", "dan.csv", "--feature-matrix", "y.npy", "--out", "more", "--no-report", "--quiet"]
    assert clnr("embed", "--model", "mine", *more).code == 0
    assert load_folder(files / "more").table_graph.graph.ids.tolist() == ["ann", "bob", "cy", "dan"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--edges", "n.csv"], "n.csv: it looks like a table of nodes"),
        (["--edges", "edges.csv", "--nodes", "n.csv", "--as", "x"], "--as must be COLUMN=KIND, such as year=number, not 'x'"),
        (["--edges", "edges.csv", "--nodes", "n.csv", "--as", "x=txt"], "unknown type for column 'x' 'txt'"),
        (["--graph", "g", "--as", "x=text"], "leave out --as"),
        (["--graph", "g", "--name", "x"], "leave out --name"),
        (["--edges", "edges.csv", "--until", "2020"], "until needs the column of the edges' times: edge_time (--edge-time)"),
        (["--graph", "g", "--no-header"], "leave out --header"),
        (["--graph", "g", "--no-nodes-header"], "leave out --nodes-header"),
        (["--edges", "edges.csv", "--allow-disjoint"], "--allow-disjoint goes with --model"),
    ],
)
def test_options_of_columns_that_cannot_be_are_one_line(clnr, files, words, said):
    (files / "n.csv").write_text("id,x\na,1\nb,2\n")
    ended = clnr("embed", *words, "--out", "mine", *SMALL)
    assert_refused(ended)
    assert said in ended.err


def test_json_tells_all_and_nothing_else(clnr, files):
    told = only_json(clnr(*EMBED, "--out", "mine", *SMALL, "--json", "--quiet"))
    assert (told["nodes"], told["dimension"], told["folder"]) == (80, 8, "mine")
    assert {"link_auc", "effective_rank", "strict_accuracy"} <= set(told["scores"])
    assert set(told["files"]) >= FILES


def test_it_is_what_python_gives(clnr, files):
    clnr(*EMBED, "--out", "mine", *SMALL, "--no-report")
    recipe = {"epochs": 3, "hidden": 16, "dimension": 8, "probe_steps": 20}
    made = NodeEmbedder(recipe=recipe, device="cpu").fit(read_tables("edges.csv", "nodes.parquet"))
    back = NodeEmbedder.load("mine")
    assert back.recipe_ == made.recipe_
    assert (back.embedding_ == made.embedding_).all()
    assert {name: back.scores_[name] for name in made.scores_} == pytest.approx(made.scores_)
    assert back.scores_.keys() - made.scores_.keys() == {"strict_accuracy", "validation_accuracy", "majority_accuracy"}


@pytest.mark.full
def test_tomorrows_nodes_join_todays_and_nothing_is_trained(clnr, files):
    # Without walks of up to 16 steps, so that nodes three steps away are not concerned.
    clnr(*EMBED, "--out", "mine", *SMALL, "--method", "CLNR", "--set", "structure=0")
    (files / "new-edges.csv").write_text("source,target\npaper:80,paper:3\npaper:80,paper:81\n")
    words = pq.read_table("nodes.parquet")["words"].to_pylist()
    pq.write_table(pa.table({"id": ["paper:80", "paper:81"], "words": [words[3], words[4]]}), "new-nodes.parquet")
    tables = ["--model", "mine", "--edges", "new-edges.csv", "--nodes", "new-nodes.parquet"]
    plan = only_json(clnr("embed", *tables, "--dry-run", "--json"))
    assert (plan["new_nodes"], plan["graph"]["nodes"], len(plan["columns"])) == (2, 82, 4)
    assert "edges 'source': source, text" in plan["columns"]
    said = "--model trains nothing: leave out --method, --set hidden=3 dimension=4, --resume\n"
    given = ["--method", "CLNR", "--set", "hidden=3", "--dimension", "4", "--resume"]
    assert assert_refused(clnr("embed", *tables, "--out", "tomorrow", *given)).endswith(said)
    ended = clnr("embed", *tables, "--out", "tomorrow")
    assert ended.code == 0, ended.err
    before, after = load_folder(files / "mine"), load_folder(files / "tomorrow")
    assert after.table_graph.graph.ids.tolist() == [f"paper:{i}" for i in range(82)]
    assert after.model.parameters.keys() == before.model.parameters.keys()
    near = {3}
    adjacency = before.table_graph.graph.to_scipy()
    for _ in range(2):
        near |= {int(j) for i in near for j in adjacency[[i]].indices}
    far = [i for i in range(80) if i not in near]
    assert len(far) > 5
    np.testing.assert_allclose(after.z[far], before.z[far], atol=1e-6)
    assert np.abs(after.z[3] - before.z[3]).max() > 1e-4
    assert len([line for line in ended.out.splitlines() if "AUC" in line or "rank" in line]) == 1
    assert "scores of the training, before these tables: link AUC 0." in ended.out
    assert "- 2 new nodes" in ended.err
    assert "- edges 'source': source, text" in ended.err
    assert "- nodes 'words': feature, vector" in ended.err
    shutil.copytree("mine", "daily")
    here = clnr("embed", "--model", "daily", *tables[2:], "--out", "./daily", "--force", "--no-report", "-q")
    assert "daily is the folder of the model itself: its graph and vectors are replaced" in here.err
    assert load_folder(files / "daily").table_graph.graph.num_nodes == 82
    again = clnr("embed", "--model", "tomorrow", "--edges", "new-edges.csv", "--nodes", "new-nodes.parquet", "--out", "later")
    assert again.code == 0
    np.testing.assert_allclose(load_folder(files / "later").z, after.z, atol=1e-6)


@pytest.mark.full
def test_alone_the_tables_are_a_graph_of_their_own(clnr, files):
    clnr(*EMBED, "--out", "mine", *SMALL)
    ended = clnr("embed", "--model", "mine", "--standalone", *EMBED[1:], "--out", "same", "--no-report", "--device", "cpu")
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(load_folder(files / "same").z, load_folder(files / "mine").z, atol=1e-6)


def test_edges_alone_are_embedded_by_structure(clnr, files):
    ended = clnr("embed", "--edges", "edges.csv", "--out", "mine", *SMALL, "--no-report")
    assert ended.code == 0, ended.err
    (files / "more.csv").write_text("source,target\npaper:3,unheard of\n")
    more = clnr("embed", "--model", "mine", "--edges", "more.csv", "--out", "more", "--no-report")
    assert more.code == 0, more.err
    assert "unheard of" in load_folder(files / "more").table_graph.graph.ids.tolist()


def test_other_forms(clnr, files):
    ended = clnr(
        *EMBED, "--out", "mine", *SMALL, "--no-report", "--format", "csv,npy", "--format", "word2vec", "--format", "pyg"
    )
    assert ended.code == 0, ended.err
    z = load_folder(files / "mine").z
    assert (np.load(files / "mine" / "embeddings.npy", allow_pickle=False) == z).all()
    rows = [line.split(",") for line in (files / "mine" / "embeddings.csv").read_text().splitlines()]
    assert rows[0][:2] == ["id", "v0"]
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), z, rtol=1e-6)
    first, *lines = (files / "mine" / "embeddings.w2v.txt").read_text().splitlines()
    assert first == "80 8"
    assert lines[5].split()[0] == "paper:5"
    import torch

    data = torch.load(files / "mine" / "embeddings.pyg.pt", weights_only=False)
    assert (data.z.numpy() == z).all()


def test_a_form_that_cannot_hold_the_ids_is_refused_before_the_work(clnr, files):
    (files / "two.csv").write_text("source,target\na b,a_b\na b,c\n")
    words = ["embed", "--edges", "two.csv", "--out", "mine", *SMALL, "--no-report", "--quiet", "--format"]
    assert "no blanks in ids, as in 'a b', and with underscores instead two ids" in assert_refused(clnr(*words, "word2vec"))
    assert clnr(*words, "csv").code == 0


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_form_that_changes_an_id_says_so(clnr, files):
    (files / "two.csv").write_text("source,target\na b,a\na b,c d\n")
    words = ["embed", "--edges", "two.csv", "--out", "mine", "--effort", "quick", "--no-report", "--quiet"]
    words += ["--format", "word2vec"]
    ended = clnr(*words)
    assert ended.code == 0, ended.err
    assert "2 ids of 3 have underscores instead, such as a_b for 'a b'" in ended.err
    lines = (files / "mine" / "embeddings.w2v.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["3", "a", "a_b", "c_d"]


@pytest.mark.full
def test_a_model_refuses_a_table_of_another_data_set_unless_told(clnr, files):
    (files / "cars.csv").write_text("id,power,price\npaper:80,3,4\npaper:81,5,6\n")
    (files / "plain.csv").write_text("id\npaper:80\n")
    clnr(*EMBED, "--out", "mine", "--method", "SVD", "--dimension", "8", "--device", "cpu", "--no-report", "--no-baselines")
    words = ["embed", "--model", "mine", "--out", "more", "--no-report", "--quiet", "--nodes"]
    said = "cars.csv: it has none of the columns that the model takes, such as 'words', so it seems to be of another data set"
    assert said in assert_refused(clnr(*words, "cars.csv"))
    assert clnr(*words, "cars.csv", "--allow-missing-columns").code == 0
    assert clnr(*words, "plain.csv", "--force").code == 0
    (files / "far.csv").write_text("source,target\nx,y\n")
    words = ["embed", "--model", "mine", "--out", "more", "--no-report", "--quiet", "--force", "--edges", "far.csv"]
    assert "none of its edges leads to a node of the earlier graph" in assert_refused(clnr(*words))
    assert clnr(*words, "--allow-disjoint").code == 0
    assert "goes with --model" in assert_refused(clnr(*EMBED, "--out", "other", "--allow-missing-columns"))


def test_one_node_gives_json_that_others_can_read(clnr, files):
    (files / "one.csv").write_text("source,target\na,a\n")
    told = only_json(clnr("embed", "--edges", "one.csv", "--out", "one", *SMALL, "--json", "--quiet"))
    assert told["scores"]["uniformity"] is None
    assert "NaN" not in (files / "one" / "metrics.jsonl").read_text()
    assert np.isnan(load_folder(files / "one").scores["uniformity"])


def test_a_plan_writes_nothing(clnr, files):
    ended = clnr(*EMBED, "--dry-run")
    assert ended.code == 0
    assert "nodes: 80" in ended.out
    assert ended.err == ""
    told = only_json(clnr(*EMBED, "--dry-run", "--json"))
    assert told["graph"]["nodes"] == 80
    assert told["memory_bytes"] > 0
    assert left(files) == set()


@pytest.mark.full
def test_an_existing_folder_is_kept_unless_told_otherwise(clnr, files):
    assert clnr(*EMBED, "--out", "mine", *SMALL).code == 0
    assert "--force" in assert_refused(clnr(*EMBED, "--out", "mine", *SMALL))
    assert left(files) == {"mine"}
    assert clnr(*EMBED, "--out", "mine", *SMALL, "--force", "--no-report").code == 0
    assert not (files / "mine" / "report.html").exists()
    (files / "mine" / "dear.txt").write_text("to me")
    assert "'dear.txt'" in assert_refused(clnr(*EMBED, "--out", "mine", *SMALL, "--force"))
    assert "which this command did not write" in assert_refused(clnr(*EMBED, "--out", ".", *SMALL, "--force"))
    assert (files / "mine" / "dear.txt").read_text() == "to me"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["embed", "--edges", "edges.csv"], "--out"),
        (["embed", "--out", "mine"], "--edges"),
        (["embed", "--edges", "edges.csv", "--out", "mine", "--method", "GCN"], "GCN is supervised"),
        (["embed", "--edges", "edges.csv", "--out", "mine", "--method", "GCN", *SMALL], "GCN is supervised"),
        ([*EMBED, "--out", "mine", "--method", "GCN", *SMALL], "supervised, and its labels (--label) say how wide"),
        ([*EMBED, "--out", "mine", "--tune", "-1"], "tune must be 0 or more (--tune), not -1"),
        ([*EMBED, "--out", "mine", "--set", "epoch=3"], "epochs"),
        ([*EMBED, "--out", "mine", "--method", "dCLNR", "--set", "moments=sampled"], "Whiten needs the rows of all nodes"),
        ([*EMBED, "--out", "mine", "--method", "CLRN"], "did you mean 'CLNR'"),
        ([*EMBED, "--out", "mine", "--format", "xml"], "word2vec"),
        ([*EMBED, "--out", "mine", "--source", "who"], "edges.csv: there is no column 'who'"),
        (
            [*EMBED, "--out", "mine", "--name", "title"],
            "nodes.parquet: there is no column 'title' for names; there are id, label",
        ),
        (["embed", "--edges", "edges.csv", "--out", "mine", "--name", "title"], "must be in the node table, and there is none"),
        ([*EMBED, "--out", "mine", "--seed", "-1"], "seed"),
        ([*EMBED, "--out", "mine", "--hold-out", "1"], "--hold-out"),
        ([*EMBED, "--out", "mine", "--model", "none"], "no such folder"),
        ([*EMBED, "--out", "edges.csv"], "is a file"),
        (["embed", "--edges", "none.csv", "--out", "mine"], "none.csv"),
        (["embed", "--edges", "none.csv", "--out", "deep/down/mine"], "none.csv"),
        (["similar", "none", "paper:1"], "no such folder"),
        (["report", "none"], "no such folder"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(words, said, clnr, files):
    assert said in assert_refused(clnr(*words))
    assert left(files) == set()


def test_a_broken_table_is_named_with_its_row_and_leaves_nothing(clnr, files):
    (files / "edges.csv").write_text("source,target,weight\npaper:1,paper:2,1\npaper:2,paper:3,heavy\n")
    said = assert_refused(clnr(*EMBED, "--out", "mine", *SMALL))
    assert "edges.csv" in said
    assert "'weight'" in said
    assert "row 2" in said
    assert left(files) == set()


def test_what_will_not_fit_is_refused_with_advice(clnr, files, monkeypatch):
    monkeypatch.setattr(memory_plan.memory, "free_memory", lambda device: 10**6)
    assert "dimension=64" in assert_refused(clnr(*EMBED, "--out", "mine", *SMALL, "--quiet"))
    assert left(files) == set()
    assert clnr(*EMBED, "--out", "mine", *SMALL, "--ignore-memory-check", "--no-report").code == 0


@pytest.mark.full
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_a_full_disk_leaves_nothing_half_written(clnr, files, monkeypatch, error):
    def full(*_):
        raise error

    monkeypatch.setattr(output_folder, "save_folder", full)
    ended = clnr(*EMBED, "--out", "mine", *SMALL)
    assert ended.code == 2
    assert "Traceback" not in ended.err
    assert left(files) == set()


@pytest.mark.full
def test_a_loss_that_is_not_finite_is_said_and_what_was_kept_stays_good(clnr, files, monkeypatch):
    words = [*EMBED, "--out", "mine", *SMALL, "--set", "epochs=9", "--checkpoint-every", "2", "--quiet", "--no-report"]
    right = Model.loss
    monkeypatch.setattr(Model, "loss", lambda self, p, moment: right(self, p, moment) * (nan if moment.epoch > 4 else 1))
    said = assert_refused(clnr(*words))
    assert "the loss became nan at epoch 6 of 9" in said
    assert "learning_rate" in said
    assert left(files) == {"mine.checkpoint"}
    monkeypatch.setattr(Model, "loss", right)
    assert clnr(*words, "--resume").code == 0
    assert clnr(*words, "--force", "--out", "whole").code == 0
    assert load_folder(files / "mine").losses == load_folder(files / "whole").losses


def test_the_longest_name_is_written_and_a_longer_one_refused_before_the_work(clnr, files):
    most = os.pathconf(files, "PC_NAME_MAX") - len("..checkpoint.clnr.part")
    quiet = [*SMALL, "--quiet", "--no-report", "--no-baselines", "--checkpoint-every", "1"]
    for name in ("x" * (most + 1), "ä" * (most // 2 + 1)):
        said = assert_refused(clnr("embed", "--edges", "none.csv", *quiet, "--out", name))
        assert f"bytes is too long; choose one of at most {most}" in said
    assert left(files) == set()
    name = "x" * most
    assert clnr(*EMBED, *quiet, "--out", name).code == 0
    assert left(files) == {name}


def test_the_root_is_no_folder_to_write_to(clnr, files):
    assert "/ is the root of a file system, which cannot be replaced" in assert_refused(clnr(*EMBED, "--out", "/"))


def test_a_loop_of_links_is_refused(clnr, files):
    (files / "loop").symlink_to("loop")
    for out in ("loop", "loop/below"):
        assert "loop" in assert_refused(clnr(*EMBED, "--out", out, *SMALL))
    assert left(files) == {"loop"}


# -- what is not ours, and who else is at work ------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """Tables read once, and training done at once, so that little but writing is done; returns what else training is to do."""
    import torch

    made, meanwhile = {}, []
    train, score = GraphInMemory.train, stages.score
    read = functools.cache(lambda edges, nodes, _: read_tables(edges, nodes))
    monkeypatch.setattr(job, "read_tables", lambda edges, nodes, **_: read(edges, nodes, Path.cwd()))

    def learned(graph, recipe, progress, checkpoint):
        for act in meanwhile:
            act()
        if checkpoint is not None:
            checkpoint.load()
            for done in (1, 2):
                checkpoint.save(done, {"written": torch.ones(2, 3), "weights": torch.full((3,), float(done))})
        seed, settings = graph.settings.seed, graph.settings
        if seed not in made:
            made[seed] = train(graph, recipe, None, None), vars(graph)
        vars(graph).update(made[seed][1] | {"settings": settings})
        return made[seed][0]

    def scored(samples, model, settings):
        if (settings.seed, "scores") not in made:
            made[settings.seed, "scores"] = score(samples, model, settings)
        return made[settings.seed, "scores"]

    monkeypatch.setattr(GraphInMemory, "train", learned)
    monkeypatch.setattr(stages, "score", scored)
    return meanwhile


@pytest.mark.full
def test_a_checkpoint_of_the_users_own_is_neither_removed_nor_overwritten(clnr, files, quick):
    own = files / "thesis.checkpoint"
    own.write_text("years of work")
    words = [*EMBED, "--out", "thesis", *SMALL, "--no-report", "--quiet"]
    for more in ("--checkpoint-every=1", "--resume"):
        assert "is not a checkpoint of clnr" in assert_refused(clnr(*words, more))
        assert left(files) == {"thesis.checkpoint"}
    assert clnr(*words).code == 0
    assert left(files) == {"thesis", "thesis.checkpoint"}
    assert own.read_text() == "years of work"


@pytest.mark.full
@pytest.mark.parametrize("force", [False, True])
def test_what_is_put_into_the_folder_meanwhile_is_not_lost_nor_is_the_embedding(force, clnr, files, quick):
    words = [*EMBED, "--out", "mine", *SMALL, "--no-report", "--quiet", *(["--force"] if force else [])]
    if force:
        assert clnr(*words).code == 0
    (files / "mine").mkdir(exist_ok=True)
    quick.append(lambda: (files / "mine" / "notes.txt").write_text("dear me"))
    said = assert_refused(clnr(*words))
    assert "holds 'notes.txt'" in said
    assert said.endswith("mine-2\n")
    assert (files / "mine" / "notes.txt").read_text() == "dear me"
    assert left(files) == {"mine", "mine-2"}
    assert load_folder(files / "mine-2").z.shape == (80, 8)
    if force:
        assert load_folder(files / "mine").z.shape == (80, 8)


def test_a_folder_with_tables_of_ones_own_is_not_overwritten(clnr, files):
    (files / "mine").mkdir()
    (files / "nodes.parquet").rename(files / "mine" / "nodes.parquet")
    words = ["embed", "--edges", "edges.csv", "--nodes", "mine/nodes.parquet", "--out", "mine", *SMALL, "--force"]
    assert "holds 'nodes.parquet', which this command did not write" in assert_refused(clnr(*words))


def test_two_at_once_to_one_folder_the_second_is_refused_before_it_reads(clnr, files, quick, monkeypatch):
    words = [*EMBED, "--out", "mine", *SMALL, "--no-report", "--quiet"]
    monkeypatch.setattr(job, "read_tables", lambda *a, **b: pytest.fail("it should not have begun"))
    with reserve_folder(files / "mine", OWNED_FILES):
        assert "mine is being written by another process" in assert_refused(clnr(*words))
        assert "by another process" in assert_refused(clnr(*words, "--force", "--resume"))
    assert left(files) == set()


@pytest.mark.full
@pytest.mark.parametrize("before", [False, True], ids=["afresh", "over another"])
def test_a_kill_at_any_moment_loses_nothing_and_leaves_nothing(before, files, quick, monkeypatch):
    """At each fsync, rename, unlink, mkdir and rmdir of a whole command."""
    recipe = [word for word in SMALL if "=" in word]
    command = functools.partial(
        cli.cmd_embed.embed, edges=["edges.csv"], nodes=["nodes.parquet"], assign=recipe, report=False, quiet=True
    )
    command(folder=Path("earlier"), seed=5)
    moments = []
    for at in itertools.count():
        out = Path(f"mine-{at}")
        if before:
            shutil.copytree("earlier", out)
        try:
            with killed(monkeypatch, at) as passed:
                command(folder=out, checkpoint_every=1, force=before)
        except Killed:
            moments += passed[-1:]
            if before:
                assert load_folder(out).model.seed in (0, 5)
            command(folder=out, checkpoint_every=1, force=before, resume=True)
            assert load_folder(out).model.seed == 0
            assert left(files) == {"earlier", out.name}
            shutil.rmtree(out)
        else:
            break
    assert load_folder(out).model.seed == 0
    assert left(files) == {"earlier", out.name}
    assert {*moments} >= {"fsync", "replace", "unlink", "mkdir", "exchange" if before else "rename"}
    assert len(moments) > 20


@pytest.mark.full
def test_a_training_that_was_to_overwrite_another_is_resumed(clnr, files, quick):
    words = [*EMBED, "--out", "mine", *SMALL, "--no-report", "--quiet", "--resume"]
    assert clnr(*words).code == 0
    assert "its seed is 0" in assert_refused(clnr(*words, "--seed", "3"))
    assert clnr(*words, "--seed", "3", "--force").code == 0


# -- stops ------------------------------------------------------------------------------------------------------------------

LONG = [*EMBED, "--set", "epochs=200", "--set", "hidden=16", "--set", "dimension=8", "--device", "cpu"]
LONG += ["--no-report", "--no-baselines"]


def begun(*words):
    # One thread, as here: a matrix product's last bits depend on how many there are.
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-m", "clnr", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.full
def test_a_stopped_training_goes_on_bit_for_bit(clnr, files):
    assert clnr(*LONG, "--out", "whole").code == 0
    whole = load_folder(files / "whole")
    for out, how, code in (("killed", signal.SIGKILL, -signal.SIGKILL), ("stopped", signal.SIGINT, 130)):
        words = [*LONG, "--out", out, "--checkpoint-every", "20"]
        with begun(*words) as process:
            deadline = time.monotonic() + 600
            while not (files / f"{out}.checkpoint").exists() and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(how)
            _, err = process.communicate(timeout=600)
        if process.returncode == 0:
            pytest.skip("it had ended before it could be stopped")
        assert process.returncode == code, err
        assert b"Traceback" not in err
        ended = clnr(*words, "--resume")
        assert ended.code == 0, ended.err
        mine = load_folder(files / out)
        assert (whole.z == mine.z).all()
        assert whole.losses == mine.losses
    assert left(files) == {"whole", "killed", "stopped"}


@pytest.mark.full
def test_resume_on_a_finished_folder_succeeds(clnr, files):
    clnr(*EMBED, "--out", "mine", *SMALL, "--no-report")
    before = (files / "mine" / "embeddings.parquet").stat().st_mtime_ns
    ended = clnr(*EMBED, "--out", "mine", *SMALL, "--resume")
    assert ended.code == 0
    assert "finished" in ended.err
    assert (files / "mine" / "embeddings.parquet").stat().st_mtime_ns == before
    said = assert_refused(clnr(*EMBED, "--out", "mine", *SMALL, "--set", "temperature=0.3", "--seed", "2", "--resume"))
    assert "its seed is 0" in said
    assert "its temperature is 0.5" in said


@pytest.mark.full
def test_resume_without_a_state_starts_afresh(clnr, files):
    ended = clnr(*EMBED, "--out", "mine", *SMALL, "--resume", "--no-report")
    assert ended.code == 0
    assert "starts from scratch" in ended.err


@pytest.mark.full
def test_a_state_of_another_recipe_is_refused(clnr, files):
    with begun(*LONG, "--out", "mine", "--checkpoint-every", "1") as process:
        deadline = time.monotonic() + 600
        while not (files / "mine.checkpoint").exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.005)
        if (files / "mine.checkpoint").exists() and process.poll() is None:
            assert "mine is being written by another process" in assert_refused(clnr(*LONG, "--out", "mine", "--seed", "2"))
        process.kill()
        process.communicate()
    if not (files / "mine.checkpoint").exists():
        pytest.skip("it had ended before it could be stopped")
    assert "temperature was 0.5 and is 0.3" in assert_refused(
        clnr(*LONG, "--out", "mine", "--set", "temperature=0.3", "--resume", "--quiet")
    )


# -- similar, report --------------------------------------------------------------------------------------------------------


def test_similar_nodes(clnr, files):
    clnr(*EMBED, "--out", "mine", *SMALL, "--no-report")
    found = only_json(clnr("similar", "mine", "paper:5", "-k", "4", "--json"))
    embedder = NodeEmbedder.load("mine")
    assert [(row["id"], pytest.approx(row["cosine"], abs=1e-5)) for row in found] == embedder.similar("paper:5", 4)
    graph = embedder._result.table_graph.graph
    joined = set(graph.outgoing.indices[graph.outgoing.indptr[5] : graph.outgoing.indptr[6]].tolist())
    assert [row["linked"] for row in found] == [int(row["id"].removeprefix("paper:")) in joined for row in found]
    assert all(row["label"].startswith("field ") for row in found)
    shown = clnr("similar", "mine", "paper:5", "-k", "4")
    assert all(row["id"] in shown.out for row in found)
    assert "no node 'paper:500'; did you mean 'paper:50'" in assert_refused(clnr("similar", "mine", "paper:500"))
    assert "-k" in assert_refused(clnr("similar", "mine", "paper:5", "-k", "0"))


def words_of(folder):
    """The texts of a report."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="words">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.full
def test_names_are_shown_and_the_folder_remembers_them(clnr, files):
    nodes = pq.read_table("nodes.parquet")
    titles, others = ([f"{word} \x1b[31m{i}" for i in range(80)] for word in ("Title", "Other"))
    pq.write_table(nodes.append_column("title", [titles]).append_column("other", [others]), "nodes.parquet")
    assert clnr(*EMBED, "--out", "mine", *SMALL).code == 0
    assert words_of(files / "mine")["names"] == titles
    found = only_json(clnr("similar", "mine", "paper:5", "-k", "3", "--json"))
    assert [row["name"] for row in found] == [titles[int(row["id"].removeprefix("paper:"))] for row in found]
    shown = clnr("similar", "mine", "paper:5", "-k", "3").out
    assert shown.split()[:2] == ["name", "id"]
    assert f"Title \\x1b[31m{found[0]['id'].removeprefix('paper:')} {found[0]['id']} " in " ".join(shown.split())
    assert "\x1b" not in shown
    by_name = clnr("similar", "mine", "TITLE \x1b[31m5", "-k", "3", "--json")
    assert (json.loads(by_name.out), "is the name of 'paper:5'" in by_name.err) == (found, True)
    before = (files / "mine" / "report.html").read_bytes()
    assert "there is no column 'toher' for names" in assert_refused(clnr("report", "mine", "--name", "toher"))
    assert (files / "mine" / "report.html").read_bytes() == before
    assert clnr("report", "mine", "--name", "OTHER").code == 0
    assert words_of(files / "mine")["names"] == others
    assert only_json(clnr("similar", "mine", "paper:5", "-k", "1", "--json"))[0]["name"].startswith("Other")
    assert clnr(*EMBED, "--out", "mine", *SMALL, "--resume").code == 0
    assert "report mine --name title" in assert_refused(clnr(*EMBED, "--out", "mine", *SMALL, "--resume", "--name", "title"))
    assert clnr("report", "mine", "--name", "id").code == 0
    assert words_of(files / "mine")["names"] == []
    assert "name" not in clnr("similar", "mine", "paper:5").out


@pytest.mark.full
def test_the_report_is_written_anew_and_opened(clnr, files, monkeypatch):
    clnr(*EMBED, "--out", "mine", *SMALL, "--no-report")
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    ended = clnr("report", "mine", "--open")
    assert ended.code == 0
    assert ended.out.strip() == str(Path("mine", "report.html"))
    assert opened == [(files / "mine" / "report.html").absolute().as_uri()]


@pytest.mark.full
def test_open_draws_only_if_something_changed(clnr, files, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    page = files / "mine" / "report.html"
    clnr(*EMBED, "--out", "mine", *SMALL)
    drawn = page.read_bytes()
    page.write_bytes(drawn.replace(b"<body>", b"<body>seen before"))
    assert clnr("report", "mine", "--open").out.strip() == str(Path("mine", "report.html"))
    assert b"seen before" in page.read_bytes()
    assert clnr("report", "mine").code == 0
    assert page.read_bytes() == drawn
    clnr(*EMBED, "--out", "mine", *SMALL, "--seed", "1", "--no-report", "--force")
    page.write_bytes(drawn)
    assert clnr("report", "mine", "--open").code == 0
    assert page.read_bytes() != drawn
    for stale in (b"", drawn[:-1]):
        page.write_bytes(stale)
        clnr("report", "mine", "--open")
        assert page.read_bytes() not in (stale, drawn)


@pytest.mark.full
def test_the_report_keeps_its_layout_until_another_is_asked_for(clnr, files, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    page = files / "mine" / "report.html"
    assert clnr(*EMBED, "--out", "mine", *SMALL, "--layout", "tsne").code == 0
    tsne = page.read_bytes()
    assert b'<meta name="layout" content="tsne">' in tsne
    for words in (("--open",), ("--layout", "tsne", "--open"), ()):
        assert clnr("report", "mine", *words).code == 0
        assert page.read_bytes() == tsne
    page.write_bytes(tsne.replace(b"<body>", b"<body>seen before"))
    assert clnr("report", "mine", "--layout", "tsne", "--open").code == 0
    assert b"seen before" in page.read_bytes()
    assert clnr("report", "mine", "--layout", "fast", "--open").code == 0
    assert drawn_layout(files / "mine") == "fast"
    assert "unknown layout 'tnse'; did you mean 'tsne'?" in assert_refused(clnr("report", "mine", "--layout", "tnse"))
    assert "unknown layout 'pca'" in assert_refused(clnr(*EMBED, "--out", "other", "--layout", "pca"))
    assert "leave out --no-report" in assert_refused(clnr(*EMBED, "--out", "other", "--layout", "tsne", "--no-report"))


def test_a_layout_whose_library_is_missing_is_refused_before_training(clnr, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    assert "pip install 'clnr[maps]'" in assert_refused(clnr(*EMBED, "--out", "mine", "--layout", "umap"))
    assert not (files / "mine").exists()


@pytest.mark.full
def test_tuning_chooses_by_validation(clnr, files):
    pytest.importorskip("optuna")
    ended = clnr(*EMBED, "--out", "mine", *SMALL, "--no-report", "--tune", "3")
    assert ended.code == 0, ended.err
    assert "trial 3 of 3: validation accuracy" in ended.err
    recipe = load_folder(files / "mine").model.recipe
    assert (recipe.hidden, recipe.dimension, recipe.epochs) == (16, 8, 3)
    unlabelled = clnr("embed", "--edges", "edges.csv", "--out", "bare", *SMALL, "--no-report", "--tune", "2")
    assert "AUC of edges" in unlabelled.err


def test_without_optuna_it_says_how_to_get_it(clnr, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "clnr[tune]" in assert_refused(clnr(*EMBED, "--out", "mine", *SMALL, "--tune", "3", "--quiet"))
