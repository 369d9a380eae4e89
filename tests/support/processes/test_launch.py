"""Workers that are started together: what they are told, and what becomes of the others when one ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from torch.distributed.rendezvous import rendezvous

from clnr.support.processes import launch as module
from clnr.support.processes.launch import FAILED, USER_ERROR, Place, launch, launched_here, rendezvous_url

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch):
    for name in (*VARIABLES, "CLNR_RENDEZVOUS"):
        monkeypatch.delenv(name, raising=False)


def test_only_torchrun_and_ours_say_the_place_of_a_process(monkeypatch):
    assert Place.from_environment() is None
    for name, value in zip(VARIABLES, ("3", "4", "1", "2", "host"), strict=True):
        # Some clusters set the others for other reasons: nobody says where to meet.
        assert Place.from_environment() is None
        monkeypatch.setenv(name, value)
    assert Place.from_environment() == Place(rank=3, size=4, local_rank=1, local_size=2)
    assert (launched_here(), rendezvous_url()) == (False, "env://")


def test_workers_meet_at_a_path_with_blanks(monkeypatch, tmp_path):
    (tmp_path / "a b%20").mkdir()
    monkeypatch.setenv("CLNR_RENDEZVOUS", str(tmp_path / "a b%20" / "meeting"))
    store, _, _ = next(rendezvous(rendezvous_url(), 0, 1))
    store.set("here", "1")
    assert (tmp_path / "a b%20" / "meeting").is_file()


def started(program: str, workers: int = 3) -> tuple[int, list[str], float]:
    """The exit code of a program run by workers, what was printed, and the seconds that it took."""
    printed: list[str] = []
    before, began = "import os, signal, sys, time; rank = int(os.environ['RANK'])\n", time.monotonic()
    code = launch([sys.executable, "-c", before + program], workers, printed.append)
    return code, printed, time.monotonic() - began


def test_all_know_their_place_and_have_a_share_of_the_processors_that_may_be_used(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(module, "usable_processors", lambda: 7)
    program = (
        "from clnr.support.processes.launch import Place\n"
        "assert Place.from_environment() == (rank, 3, rank, 3) and os.environ['OMP_NUM_THREADS'] == '2'"
    )
    assert started(program)[:2] == (0, [])


@pytest.mark.parametrize(
    ("end", "code", "printed"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", FAILED, ["worker 1 of 3 was killed by SIGKILL"]),
        ("1 / 0", FAILED, ["a worker failed or was lost"]),
        # Another one has said why.
        (f"sys.exit({USER_ERROR})", USER_ERROR, []),
    ],
)
def test_if_one_ends_all_are_stopped_within_ten_seconds(end, code, printed):
    ended, lines, seconds = started(f"if rank == 1: {end}\ntime.sleep(600)")
    assert (ended, seconds < 10) == (code, True)
    assert [line.partition(";")[0] for line in lines] == printed
    assert all("--resume" in line for line in lines)


LAUNCHER = """
import sys
from clnr.support.processes.launch import launch
launch([sys.executable, "-c", sys.argv[1]], 1, print)
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
