"""An epoch of CLNR against the same in plain PyG, in one run: times, their ratio, and peaks of memory.

    python -m benchmarks.epoch cora citeseer photo            # data sets by name
    python -m benchmarks.epoch arxiv-sized --device cuda      # an arXiv-sized synthetic graph

The two take turns, several times; on a CPU each in a process of its own, whose memory is measured. A time is the median over
epochs after warm-up; the median over turns is printed, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import torch

from benchmarks import command, positive
from clnr import CLNR, datasets, recipe_for
from clnr.bench.timing import BenchmarkResult, measure, ours, plain, summarize
from clnr.datasets.synthetic import shaped
from clnr.engine import Engine, choose
from clnr.graph import Graph
from clnr.methods.recipe import Recipe
from clnr.support import environment, memory
from clnr.support.deprecation import renamed

SYNTHETIC = {"arxiv-sized": ("ogbn-arxiv", 169_343, 1_157_799, 128)}
OLD_NAMES = {"arxiv-shape": "arxiv-sized"}
IMPLEMENTATIONS = {"plain": plain, "ours": ours}


def subject(name: str) -> tuple[Graph, Recipe]:
    """A graph and CLNR's recipe for it."""
    name = renamed("graph", name, OLD_NAMES)
    if name in SYNTHETIC:
        like, *sizes = SYNTHETIC[name]
        return shaped(*sizes), recipe_for(CLNR, like)
    return datasets.load(name), recipe_for(CLNR, name)


def run_one(who: str, name: str, engine: Engine, epochs: int) -> dict[str, float]:
    """In this process, one implementation: milliseconds per epoch and the peak of memory."""
    graph, recipe = subject(name)
    meter = memory.MemoryMeter(engine.device)
    return {"ms": IMPLEMENTATIONS[who](graph, recipe, engine, epochs), "bytes": meter.peak()}


def in_subprocess(*words: str) -> dict[str, float]:
    """The same in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.epoch", "--one", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def compare(name: str, engine: Engine, epochs: int, turns: int) -> BenchmarkResult:
    graph, recipe = subject(name)
    if engine.device.type == "cuda":
        return measure(graph, recipe, engine, epochs, turns)
    rest = (name, "--device", "cpu", "--epochs", str(epochs))
    made = [{who: in_subprocess(who, *rest) for who in IMPLEMENTATIONS} for _ in range(turns)]
    times = {who: [turn[who]["ms"] for turn in made] for who in IMPLEMENTATIONS}
    return summarize(graph, times, {who: int(max(turn[who]["bytes"] for turn in made)) for who in IMPLEMENTATIONS})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SYNTHETIC)}")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", help="of clnr; plain PyG is float32")
    parser.add_argument("--epochs", type=positive, help="in each turn; by default 12 on a CPU and 100 on a GPU")
    parser.add_argument("--turns", type=positive, default=3)
    parser.add_argument("--one", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    engine = choose(asked.device, asked.precision)
    epochs = asked.epochs or (100 if engine.device.type == "cuda" else 12)
    if asked.one:
        print(json.dumps(run_one(asked.one, asked.names[0], engine, epochs)))
        return
    where = environment.describe(engine.device)
    print(f"{where}, {engine.precision}, torch {torch.__version__}, {asked.turns} turn(s) of {epochs} epochs")
    print(f"{'':14}{'plain PyG ms':>26}{'clnr ms':>26}{'ratio':>8}{'plain MiB':>11}{'clnr MiB':>10}")
    for name in asked.names:
        row = compare(name, engine, epochs, asked.turns)
        assert row.plain is not None
        assert row.plain_bytes is not None
        plain_ms, our_ms = (f"{middle:.3f} ({low:.3f}-{high:.3f})" for low, middle, high in (row.plain, row.ours))
        peaks = f"{row.plain_bytes / 2**20:>11.0f}{row.our_bytes / 2**20:>10.0f}"
        print(f"{name:14}{plain_ms:>26}{our_ms:>26}{row.ratio:>8.1f}{peaks}", flush=True)


if __name__ == "__main__":
    command(main)
