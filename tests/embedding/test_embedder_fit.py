"""``NodeEmbedder(workers=...)``: several processes give what one gives, and never run the caller's script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks._graph_folders import write_graph

from clnr import NodeEmbedder
from clnr.embedding import embedder_fit, fit_worker
from clnr.embedding.embedder_parameters import embedder_settings
from clnr.embedding.fit_worker import do_task, read_task, tell_error
from clnr.embedding.planning import file_plan
from clnr.errors import ClnrError, DataError, LostWorker, MethodError, RecipeError, UnknownName
from clnr.graph import Graph
from clnr.support.processes.launch import FAILED, STOPPED, USER_ERROR

OPTIONS = {
    "method": "CLNR",
    "device": "cpu",
    "precision": "float32",
    "threads": 1,
    "recipe": {"epochs": 5, "hidden": 8, "dimension": 8, "sampled_nodes": 40, "moments": "sampled", "structure": 0},
}
# As a user writes it: without if __name__ == "__main__".
SCRIPT = """
import sys
print("once")
import numpy as np
from tests.embedding.test_embedder_fit import OPTIONS, a_graph
from clnr import NodeEmbedder

embedder = NodeEmbedder(**OPTIONS, workers=2, verbose=True).fit(a_graph())
np.save(sys.argv[1], embedder.embedding_)
"""


def a_graph() -> Graph:
    random = np.random.default_rng(3)
    source, target = random.integers(0, 120, (2, 500))
    return Graph.from_edges(source, target, random.normal(size=(120, 5)).astype(np.float32), ids=np.arange(120) * 2)


@pytest.mark.full
def test_a_script_without_a_guard_is_run_once(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    words = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "z.npy")]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "once\n"
    assert "2 workers: each sends" in ended.stderr
    one = NodeEmbedder(**OPTIONS).fit(a_graph())
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), one.embedding_, rtol=1e-4, atol=1e-5)


def in_a_group(monkeypatch):
    """As torchrun starts one of two workers."""
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost")):
        monkeypatch.setenv(name, value)


@pytest.fixture
def in_this_process(monkeypatch):
    """Jobs are done here, by one worker; how often one was lost before."""
    told = []

    def launch(command, workers, restarts, say, folder):
        assert repr(str(folder)) in command[-1]
        told.append((workers, json.dumps(sorted(path.name for path in folder.iterdir()))))
        job = read_task(folder)
        try:
            do_task(job, embedder_settings(job.parameters), folder)
        except ClnrError as error:
            tell_error(error, folder)
            return USER_ERROR
        return 0

    monkeypatch.setattr(embedder_fit, "launch", launch)
    return told


def test_the_result_is_that_of_a_fit(in_this_process):
    shared, one = NodeEmbedder(**OPTIONS, workers=3, evaluate=True).fit(a_graph()), NodeEmbedder(**OPTIONS, evaluate=True)
    one.fit(a_graph())
    assert in_this_process == [(3, '["task"]')]
    np.testing.assert_array_equal(shared.embedding_, one.embedding_)
    assert (shared.losses_, shared.scores_, shared.baselines_) == (one.losses_, one.scores_, one.baselines_)
    assert shared.similar(8, 3) == one.similar(8, 3)
    np.testing.assert_array_equal(shared.transform(a_graph()), one.embedding_)


def test_a_graph_folder_is_trained_on_from_files(in_this_process, tmp_path, monkeypatch):
    monkeypatch.setattr(file_plan, "fits_memory", lambda *_: False)
    graph = write_graph(a_graph(), tmp_path / "graph")
    shared, one = NodeEmbedder(**OPTIONS, workers=2).fit(graph.path), NodeEmbedder(**OPTIONS).fit(graph.path)
    assert in_this_process == [(2, '["task"]')]
    np.testing.assert_array_equal(np.asarray(shared.embedding_), np.asarray(one.embedding_))
    assert shared.scores_ == one.scores_
    assert "2 workers: each takes" in str(NodeEmbedder(**OPTIONS, workers=2).plan(graph.path))


def test_errors_of_workers_are_raised_here(in_this_process, monkeypatch):
    embedder = NodeEmbedder(**OPTIONS, workers=2)
    for error, kind in (
        (DataError("it is damaged"), DataError),
        (UnknownName("method", "x", ["y"]), ClnrError),
        (RecipeError("too large"), RecipeError),
    ):
        monkeypatch.setattr("clnr.embedding.job.fit", lambda *_, error=error: (_ for _ in ()).throw(error))
        with pytest.raises(kind, match=str(error)[:9]):
            embedder.fit(a_graph())
    for code, kind in ((STOPPED, KeyboardInterrupt), (FAILED, LostWorker)):
        monkeypatch.setattr(embedder_fit, "launch", lambda *_, code=code: code)
        with pytest.raises(kind):
            embedder.fit(a_graph())


@pytest.mark.full
def test_a_worker_that_fails_before_it_joins_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_worker, "read_task", lambda folder: 1 // 0)
    monkeypatch.setattr(fit_worker, "end_process", sys.exit)
    in_a_group(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        fit_worker.main(str(tmp_path))
    assert ended.value.code == USER_ERROR
    assert (tmp_path / "error").read_text().startswith("ClnrError\na worker failed: ZeroDivisionError: integer division")


def test_what_cannot_be_shared_is_refused_before_a_process_is_started(in_this_process, monkeypatch):
    for changes, said in (
        ({"workers": 0}, "workers must be 1 or more, not 0"),
        ({"workers": 2.5}, "workers"),
        ({"workers": 41}, "41 workers cannot share 40 nodes of a step; start at most 40"),
        ({"workers": 2, "method": "SVD", "recipe": None}, "workers"),
    ):
        with pytest.raises(ClnrError, match=said):
            NodeEmbedder(**{**OPTIONS, **changes}).fit(a_graph())
    with pytest.raises(MethodError, match="the arguments cannot be pickled for workers"):
        NodeEmbedder(**OPTIONS, workers=2, checkpoint=_Unpicklable()).fit(a_graph())
    in_a_group(monkeypatch)
    with pytest.raises(ClnrError, match="this process is one of several workers already"):
        NodeEmbedder(**OPTIONS, workers=2).fit(a_graph())
    assert in_this_process == []


class _Unpicklable(type(Path())):
    def __reduce__(self):
        raise TypeError("not this one")


@pytest.mark.full
def test_what_the_script_defines_is_named(tmp_path):
    (tmp_path / "task").write_bytes(b"c__main__\nNoSuchThing\n.")
    with pytest.raises(MethodError, match="workers do not run the script that starts them"):
        read_task(tmp_path)
