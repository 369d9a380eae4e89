"""``clnr embed --ray``: what ``--workers`` gives, on a Ray cluster of this machine; and what is said where there is none."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
from typer.testing import CliRunner

from clnr.cli import app
from clnr.cli.parallel.ray_workers import _Board, _check_reachable

TRAIN = [
    *("--method", "CLNR", "--hold-out", "0", "--no-baselines", "--no-report", "--device", "cpu", "--threads", "1"),
    *("--set", "hidden=16", "--set", "dimension=16", "--set", "epochs=10"),
    *("--set", "sampled_nodes=51", "--set", "moments=sampled"),
]
# Each node has as many CPUs as workers that it is to take.
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
nodes = [dict(num_cpus=int(count), object_store_memory=10**8) for count in sys.argv[1:]]
cluster = Cluster(initialize_head=True, head_node_args=nodes[0] | {"include_dashboard": False})
for each in nodes[1:]:
    cluster.add_node(**each)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def test_without_ray_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = CliRunner().invoke(app, ["embed", "--edges", "e.csv", "--out", "o", "--ray", "auto", "--workers", "2"])
    assert str(said.exception) == "--ray needs ray; install it with: pip install 'clnr[ray]'"


def test_where_nobody_listens_it_fails_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for each in (address, f"ray://{address}"):
        with pytest.raises(ConnectionRefusedError):
            _check_reachable(each)
    _check_reachable("auto")


def test_the_board_counts_starts_and_keeps_the_first_error():
    board = _Board()
    assert [board.start(rank) for rank in (0, 1, 0, 1, 1)] == [0, 0, 1, 1, 2]
    assert board.result() == ("", "")
    board.fail("one")
    board.fail("two")
    board.done("printed")
    assert board.result() == ("one", "printed")


@pytest.fixture(scope="module", params=[["2"], ["1", "1"]], ids=["one node", "two nodes"])
def cluster(request):
    pytest.importorskip("ray.train", reason="Ray is not installed: pip install 'clnr[ray]'")
    # A token of its own: nobody else can run anything on this cluster, and Ray writes none to the home folder.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    # What others take of this machine's memory is no reason to end workers.
    token["RAY_memory_monitor_refresh_ms"] = "0"
    words = [sys.executable, "-c", CLUSTER, *request.param]
    process = subprocess.Popen(words, env=os.environ | token, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), token
    finally:
        process.communicate()


@pytest.mark.slow
def test_workers_on_a_cluster_give_what_workers_here_give(cluster, tmp_path):
    address, token = cluster
    random = np.random.default_rng(0)
    lines = [f"{a},{b}" for a, b in random.integers(0, 300, (1200, 2))]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *lines]) + "\n")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "clnr", "embed", "--edges", "edges.csv", *TRAIN, "--workers", "2", "--json", *words]
        environment = os.environ | {"OMP_NUM_THREADS": "1"} | token
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    here, there = run("--out", "here"), run("--out", "there", "--ray", address)
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert json.loads(there.stdout)["nodes"] == json.loads(here.stdout)["nodes"]
    a, b = (safetensors.numpy.load_file(tmp_path / name / "model.safetensors") for name in ("here", "there"))
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    wrong = run("--out", "wrong", "--ray", address, "--set", "moments=all")
    assert wrong.returncode == 2
    assert "several workers share sampled steps only" in wrong.stderr
