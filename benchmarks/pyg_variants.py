"""Plain PyG in float32, in bfloat16 and compiled, against clnr with full and sampled steps: milliseconds per epoch of CLNR.

    python -m benchmarks.pyg_variants cora computers physics arxiv-sized --device cuda

All implementations take turns in one process. A time is the median over epochs after warm-up, which includes compilation;
printed are the median over turns, the lowest and the highest.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from functools import partial

import torch

from benchmarks import command, positive
from benchmarks.epoch import SYNTHETIC, subject
from clnr.bench.timing import ours, plain
from clnr.engine import Engine, choose
from clnr.graph import Graph
from clnr.methods.recipe import Recipe
from clnr.support.machine import environment

VARIANTS = {
    "PyG float32": {},
    "PyG bfloat16": {"bfloat16": True},
    "PyG compiled": {"compiled": True},
    "PyG both": {"bfloat16": True, "compiled": True},
}


def with_moments(moments: str, graph: Graph, recipe: Recipe, engine: Engine, epochs: int) -> float:
    """``ours`` with full or sampled steps."""
    return ours(graph, recipe.but(moments=moments), engine, epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SYNTHETIC)}")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=positive, default=40, help="in each turn")
    parser.add_argument("--turns", type=positive, default=3)
    asked = parser.parse_args()
    engine = choose(asked.device, "float32")
    trainings = {name: partial(plain, engine=engine, **variant) for name, variant in VARIANTS.items()}
    for precision in ("float32", "bfloat16") if engine.device.type == "cuda" else ("float32",):
        for moments, step in (("all", "full"), ("sampled", "sampled")):
            trainings[f"clnr {precision}, {step}"] = partial(with_moments, moments, engine=choose(asked.device, precision))
    print(f"{environment.describe(engine.device)}, torch {torch.__version__}, {asked.turns} turn(s) of {asked.epochs} epochs")
    print(f"{'ms per epoch':14}" + "".join(f"{name:>26}" for name in trainings))
    for name in asked.names:
        graph, recipe = subject(name)
        times: dict[str, list[float]] = {each: [] for each in trainings}
        for _ in range(asked.turns):
            for each, train in trainings.items():
                gc.collect()
                if engine.device.type == "cuda":
                    torch.cuda.empty_cache()
                times[each].append(train(graph, recipe, epochs=asked.epochs))
        cells = (f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})" for each in times.values())
        print(f"{name:14}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


if __name__ == "__main__":
    command(main)
