"""Roofline: bytes and operations of an epoch of CLNR, the least time that this machine needs for them, and the actual time.

    python -m benchmarks.roofline arxiv-sized                 # or data sets by name, whose encoder is a GCN

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

import torch

from benchmarks import command
from benchmarks.epoch import subject
from clnr.bench.timing import ours
from clnr.engine import Engine, choose
from clnr.errors import RecipeError
from clnr.graph import Graph
from clnr.methods.recipe import Recipe
from clnr.support import environment


@dataclass(frozen=True)
class Work:
    """One kind of operation: how often; and per call bytes moved (at least, and with all gathers from memory) and flops."""

    name: str
    times: int
    least: float = 0.0
    gathered: float = 0.0
    flops: float = 0.0


def counted(graph: Graph, recipe: Recipe, engine: Engine) -> list[Work]:
    """The operations of an epoch: two views, forward and backward."""
    if recipe.encoder != "gcn":
        raise RecipeError(f"only GCN encoders can be counted, and CLNR's encoder on {graph.name} is {recipe.encoder}")
    each = 2 if engine.precision == "bfloat16" else 4
    nodes, inputs, wide, views = graph.num_nodes, graph.num_features, recipe.hidden, 2
    kept = nodes + len(graph.edges()[0]) * (1 - recipe.edge_drop)
    device_graph = engine.to_device(graph)
    stored = None if isinstance(device_graph.features, torch.Tensor) else device_graph.features.values.numel()
    shared = 1 if recipe.feature_mask == 0 else views

    def propagation(name: str, times: int, width: int) -> Work:
        out = nodes * width * each
        return Work(name, times, 2 * out + 4 * kept, kept * (width * each + 4) + out)

    def product(name: str, times: int, inner: int, outer: int) -> Work:
        moved = nodes * (inner + outer) * each
        return Work(name, times, moved, moved, 2 * nodes * inner * outer)

    work = []
    width = recipe.dimension if recipe.layers == 1 else wide
    if stored is not None:
        gathered = stored * (width * each + 8)
        least = (inputs + nodes) * width * each + 8 * stored
        work += [Work("sparse features times W, and its gradient", 2 * shared, least, gathered + nodes * width * each)]
        work += [propagation("propagation, first layer, forward and backward", 2 * views, width)]
    elif inputs <= width:
        work += [
            propagation("propagation of features", views, inputs),
            product("first layer, forward and backward", 2 * views, inputs, wide),
        ]
    else:
        work += [product("first layer, forward and backward", 2 * shared, inputs, width)]
        work += [propagation("propagation, first layer, forward and backward", 2 * views, width)]
    between = max(recipe.layers - 2, 0)
    if between:
        work += [propagation("propagation, layers between, forward and backward", 2 * views * between, wide)]
        work += [product("layers between, forward, backward, weights", 3 * views * between, wide, wide)]
    if recipe.layers > 1:
        work += [propagation("propagation, last layer, forward and backward", 2 * views, wide)]
        whole = product("last layer: covariance", views, wide, wide)
        # Of a symmetric product in float32 only half is computed, and likewise of the similarities on a CPU.
        work += [replace(whole, flops=whole.flops / (1 if each == 2 else 2)), replace(whole, name="last layer: gradient")]
    rows = nodes * wide * each
    work += [Work("sums over rows, and centring", views * (recipe.layers + 2), rows, rows)]
    sampled = 2 * min(recipe.sampled_nodes or nodes, nodes)
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
    asked = parser.parse_args()
    engine = choose(asked.device, asked.precision)
    bandwidth, rate = best(engine)
    print(f"{environment.describe(engine.device)}, {engine.precision}: {bandwidth / 1e9:,.0f} GB/s, {rate / 1e12:,.2f} TFLOP/s")
    for name in asked.names:
        graph, recipe = subject(name)
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
