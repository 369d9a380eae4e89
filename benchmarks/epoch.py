"""An epoch of CLNR, in full and in sampled steps, against plain PyG, in one run: times, their ratios, and peaks of memory.

    python -m benchmarks.epoch cora citeseer photo            # data sets by name
    python -m benchmarks.epoch arxiv-sized --device cuda      # an arXiv-sized synthetic graph
    python -m benchmarks.epoch cora --pyg-variants            # and PyG in bfloat16, and compiled

A full step is the paper's and PyG's. A sampled one takes the columns' moments over the sampled nodes (moments=sampled), and
computes only what these need. All take turns, several times; on a CPU each in a process of its own, whose memory is measured.
A time is the median over epochs after warm-up; the median over turns is printed, with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial

import torch

from benchmarks import command, positive
from benchmarks._graphs import shaped
from clnr import CLNR, datasets, recipe_for
from clnr.engine import Engine, choose
from clnr.graph import Graph
from clnr.methods.recipe import Recipe
from clnr.support.machine import environment, memory
from clnr.training.loop import fit


def ours(graph: Graph, recipe: Recipe, engine: Engine, epochs: int) -> float:
    """The median epoch of clnr, in milliseconds."""
    fitted = fit(CLNR.build(recipe), engine, engine.to_device(graph.without_labels()), recipe.but(epochs=epochs), seed=0)
    assert fitted.epoch_ms is not None
    return fitted.epoch_ms


def plain(graph: Graph, recipe: Recipe, engine: Engine, epochs: int, **variant: bool) -> float:
    """The median epoch of plain PyG, or of a variant of it, on the same device, in milliseconds, without the first fifth."""
    from benchmarks._plain_pyg import PlainCLNR  # PyG takes seconds to import, and nothing else here needs it.

    training = PlainCLNR(graph, recipe, engine.device, **variant)
    times = []
    for _ in range(epochs):
        began = time.perf_counter()
        training.epoch()
        if engine.device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times[max(1, epochs // 5) :] or times)


SYNTHETIC = {"arxiv-sized": ("ogbn-arxiv", 169_343, 1_157_799, 128)}
IMPLEMENTATIONS = {"plain PyG": (plain, "all"), "clnr, full": (ours, "all"), "clnr, sampled": (ours, "sampled")}
PYG_VARIANTS = {
    "PyG, bfloat16": (partial(plain, bfloat16=True), "all"),
    "PyG, compiled": (partial(plain, compiled=True), "all"),
    "PyG, both": (partial(plain, bfloat16=True, compiled=True), "all"),
}


def subject(name: str) -> tuple[Graph, Recipe]:
    """A graph and CLNR's recipe for it."""
    if name in SYNTHETIC:
        like, *sizes = SYNTHETIC[name]
        return shaped(*sizes), recipe_for(CLNR, like)
    return datasets.load(name), recipe_for(CLNR, name)


def run_one(who: str, name: str, engine: Engine, epochs: int) -> dict[str, float]:
    """In this process, one implementation: milliseconds per epoch and the peak of memory."""
    graph, recipe = subject(name)
    train, moments = (IMPLEMENTATIONS | PYG_VARIANTS)[who]
    gc.collect()
    if engine.device.type == "cuda":
        torch.cuda.empty_cache()
    meter = memory.MemoryMeter(engine.device)
    with engine.use_threads():
        return {"ms": train(graph, recipe.but(moments=moments), engine, epochs), "bytes": meter.peak()}


def in_subprocess(who: str, name: str, engine: Engine, epochs: int) -> dict[str, float]:
    """The same on a CPU, in a process of its own."""
    words = [name, "--device", "cpu", "--precision", engine.precision, "--epochs", str(epochs), "--one", who]
    words += [] if engine.threads is None else ["--threads", str(engine.threads)]
    done = subprocess.run([sys.executable, "-m", "benchmarks.epoch", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def compare(names: Iterable[str], name: str, engine: Engine, epochs: int, turns: int) -> str:
    """A line for each implementation: milliseconds, how many times faster than the first, and MiB."""
    made: dict[str, list[dict[str, float]]] = {who: [] for who in names}
    for _ in range(turns):
        for who, results in made.items():
            one = (
                run_one(who, name, engine, epochs) if engine.device.type == "cuda" else in_subprocess(who, name, engine, epochs)
            )
            results.append(one)
    first, lines = 0.0, []
    for who, results in made.items():
        times, peak = [each["ms"] for each in results], max(each["bytes"] for each in results)
        middle = statistics.median(times)
        first = first or middle
        spread = f"{middle:.3f} ({min(times):.3f}-{max(times):.3f})"
        lines.append(f"{name:14}{who:16}{spread:>28}{first / middle:>8.1f}{peak / 2**20:>10.0f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SYNTHETIC)}")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", help="of clnr; plain PyG is float32")
    parser.add_argument("--threads", type=positive, help="of the CPU, for all; by default PyG takes torch's, clnr by the work")
    parser.add_argument("--epochs", type=positive, help="in each turn; by default 12 on a CPU and 100 on a GPU")
    parser.add_argument("--turns", type=positive, default=3)
    parser.add_argument("--pyg-variants", action="store_true", help="also time plain PyG in bfloat16, compiled, and both")
    parser.add_argument("--one", choices=IMPLEMENTATIONS | PYG_VARIANTS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    engine = choose(asked.device, asked.precision, asked.threads)
    epochs = asked.epochs or (100 if engine.device.type == "cuda" else 12)
    if asked.one:
        print(json.dumps(run_one(asked.one, asked.names[0], engine, epochs)))
        return
    where = environment.describe(engine.device)
    print(f"{where}, {engine.precision}, torch {torch.__version__}, {asked.turns} turn(s) of {epochs} epochs")
    print(f"{'':30}{'ms':>28}{'ratio':>8}{'MiB':>10}")
    names = IMPLEMENTATIONS | (PYG_VARIANTS if asked.pyg_variants else {})
    for name in asked.names:
        print(compare(names, name, engine, epochs, asked.turns), flush=True)


if __name__ == "__main__":
    command(main)
