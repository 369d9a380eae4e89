"""What should a node itself weigh beside its weighted edges? Several answers, with weights of several kinds.

    python -m benchmarks.self_loops cora citeseer dblp

The edges of a graph get weights: uniform ones, counts, two with long tails, ones that are larger within a class, or small ones
on as many random edges. Vectors are SVD-mix's (``clnr embed --effort quick``); a logistic regression classifies them, and its
accuracy on validation nodes is printed, the mean over splits.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import numpy as np
import torch

from benchmarks import _study_graphs as graphs
from benchmarks import command, positive
from clnr import methods
from clnr.datasets.splits import random_split
from clnr.embedding.defaults import default_recipe
from clnr.engine import choose
from clnr.evaluation import logistic_probe
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.machine import environment


def _half_above(weight: Array) -> float:
    """The weight of the edge that half of all weight lies above."""
    ordered = np.sort(weight)
    total = np.cumsum(ordered, dtype=np.float64)
    return float(ordered[np.searchsorted(total, total[-1] / 2)])


LOOPS: dict[str, Callable[[Array], float]] = {
    "median": lambda weight: float(np.median(weight)),
    "mean": lambda weight: float(weight.mean()),
    "half above": _half_above,
    "1": lambda weight: 1.0,
}
DRAWS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "uniform, 0 to 1": lambda draw, within: 1 - draw.random(len(within)),
    "counts": lambda draw, within: draw.geometric(0.5, len(within)).astype(float),
    "log-normal, 1.5": lambda draw, within: draw.lognormal(0, 1.5, len(within)),
    "Pareto, 1.2": lambda draw, within: 1 + draw.pareto(1.2, len(within)),
    "larger within a class": lambda draw, within: draw.lognormal(np.where(within, 1.0, -1.0), 1.0),
}
NOISE = "as many random edges of a fifth"


def weighted(graph: Graph, draw: Callable[[np.random.Generator, Array], Array]) -> Graph:
    """The graph with weights drawn for its edges."""
    source, target = graphs.pairs(graph)
    within = graph.labels[source] == graph.labels[target]
    weight = draw(np.random.default_rng(0), within)
    return graphs.with_edges(graph, source, target, weight=weight, undirected=True)


def accuracy(graph: Graph, loop_weight: float, splits: int) -> float:
    """Of validation nodes, in percent."""
    recipe, _ = default_recipe(methods.SVD_MIX, graph)
    engine = choose("cpu")
    device_graph = engine.to_device(graph.without_labels(), loop_weight)
    rows = learn(methods.SVD_MIX, graph, 0, recipe, engine, device_graph=device_graph).z.numpy()
    return statistics.fmean(
        logistic_probe(rows, graph.labels, random_split(graph, seed), seed).validation for seed in range(splits)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="graphs of benchmarks.defaults, with labels")
    parser.add_argument("--splits", type=positive, default=3)
    asked = parser.parse_args()
    print(f"{environment.describe(torch.device('cpu'))}, torch {torch.__version__}; validation accuracy, %")
    print(f"{'graph':12}{'weights':34}" + "".join(f"{name:>12}" for name in LOOPS))
    for name in asked.names:
        graph = graphs.load(name)
        drawn = {kind: weighted(graph, draw) for kind, draw in DRAWS.items()} | {NOISE: graphs.weighted(graph)}
        for kind, each in drawn.items():
            loops = (loop(each.incoming.weight) for loop in LOOPS.values())
            found = [accuracy(each, loop, asked.splits) for loop in loops]
            print(f"{name:12}{kind:34}" + "".join(f"{value:12.1f}" for value in found), flush=True)


if __name__ == "__main__":
    command(main)
