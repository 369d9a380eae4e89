"""Folders that take long to make, once a session: by the first process of pytest-xdist that asks; the others wait for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The session's folder of this name, filled by ``make``; nobody may change what is in it."""
    import fcntl

    base = factory.getbasetemp()
    # Each process of xdist has a folder of its own in the session's.
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, done = session / name, session / f"{name}.done"
    with (session / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def run_module(module: str, folder: Path) -> None:
    """Run a module that forks workers and writes what they found into a folder."""
    # Where torch sees a GPU, a process that has computed gradients cannot be forked.
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = [sys.executable, "-m", module, str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=900, env=env)
    assert done.returncode == 0, done.stderr
