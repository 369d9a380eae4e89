"""Several workers on one machine: the time of a sampled step of CLNR.

    python -m benchmarks.workers arxiv-sized --workers 1 2 4 8 --threads 2
    python -m benchmarks.workers physics computers --workers 1 2

Data sets, or a synthetic graph, are in the memory of every worker, each of which computes with so many threads of a CPU. A time
is the median over epochs after warm-up, of the first worker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks import command, positive
from benchmarks.epoch import SYNTHETIC, subject
from clnr import CLNR
from clnr.engine import choose
from clnr.engine.distributed.worker_session import joined
from clnr.nn.objectives import StepContext
from clnr.support.machine import environment
from clnr.support.processes.launch import launch
from clnr.training.loop import fit_all

RESULT = "CLNR_BENCHMARK_RESULT"


def train(name: str, epochs: int, threads: int) -> None:
    """What each worker does; the first writes what it measured."""
    graph, recipe = subject(name)
    recipe = recipe.but(moments="sampled", epochs=epochs)
    engine = choose("cpu", threads=threads)
    with joined("cpu") as workers:
        start = StepContext(engine, engine.to_device(graph.without_labels()), 0, 0, epochs, workers=workers)
        (fitted,) = fit_all(CLNR.build(recipe), recipe, [start])
        if workers.first:
            Path(os.environ[RESULT]).write_text(json.dumps({"ms": fitted.epoch_ms}))


def measure(name: str, workers: int, epochs: int, threads: int) -> dict[str, float]:
    """So many workers on a graph."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        os.environ[RESULT] = str(path)
        words = [sys.executable, "-m", "benchmarks.workers", name, "--epochs", str(epochs), "--threads", str(threads), "--one"]
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(threads)
        if workers == 1:
            subprocess.run(words, check=True)
        else:
            launch(words, workers, print)
        return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SYNTHETIC)}")
    parser.add_argument("--workers", type=positive, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=positive, default=1, help="of each worker")
    parser.add_argument("--epochs", type=positive, default=12)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        train(asked.names[0], asked.epochs, asked.threads)
        return
    print(f"{environment.describe(torch.device('cpu'))}, torch {torch.__version__}, {asked.threads} thread(s) a worker")
    print(f"{'':14}{'workers':>8}{'ms per step':>13}{'speedup':>9}")
    for name in asked.names:
        first = None
        for count in asked.workers:
            found = measure(name, count, asked.epochs, asked.threads)
            first = first or found["ms"]
            print(f"{name:14}{count:>8}{found['ms']:>13.1f}{first / found['ms']:>9.2f}", flush=True)


if __name__ == "__main__":
    command(main)
