"""Accuracies and times of a method on many data sets with many seeds, in one process.

python -m benchmarks.sets --seeds 20                      # CLNR on the seven data sets, if available
python -m benchmarks.sets --method GRACE cora cs
python -m benchmarks.sets cora photo --precision float32
python -m benchmarks.sets --set moments=sampled           # sampled steps
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from benchmarks import command, positive
from clnr import datasets, methods, recipe_for, runs
from clnr.engine import choose
from clnr.errors import DataError
from clnr.methods.recipe import parse
from clnr.support.machine import environment

SETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=SETS)
    parser.add_argument("--method", default=methods.CLNR.name)
    parser.add_argument("--seeds", type=positive, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of each recipe")
    asked = parser.parse_args()
    method, began = methods.find(asked.method), time.perf_counter()
    print(f"{method.name:12}{'strict %':>14}{'paper rule %':>14}{'ms per epoch':>13}{'parallel':>10}{'seconds':>9}")
    for name in asked.names:
        start = time.perf_counter()
        try:
            graph = datasets.load(name)
        except DataError as error:
            print(f"{name:12}no data: {error}", flush=True)
            continue
        recipe = recipe_for(method, name).but(**parse(asked.set))
        made = list(runs(method, graph, range(asked.seeds), recipe=recipe, device=asked.device, precision=asked.precision))
        spread = {
            rule: f"{statistics.fmean(values):.2f}±{statistics.pstdev(values):.2f}"
            for rule in ("strict", "paper")
            for values in [[getattr(run, rule) for run in made]]
        }
        epoch = statistics.median(run.epoch_ms for run in made)
        seconds = time.perf_counter() - start
        row = f"{name:12}{spread['strict']:>14}{spread['paper']:>14}{epoch:>13.3f}{made[0].parallel_seeds:>10}{seconds:>9.1f}"
        print(row, flush=True)
    engine = choose(asked.device, asked.precision)
    where = f"{environment.describe(engine.device)}, {engine.precision}, torch {torch.__version__}"
    print(f"all: {time.perf_counter() - began:.1f} s on {where}")


if __name__ == "__main__":
    command(main)
