"""Starting the workers of a training on this machine, and starting them again when one is lost.

What a worker is told is what ``torchrun`` tells one, by the same environment variables, and a command can be started by
``torchrun`` as well. It is not used here: it starts all again after any error, also a user's, and prints tracebacks of its own
after ours; it meets at a port; and it imports torch, which takes seconds, in a process that only waits.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

# Exit codes. Python itself ends with 1 where an exception was not caught, which would come again. A worker that has lost
# another one says so: all start again.
FAILED = 1
USER_ERROR = 2
LOST = 75
STOPPED = 130
_RENDEZVOUS_VARIABLE = "CLNR_RENDEZVOUS"
RESTARTS_VARIABLE = "TORCHELASTIC_RESTART_COUNT"
_POLL_SECONDS = 0.05
# Seconds in which workers end by themselves: once one has ended, and once they were stopped, which may be done twice.
_GRACE_SECONDS, _STOP_SECONDS = 5.0, 30.0


class Place(NamedTuple):
    """Which of how many workers this process is, among all and on this machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    restarts: int

    @classmethod
    def from_environment(cls) -> Place | None:
        """As torchrun or ``launch`` says; None where neither started this process."""
        variables = os.environ
        if not all(variables.get(name, "").isdigit() for name in ("RANK", "WORLD_SIZE")):
            return None
        if _RENDEZVOUS_VARIABLE not in variables and "MASTER_ADDR" not in variables:
            return None

        rank, size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
        more = {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, RESTARTS_VARIABLE: 0}
        local = [int(variables[name]) if variables.get(name, "").isdigit() else default for name, default in more.items()]
        return cls(rank, size, *local)


def rendezvous_url() -> str:
    """Where workers meet."""
    return os.environ.get(_RENDEZVOUS_VARIABLE, "env://")


def launched_here() -> bool:
    """Whether ``launch`` started this process."""
    return _RENDEZVOUS_VARIABLE in os.environ


def restarted() -> bool:
    """Whether this worker takes the place of one that was lost."""
    place = Place.from_environment()
    return place is not None and place.restarts > 0


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

    Then its standard input closes. What came there before is the temporary folder of the job, which goes with the workers.
    """

    def watch() -> None:
        folder = b""
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(0, 1024):
                folder += part
        if folder:
            shutil.rmtree(os.fsdecode(folder), ignore_errors=True)
        os._exit(LOST)

    if launched_here():
        threading.Thread(target=watch, daemon=True).start()


def launch(
    command: Sequence[str], workers: int, max_restarts: int, print_line: Callable[[str], None], folder: Path | None = None
) -> int:
    """Run a command in several processes that find each other, until the first of them is done; returns the exit code.

    If one is lost (killed, or it does not answer), all are ended and started again; not after an error. ``folder`` is the job's
    temporary one, which workers remove if this process is killed; by default one is made.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="clnr-", ignore_cleanup_errors=True) as temporary:
            return launch(command, workers, max_restarts, print_line, Path(temporary))
    for restarts in range(max_restarts + 1):
        attempt = _Attempt(command, workers, restarts, folder)
        code = attempt.run()
        if attempt.stopped_silently:
            print_line("stopped; run the same command with --resume to continue from the last checkpoint, if there is one")
        if code == FAILED:
            print_line(f"{attempt.trouble}; see the output above")
        if code != LOST:
            return code
        again = f"all restart from the last checkpoint, if there is one ({restarts + 1} of {max_restarts})"
        again = again if restarts < max_restarts else "given up; --resume continues from the last checkpoint"
        print_line(f"{attempt.trouble}; {again}")
    return FAILED


class _Attempt:
    """The processes of one attempt."""

    def __init__(self, command: Sequence[str], workers: int, restarts: int, folder: Path):
        self.trouble = ""
        self.stopped_silently = False
        self._processes: list[subprocess.Popen[bytes]] = []
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        for rank in range(workers):
            environment = os.environ | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(workers),
                "LOCAL_WORLD_SIZE": str(workers),
                RESTARTS_VARIABLE: str(restarts),
                _RENDEZVOUS_VARIABLE: (folder / f"meeting-{restarts}").as_uri(),
            }
            environment.setdefault("OMP_NUM_THREADS", threads)
            environment.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
            quiet = subprocess.DEVNULL if rank else None
            # In a session of its own, a worker is interrupted by this process alone, and not by the terminal as well.
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=quiet, start_new_session=True, bufsize=0
            )
            self._processes.append(process)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(os.fsencode(folder))

    def run(self) -> int:
        """Wait for the end; the exit code of all together."""
        try:
            return self._watch()
        except KeyboardInterrupt:
            for process in self._running:
                process.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGINT)
            self._wait(_STOP_SECONDS)
            # Who ends by itself says so.
            self.stopped_silently = self._processes[0].poll() != STOPPED
            return STOPPED
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()

    @property
    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self._processes if process.poll() is None]

    def _wait(self, seconds: float = _GRACE_SECONDS) -> None:
        """Some time for the others to end by themselves."""
        end = time.monotonic() + seconds
        while self._running and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)

    def _watch(self) -> int:
        first = self._processes[0]
        while first.poll() != 0 and not any(process.poll() for process in self._processes):
            time.sleep(_POLL_SECONDS)
        if not self._killed:
            self._wait()
        codes = [process.poll() for process in self._processes]
        if codes[0] == 0:
            return 0
        told = [code for code in codes if code in (USER_ERROR, STOPPED)]
        if told:
            return told[0]
        failed = [f"{self._name(rank)} failed" for rank, code in enumerate(codes) if code not in (None, 0, LOST)]
        if failed and not self._killed:
            self.trouble = ", ".join(failed)
            return FAILED
        # Those that are still there when others have given up waiting for them.
        silent = [f"{self._name(rank)} did not answer" for rank, code in enumerate(codes) if code is None]
        self.trouble = ", ".join(self._killed) or ", ".join(silent) or "a worker was lost"
        return LOST

    @property
    def _killed(self) -> list[str]:
        codes = {rank: process.poll() for rank, process in enumerate(self._processes)}
        return [
            f"{self._name(rank)} was killed by {signal.Signals(-code).name}"
            for rank, code in codes.items()
            if code is not None and code < 0
        ]

    def _name(self, rank: int) -> str:
        return f"worker {rank} of {len(self._processes)}"
