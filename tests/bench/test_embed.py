from __future__ import annotations

import argparse
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks import _processes, _rivals, embed

from clnr.datasets import load
from clnr.errors import ClnrError
from tests.command_line import this_python


def test_tables_have_the_graph(tmp_path):
    assert embed.write_tables("toy", tmp_path)
    graph = load("toy")
    source, target = _rivals.read_edges(tmp_path)
    found = {frozenset(pair) for pair in zip(source.tolist(), target.tolist(), strict=True)}
    assert found == {frozenset(pair) for pair in zip(*(side.tolist() for side in graph.edges()[:2]), strict=True)}
    assert len(source) == len(found)
    nodes = pq.read_table(tmp_path / "nodes.parquet")
    assert np.array_equal(np.stack(nodes["x"].to_numpy()), graph.features.toarray())
    assert nodes["label"].to_pylist() == [f"class-{label}" for label in graph.labels]


def test_a_generated_graph_has_ten_edges_for_each_node_and_nothing_to_learn(tmp_path):
    assert not embed.write_tables("500", tmp_path)
    assert pq.read_metadata(tmp_path / "nodes.parquet").num_rows == 500
    assert 4000 < pq.read_metadata(tmp_path / "edges.parquet").num_rows <= 5150
    assert pq.read_table(tmp_path / "nodes.parquet")["x"].type.list_size == 3


def test_accuracy_is_that_of_nodes_the_probe_has_not_seen(tmp_path):
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 1000)
    pq.write_table(pa.table({"label": np.char.add("class-", labels.astype(str))}), tmp_path / "nodes.parquet")
    noise = random.normal(size=(1000, 30))
    assert embed.accuracy(tmp_path, noise) == pytest.approx(50, abs=6)
    assert embed.accuracy(tmp_path, np.column_stack([noise[:, 0], labels])) == 100


def python(script, most_seconds=None):
    return _processes.run([sys.executable, "-c", script], os.environ, most_seconds)


def test_a_process_is_measured_and_its_failure_told():
    done = python("held = bytearray(3 * 10**8); held[::4096] = b'1' * len(held[::4096]); print('made')")
    assert (done.output, done.failure) == ("made\n", None)
    assert 3e8 < done.peak < 4e8
    assert 0 < done.seconds < 60
    failing = {
        "raise ValueError('no such thing')": "ValueError: no such thing",
        "import os; os.kill(os.getpid(), 15)": "ended by SIGTERM",
    }
    assert {script: python(script).failure for script in failing} == failing
    stopped = python("import time; time.sleep(60)", 1)
    assert stopped.failure == "took more than 1 s, or too much memory"
    assert 1 <= stopped.seconds < 30


def test_the_first_turn_is_the_cold_one_or_does_not_count():
    turns = [_processes.Finished(seconds, seconds, "", None) for seconds in (9, 4, 3)]
    cold, warm = embed.Row("cora", "quick"), embed.Row("cora", "quick")
    for place, done in enumerate(turns):
        cold.add(done, place == 0, cold=True)
        warm.add(done, place == 0, cold=False)
    assert (cold.cold_seconds, cold.seconds, cold.peak_bytes) == (9, [4, 3], 9)
    assert (warm.cold_seconds, warm.seconds) == (None, [4, 3])
    warm.add(_processes.Finished(1, 1, "", "exit code 1"), False, cold=False)
    assert warm.failure == "exit code 1"


@pytest.mark.usefixtures("options")
def test_who_is_not_known_is_refused():
    with pytest.raises(ClnrError, match=r"--only takes some of quick, standard, pycleora, .*, not cleora"):
        embed.taking_part(["quick", "cleora"], sys.executable)


@pytest.mark.parametrize("who", ["PyG Node2Vec", "plain PyG CLNR"])
def test_rivals_give_a_row_per_node(tmp_path, monkeypatch, who):
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn.models import node2vec

    monkeypatch.setattr(node2vec, "WITH_PYG_LIB", False)
    embed.write_tables("150", tmp_path)
    vectors = _rivals.RIVALS[who].embed(tmp_path, _rivals.Asked(8, 1))
    assert vectors.shape == (150, 8)
    assert np.isfinite(vectors).all()
    assert len(np.unique(vectors, axis=0)) > 100


@pytest.mark.slow
def test_efforts_and_rivals_take_turns(monkeypatch):
    for name, value in this_python().items():
        monkeypatch.setenv(name, value)
    missing = _rivals.RIVALS["pycleora"]._replace(packages=("no_such_package",))
    monkeypatch.setitem(_rivals.RIVALS, "pycleora", missing)
    asked = {"only": ["quick", "pycleora"], "python": sys.executable, "dimension": 16, "node2vec_epochs": 1}
    where = {"device": "cpu", "most_seconds": 600, "turns": 1, "cold": False}
    quick, pycleora = embed.compare("150", argparse.Namespace(**asked, **where))
    assert pycleora.failure == f"{sys.executable} has no no_such_package"
    assert (quick.failure, len(quick.seconds), quick.accuracy) == (None, 1, None)
    assert quick.cold_seconds is None
    assert quick.peak_bytes > 2**26
    assert sum(each["seconds"] for each in quick.stages) < quick.seconds[0]
