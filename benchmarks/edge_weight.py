"""What should columns that come from edges weigh beside a node's own features, and can that be told without labels?

    python -m benchmarks.edge_weight cora cora:h=0 cora:h=0.25 cora:shuffled dblp photo

CLNR-mix is trained once for each graph, and read out with all blocks that come from edges scaled by several weights. A logistic
regression classifies the vectors, and its accuracy on validation nodes is printed, the mean over splits. Beside it stand two
measures that need no labels, each 0.5 where edges tell nothing and 1 where they tell all: how often a node is more like the
mean of its own neighbours than like that of some other node's,

- ``features``: by its features;
- ``structure``: by where walks lead along one half of the edges, with neighbours by the other half.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from benchmarks import _study_graphs as graphs
from benchmarks import command, positive
from clnr import methods
from clnr.datasets.splits import random_split
from clnr.embedding.defaults import default_recipe
from clnr.engine import Engine, View, choose
from clnr.evaluation import logistic_probe
from clnr.experiments.run import learn
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, sub_dict
from clnr.nn.readout import ReadoutContext
from clnr.support import environment

WEIGHTS = (0.15, 0.3, 0.5, 0.7, 1.0)
MLP = 1
COLUMNS, STEPS = 64, 4


@torch.no_grad()
def matrices(model: Model, parameters: Parameters, engine: Engine, view: View) -> list[tuple[bool, float, torch.Tensor]]:
    """What a read-out is made from: whether each matrix comes from edges, its size, and its rows."""
    encoded = model.encoder.outputs(sub_dict(parameters, "encoder"), [engine.operators(view)])
    context, own = ReadoutContext(engine, view, encoded), sub_dict(parameters, "readout")
    found = []
    assert model.readout is not None
    for place, block in model.readout.places():
        products = block.products(sub_dict(own, place), len(encoded)) or []
        for product, matrix in zip(products, block(sub_dict(own, place), context), strict=True):
            source = product.source
            of_itself = not product.hops and not source.walk_columns and source.encoder in (None, MLP)
            found.append((not of_itself, block.size, matrix))
    return found


def blocks(graph: Graph, recipe: Recipe, engine: Engine) -> list[tuple[bool, float, torch.Tensor]]:
    """The matrices that CLNR-mix reads out after training."""
    learned = learn(methods.CLNR_MIX, graph.without_labels(), 0, recipe, engine)
    with engine.use_threads():
        return matrices(methods.CLNR_MIX.build(recipe), learned.fitted.parameters, engine, View(learned.device_graph))


def accuracy(graph: Graph, recipe: Recipe, made: list[tuple[bool, float, torch.Tensor]], weight: float, splits: int) -> float:
    """Of validation nodes, in percent, with the blocks that come from edges scaled."""
    readout = methods.CLNR_MIX.build(recipe).readout
    assert readout is not None
    sized = [(size * (weight if from_edges else 1), matrix) for from_edges, size, matrix in made]
    fitted = readout.fit_components(sized, torch.device("cpu"))
    rows = (torch.cat([matrix for _, matrix in sized], 1) @ fitted["weight"] + fitted["bias"]).numpy()
    return statistics.fmean(
        logistic_probe(rows, graph.labels, random_split(graph, seed), seed).validation for seed in range(splits)
    )


def measures(graph: Graph, own: Array) -> tuple[float, float]:
    """What edges tell by features and by structure."""
    draw, adjacency = np.random.default_rng(0), graph.to_scipy()
    pairs = sp.triu(adjacency.maximum(adjacency.T), 1).tocoo()
    half = draw.random(pairs.nnz) < 0.5
    both, first, second = (_neighbours(pairs, part) for part in (np.ones_like(half), half, ~half))
    walked = draw.standard_normal((graph.num_nodes, COLUMNS))
    for _ in range(STEPS):
        walked = normalize(first @ walked)
    return _alike(own, both, draw), _alike(walked, second, draw)


def _neighbours(pairs: sp.coo_array, some: Array) -> sp.csr_array:
    """Its product with rows is the mean over each node's neighbours, by some of the pairs."""
    one_way = sp.csr_array((np.ones(some.sum()), (pairs.row[some], pairs.col[some])), shape=pairs.shape)
    return normalize(one_way + one_way.T, "l1")


def _alike(rows: Array, neighbours: sp.csr_array, draw: np.random.Generator) -> float:
    """How often a node's row is more like the mean of its neighbours' than like that of some other node's neighbours."""
    unit = normalize(rows - rows.mean(0))
    around = normalize(neighbours @ unit)
    some = np.flatnonzero(around.any(1) & unit.any(1))
    cosines = [(unit[some] * around[which]).sum(1) for which in (some, draw.permutation(some))]
    return float(roc_auc_score(np.repeat([1, 0], len(some)), np.concatenate(cosines)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="graphs of benchmarks.defaults, with features and labels")
    parser.add_argument("--splits", type=positive, default=3)
    asked = parser.parse_args()
    engine = choose("cpu", "float32")
    print(f"{environment.describe(engine.device)}, torch {torch.__version__}; validation accuracy, %")
    print(f"{'graph':20}{'features':>10}{'structure':>10}" + "".join(f"{weight:>8}" for weight in WEIGHTS))
    for name in asked.names:
        graph = graphs.load(name).graph
        recipe, _ = default_recipe(methods.CLNR_MIX, graph)
        made = blocks(graph, recipe, engine)
        (own,) = (matrix for from_edges, _, matrix in made[-3:] if not from_edges)
        told = measures(graph, own.numpy())
        found = [accuracy(graph, recipe, made, weight, asked.splits) for weight in WEIGHTS]
        cells = [f"{value:10.2f}" for value in told] + [f"{value:8.1f}" for value in found]
        print(f"{name:20}" + "".join(cells), flush=True)


if __name__ == "__main__":
    command(main)
