"""Workers of ``clnr embed``: they give what one gives; what becomes of those that are killed, stopped or interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import safetensors.numpy

from clnr.tables import ingest
from tests.command_line import assert_refused, entry_point, started, this_python

if not Path("/proc/self/task").exists():
    pytest.skip("needs Linux: /proc tells which processes are workers", allow_module_level=True)

LATEST = 900
EPOCHS = 60
TRAIN = [
    *("--set", "method=CLNR", "--set", "hold_out=0", "--set", "device=cpu", "--no-baselines", "--no-report"),
    *("--set", "precision=float32"),
    *("--set", "hidden=16", "--set", "dimension=16", "--set", f"epochs={EPOCHS}"),
    *("--set", "sampled_nodes=51", "--set", "moments=sampled", "--set", "structure=8"),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    folder, random = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    source = random.integers(0, 300, 1200)
    lines = [f"{a},{(a + b) % 300}" for a, b in zip(source, random.integers(1, 20, 1200), strict=True)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *lines]) + "\n")
    return folder


class Job:
    """A ``clnr embed`` of some workers that is under way."""

    def __init__(self, folder: Path, *words: object, workers: int = 2, epochs: int = EPOCHS, **environment: str):
        self.folder = folder
        train = [f"epochs={epochs}" if each == f"epochs={EPOCHS}" else each for each in TRAIN]
        command = ["embed", "--edges", "edges.csv", *train, *("--workers", workers), *words]
        self.process = started(*command, cwd=folder, module="tests.saves_each_epoch", OMP_NUM_THREADS="1", **environment)

    def workers(self) -> dict[int, int]:
        """The process of each rank."""
        processes = {}
        for pid in children(self.process.pid):
            with contextlib.suppress(OSError):
                variables = dict(each.partition("=")[::2] for each in Path(f"/proc/{pid}/environ").read_text().split("\0"))
                if "RANK" in variables:
                    processes[int(variables["RANK"])] = pid
        return processes

    def wait_for(self, condition, what: str) -> None:
        end = time.monotonic() + LATEST
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}: {self.process.communicate()}"
            assert time.monotonic() < end, f"no {what}"
            time.sleep(0.02)

    def wait_for_epochs(self, folder: str, epochs: int) -> None:
        """Until a checkpoint has so many epochs."""

        def reached() -> bool:
            with contextlib.suppress(OSError, KeyError, safetensors.SafetensorError):
                return done(self.folder / f".{folder}.clnr.work" / "checkpoint") >= epochs
            return False

        self.wait_for(reached, f"checkpoint of {epochs} epochs")

    def end(self) -> tuple[int, str]:
        """The exit code, and what was said on standard error."""
        _, said = self.process.communicate(timeout=LATEST)
        return self.process.returncode, said


def error_of(said: str) -> str:
    """The one line of an error, which comes last."""
    assert "Traceback" not in said
    (line,) = [each for each in said.splitlines() if each.startswith("clnr: ")]
    assert said.endswith(f"{line}\n")
    return line


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def done(checkpoint: Path) -> int:
    with safetensors.safe_open(str(checkpoint), "np") as file:
        return json.loads(file.metadata()["clnr"])["done"]


def learned(folder: Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(folder / "model.safetensors")


def assert_same(one: Path, other: Path) -> None:
    a, b = learned(one), learned(other)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    assert (one / "embeddings.parquet").read_bytes() == (other / "embeddings.parquet").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tables) -> Path:
    """What two workers write if nothing happens to them."""
    assert Job(tables, "--out", "undisturbed").end()[0] == 0
    return tables / "undisturbed"


@pytest.mark.full
def test_two_workers_are_one_to_rounding(tables, undisturbed, monkeypatch, capsys):
    monkeypatch.chdir(tables)
    alone = entry_point(monkeypatch, capsys)("embed", "--edges", "edges.csv", *TRAIN, "--out", "alone")
    assert alone.code == 0
    for name, value in learned(undisturbed).items():
        np.testing.assert_allclose(learned(tables / "alone")[name], value, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.full
def test_if_a_worker_is_killed_the_others_are_stopped_and_the_run_is_resumed(tables, undisturbed):
    words = ["--out", "killed"]
    job = Job(tables, *words)
    job.wait_for_epochs("killed", 10)
    workers, began = job.workers(), time.monotonic()
    os.kill(workers[1], signal.SIGKILL)
    code, said = job.end()
    assert time.monotonic() < began + 10
    assert code == 1
    assert re.fullmatch("clnr: worker 1 of 2 was killed by SIGKILL; .*--resume.*", error_of(said))
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers.values())
    assert Job(tables, *words, "--resume").end()[0] == 0
    assert_same(tables / "killed", undisturbed)
    assert not (tables / ".killed.clnr.work").exists()


def listening(pid: int) -> set[str]:
    """The addresses at which a process can be reached, as the kernel writes them."""
    links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()]
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links}


@pytest.mark.full
def test_a_job_that_is_killed_takes_its_workers_along_and_is_resumed(tables, undisturbed, tmp_path):
    words = ["--out", "resumed"]
    # As on a host of a cluster, where workers of several hosts listen elsewhere.
    others = [name for _, name in socket.if_nameindex() if name not in ("lo", "lo0")]
    job = Job(tables, *words, TMPDIR=str(tmp_path), GLOO_SOCKET_IFNAME=",".join(others[:1]))
    job.wait_for_epochs("resumed", 10)
    workers = job.workers()
    assert set().union(*map(listening, workers.values())) <= {"0100007F", "00000000000000000000000001000000"}
    job.process.kill()
    job.process.communicate()
    end = time.monotonic() + LATEST
    while any(Path(f"/proc/{pid}").exists() for pid in workers.values()):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert not list(tmp_path.glob("clnr-*"))
    assert 10 <= done(tables / ".resumed.clnr.work" / "checkpoint") < EPOCHS
    code, _ = Job(tables, *words, "--resume").end()
    assert code == 0
    assert_same(tables / "resumed", undisturbed)


@pytest.mark.full
def test_ctrl_c_stops_all_with_one_line(tables):
    job = Job(tables, "--out", "stopped")
    job.wait_for_epochs("stopped", 10)
    workers = job.workers()
    job.process.send_signal(signal.SIGINT)
    code, said = job.end()
    assert code == 130
    assert error_of(said).startswith("clnr: stopped; ")
    assert said.endswith(".stopped.clnr.work/checkpoint: run the same command with --resume to continue\n")
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers.values())


@pytest.mark.full
def test_workers_with_different_tables_are_refused_once(tables):
    (tables / "other").mkdir()
    lines = (tables / "edges.csv").read_text().splitlines()
    (tables / "other" / "edges.csv").write_text("\n".join(lines[:-1]) + "\n")
    words = ["embed", "--edges", "edges.csv", *TRAIN, "--out", "apart"]
    place = {"WORLD_SIZE": "2", "CLNR_RENDEZVOUS": str(tables / "meeting"), "OMP_NUM_THREADS": "1"}
    with (
        started(*words, cwd=tables, RANK="0", **place) as first,
        started(*words, cwd=tables / "other", RANK="1", **place) as second,
    ):
        said = first.stderr.read() + second.stderr.read()
    assert (first.returncode, second.returncode) == (2, 2)
    assert "workers 0 and 1 do not have the same graph" in error_of(said)


# -- torchrun ------------------------------------------------------------------------------------------------

SCRIPT = """
import os
from clnr import NodeEmbedder
from clnr.embedding.planning import plan
values = {"hidden": 16, "dimension": 16, "epochs": 60, "sampled_nodes": 51, "moments": "sampled", "structure": 8}
alone = {"device": "cpu", "precision": "float32", "hold_out": 0}
for out, graph in (("memory", "edges.csv"), ("files", "graph")):
    plan.fits_memory = lambda *_: out == "memory"
    embedder = NodeEmbedder("CLNR", recipe=values, **alone).fit(graph)
    if os.environ["RANK"] == "0":
        embedder.save(out)
    else:
        assert not hasattr(embedder, "embedding_")
if os.environ["RANK"] == "0":
    raise ValueError("the first one fails")
NodeEmbedder("CLNR", recipe=values, **alone).fit("graph")
"""


def on_two_nodes(folder: Path, script: str) -> list[tuple[int, str]]:
    """The exit code and the output of each of two nodes of torchrun, which are on this host, with a worker each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = this_python(OMP_NUM_THREADS="1")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    nodes = [
        subprocess.Popen(
            [*torchrun, "--node-rank", str(rank), script],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [node.communicate(timeout=LATEST)[0] for node in nodes]
    return [(node.returncode, output) for node, output in zip(nodes, outputs, strict=True)]


@pytest.mark.slow
def test_an_embedder_joins_what_torchrun_started_and_nobody_waits_for_a_first_worker_that_failed(tables, undisturbed):
    (tables / "script.py").write_text(SCRIPT)
    ingest(tables / "edges.csv", out=tables / "graph")
    began = time.monotonic()
    ended = on_two_nodes(tables, "script.py")
    assert time.monotonic() < began + 300
    assert [code for code, _ in ended] == [1, 1], ended
    assert "the first one fails" in ended[0][1]
    for name, value in learned(undisturbed).items():
        np.testing.assert_array_equal(learned(tables / "memory")[name], value, err_msg=name)
        np.testing.assert_allclose(learned(tables / "files")[name], value, rtol=0, atol=1e-4, err_msg=name)


# -- Ray --------------------------------------------------------------------------------------------------------------------

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


def test_without_ray_it_says_how_to_install_it(monkeypatch, clnr):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = assert_refused(clnr("embed", "--edges", "e.csv", "--out", "o", "--ray", "auto", "--workers", "2"))
    assert said == "clnr: --ray needs ray; install it with: pip install 'clnr[ray]'\n"


def test_where_nobody_listens_it_fails_at_once(monkeypatch, clnr, tables):
    for name in ("ray", "ray.train", "ray.train.torch"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = ["embed", "--edges", str(tables / "edges.csv"), "--out", "o", "--ray", f"ray://{address}", "--workers", "2"]
    assert address in assert_refused(clnr(*words))


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


def ray_workers(token: str) -> list[int]:
    """The processes of a cluster that train."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            title, variables = ((process / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ"))
            if "RayTrainWorker" in title and token in variables:
                found.append(int(process.name))
    return found


@pytest.mark.slow
def test_workers_on_a_cluster_give_what_workers_here_give(cluster, tables, undisturbed, request):
    address, token = cluster
    out = f"there-{request.node.callspec.id}"
    there = Job(tables, "--out", out, "--ray", address, "--set", "threads=1", "--json", **token)
    printed, said = there.process.communicate(timeout=LATEST)
    assert there.process.returncode == 0, said
    assert json.loads(printed)["nodes"] == 300
    for name, value in learned(undisturbed).items():
        np.testing.assert_array_equal(learned(tables / out)[name], value, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [["2"]], ids=["one node"], indirect=True)
def test_an_error_and_a_loss_on_a_cluster_end_all(cluster, tables):
    address, token = cluster
    words = ["--ray", address, "--set", "threads=1"]
    code, said = Job(tables, "--out", "wrong", *words, "--set", "moments=all", **token).end()
    assert code == 2
    assert "several workers share sampled steps only" in said
    job = Job(tables, "--out", "lost", *words, epochs=10**6, **token)
    job.wait_for(lambda: len(ray_workers(token["RAY_AUTH_TOKEN"])) == 2, "worker")
    time.sleep(20)  # Until they train: before that, Ray waits for one that is lost.
    began = time.monotonic()
    os.kill(ray_workers(token["RAY_AUTH_TOKEN"])[0], signal.SIGKILL)
    code, said = job.end()
    assert time.monotonic() < began + 60
    assert (code, "--resume" in said) == (1, True)
