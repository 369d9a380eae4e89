"""``--resume`` and the run cache answer for the very data and settings that are asked for, wherever the graph is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from clnr.embedding import embed, workspace
from clnr.embedding.scoring.judges import Judge
from clnr.training.checkpoint import Checkpoint
from tests.command_line import assert_refused, only_json

NUMBERS = ["--set", "device=cpu", "--set", "precision=float32", "--set", "threads=1", "--no-report", "--no-baselines"]
SAMPLED = ["--set", "epochs=4", "--set", "moments=sampled", "--set", "sampled_nodes=30", *NUMBERS]
SMALL = ["--set", "method=CLNR", "--set", "hidden=8", "--set", "dimension=8", *SAMPLED]
FILES = ["--memory", "1 GB"]


class Killed(BaseException):
    """Nothing catches it."""


@pytest.fixture
def world(tmp_path, monkeypatch, clnr, bounded_from_files):
    """Tables of 60 nodes, also as a graph folder; and a function that writes both anew, with another id or class."""
    monkeypatch.chdir(tmp_path)

    def write(first="n0", label="x"):
        ends = [(i, (i * i + 7) % 60) for i in range(60)] + [(i, (i + 1) % 60) for i in range(60)]
        names = [first, *(f"n{i}" for i in range(1, 60))]
        edges = "".join(f"{names[a]},{names[b]}\n" for a, b in ends if a != b)
        nodes = "".join(f"{names[i]},Title {i},{i % 7},{i * i % 5},{(label, 'y')[i % 3 > 0]}\n" for i in range(60))
        (tmp_path / "e.csv").write_text("source,target\n" + edges)
        (tmp_path / "n.csv").write_text("id,title,age,size,field\n" + nodes)
        assert clnr("ingest", *TABLES, "--out", "graph", "--force").code == 0

    write()
    return write


TABLES = ["--edges", "e.csv", "--nodes", "n.csv", "--label", "field"]
WAYS = {"memory": TABLES, "folder": ["--graph", "graph"], "files": ["--graph", "graph", *FILES]}


def ids_of(folder):
    """The ids of an embedding, in one file or in several."""
    (name,) = {path.name for path in folder.glob("embeddings*")}
    return pq.read_table(folder / name)["id"].to_pylist()


# -- finished runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_finished_run_answers_for_its_own_tables_alone(clnr, world, tmp_path, way):
    words = ["embed", *WAYS[way], *SMALL, "--out", "m"]
    assert clnr(*words).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()}
    assert clnr(*words, "--resume").code == 0
    world(label="w")
    assert "graph" in assert_refused(clnr(*words, "--resume"))
    world(first="zero")
    assert "graph" in assert_refused(clnr(*words, "--resume"))
    assert {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()} == before
    assert clnr(*words, "--resume", "--force").code == 0
    assert "zero" in ids_of(tmp_path / "m")


@pytest.mark.usefixtures("world")
def test_where_the_graph_is_does_not_count(clnr, tmp_path):
    prints = []
    for way, words in WAYS.items():
        assert clnr("embed", *words, *SMALL, "--out", way).code == 0
        prints.append(json.loads((tmp_path / way / "fingerprint.json").read_text()))
    assert prints[0] == prints[1] == prints[2]
    for words in WAYS.values():
        for way in WAYS:
            assert clnr("embed", *words, *SMALL, "--out", way, "--resume").code == 0


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("change", [["--for", "links"], ["--set", "hold_out=0.2"], ["--set", "seed=1"], ["--set", "epochs=5"]])
def test_a_finished_run_answers_for_its_own_settings_alone(clnr, change):
    # A purpose has a method of its own.
    words = ["embed", *TABLES, *(SMALL[2:] if change[0] == "--for" else SMALL), "--out", "m"]
    assert clnr(*words).code == 0
    assert_refused(clnr(*words, *change, "--resume"))


# -- the run cache ----------------------------------------------------------------------------------------------------------


def test_a_record_is_of_the_very_graph(clnr, world):
    def contents():
        assert clnr("run", "CLNR", "graph", "--set", "epochs=2", "--device", "cpu").code == 0
        return [each["content"] for each in only_json(clnr("runs", "--json"))]

    first = contents()
    assert contents() == first
    world(first="zero")
    assert len({*contents()}) == len(first) + 1 == 2


# -- stopped runs -----------------------------------------------------------------------------------------------------------


def stopped(clnr, monkeypatch, words, holder, name, after=0):
    """The command, which is killed when a function is called for the ``after``-th time, from 0 on."""
    calls, call = [], getattr(holder, name)

    def killed(*args, **more):
        calls.append(name)
        if len(calls) > after:
            raise Killed
        return call(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(holder, name, killed)
        with pytest.raises(Killed):
            clnr(*words)


@pytest.mark.parametrize(("way", "name"), [("memory", "score"), ("files", "write_vectors")], ids=["memory", "files"])
def test_a_stopped_run_answers_for_its_own_tables_alone(clnr, world, monkeypatch, way, name):
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    words = ["embed", *WAYS[way], *SMALL, "--out", "m"]
    stopped(clnr, monkeypatch, words, embed, name)
    left = {path: path.read_bytes() for path in Path().rglob("*.clnr.*/*") if path.is_file()}
    assert left
    assert "of a run that was stopped" in assert_refused(clnr(*words))
    for first, more, differs in (("zero", [], "graph"), ("n0", ["--set", "seed=1"], "seed")):
        world(first=first)
        refused = clnr(*words, *more, "--resume")
        assert (refused.code, refused.out) == (2, "")
        assert differs in refused.err.splitlines()[-1]
    assert {path: path.read_bytes() for path in left} == left
    assert clnr(*words, "--resume").code == 0
    stopped(clnr, monkeypatch, [*words, "--force"], embed, name)
    assert clnr(*words, "--force").code == 0


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("first", ["memory", "files"])
def test_a_run_that_was_stopped_in_one_mode_goes_on_in_the_other(clnr, monkeypatch, first):
    words = ["embed", "--graph", "graph", *SMALL, "--out", "m"]
    more = [], FILES
    before, after = more if first == "memory" else more[::-1]
    stopped(clnr, monkeypatch, [*words, *before], embed, "write_vectors")
    monkeypatch.setattr(embed, "train", lambda *_: pytest.fail("it was trained again"))
    assert clnr(*words, *after, "--resume").code == 0


@pytest.mark.usefixtures("world")
def test_a_kill_between_the_readout_and_its_notes_keeps_what_was_chosen(clnr, monkeypatch, tmp_path):
    monkeypatch.setattr(Judge, "best", lambda self, usual, others: 4 if 4 in others else None)
    words = ["embed", *WAYS["files"], "--for", "labels", *SAMPLED]
    assert clnr(*words, "--out", "whole").code == 0
    stopped(clnr, monkeypatch, [*words, "--out", "m"], workspace, "_write_kept", after=1)
    assert clnr(*words, "--out", "m", "--resume").code == 0
    recipes = [tomllib.loads((tmp_path / out / "recipe.toml").read_text())["recipe"] for out in ("whole", "m")]
    assert recipes[0] == recipes[1]
