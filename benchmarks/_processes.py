"""Processes of a benchmark: the seconds and the peak of memory of each."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple


class Finished(NamedTuple):
    """A process that ended: its seconds, the peak of its memory in bytes, what it printed, and why it failed, if it did."""

    seconds: float
    peak: int
    output: str
    failure: str | None


def run(words: Sequence[str], environment: Mapping[str, str], most_seconds: float | None = None) -> Finished:
    """Run a process to its end, or until it has taken too long.

    A small process in between starts it: Linux counts the peak of whoever starts a process as its own.
    """
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("output", "errors", "measured")]
        between = [sys.executable, "-I", "-S", __file__, str(most_seconds or 0), *map(str, files), *words]
        subprocess.run(between, env=dict(environment), check=True)
        printed, errors = (file.read_text(errors="replace") for file in files[:2])
        code, seconds, peak = json.loads(files[2].read_text())
        return Finished(seconds, peak, printed, _failure(code, errors, most_seconds))


def measure(most_seconds: float, output: str, errors: str, measured: str, words: Sequence[str]) -> None:
    """Run a process as ``run`` does, in between: write what it prints, its exit code, seconds and peak to files."""
    with Path(output).open("w") as out, Path(errors).open("w") as err:
        began = time.perf_counter()
        process = subprocess.Popen(words, stdout=out, stderr=err)
        alarm = threading.Timer(most_seconds or threading.TIMEOUT_MAX, process.kill)
        alarm.daemon = True
        alarm.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    # Linux counts in KiB, macOS in bytes.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    Path(measured).write_text(json.dumps([process.returncode, seconds, peak]))


def _failure(code: int, errors: str, most_seconds: float | None) -> str | None:
    if code == -signal.SIGKILL and most_seconds is not None:
        return f"took more than {most_seconds:g} s, or too much memory"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return (errors.strip().splitlines() or [f"exit code {code}"])[-1] if code else None


def stages_of(printed: str) -> list[dict[str, Any]]:
    """The stages that ``clnr embed --json`` printed, if it was that."""
    return json.loads(printed).get("stages", []) if printed.startswith("{") else []


def environment(device: str, caches: Path | None = None) -> dict[str, str]:
    """This process's environment, with caches of compiled kernels in a folder, if one is given, and no GPU on the CPU."""
    names = ("CLNR_HOME", "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR")
    own = {} if caches is None else {name: str(caches / name.lower()) for name in names}
    return {**os.environ, **own, **({"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {})}


def machine() -> dict[str, str]:
    """Hardware and versions of this machine."""
    import torch

    from clnr.support.machine import environment

    gpu = [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    hardware = ", ".join([environment.describe(torch.device("cpu")), *gpu])
    versions = {"python": platform.python_version()}
    for package in ("clnr", "torch", "torch_geometric", "numba", "triton", "pyarrow"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"machine": platform.machine(), "hardware": hardware, **versions}


if __name__ == "__main__":
    measure(float(sys.argv[1]), *sys.argv[2:5], sys.argv[5:])
