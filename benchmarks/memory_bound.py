"""The bound of memory that the plan of ``clnr embed`` prints, beside the peak: of graphs in memory, and from files.

    python -m benchmarks.memory_bound                         # six sizes in memory, six from files
    python -m benchmarks.memory_bound --sizes 1e6 --from-files --set method=CLNR

Regular graphs of 128 features (``benchmarks.papers_sized``), each embedded by a process of its own; further options are those
of clnr embed. From files, 0.95 of what it would take in memory may be used. The peak is of anonymous memory, looked at
every hundredth of a second, and of the code of Python and torch: pages of mapped files are the system's to take back. Linux.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import command
from benchmarks.growth import number
from benchmarks.papers_sized import write_folder
from clnr.errors import ClnrError

SIZES = {False: (1_000, 3_000, 10_000, 30_000, 100_000, 200_000), True: (80_000, 100_000, 150_000, 200_000, 300_000, 400_000)}
SECONDS = 0.01


def planned(words: Sequence[str]) -> dict[str, float]:
    """What the plan of a command says, as plain values."""
    done = subprocess.run([*words, "--dry-run"], capture_output=True, text=True)
    if done.returncode:
        raise ClnrError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def resident(process: int) -> dict[str, int]:
    """The resident bytes of a process by kind; empty once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.startswith("Rss")}


def peak(words: Sequence[str]) -> tuple[int, int]:
    """The most anonymous memory that a command takes, and the most of files, its code among them."""
    anonymous = files = 0
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            found = resident(process.pid)
            anonymous = max(anonymous, found.get("RssAnon", 0) + found.get("RssShmem", 0))
            files = max(files, found.get("RssFile", 0))
            time.sleep(SECONDS)
    if process.returncode:
        raise ClnrError(f"exit code {process.returncode}: {' '.join(words)}")
    return anonymous, files


def measure(sizes: Sequence[int], from_files: bool, more: Sequence[str]) -> None:
    """Print a line for each size."""
    with tempfile.TemporaryDirectory() as place:
        words = [sys.executable, "-m", "clnr", "embed", "--out", f"{place}/out", "--json"]
        words += ["--set", "device=cpu", "--set", "epochs=3", "--no-baselines", *more]
        write_folder(Path(place) / "small", 1_000, "float32")
        _, code = peak([*words, "--graph", f"{place}/small"])
        for nodes in sizes:
            graph = Path(place) / str(nodes)
            write_folder(graph, nodes, "float32")
            command_line = [*words, "--graph", str(graph), "--force"]
            plan = planned(command_line)
            if from_files:
                command_line += ["--memory", f"{max(1.0, 0.95 * plan['memory_bytes'] / 1e9):.3f} GB"]
                plan = planned(command_line)
            anonymous, _ = peak(command_line)
            where, bound, used = "from files" if plan["from_files"] else "in memory", plan["memory_bytes"], anonymous + code
            print(f"{nodes:>9,} {where:10} {bound / 2**20:>8,.0f} {used / 2**20:>8,.0f} {used / bound:>6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=number, nargs="+", metavar="NODES")
    parser.add_argument("--from-files", action="store_true", help="only from files; else both")
    given, more = parser.parse_known_args()
    print(f"{'nodes':>9} {'':10} {'bound':>8} {'peak':>8} {'share':>6}   (MiB)")
    for from_files in (True,) if given.from_files else (False, True):
        measure(given.sizes or SIZES[from_files], from_files, more)


if __name__ == "__main__":
    command(main)
