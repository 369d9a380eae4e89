"""Roofline: bytes and operations of an epoch of CLNR, the least time that this machine needs for them, and the actual time.

    python -m benchmarks.roofline arxiv-sized                          # or data sets by name, whose encoder is a GCN
    python -m benchmarks.roofline arxiv-sized --set moments=sampled    # of a sampled step

Counts the operations of one epoch as the engine does them, each at the machine's best rate: bytes at that of a large copy,
multiplications at that of a large matrix product in the engine's precision. Rows gathered by a propagation have two lower
bounds: each row read once, as if the cache held the rest, and all of them read from memory. Launches, small operations and
waiting are not counted: they separate small graphs from the bound.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from benchmarks import command
from benchmarks.epoch import ours, subject
from clnr import CLNR
from clnr.engine import Engine, choose
from clnr.errors import RecipeError
from clnr.graph import Graph
from clnr.methods.recipe import Recipe, parse
from clnr.nn.objectives import StepContext
from clnr.support.machine import environment


@dataclass(frozen=True)
class Work:
    """One kind of operation: how often; and per call bytes moved (at least, and with all gathers from memory) and flops."""

    name: str
    times: int
    least: float = 0.0
    gathered: float = 0.0
    flops: float = 0.0


class Hop(NamedTuple):
    """How many nodes within some hops of the loss are computed, and how many kept edges lead from them to one hop fewer."""

    nodes: int
    edges: int


def hops_of(graph: Graph, recipe: Recipe, engine: Engine) -> list[Hop]:
    """From the loss outwards: all nodes at any distance in a full step; in a sampled one, what the first epoch needs."""
    nodes = graph.num_nodes
    if recipe.moments == "all":
        kept = round(nodes + graph.num_edges * (1 - recipe.edge_drop))
        return [Hop(nodes, 0), *[Hop(nodes, kept)] * recipe.layers]
    device_graph, model = engine.to_device(graph), CLNR.build(recipe)
    assert model.objective is not None
    sampled = model.objective.nodes(nodes, StepContext(engine, device_graph, 0, 0, recipe.epochs))
    links, drop = device_graph.edges, model.augment(device_graph, 0, "train", 0)[0].drop
    keep = torch.ones_like(links.rows, dtype=torch.bool) if drop is None else drop.keep(links)
    reached = torch.zeros(nodes, dtype=torch.bool, device=engine.device)
    reached[slice(None) if sampled is None else sampled] = True
    hops = [Hop(int(reached.sum()), 0)]
    for _ in range(recipe.layers):
        needed = keep & reached[links.rows]
        reached[links.columns[needed]] = True
        hops.append(Hop(int(reached.sum()), int(needed.sum())))
    return hops


def counted(graph: Graph, recipe: Recipe, engine: Engine) -> list[Work]:
    """The operations of an epoch: two views, forward and backward."""
    if recipe.encoder != "gcn":
        raise RecipeError(f"only GCN encoders can be counted, and CLNR's encoder on {graph.name} is {recipe.encoder}")
    each = 2 if engine.precision == "bfloat16" else 4
    inputs, wide, views = graph.num_features, recipe.hidden, 2
    full, hops = recipe.moments == "all", hops_of(graph, recipe, engine)
    x = engine.to_device(graph).features
    stored = None if isinstance(x, torch.Tensor) else round(x.values.numel() * hops[-1].nodes / graph.num_nodes)
    shared = 1 if recipe.feature_mask == 0 and full else views

    def propagation(name: str, times: int, hop: int, width: int) -> Work:
        (nodes, kept), out = hops[hop], hops[hop - 1].nodes * width * each
        return Work(name, times, nodes * width * each + out + 4 * kept, kept * (width * each + 4) + out)

    def product(name: str, times: int, hop: int, inner: int, outer: int) -> Work:
        nodes = hops[hop].nodes
        moved = nodes * (inner + outer) * each
        return Work(name, times, moved, moved, 2 * nodes * inner * outer)

    work, first = [], recipe.layers
    width = recipe.dimension if recipe.layers == 1 else wide
    if stored is not None:
        rows = hops[first].nodes * width * each
        gathered, least = stored * (width * each + 8) + rows, inputs * width * each + rows + 8 * stored
        work += [Work("sparse features times W, and its gradient", 2 * shared, least, gathered)]
        work += [propagation("propagation, first layer, forward and backward", 2 * views, first, width)]
    elif inputs <= width:
        work += [
            propagation("propagation of features", views, first, inputs),
            product("first layer, forward and backward", 2 * views, first - 1, inputs, width),
        ]
    else:
        work += [product("first layer, forward and backward", 2 * shared, first, inputs, width)]
        work += [propagation("propagation, first layer, forward and backward", 2 * views, first, width)]
    for hop in range(first - 1, 1, -1):
        work += [propagation(f"propagation from hop {hop}, forward and backward", 2 * views, hop, wide)]
        work += [product(f"layer at hop {hop - 1}, forward, backward, weights", 3 * views, hop - 1, wide, wide)]
    if recipe.layers > 1:
        work += [propagation("propagation, last layer, forward and backward", 2 * views, 1, wide)]
        last = product("last layer: covariance", views, 0, wide, wide)
        if full:
            # Of a symmetric product in float32 only half is computed, and likewise of the similarities on a CPU.
            work += [replace(last, flops=last.flops / (1 if each == 2 else 2)), replace(last, name="last layer: gradient")]
        else:
            work += [replace(last, name="last layer, forward, backward, weights", times=3 * views)]
    rows = sum(hop.nodes for hop in hops[:first]) * wide * each
    work += [Work("sums over rows, and centring", views * (2 if full else 1), rows, rows)]
    sampled = 2 * min(recipe.sampled_nodes or graph.num_nodes, graph.num_nodes)
    similarities = 2 * sampled**2 * recipe.dimension
    cpu = engine.device.type == "cpu"
    work += [Work("NT-Xent, forward", 1, flops=similarities / (2 if cpu else 1))]
    work += [Work("NT-Xent, backward", 1 if cpu else 2, flops=similarities)]
    return work


def best(engine: Engine) -> tuple[float, float]:
    """Bytes and flops per second, of a large copy and a large matrix product."""
    dtype = torch.bfloat16 if engine.precision == "bfloat16" else torch.float32
    gpu = engine.device.type == "cuda"
    x = torch.zeros(1 << (28 if gpu else 25), device=engine.device)
    y = torch.empty_like(x)
    a, b = (torch.randn(8192 if gpu else 2048, 8192 if gpu else 2048, device=engine.device).to(dtype) for _ in range(2))

    def seconds(work: Callable[[], object]) -> float:
        times = []
        for _ in range(10):
            began = time.perf_counter()
            work()
            if gpu:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        return min(times)

    return 2 * x.numel() * 4 / seconds(lambda: y.copy_(x)), 2 * len(a) ** 3 / seconds(lambda: a @ b)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of CLNR's recipe")
    asked = parser.parse_args()
    engine = choose(asked.device, asked.precision)
    bandwidth, rate = best(engine)
    print(f"{environment.describe(engine.device)}, {engine.precision}: {bandwidth / 1e9:,.0f} GB/s, {rate / 1e12:,.2f} TFLOP/s")
    for name in asked.names:
        graph, recipe = subject(name)
        recipe = recipe.but(**parse(asked.set))
        print(f"\n{name:48}{'times':>6}{'MB':>9}{'MB gathered':>13}{'GFLOP':>9}{'ms at least':>13}{'ms gathered':>13}")
        totals = [0.0, 0.0]
        for work in counted(graph, recipe, engine):
            floors = [work.times * max(moved / bandwidth, work.flops / rate) * 1e3 for moved in (work.least, work.gathered)]
            totals = [total + floor for total, floor in zip(totals, floors, strict=True)]
            sizes = f"{work.least / 1e6:>9,.1f}{work.gathered / 1e6:>13,.1f}{work.flops / 1e9:>9,.1f}"
            print(f"{work.name:48}{work.times:>6}{sizes}{floors[0]:>13.3f}{floors[1]:>13.3f}")
        taken = ours(graph, recipe, engine, 60 if engine.device.type == "cuda" else 4)
        print(f"lower bounds {totals[0]:.3f} and {totals[1]:.3f} ms; an epoch takes {taken:.3f} ms: ", end="")
        print(f"{totals[0] / taken:.0%} and {totals[1] / taken:.0%} of it", flush=True)


if __name__ == "__main__":
    command(main)
