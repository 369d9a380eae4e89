"""Starting the workers of a training on this machine, and stopping all of them when one is lost.

They have the environment variables of ``torchrun``, by which a command can be started as well. It is not used here: it prints
tracebacks of its own after ours; it meets at a port; and it imports torch, which takes seconds, in a process that only waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import NamedTuple

from clnr.support.machine.processors import usable_processors

# Exit codes.
FAILED, USER_ERROR, STOPPED = 1, 2, 130
_MEETING_VARIABLE = "CLNR_RENDEZVOUS"
_POLL_SECONDS = 0.05
# In which workers end by themselves, once one of them has ended or all were interrupted; then they are killed.
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
        rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
        # Some clusters set these for other reasons: nobody says where to meet.
        if not (rank.isdigit() and size.isdigit() and (launched_here() or "MASTER_ADDR" in os.environ)):
            return None
        local_rank, local_size = os.environ.get("LOCAL_RANK") or rank, os.environ.get("LOCAL_WORLD_SIZE") or size
        return cls(int(rank), int(size), int(local_rank), int(local_size))


def rendezvous_url() -> str:
    """Where workers meet. The path of a file is not escaped, as torch takes it as it is."""
    return f"file://{Path(os.environ[_MEETING_VARIABLE]).as_posix()}" if launched_here() else "env://"


def launched_here() -> bool:
    """Whether ``launch`` started this process."""
    return _MEETING_VARIABLE in os.environ


def end_with_parent() -> None:
    """End this process, if ``launch`` started it, when that one is gone, and with it the file where workers meet."""

    def watch() -> None:
        # The standard input closes, however the other process ended.
        with contextlib.suppress(OSError, ValueError):
            while os.read(0, 1024):
                pass
        meeting = Path(os.environ[_MEETING_VARIABLE])
        with contextlib.suppress(OSError):
            meeting.unlink(missing_ok=True)
            meeting.parent.rmdir()
        os._exit(FAILED)

    if launched_here():
        threading.Thread(target=watch, daemon=True).start()


def launch(command: Sequence[str], workers: int, print_line: Callable[[str], None]) -> int:
    """Run a command in several processes until the first is done, or one is lost, or Ctrl-C; returns the exit code."""
    environment = os.environ | {"WORLD_SIZE": str(workers), "LOCAL_WORLD_SIZE": str(workers)}
    environment.setdefault("OMP_NUM_THREADS", str(max(1, usable_processors() // workers)))
    environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    processes: list[Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as folder:
        environment[_MEETING_VARIABLE] = str(Path(folder) / "meeting")
        try:
            for rank in range(workers):
                environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                output = DEVNULL if rank else None
                # In a session of its own, a worker is interrupted by this process alone, and not by the terminal as well.
                processes.append(Popen(command, env=environment, stdin=PIPE, stdout=output, start_new_session=True))
            while processes[0].poll() != 0 and not any(process.poll() for process in processes):
                time.sleep(_POLL_SECONDS)
            _wait(processes)
            code, message = _ended([process.poll() for process in processes])
        except KeyboardInterrupt:
            for process in processes:
                process.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGINT)
            _wait(processes)
            # Who ends by itself says so.
            code, message = STOPPED, "" if processes and processes[0].poll() == STOPPED else "stopped"
        finally:
            for process in processes:
                process.kill()
                process.communicate()
    if message:
        print_line(f"{message}; {RESUME}")
    return code


def _wait(processes: Sequence[Popen[bytes]]) -> None:
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
