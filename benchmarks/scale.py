"""Time and memory of an epoch of CLNR against the size of the graph: a table, and a plot with --plot FILE.

    python -m benchmarks.scale                                # 10^4 to 10^7 edges
    python -m benchmarks.scale --edges 3e7 1e8 --plot scale.png
    python -m benchmarks.scale --regular --set moments=sampled layers=1 --set moments=sampled layers=2

Synthetic graphs with the density and feature count of ogbn-arxiv, trained with its recipe: three layers, 512 wide, m = 1024.
Their hubs grow with them, and so does what a sampled step reaches; with --regular, all nodes have 14 neighbours at any size.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import math
from typing import NamedTuple

import numpy as np
import torch

from benchmarks import command, positive
from benchmarks._graphs import shaped
from benchmarks._regular import DEGREE, RegularGraph
from benchmarks.epoch import ours
from clnr import CLNR, recipe_for
from clnr.engine import Engine, choose
from clnr.graph import Graph
from clnr.graph.csr import CSR
from clnr.methods.recipe import Recipe, parse
from clnr.support.machine import environment, memory

EDGES = [round(10 ** (half / 2)) for half in range(8, 15)]
EDGES_PER_NODE = 14
FEATURES = 128


class Measured(NamedTuple):
    """The size of a graph, the median epoch in milliseconds, and the peak of memory."""

    nodes: int
    edges: int
    ms: float
    peak: int


def measure(graph: Graph, recipe: Recipe, engine: Engine, epochs: int) -> Measured:
    gc.collect()
    if engine.device.type == "cuda":
        torch.cuda.empty_cache()
    meter = memory.MemoryMeter(engine.device)
    return Measured(graph.num_nodes, graph.num_edges, ours(graph, recipe, engine, epochs), meter.peak())


def generated(edges: int) -> tuple[Graph, Recipe]:
    """A synthetic graph of about ``edges`` directed edges, with the density and feature count of ogbn-arxiv, and its recipe."""
    return shaped(max(edges // EDGES_PER_NODE, 100), edges // 2, FEATURES), recipe_for(CLNR, "ogbn-arxiv")


def slope(rows: list[Measured], value: str) -> float:
    """The exponent of growth over the larger half of sizes: 1 is linear."""
    upper = rows[len(rows) // 2 :]
    heights = {"time": lambda row: row.ms, "memory": lambda row: row.peak}[value]
    return math.log(heights(upper[-1]) / heights(upper[0])) / math.log(upper[-1].edges / upper[0].edges)


def regular(edges: int) -> tuple[Graph, Recipe]:
    """A graph of about so many edges in which all nodes have as many neighbours, and its recipe."""
    made = RegularGraph(edges // DEGREE)
    counts, found = made.neighbours(np.arange(made.nodes))
    links = CSR(np.concatenate([[0], counts.cumsum()]), found, None)
    x = np.random.default_rng(0).standard_normal((made.nodes, FEATURES), np.float32)
    return Graph(features=x, incoming=links, outgoing=links, name="regular"), recipe_for(CLNR, "ogbn-arxiv")


def plot(rows: list[Measured], path: str, where: str) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(7, 2.8), constrained_layout=True)
    edges = [row.edges for row in rows]
    for axis, heights, label in (
        (axes[0], [row.ms for row in rows], "ms per epoch"),
        (axes[1], [row.peak / 2**30 for row in rows], "peak memory, GiB"),
    ):
        axis.loglog(edges, heights, "o-", color="#0072B2", label="CLNR")
        line = [heights[-1] * each / edges[-1] for each in edges]
        axis.loglog(edges, line, ":", color="#666666", label="linear")
        axis.set(xlabel="edges (both directions)", ylabel=label, ylim=(min(heights) / 2, max(heights) * 2))
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.suptitle(where, fontsize=9)
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=float, nargs="+", default=EDGES)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--epochs", type=positive)
    parser.add_argument(
        "--set",
        nargs="+",
        action="append",
        metavar="KEY=VALUE",
        help="of the recipe; each time, all graphs are trained so, too",
    )
    parser.add_argument("--regular", action="store_true", help="graphs of equal degrees")
    parser.add_argument("--plot", metavar="FILE")
    asked = parser.parse_args()
    if min(asked.edges) < 100:
        parser.error("--edges: at least 100")
    if asked.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install matplotlib")
    engine = choose(asked.device, asked.precision)
    epochs = asked.epochs or (40 if engine.device.type == "cuda" else 4)
    where = f"{environment.describe(engine.device)}, {engine.precision}, torch {torch.__version__}"
    print(where)
    print(f"{'edges':>12}{'nodes':>12}{'ms per epoch':>14}{'GiB':>8}", flush=True)
    series: dict[str, list[Measured]] = {" ".join(each): [] for each in asked.set or [[]]}
    for edges in asked.edges:
        graph, recipe = (regular if asked.regular else generated)(round(edges))
        for how, rows in series.items():
            row = measure(graph, recipe.but(**parse(how.split())), engine, epochs)
            rows.append(row)
            print(f"{row.edges:>12,}{row.nodes:>12,}{row.ms:>14.3f}{row.peak / 2**30:>8.2f}  {how}", flush=True)
    for how, rows in series.items():
        if len(rows) > 2:
            grown = f"time {slope(rows, 'time'):.2f}, memory {slope(rows, 'memory'):.2f}"
            print(f"growth over the larger half: {grown} (1 is linear)  {how}")
    if asked.plot:
        plot(next(iter(series.values())), asked.plot, where)


if __name__ == "__main__":
    command(main)
