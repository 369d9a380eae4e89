"""Unseen nodes (inductive): how good are their embeddings, and do those of the old nodes change?

    python -m benchmarks.unseen_nodes cora citeseer --seeds 5
    python -m benchmarks.unseen_nodes computers --seeds 3 --epochs 100

A share of the nodes, none of them a training or validation node of the probe, is removed with all their edges before CLNR
trains with its recipe for the data set. Then all nodes are embedded with the trained parameters, and the strict probe gives
the accuracy on the hidden test nodes and on the seen ones, next to that of a training that saw all nodes. A convolution
normalises by the degrees of both ends, so the receptive field of L layers is L + 1 hops: old nodes further from all new nodes
are compared before and after these came, and after a single one came.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import append, command, positive
from benchmarks._fit_graph import fit_graph
from clnr import CLNR, datasets, recipe_for, rng
from clnr.datasets.splits import split_of
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.engine import Engine, choose
from clnr.errors import DataError
from clnr.evaluation import Task, probes
from clnr.graph import Graph, Split
from clnr.graph.csr import Array
from clnr.methods.recipe import Recipe
from clnr.support.machine import environment


def hidden_nodes(graph: Graph, split: Split, share: float, seed: int) -> Array:
    """Nodes to hide: a random share of all nodes, none of them a training or validation node."""
    free = np.setdiff1d(np.arange(graph.num_nodes), np.concatenate([split.train, split.validation]))
    count = round(share * graph.num_nodes)
    if not 0 < count < len(free):
        raise DataError(f"{graph.name} has {len(free):,} nodes that may be hidden, not {count:,}")
    # The stream keeps its first name, so that the same seed hides the same nodes.
    return free[rng.permute(rng.key(seed, "tomorrow"), torch.arange(count), len(free)).numpy()]


def before(graph: Graph, hidden: Array) -> tuple[Graph, Array]:
    """The graph without some nodes, their edges and all labels, and which nodes are left."""
    there = np.ones(graph.num_nodes, bool)
    there[hidden] = False
    left, place = np.flatnonzero(there), np.cumsum(there) - 1
    source, target, weight = graph.edges()
    kept = there[source] & there[target]
    seen = Graph.from_edges(
        place[source[kept]],
        place[target[kept]],
        graph.features[left],
        weight=None if weight is None else weight[kept],
        name=graph.name,
    )
    return seen, left


def beyond(graph: Graph, nodes: Array, hops: int) -> Array:
    """A mask of the nodes more than ``hops`` from all of some nodes, along edges in either direction."""
    a = graph.to_scipy()
    reached = np.zeros(graph.num_nodes, bool)
    reached[nodes] = True
    for _ in range(hops):
        now = reached.astype(np.float32)
        reached |= (a @ now + a.T @ now) > 0
    return ~reached


def change(old: Array, new: Array, left: Array, far: Array) -> tuple[int, float]:
    """How many old nodes are far, and the largest change of their values relative to the largest value of all."""
    which = far[left]
    moved = np.abs(new[left][which] - old[which]).max(initial=0)
    return int(which.sum()), float(moved / np.abs(old).max())


def train(graph: Graph, recipe: Recipe, seed: int, engine: Engine) -> EmbeddingResult:
    return fit_graph(graph.without_labels(), CLNR, recipe, seed, engine, hold_out=0)


def accuracies(z: Array, graph: Graph, split: Split, hidden: Array, recipe: Recipe) -> tuple[float, float]:
    """Strict accuracy on the hidden test nodes, and on the seen ones."""
    numbers, rows = (recipe.probe_learning_rate, recipe.probe_weight_decay), torch.from_numpy(z)
    parts = np.intersect1d(split.test, hidden), np.setdiff1d(split.test, hidden)
    tasks = [Task(rows, Split(split.train, split.validation, part), *numbers) for part in parts]
    new, old = (each.strict for each in probes(tasks, torch.tensor(graph.labels), recipe.probe_steps))
    return new, old


def run_seed(graph: Graph, recipe: Recipe, share: float, seed: int, engine: Engine) -> dict[str, Any]:
    """All results of one seed."""
    split = split_of(graph, seed)
    hidden = hidden_nodes(graph, split, share, seed)
    seen, left = before(graph, hidden)
    result = train(seen, recipe, seed, engine)
    z = result.model.embed(graph, engine)
    found: dict[str, Any] = {
        "hidden": len(np.intersect1d(split.test, hidden)),
        "visible": len(np.setdiff1d(split.test, hidden)),
    }
    found["hidden_new"], found["visible_new"] = accuracies(z, graph, split, hidden, recipe)
    whole = train(graph, recipe, seed, engine)
    found["hidden_all"], found["visible_all"] = accuracies(whole.z, graph, split, hidden, recipe)
    for extra in (0, 1):
        far = beyond(graph, hidden, recipe.layers + extra)
        found[f"far_{extra}"], found[f"change_{extra}"] = change(result.z, z, left, far)
    return found | single(result.model, graph, z, hidden[0], engine)


def single(model: FittedModel, graph: Graph, z: Array, new_node: int, engine: Engine) -> dict[str, Any]:
    """The same changes if a single node is added."""
    seen, left = before(graph, np.array([new_node]))
    far = beyond(graph, np.array([new_node]), model.recipe.layers + 1)
    count, moved = change(model.embed(seen, engine), z, left, far)
    return {"far_single": count, "change_single": moved}


def mean(made: list[dict[str, Any]], key: str) -> str:
    values = [each[key] for each in made]
    return f"{statistics.fmean(values):.2f}±{statistics.pstdev(values):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help="data sets with labels")
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--epochs", type=positive, default=200, help="at most, if the recipe has more")
    parser.add_argument("--share", type=float, default=0.2, help="share of the nodes that is hidden")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--log", type=Path, help="file to append the results of each seed to, as a line of JSON")
    asked = parser.parse_args()
    engine = choose(asked.device)
    where = f"{environment.describe(engine.device)}, torch {torch.__version__}"
    print(f"{where}, seeds 0 to {asked.seeds - 1}, {asked.share:.0%} hidden")
    print(f"{'strict % on':24}{'hidden test nodes':>36}{'seen test nodes':>30}")
    print(f"{'':12}{'epochs':>12}{'hidden':>14}{'all seen':>14}{'gap':>14}{'hidden':>14}{'all seen':>14}{'seconds':>9}")
    for name in asked.names:
        began = time.perf_counter()
        graph, recipe = datasets.load(name), recipe_for(CLNR, name)
        epochs = f"{min(recipe.epochs, asked.epochs)} of {recipe.epochs}"
        recipe = recipe.but(epochs=min(recipe.epochs, asked.epochs))
        made = []
        for seed in range(asked.seeds):
            found = run_seed(graph, recipe, asked.share, seed, engine)
            made.append(found | {"gap": found["hidden_new"] - found["hidden_all"]})
            append(asked.log, {"set": name, "seed": seed} | made[-1])
        keys = ("hidden_new", "hidden_all", "gap", "visible_new", "visible_all")
        print(f"{name:12}{epochs:>12}" + "".join(f"{mean(made, key):>14}" for key in keys), end="")
        print(f"{time.perf_counter() - began:>9.0f}")
        hops = recipe.layers
        for key, words in (
            ("0", f"old nodes more than {hops} hops from all new nodes"),
            ("1", f"old nodes more than {hops + 1} hops from all new nodes"),
            ("single", f"old nodes more than {hops + 1} hops from a single new node"),
        ):
            counts = [each[f"far_{key}"] for each in made]
            worst = max(each[f"change_{key}"] for each in made)
            print(f"{'':4}{words}: {min(counts):,} to {max(counts):,}, largest change {worst:.1e} of the largest number")
        sizes = ", ".join(f"{each['hidden']} hidden and {each['visible']} seen" for each in made[:1])
        print(f"{'':4}test nodes with seed 0: {sizes}", flush=True)


if __name__ == "__main__":
    command(main)
