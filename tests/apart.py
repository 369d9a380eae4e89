"""Calls in processes apart, with bounded memory and time: a crash, a hang or a greedy reader is one case's, and is named.

The bound is of memory that is really taken, not of address space: allocators reserve as much of that as they like, by threads,
cores and architecture.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MEMORY = 256 << 20  # That a case may take, beyond what the process had.
HELD = 2 << 30  # That it may ask for; more is refused by the system, so that no case can harm the machine.
SECONDS = 20  # Of computing.
LATEST = 600  # Seconds of waiting, for what hangs without computing.


class Apart:
    """A process that has everything imported, and forks one for each call."""

    def __init__(self, process: subprocess.Popen[str]):
        self._process = process

    def __call__(self, call: str, *arguments: Any) -> str:
        """What ``module:function`` did with such arguments: "done", "DataError: ..." or whatever went wrong."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([call, arguments]) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())


@contextmanager
def process_apart(*first: str) -> Iterator[Apart]:
    """A process apart; what it calls ``first``, each ``module:function``, the calls to come need not do again."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs Linux: fork and /proc")
    quiet = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    # Where torch sees a GPU, a process that has computed gradients cannot be forked.
    quiet["CUDA_VISIBLE_DEVICES"] = ""
    words = [sys.executable, "-m", "tests.apart", *first]
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=os.environ | quiet
    ) as process:
        yield Apart(process)
        process.stdin.close()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _bound() -> None:
    import resource

    data = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (data + HELD, data + HELD))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(LATEST)


def _outcome(call: str, arguments: list[Any]) -> str:
    from clnr.errors import DataError

    module, _, name = call.partition(":")
    try:
        getattr(importlib.import_module(module), name)(*arguments)
    except DataError as error:
        return f"DataError: {error}"
    except BaseException as error:
        return f"{type(error).__module__}.{type(error).__name__}: {error}"
    return "done"


def _forked(call: str, arguments: list[Any]) -> str:
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        _bound()
        os.write(send, f"{_resident()}\n".encode())
        os.write(send, _outcome(call, arguments).encode()[:60000])
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        before, _, said = stream.read().decode().partition("\n")
    _, status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        return f"crashed: {signal.strsignal(os.WTERMSIG(status))}"
    if (taken := usage.ru_maxrss * 1024 - int(before)) > MEMORY:
        return f"took {taken >> 20} MiB"
    return said


def _serve() -> None:
    import pyarrow.csv

    import clnr.datasets.formats  # noqa: F401

    pyarrow.set_cpu_count(1)
    pyarrow.chunked_array([[1]]).to_numpy()  # Which imports pandas: once, and not in every case.
    for call in sys.argv[1:]:
        module, _, name = call.partition(":")
        getattr(importlib.import_module(module), name)()
    gc.freeze()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        importlib.import_module(call.partition(":")[0])
        print(json.dumps(_forked(call, arguments)), flush=True)


if __name__ == "__main__":
    _serve()
