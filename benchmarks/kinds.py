"""Kinds of edges, and weights in an odd unit: do they help, or at least do no harm?

    python -m benchmarks.kinds cora citeseer --seeds 5

Each graph is read by ``read_tables``, with more to its edges: a second kind of edges that says nothing (its own edges split in
two at random), one that helps or not (links to the five nodes with the most similar features), and one that hurts (ten random
edges for each of its own); and small weights at random. CLNR trains on it without labels, and logistic
regression gives the strict accuracy: on the graph as it is, with all edges as one kind, with one number for each kind, so that
all kinds have the same total weight, and as clnr does it, each kind normalised by itself. Beside small weights, a node itself
weighs 1, or, as clnr does it, what the median edge does.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from benchmarks import append, command, positive
from clnr import CLNR, datasets, recipe_for
from clnr.datasets.splits import split_of
from clnr.engine import choose
from clnr.evaluation import logistic_probe
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.machine import environment
from clnr.tables import read_tables

Kinds = dict[str, Array]
"""Edges of each kind: two rows, sources and targets, each edge once."""
NEAREST = 5
NOISE = 10
DAYS, HALF_LIFE = 365.0, 90.0
SMALL = 0.01


def own_edges(graph: Graph) -> Array:
    source, target, _ = graph.edges()
    return np.stack([source, target])[:, source < target]


def halves(graph: Graph, random: np.random.Generator) -> Kinds:
    edges = own_edges(graph)
    first = random.random(edges.shape[1]) < 0.5
    return {"one half": edges[:, first], "other half": edges[:, ~first]}


def similar(graph: Graph, random: np.random.Generator) -> Kinds:
    x = normalize(sp.csr_array(graph.features))
    near = NearestNeighbors(n_neighbors=NEAREST + 1).fit(x).kneighbors(return_distance=False)[:, :NEAREST]
    return {"own": own_edges(graph), "similar": _distinct(np.stack([np.repeat(np.arange(len(near)), NEAREST), near.ravel()]))}


def noise(graph: Graph, random: np.random.Generator) -> Kinds:
    edges = own_edges(graph)
    return {"own": edges, "noise": _distinct(random.integers(0, graph.num_nodes, (2, NOISE * edges.shape[1])))}


def _distinct(ends: Array) -> Array:
    return np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)


CASES: dict[str, Callable[[Graph, np.random.Generator], Kinds]] = {
    "split at random": halves,
    f"{NEAREST} most similar nodes": similar,
    f"noise, {NOISE} times as many": noise,
}


def table(kinds: Kinds, **columns: Any) -> Any:
    """All edges as one table: source and target."""
    source, target = np.concatenate([*kinds.values()], axis=1)
    return pa.table({"source": source, "target": target, **columns})


def read(graph: Graph, edges: Any) -> Graph:
    """The graph with these edges, as ``read_tables`` weighs them, and nodes, as ``clnr embed`` weighs these beside them."""
    nodes = pa.table({"id": np.arange(graph.num_nodes)})
    source, target, weight = read_tables(edges, nodes).edges()
    return Graph.from_edges(
        source, target, graph.features, weight=weight, labels=graph.labels, split=graph.split, name=graph.name
    )


def balanced(kinds: Kinds) -> Any:
    """A table with weights that give all kinds the same total."""
    counts = [edges.shape[1] for edges in kinds.values()]
    return table(kinds, weight=np.repeat([sum(counts) / len(counts) / count for count in counts], counts))


def variants(graph: Graph, random: np.random.Generator) -> dict[tuple[str, str], Graph]:
    """All graphs of a seed, by the case and by how kinds are treated."""
    made = {("as it is", ""): graph}
    for case, kinds in ((case, make(graph, random)) for case, make in CASES.items()):
        if sum(edges.shape[1] for edges in kinds.values()) > graph.num_edges // 2:
            made[case, "as one kind"] = read(graph, table(kinds))
        made[case, "one number a kind"] = read(graph, balanced(kinds))
        made[case, "each by itself"] = read(graph, {kind: table({kind: edges}) for kind, edges in kinds.items()})
    own = table({"own": own_edges(graph)})
    weights = pa.array(random.uniform(0, SMALL, own.num_rows))
    made[f"weights of 0 to {SMALL}", ""] = read(graph, own.append_column("weight", weights))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="data sets with labels")
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--epochs", type=positive, default=20)
    parser.add_argument("--dimension", type=positive, default=64)
    parser.add_argument("--threads", type=positive, default=1)
    parser.add_argument("--log", type=Path, help="file to append each accuracy to, as a line of JSON")
    asked = parser.parse_args()
    engine = choose("cpu", threads=asked.threads)
    where = f"{environment.describe(torch.device('cpu'))}, torch {torch.__version__}"
    print(f"{where}; CLNR, {asked.epochs} epochs, {asked.dimension} dimensions, seeds 0 to {asked.seeds - 1}; strict %")
    for name in asked.names:
        graph, began = datasets.load(name), time.perf_counter()
        recipe = recipe_for(CLNR, name).but(epochs=asked.epochs, dimension=asked.dimension, hidden=asked.dimension)
        found: dict[tuple[str, str], list[float]] = {}
        for seed in range(asked.seeds):
            split = split_of(graph, seed)
            for which, each in variants(graph, np.random.default_rng(seed)).items():
                z = learn(CLNR, each, seed, recipe, engine).z.numpy()
                accuracy = logistic_probe(z, graph.labels, split, seed).scores["accuracy"]
                found.setdefault(which, []).append(accuracy)
                append(asked.log, {"set": name, "seed": seed, "case": which, "strict": accuracy})
        print(f"{name}, {time.perf_counter() - began:.0f} s")
        for (case, how), accuracies in found.items():
            print(f"  {case:28}{how:20}{statistics.fmean(accuracies):6.1f} ± {statistics.pstdev(accuracies):.1f}")


if __name__ == "__main__":
    command(main)
