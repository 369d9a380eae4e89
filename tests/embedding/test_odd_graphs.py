"""Graphs of odd shapes are embedded in every way with finite vectors, or refused in one line."""

from __future__ import annotations

import json
from itertools import combinations, pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.command_line import Ended, assert_refused, outside

SHORT = ("--set", "epochs=3")
FILES = ("--memory", "2 GB")


def sampled(count: int) -> tuple[str, ...]:
    """What a small graph needs to be trained by several workers or from its files."""
    return "--set", "moments=sampled", "--set", f"sampled_nodes={min(count - 1, 64)}"


# The edges of each graph, and how many nodes it has.
PATH = list(pairwise(f"n{i}" for i in range(100)))
PAIRS = [(f"a{i}", f"b{i}") for i in range(50)]
GRAPHS = {
    "pairs": (PAIRS, 100),
    "star": ([("hub", f"leaf{i}") for i in range(3000)], 3001),
    "path": (PATH, 100),
    "two kinds": (PAIRS, 100),
    "three nodes": (PATH[:2], 3),
    "complete": (list(combinations("abcde", 2)), 5),
    "few with edges": (PATH[:60], 300),
}
NO_LINKS = ("three nodes", "complete")
"""Graphs with fewer than two edges to hold out, or too few pairs without an edge."""
each_graph = pytest.mark.parametrize("name", GRAPHS)


def tables(folder, pairs, name: str = "", count: int = 0) -> tuple[str, ...]:
    """Options that name the tables of a graph, which this writes."""
    edges, nodes = folder / "e.csv", folder / "n.csv"
    edges.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    if name == "two kinds":
        return "--edges", f"user,owns,item={edges}"
    if name != "few with edges":
        return "--edges", str(edges)
    nodes.write_text("id,age\n" + "".join(f"n{i},{i * 7 % 31}\n" for i in range(count)))
    return "--edges", str(edges), "--nodes", str(nodes)


def embedded(call, out, *words: str) -> Ended:
    """How an embedding on the CPU, without a report, has ended."""
    return call("embed", *words, "--out", str(out), "--set", "device=cpu", "--no-report")


def assert_finite(ended, out, count: int) -> None:
    """The run has succeeded, and vectors, losses and scores are finite."""
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    whole = out / "embeddings.parquet"
    paths = [whole] if whole.is_file() else sorted((out / "embeddings").iterdir())
    shards = [pq.read_table(path) for path in paths]
    vectors = np.concatenate([np.stack(shard["vector"].to_pylist()) for shard in shards])
    assert len({each for shard in shards for each in shard["id"].to_pylist()}) == len(vectors) == count
    assert np.isfinite(vectors).all()
    for line in (out / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize("way", ["default", "quick"])
@each_graph
def test_in_memory(name, way, clnr, tmp_path):
    (pairs, count), out = GRAPHS[name], tmp_path / "out"
    words = {"default": SHORT if name == "star" else (), "quick": ("--effort", "quick")}[way]
    assert_finite(embedded(clnr, out, *tables(tmp_path, pairs, name, count), *words), out, count)


def assert_no_links(ended) -> None:
    """The last line, after the plan, says that too few edges can be held out."""
    assert (ended.code, ended.out) == (2, "")
    assert "needs 2 held-out edges" in ended.err.splitlines()[-1]


@each_graph
def test_for_links(name, clnr, tmp_path):
    (pairs, count), out = GRAPHS[name], tmp_path / "out"
    ended = embedded(clnr, out, *tables(tmp_path, pairs, name, count), "--for", "links", *SHORT)
    if name in NO_LINKS:
        assert_no_links(ended)
    else:
        assert_finite(ended, out, count)


@pytest.mark.usefixtures("bounded_from_files")
@each_graph
def test_from_a_graph_folder(name, clnr, tmp_path):
    (pairs, count), folder = GRAPHS[name], tmp_path / "graph"
    assert clnr("ingest", *tables(tmp_path, pairs, name, count), "--out", str(folder), "-q").code == 0
    for words in ((), (*FILES, *sampled(count)), (*FILES, "--effort", "quick")):
        out, short = tmp_path / f"out{len(words)}", () if "quick" in words else SHORT
        assert_finite(embedded(clnr, out, "--graph", str(folder), *words, *short), out, count)


@pytest.mark.full
@each_graph
def test_by_two_workers(name, tmp_path):
    (pairs, count), out = GRAPHS[name], tmp_path / "out"
    small = () if name == "star" else sampled(count)
    words = (*tables(tmp_path, pairs, name, count), "--workers", "2", *SHORT, *small)
    assert_finite(embedded(outside, out, *words), out, count)


@pytest.mark.usefixtures("bounded_from_files")
@pytest.mark.parametrize("words", [(), ("--effort", "quick"), ("--for", "links")])
def test_two_nodes_are_refused(words, clnr, tmp_path):
    given = tables(tmp_path, PAIRS[:1])
    assert_refused(embedded(clnr, tmp_path / "out", *given, *words))
    assert clnr("ingest", *given, "--out", str(tmp_path / "graph"), "-q").code == 0
    stored = "--graph", str(tmp_path / "graph"), *FILES, *words
    assert_refused(embedded(clnr, tmp_path / "out", *stored))


def test_one_held_out_edge_scores_but_cannot_choose(clnr, tmp_path):
    given, out = tables(tmp_path, PAIRS[:25]), tmp_path / "out"
    assert_no_links(embedded(clnr, tmp_path / "links", *given, "--for", "links", *SHORT))
    assert_finite(embedded(clnr, out, *given, *SHORT), out, 50)
