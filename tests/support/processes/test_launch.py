"""Workers that are started together: what they are told, and what becomes of the others when one ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from clnr.support.processes.launch import FAILED, LOST, Place, launch, launched_here, rendezvous_url, restarted

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR")


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch):
    for name in (*VARIABLES, "CLNR_RENDEZVOUS"):
        monkeypatch.delenv(name, raising=False)


def test_a_process_by_itself_has_no_place(monkeypatch):
    assert Place.from_environment() is None
    assert not restarted()
    assert not launched_here()
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert Place.from_environment() is None  # Some clusters set these for other reasons: nobody says where to meet.


def test_torchrun_says_the_place(monkeypatch):
    for name, value in zip(VARIABLES, ("3", "4", "1", "2", "1", "host"), strict=True):
        monkeypatch.setenv(name, value)
    assert Place.from_environment() == Place(rank=3, size=4, local_rank=1, local_size=2, restarts=1)
    assert restarted()
    assert not launched_here()
    assert rendezvous_url() == "env://"


def started(tmp_path, program: str, workers: int = 3, max_restarts: int = 2) -> tuple[int, list[str], str]:
    """The exit code of a program run by workers, what was said, and what they wrote: each its rank and attempt."""
    said: list[str] = []
    log = tmp_path / "log"
    before = (
        "import os, signal, sys, time\n"
        "rank, attempt = int(os.environ['RANK']), int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        f"open({str(log)!r}, 'a').write(f'{{rank}}.{{attempt}} ')\n"
    )
    code = launch([sys.executable, "-c", before + program], workers, max_restarts, said.append)
    return code, said, " ".join(sorted(log.read_text().split()))


def test_all_are_told_their_place_and_end_well(tmp_path):
    program = "assert os.environ['WORLD_SIZE'] == '3' and 'CLNR_RENDEZVOUS' in os.environ"
    assert started(tmp_path, program) == (0, [], "0.0 1.0 2.0")


def test_a_lost_worker_starts_all_again(tmp_path):
    program = "if attempt == 0: time.sleep(600) if rank != 2 else os.kill(os.getpid(), signal.SIGKILL)"
    code, said, ran = started(tmp_path, program)
    assert (code, ran.count(".1")) == (0, 3)
    assert said == ["worker 2 of 3 was killed by SIGKILL; all restart from the last checkpoint, if there is one (1 of 2)"]


def test_an_error_that_was_told_ends_all_at_once(tmp_path):
    # The others lose that worker, or never notice.
    program = "if rank == 1: sys.exit(2)\nif rank == 2: sys.exit(1)\ntime.sleep(0.3); sys.exit(1)"
    assert started(tmp_path, program) == (2, [], "0.0 1.0 2.0")


def test_after_the_last_restart_it_gives_up(tmp_path):
    code, said, ran = started(tmp_path, f"sys.exit({LOST})", workers=2, max_restarts=1)
    assert (code, ran) == (FAILED, "0.0 0.1 1.0 1.1")
    assert said[1] == "a worker was lost; given up; --resume continues from the last checkpoint"


def test_an_exception_would_come_again_so_nothing_is_started_again(tmp_path):
    # The others lose that worker.
    program = f"if rank == 1: 1 / 0\ntime.sleep(0.3); sys.exit({LOST})"
    assert started(tmp_path, program) == (FAILED, ["worker 1 of 3 failed; see the output above"], "0.0 1.0 2.0")


LAUNCHER = """
import sys
from clnr.support.processes.launch import launch
launch([sys.executable, "-c", sys.argv[1]], 1, 3, print)
"""
WORKER = """
import time
from clnr.support.processes.launch import end_with_parent
end_with_parent()
print("up", flush=True)
time.sleep(600)
"""


def test_workers_and_their_folder_go_with_a_launcher_that_is_killed(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    words = [sys.executable, "-c", LAUNCHER, WORKER]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout.readline() == "up\n"
        assert len(list(tmp_path.iterdir())) == 1
        launcher.kill()
        # The worker has the other end of this, too.
        assert launcher.communicate(timeout=300) == ("", None)
    assert not list(tmp_path.iterdir())


def test_workers_have_their_share_of_the_cores(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert started(tmp_path, "assert os.environ['OMP_NUM_THREADS'] == '2'", workers=3)[0] == 0
