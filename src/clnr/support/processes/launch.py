"""Starting the workers of a training on this machine, and stopping all of them when one is lost.

What a worker is told is what ``torchrun`` tells one, by the same environment variables, and a command can be
started by ``torchrun`` as well. It is not used here: it prints tracebacks of its own after ours; it meets at a
port; and it imports torch, which takes seconds, in a process that only waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import urlsplit
from urllib.request import url2pathname

from clnr.support.machine.processors import usable_processors

# Exit codes.
FAILED = 1
USER_ERROR = 2
STOPPED = 130
_RENDEZVOUS_VARIABLE = "CLNR_RENDEZVOUS"
_POLL_SECONDS = 0.05
# In which workers end by themselves, once one of them has ended or all were interrupted; then they are
# killed.
_GRACE_SECONDS = 5.0
RESUME = "run the same command with --resume to continue from the last checkpoint, if there is one"


class Place(NamedTuple):
    """Which of how many workers this process is, among all and on this machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @classmethod
    def from_environment(cls) -> Place | None:
        """As torchrun, Ray Train or ``launch`` says; None where none of them started this process."""
        variables = os.environ
        if not all(variables.get(name, "").isdigit() for name in ("RANK", "WORLD_SIZE")):
            return None
        if _RENDEZVOUS_VARIABLE not in variables and "MASTER_ADDR" not in variables:
            return None

        rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
        more = {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
        local = [int(variables[name]) if variables.get(name, "").isdigit() else default for name, default in more.items()]
        return cls(rank, size, *local)


def rendezvous_url() -> str:
    """Where workers meet."""
    return os.environ.get(_RENDEZVOUS_VARIABLE, "env://")


def launched_here() -> bool:
    """Whether ``launch`` started this process."""
    return _RENDEZVOUS_VARIABLE in os.environ


def end_process(code: int) -> NoReturn:
    """End with an exit code: a worker that ``launch`` started and that fails at once, after all was said.

    Torch may abort the process where it takes a group of workers apart that others have left, which would be another code.
    """
    if code and launched_here():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    sys.exit(code)


def end_with_parent() -> None:
    """End this process, if ``launch`` started it, when the one that did is gone, however that ended.

    Then its standard input closes. The file where workers meet, and its folder, go with them.
    """

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(0, 1024):
                pass
        meeting = Path(url2pathname(urlsplit(rendezvous_url()).path))
        with contextlib.suppress(OSError):
            meeting.unlink(missing_ok=True)
            meeting.parent.rmdir()
        os._exit(FAILED)

    if launched_here():
        threading.Thread(target=watch, daemon=True).start()


def launch(command: Sequence[str], workers: int, print_line: Callable[[str], None]) -> int:
    """Run a command in several processes that find each other, until the first of them is done.

    If one fails or is lost, or by Ctrl-C, all are stopped. Returns the exit code.
    """
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as folder:
        try:
            for rank in range(workers):
                processes.append(_start(command, rank, workers, Path(folder) / "meeting"))
            first = processes[0]
            while first.poll() != 0 and not any(process.poll() for process in processes):
                time.sleep(_POLL_SECONDS)
            _wait(processes)
            code, trouble = _ended([process.poll() for process in processes])
        except KeyboardInterrupt:
            for process in processes:
                process.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGINT)
            _wait(processes)
            # Who ends by itself says so.
            code, trouble = STOPPED, "" if processes and processes[0].poll() == STOPPED else "stopped"
        finally:
            for process in processes:
                process.kill()
                process.wait()
                assert process.stdin is not None
                process.stdin.close()
    if trouble:
        print_line(f"{trouble}; {RESUME}")
    return code


def _start(command: Sequence[str], rank: int, workers: int, meeting: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        _RENDEZVOUS_VARIABLE: meeting.as_uri(),
    }
    environment.setdefault("OMP_NUM_THREADS", str(max(1, usable_processors() // workers)))
    environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    quiet = subprocess.DEVNULL if rank else None
    # In a session of its own, a worker is interrupted by this process alone, and not by the terminal as well.
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=quiet, start_new_session=True, bufsize=0)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Some time for all to end by themselves."""
    end = time.monotonic() + _GRACE_SECONDS
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def _ended(codes: Sequence[int | None]) -> tuple[int, str]:
    """The exit code of all together, and what to say of it; None is the code of a worker that has not ended."""
    if codes[0] == 0:
        return 0, ""
    # A worker that ends so has said why.
    for code in (USER_ERROR, STOPPED):
        if code in codes:
            return code, ""
    killed = {rank: signal.Signals(-code).name for rank, code in enumerate(codes) if code is not None and code < 0}
    lost = [f"worker {rank} of {len(codes)} was killed by {name}" for rank, name in killed.items()]
    return FAILED, ", ".join(lost) or "a worker failed or was lost"
