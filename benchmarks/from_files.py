"""Strict accuracy of CLNR trained from files, with one and with several workers, beside full steps in memory.

    python -m benchmarks.from_files arxiv2023 physics github --seeds 5

Each training is a clnr embed of its own on a graph folder, with the same seeds and so with the same splits. Graphs are those of
benchmarks.defaults.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import _study_graphs, command, positive
from benchmarks._graph_folders import write_graph
from clnr.engine import choose
from clnr.support.machine import environment


def strict(graph: Path, out: Path, words: list[str]) -> float:
    """The strict accuracy of one embedding, in percent."""
    common = ["--graph", str(graph), "--set", "method=CLNR", "--no-report", "--no-baselines", "--json", "--force"]
    done = subprocess.run(
        [sys.executable, "-m", "clnr", "embed", *common, "--out", str(out), *words], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])["scores"]["strict_accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--workers", type=positive, nargs="+", default=[1, 4])
    parser.add_argument("--threads", default="2", help="of each worker")
    parser.add_argument("--device", default="auto", help="of full steps in memory")
    asked = parser.parse_args()
    where = environment.describe(choose(asked.device).device)
    print(f"in memory on {where}; from files on its CPU; torch {torch.__version__}, {asked.seeds} seeds")
    for name in asked.names:
        with tempfile.TemporaryDirectory() as folder:
            graph = Path(folder, "graph")
            write_graph(_study_graphs.load(name), graph)
            ways = {"full steps in memory": ["--set", "moments=all", "--set", f"device={asked.device}"]} | {
                f"from files, {count} worker(s)": [
                    *("--memory", "1 GB", "--set", "moments=sampled", "--set", "device=cpu"),
                    *("--workers", str(count), "--set", f"threads={asked.threads}"),
                ]
                for count in asked.workers
            }
            for way, words in ways.items():
                began = time.perf_counter()
                found = [strict(graph, Path(folder, "out"), [*words, "--set", f"seed={seed}"]) for seed in range(asked.seeds)]
                spread = f"{statistics.fmean(found):.2f} ± {statistics.stdev(found) if len(found) > 1 else 0:.2f}"
                print(f"{name:12}{way:28}{spread:>16}{time.perf_counter() - began:>10.0f} s", flush=True)


if __name__ == "__main__":
    command(main)
