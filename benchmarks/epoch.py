"""An epoch of CLNR against the same in plain PyG, in one run: times, their ratio, and peaks of memory.

    python -m benchmarks.epoch cora citeseer photo            # data sets by name
    python -m benchmarks.epoch arxiv-shape --device cuda      # a generated graph of ogbn-arxiv's shape

Each contender trains in a process of its own, in turns, several times; a time is the median over epochs after warm-up, and what
is printed is the median over turns, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

import torch

from clnr import CLNR, data, machine, recipe_for
from clnr.bench.measure import ours, plain
from clnr.data.synthetic import shaped
from clnr.engine import choose
from clnr.graph import Graph
from clnr.recipe import Recipe

SHAPES = {"arxiv-shape": ("ogbn-arxiv", 169_343, 1_157_799, 128)}
CONTENDERS = {"plain": plain, "ours": ours}


def subject(name: str) -> tuple[Graph, Recipe]:
    """A graph and CLNR's recipe for it."""
    if name in SHAPES:
        like, *sizes = SHAPES[name]
        return shaped(*sizes), recipe_for(CLNR, like)
    return data.load(name), recipe_for(CLNR, name)


def measure(who: str, name: str, device: str, precision: str, epochs: int) -> dict[str, float]:
    """In this process: milliseconds an epoch and the peak of memory above what the graph's loading took."""
    graph, recipe = subject(name)
    engine = choose(device, precision)
    meter = machine.MemoryMeter(engine.device)
    return {"ms": CONTENDERS[who](graph, recipe, engine, epochs), "bytes": meter.peak()}


def elsewhere(*words: str) -> dict[str, float]:
    """The same in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.epoch", "--one", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SHAPES)}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", default="auto", help="of clnr; plain PyG is float32")
    parser.add_argument("--epochs", type=int, default=0, help="in each turn; 12 on a CPU and 200 on a GPU where not given")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    epochs = asked.epochs or (200 if asked.device == "cuda" else 12)
    if asked.one:
        print(json.dumps(measure(asked.one, asked.names[0], asked.device, asked.precision, epochs)))
        return
    where = machine.describe(torch.device(asked.device))
    print(f"{where}, {asked.precision}, torch {torch.__version__}, {asked.turns} turns of {epochs} epochs")
    print(f"{'':14}{'plain PyG ms':>24}{'clnr ms':>24}{'ratio':>8}{'plain MiB':>11}{'clnr MiB':>10}")
    for name in asked.names:
        rest = (name, "--device", asked.device, "--precision", asked.precision, "--epochs", str(epochs))
        turns = [{who: elsewhere(who, *rest) for who in CONTENDERS} for _ in range(asked.turns)]
        times = {who: sorted(turn[who]["ms"] for turn in turns) for who in CONTENDERS}
        middle = {who: statistics.median(times[who]) for who in CONTENDERS}
        spread = {who: f"{middle[who]:.2f} ({times[who][0]:.2f}-{times[who][-1]:.2f})" for who in CONTENDERS}
        peak = {who: max(turn[who]["bytes"] for turn in turns) / 2**20 for who in CONTENDERS}
        ratio = middle["plain"] / middle["ours"]
        print(
            f"{name:14}{spread['plain']:>24}{spread['ours']:>24}{ratio:>8.1f}{peak['plain']:>11.0f}{peak['ours']:>10.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
