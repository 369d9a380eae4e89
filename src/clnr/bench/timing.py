"""Time and memory of epochs of clnr and plain PyG, taking turns."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from clnr.datasets import load
from clnr.datasets.synthetic import shaped
from clnr.engine import Engine
from clnr.experiments.run import recipe_for
from clnr.graph import Graph
from clnr.methods import CLNR
from clnr.methods.recipe import Recipe
from clnr.support.lazy import import_optional
from clnr.support.machine import memory
from clnr.training.loop import fit

_EDGES_PER_NODE = 14
_NUM_FEATURES = 128


@dataclass(frozen=True)
class BenchmarkResult:
    """Milliseconds per epoch (lowest, median and highest over turns) and peaks of memory, on one graph."""

    graph: str
    nodes: int
    edges: int
    ours: tuple[float, float, float]
    plain: tuple[float, float, float] | None
    our_bytes: int
    plain_bytes: int | None

    @property
    def ratio(self) -> float | None:
        """How many times faster clnr is than plain PyG."""
        return None if self.plain is None else self.plain[1] / self.ours[1]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def ours(graph: Graph, recipe: Recipe, engine: Engine, epochs: int) -> float:
    """The median epoch of clnr, in milliseconds."""
    fitted = fit(CLNR.build(recipe), engine, engine.to_device(graph.without_labels()), recipe.but(epochs=epochs), seed=0)
    assert fitted.epoch_ms is not None
    return fitted.epoch_ms


def plain(graph: Graph, recipe: Recipe, engine: Engine, epochs: int, **variant: bool) -> float:
    """The median epoch of plain PyG, or of a variant of it, on the same device, in milliseconds, without the first fifth."""
    from clnr.bench.pyg_baseline import PlainCLNR  # PyG takes seconds to import, and nothing else here needs it.

    training = PlainCLNR(graph, recipe, engine.device, **variant)
    times = []
    for _ in range(epochs):
        began = time.perf_counter()
        training.epoch()
        if engine.device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times[max(1, epochs // 5) :] or times)


def measure(graph: Graph, recipe: Recipe, engine: Engine, epochs: int, turns: int, baseline: bool = True) -> BenchmarkResult:
    """clnr and the baseline, taking turns; or clnr only."""
    if baseline:
        import_optional("torch_geometric", "the comparison with plain PyG", "pyg")
    implementations: dict[str, Callable[..., float]] = {"ours": ours} | ({"plain": plain} if baseline else {})
    times: dict[str, list[float]] = {name: [] for name in implementations}
    peaks = dict.fromkeys(implementations, 0)
    for _ in range(turns):
        for name, train in implementations.items():
            gc.collect()
            if engine.device.type == "cuda":
                torch.cuda.empty_cache()
            meter = memory.MemoryMeter(engine.device)
            times[name].append(train(graph, recipe, engine, epochs))
            peaks[name] = max(peaks[name], meter.peak())
    spread = {name: (min(each), statistics.median(each), max(each)) for name, each in times.items()}
    size = (graph.name, graph.num_nodes, len(graph.edges()[0]))
    return BenchmarkResult(*size, spread["ours"], spread.get("plain"), peaks["ours"], peaks.get("plain"))


def generated(edges: int) -> tuple[Graph, Recipe]:
    """A synthetic graph of about ``edges`` directed edges, with the density and feature count of ogbn-arxiv, and its recipe."""
    return shaped(max(edges // _EDGES_PER_NODE, 100), edges // 2, _NUM_FEATURES), recipe_for(CLNR, "ogbn-arxiv")


def growing(engine: Engine, seconds: float, epochs: int, turns: int = 3) -> Iterator[BenchmarkResult]:
    """Results on the built-in graph, then on synthetic ones, each about three times as large, until the time is up."""
    began = last = time.perf_counter()
    yield measure(load("toy"), recipe_for(CLNR, "toy"), engine, epochs, turns)
    growth = 1
    for half in range(8, 17):
        now = time.perf_counter()
        if now - began + growth * (now - last) > seconds:
            return
        last, growth = now, 4
        yield measure(*generated(round(10 ** (half / 2))), engine, epochs, turns)
