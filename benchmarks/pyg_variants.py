"""Plain PyG in float32, in bfloat16 and compiled, against clnr in both precisions: milliseconds per epoch of CLNR.

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
from clnr.engine import choose
from clnr.support import environment

VARIANTS = {
    "PyG float32": {},
    "PyG bfloat16": {"bfloat16": True},
    "PyG compiled": {"compiled": True},
    "PyG both": {"bfloat16": True, "compiled": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SYNTHETIC)}")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=positive, default=40, help="in each turn")
    parser.add_argument("--turns", type=positive, default=3)
    asked = parser.parse_args()
    engine = choose(asked.device, "float32")
    trainings = {name: partial(plain, engine=engine, **variant) for name, variant in VARIANTS.items()}
    trainings["clnr float32"] = partial(ours, engine=engine)
    if engine.device.type == "cuda":
        trainings["clnr bfloat16"] = partial(ours, engine=choose(asked.device, "bfloat16"))
    print(f"{environment.describe(engine.device)}, torch {torch.__version__}, {asked.turns} turn(s) of {asked.epochs} epochs")
    print(f"{'ms per epoch':14}" + "".join(f"{name:>24}" for name in trainings))
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
        print(f"{name:14}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    command(main)
