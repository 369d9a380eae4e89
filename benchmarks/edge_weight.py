"""What should columns that come from edges weigh beside a node's own, and what does ``edge_weight=measured`` say?

    python -m benchmarks.edge_weight cora cora:h=0 cora:h=0.25 cora:shuffled dblp photo

CLNR-mix is trained once for each graph, and read out with all matrices that come from edges scaled by several weights. A
logistic regression classifies the vectors, and its accuracy on validation nodes is printed, the mean over splits. Before it
stand the two measures of ``clnr.nn.edge_information``, which need no labels, and the weight that follows.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics

import numpy as np
import torch

from benchmarks import _study_graphs as graphs
from benchmarks import command, positive
from clnr import methods
from clnr.datasets.splits import random_split
from clnr.embedding.defaults import default_recipe
from clnr.engine import Engine, View, choose
from clnr.evaluation import logistic_probe
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods.recipe import Recipe
from clnr.nn.edge_information import by_edges, by_rows, edge_weight, some_nodes
from clnr.nn.layers import sub_dict
from clnr.nn.whole_rows import WholeRows
from clnr.support.machine import environment

WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
Made = list[tuple[bool, float, torch.Tensor]]
"""The matrices of a read-out: whether each comes from nodes' own features alone, its size, and its rows."""


def matrices(graph: Graph, recipe: Recipe, engine: Engine) -> Made:
    """What CLNR-mix reads out after training."""
    learned = learn(methods.CLNR_MIX, graph.without_labels(), 0, recipe, engine)
    model, parameters, view = methods.CLNR_MIX.build(recipe), learned.fitted.parameters, View(learned.device_graph)
    assert model.readout is not None
    with torch.no_grad(), engine.use_threads():
        encoded = model.encoder.outputs(sub_dict(parameters, "encoder"), [engine.operators(view)])
        rows = WholeRows(engine, view, encoded, model.encoder.own_outputs, np.arange(graph.num_nodes))
        _, sampled = model.readout.fit_blocks(rows)
    return [
        (family.of_node, size, matrix)
        for family, size, matrix in zip(sampled.families, sampled.sizes, sampled.matrices, strict=True)
    ]


def accuracy(graph: Graph, recipe: Recipe, made: Made, weight: float, splits: int) -> float:
    """Of validation nodes, in percent, with the matrices that come from edges scaled."""
    readout = methods.CLNR_MIX.build(recipe).readout
    assert readout is not None
    sizes, matrices = [size * (1 if of_node else weight) for of_node, size, _ in made], [rows for *_, rows in made]
    fitted = readout.fit_components(sizes, matrices)
    rows = (torch.cat(matrices, 1) @ fitted["weight"] + fitted["bias"]).numpy()
    return statistics.fmean(
        logistic_probe(rows, graph.labels, random_split(graph, seed), seed).validation for seed in range(splits)
    )


def measures(graph: Graph, made: Made) -> tuple[float, float, float]:
    """What edges tell by rows and by themselves, and what they weigh for it."""
    nodes = some_nodes(graph.num_nodes)

    def rows_of(rows: torch.Tensor, nodes: Array) -> torch.Tensor:
        return rows[torch.from_numpy(nodes)]

    own = [functools.partial(rows_of, rows) for of_node, _, rows in made if of_node]
    told = [by_rows(graph.draw_neighbours, read, nodes) for read in own]
    edges = by_edges(graph.draw_neighbours, nodes, graph.num_nodes)
    weight = edge_weight(graph.draw_neighbours, own, graph.num_nodes)
    return max((each for each in told if each is not None), default=math.nan), math.nan if edges is None else edges, weight


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="graphs of benchmarks.defaults, with features and labels")
    parser.add_argument("--splits", type=positive, default=3)
    asked = parser.parse_args()
    engine = choose("cpu", "float32")
    print(f"{environment.describe(engine.device)}, torch {torch.__version__}; validation accuracy, %")
    heads = "".join(f"{head:>10}" for head in ("by rows", "by edges", "measured"))
    print(f"{'graph':20}{heads}" + "".join(f"{weight:>8}" for weight in WEIGHTS))
    for name in asked.names:
        graph = graphs.load(name)
        recipe, _ = default_recipe(methods.CLNR_MIX, graph)
        made = matrices(graph, recipe, engine)
        found = [accuracy(graph, recipe, made, weight, asked.splits) for weight in WEIGHTS]
        cells = [f"{value:10.2f}" for value in measures(graph, made)] + [f"{value:8.1f}" for value in found]
        print(f"{name:20}" + "".join(cells), flush=True)


if __name__ == "__main__":
    command(main)
