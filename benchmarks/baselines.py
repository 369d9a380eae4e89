"""The default method against baselines: node2vec, what takes no training, and the raw features.

    python -m benchmarks.baselines cora citeseer --seeds 5
    python -m benchmarks.baselines photo --methods CLNR-mix SVD-propagated node2vec --node2vec-epochs 15

Every method gets the same graph, which no recipe is known for, and the same width, and is evaluated by the same logistic
regression and by link prediction on held-out edges (cosine similarity of edges against non-edges). The methods take turns, one
seed per turn, each in a process of its own, whose memory is measured. Times are CPU times over all threads for embedding the
whole graph, without imports and reading, so that other load on the machine changes them little.

Methods are those of ``clnr ls methods``, with the recipe for an unknown graph, and:

node2vec  PyG's ``Node2Vec`` with p = q = 1 and the hyper-parameters of PyG's example but for the width: walks of 20 nodes,
          windows of 10, 10 walks per node, 1 negative, SparseAdam, batches of 128 nodes. PyG takes its walks from pyg-lib,
          which is not a dependency; here they are drawn in plain torch. Its loss copies 280,000 rows per batch; a compiled
          loop here computes the same loss and gradient several times faster, and its time and memory are printed.
          ``--pyg-loss`` uses PyG's own loss.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
import torch
import torch_geometric
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch_geometric.nn import Node2Vec

from benchmarks import append, command, positive
from benchmarks._rivals import uniform_walks
from clnr import datasets, methods
from clnr.datasets.splits import split_of
from clnr.embedding.defaults import default_recipe
from clnr.engine import choose, unit_rows
from clnr.evaluation import hold_out, link_cosines, logistic_probe, score_cosines, without_pairs
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.machine import environment, memory

NODE2VEC = "node2vec"
BATCH = 128
METHODS = (NODE2VEC, *(name for name, method in methods.METHODS.items() if not method.supervised))
DEFAULTS = (methods.CLNR_MIX.name, NODE2VEC, *(method.name for method in methods.BASELINES), methods.RAW.name)


@numba.njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def descend(z: Any, walks: Any, context: int, near: bool, eps: float, gradient: Any) -> float:
    """PyG's loss of positive pairs (``near``) or negative ones; its gradient is added to ``gradient``.

    Pairs are the first node of each window of a walk with every other node in it. All in float32, as in PyG.
    """
    count, nodes = walks.shape
    one, small, loss = np.float32(1), np.float32(eps), 0.0
    pairs = count * (nodes - context + 1) * (context - 1)
    own = np.empty(z.shape[1], np.float32)
    for walk in range(count):
        for first in range(nodes - context + 1):
            a = z[walks[walk, first]]
            own[:] = 0
            for second in range(first + 1, first + context):
                b, of_b = z[walks[walk, second]], gradient[walks[walk, second]]
                product = np.float32(0)
                for i in range(len(own)):
                    product += a[i] * b[i]
                chance = one / (one + np.exp(-product))
                wanted, other = (chance, one - chance) if near else (one - chance, chance)
                loss -= np.log(wanted + small)
                slope = wanted * other / (wanted + small) / np.float32(-pairs if near else pairs)
                for i in range(len(own)):
                    own[i] += slope * b[i]
                for i in range(len(own)):
                    of_b[i] += slope * a[i]
            gradient[walks[walk, first]] += own
    return loss / pairs


class Walker(Node2Vec):
    """PyG's node2vec on a graph, with the walks of this file and, optionally, PyG's own loss."""

    def __init__(self, graph: Graph, dimension: int = 128, pyg_loss: bool = False):
        # PyG's __init__ requires pyg-lib, so its fields are set here.
        torch.nn.Module.__init__(self)
        self.random_walk_fn = uniform_walks
        self.num_nodes = graph.num_nodes
        self.rowptr, self.col = (torch.from_numpy(part.astype(np.int64)) for part in graph.outgoing[:2])
        self.EPS = 1e-15
        # PyG counts the steps of a walk, not its nodes.
        self.embedding_dim, self.walk_length, self.context_size = dimension, 20 - 1, 10
        self.walks_per_node, self.num_negative_samples, self.p, self.q = 10, 1, 1.0, 1.0
        self.embedding = torch.nn.Embedding(self.num_nodes, self.embedding_dim, sparse=True)
        self.pyg_loss = pyg_loss

    def sample(self, batch: list[int]) -> tuple[Tensor, Tensor]:
        """Random walks, and random nodes as negatives; PyG cuts them into windows."""
        if self.pyg_loss:
            return super().sample(batch)
        start = torch.tensor(batch).repeat(self.walks_per_node)
        walks = self.random_walk_fn(self.rowptr, self.col, start, self.walk_length, self.p, self.q)
        anywhere = torch.randint(self.num_nodes, (len(start), self.walk_length))
        return walks, torch.cat([start[:, None], anywhere], 1)

    def learn(self, walks: Tensor, anywhere: Tensor) -> float:
        """The loss; its gradient becomes a sparse gradient of the embedding."""
        weight = self.embedding.weight
        if self.pyg_loss:
            weight.grad = None
            loss = self.loss(walks, anywhere)
            loss.backward()
            return loss.item()
        z, gradient = weight.detach().numpy(), np.zeros(weight.shape, np.float32)
        parts = ((walks, True), (anywhere, False))
        loss = sum(descend(z, nodes.numpy(), self.context_size, near, self.EPS, gradient) for nodes, near in parts)
        touched = torch.cat([walks.reshape(-1), anywhere.reshape(-1)]).unique()
        rows = torch.from_numpy(gradient)[touched]
        weight.grad = torch.sparse_coo_tensor(touched[None], rows, weight.shape, is_coalesced=True)
        return loss


def node2vec(graph: Graph, seed: int, dimension: int, epochs: int, pyg_loss: bool = False) -> Tensor:
    """Its embedding of a graph."""
    torch.manual_seed(seed)
    model = Walker(graph, dimension, pyg_loss)
    optimiser = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    loader = model.loader(batch_size=BATCH, shuffle=True)
    for _ in range(epochs):
        for walks, anywhere in loader:
            model.learn(walks, anywhere)
            optimiser.step()
    return model().detach()


def recipe_at(method: Method, graph: Graph, dimension: int) -> Recipe:
    """A method's recipe for an unknown graph, with another width."""
    recipe, _ = default_recipe(method, graph)
    return recipe.but(dimension=dimension) if "dimension" in method.keys else recipe


def embed(who: str, graph: Graph, seed: int, asked: argparse.Namespace) -> Tensor:
    """The rows that a method gives a graph."""
    if who == NODE2VEC:
        return node2vec(graph, seed, asked.dimension, asked.node2vec_epochs, asked.pyg_loss)
    method = methods.find(who)
    if method == methods.RAW:
        return torch.tensor(graph.features.toarray() if graph.sparse else graph.features)
    return learn(method, graph, seed, recipe_at(method, graph, asked.dimension), choose("cpu")).z


def run_one(who: str, name: str, seed: int, asked: argparse.Namespace) -> dict[str, float]:
    """In this process, one method with one seed."""
    graph = replace(datasets.load(name), dataset=None)
    seen = graph.without_labels()
    meter, began = memory.MemoryMeter(torch.device("cpu")), time.process_time()
    z = embed(who, seen, seed, asked)
    found = {"seconds": time.process_time() - began, "bytes": meter.peak(), "dimension": z.shape[1]}
    if not asked.links_only:
        assert graph.labels is not None
        found["strict"] = logistic_probe(z.numpy(), graph.labels, split_of(graph, seed), seed).scores["accuracy"]
    held = hold_out(seen, asked.share, seed)
    assert held is not None
    rows = embed(who, without_pairs(seen, held.positives), seed, asked)
    of_links = score_cosines(link_cosines(unit_rows(rows), held))
    return found | {"auc": of_links["auc"]}


def in_subprocess(who: str, name: str, seed: int, asked: argparse.Namespace, *more: str) -> dict[str, float]:
    """The same in a process of its own."""
    words = [name, "--one", who, "--seed", str(seed), "--share", str(asked.share), *more]
    words += ["--node2vec-epochs", str(asked.node2vec_epochs), "--threads", str(asked.threads)]
    words += ["--dimension", str(asked.dimension)]
    words += ["--pyg-loss"] if asked.pyg_loss else []
    done = subprocess.run([sys.executable, "-m", "benchmarks.baselines", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def trained(who: str) -> bool:
    return who == NODE2VEC or methods.find(who).objective is not None


def compare(name: str, asked: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """All methods, taking turns."""
    fixed = datasets.load(name).split is not None
    made: dict[str, list[dict[str, float]]] = {who: [] for who in asked.methods}
    for seed in range(asked.seeds):
        for who in asked.methods:
            if trained(who) and seed >= (asked.trained_seeds or asked.seeds):
                continue
            # Raw features and a published split are the same for every seed.
            known = made[who][:1] if who == methods.RAW.name and fixed else []
            own = in_subprocess(who, name, seed, asked, *(["--links-only"] if known else []))
            made[who].append(own | {"strict": own.get("strict", known[0]["strict"] if known else 0.0), "seed": seed})
            append(asked.log, {"set": name, "who": who} | made[who][-1])
    return made


def mean(values: list[float], digits: int) -> str:
    return f"{statistics.fmean(values):.{digits}f}±{statistics.pstdev(values):.{digits}f}"


def line(who: str, made: list[dict[str, float]], first: list[dict[str, float]]) -> str:
    of: dict[str, list[Any]] = {key: [each[key] for each in made] for key in ("strict", "auc", "seconds", "bytes", "dimension")}
    middle = statistics.median(of["seconds"])
    seconds = f"{middle:.1f} ({min(of['seconds']):.1f}-{max(of['seconds']):.1f})"
    ratio = f"{middle / statistics.median(each['seconds'] for each in first):.2f}"
    sizes = f"{of['dimension'][0]:>7}{len(made):>7}"
    scores = f"{mean(of['strict'], 2):>14}{mean(of['auc'], 3):>14}"
    return f"{'':4}{who:16}{sizes}{scores}{seconds:>24}{ratio:>10}{max(of['bytes']) / 2**20:>8.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help="data sets with labels")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=DEFAULTS, metavar="METHOD")
    parser.add_argument("--dimension", type=positive, default=256)
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--trained-seeds", type=positive, help="seeds of methods that are trained, if fewer")
    parser.add_argument("--node2vec-epochs", type=positive, default=100)
    parser.add_argument("--pyg-loss", action="store_true", help="node2vec's loss as PyG computes it")
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads(), help="of every method")
    parser.add_argument("--share", type=float, default=0.1, help="share of the edges that is held out")
    parser.add_argument("--log", type=Path, help="file to append each result to, as a line of JSON")
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--links-only", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    threadpool_limits(asked.threads)  # Of NumPy and SciPy.
    if asked.one:
        print(json.dumps(run_one(asked.one, asked.names[0], asked.seed, asked)))
        return
    modules = {"torch": torch, "torch-geometric": torch_geometric, "scipy": scipy, "scikit-learn": sklearn}
    versions = ", ".join(f"{name} {module.__version__}" for name, module in modules.items())
    print(f"{environment.describe(torch.device('cpu'))}, {versions}")
    print(f"seeds 0 to {asked.seeds - 1}, node2vec {asked.node2vec_epochs} epochs, {asked.share:.0%} of the edges held out")
    heads = f"{'':20}{'width':>7}{'seeds':>7}{'strict %':>14}{'link AUC':>14}"
    print(f"{heads}{'CPU seconds':>24}{'to first':>10}{'MiB':>8}")
    for name in asked.names:
        made = compare(name, asked)
        print(name)
        for who, rows in made.items():
            print(line(who, rows, made[asked.methods[0]]), flush=True)


if __name__ == "__main__":
    command(main)
