"""Several workers on one machine: the time of a sampled step of CLNR, and the bytes that each worker sends in it.

    python -m benchmarks.workers arxiv-sized --workers 1 2 4 8 --threads 2
    python -m benchmarks.workers physics computers --workers 1 2
    python -m benchmarks.workers arxiv-sized --embed CLNR CLNR-mix --workers 1 2 4 8 --threads 2

With --embed, what follows a training instead: seconds in which the read-out is fitted and all nodes are embedded.

Data sets, or a synthetic graph, are in the memory of every worker, each of which computes with so many threads of a CPU. A time
is the median over epochs after warm-up, of the first worker. Bytes are counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import command, positive
from benchmarks.epoch import SYNTHETIC, subject
from clnr import CLNR, methods
from clnr.datasets.synthetic import shaped
from clnr.embedding.defaults import default_recipe
from clnr.engine import Engine, View, choose
from clnr.engine.distributed.worker_group import join
from clnr.graph import Graph
from clnr.methods import Method
from clnr.nn.objectives import StepContext
from clnr.support.machine import environment
from clnr.support.processes.launch import launch
from clnr.training.loop import fit_all

TIMEOUT = 300.0
RESULT = "CLNR_BENCHMARK_RESULT"


def train(name: str, epochs: int, threads: int) -> None:
    """What each worker does; the first writes what it measured."""
    workers = join("cpu", TIMEOUT)
    graph, recipe = subject(name)
    recipe = recipe.but(moments="sampled", epochs=epochs)
    engine = choose("cpu", threads=threads)
    start = StepContext(engine, engine.to_device(graph.without_labels()), 0, 0, epochs, workers=workers)
    before = workers.sent
    (fitted,) = fit_all(CLNR.build(recipe), recipe, [start])
    if workers.first:
        found = {"ms": fitted.epoch_ms, "sent": (workers.sent - before) / epochs}
        Path(os.environ[RESULT]).write_text(json.dumps(found))
    workers.leave()


def embed(name: str, method: Method, threads: int) -> None:
    """What each worker does after a training; its weights do not matter here, and stay as they were drawn."""
    workers = join("cpu", TIMEOUT)
    engine = choose("cpu", "float32", threads).among(workers)
    # A training would have loaded the kernels and found the others.
    embedding_times(shaped(2000, 10_000, 64), method, engine)
    graph = subject(name)[0].without_labels()
    before = workers.sent
    workers.barrier()
    seconds = embedding_times(graph, method, engine)
    if workers.first:
        Path(os.environ[RESULT]).write_text(json.dumps(seconds | {"sent": workers.sent - before}))
    workers.leave()


def embedding_times(graph: Graph, method: Method, engine: Engine) -> dict[str, float]:
    """Seconds to fit what the encoder is given, to fit the read-out, and to embed all nodes."""
    recipe, _ = default_recipe(method, graph)
    model = method.build(recipe)
    with engine.use_threads():
        began = time.perf_counter()
        inputs, device_graph = model.fit_inputs(engine.to_device(graph), engine)
        prepared = time.perf_counter()
        parameters = model.finalize(inputs | model.init(device_graph.graph.num_features, 0), engine, device_graph)
        finalized = time.perf_counter()
        model.embed(parameters, engine, View(device_graph))
        ended = time.perf_counter()
    return {"inputs": prepared - began, "fit": finalized - prepared, "embed": ended - finalized, "all": ended - began}


def measure(name: str, workers: int, epochs: int, threads: int, method: str | None = None) -> dict[str, float]:
    """So many workers on a graph."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        os.environ[RESULT] = str(path)
        words = [sys.executable, "-m", "benchmarks.workers", name, "--epochs", str(epochs), "--threads", str(threads), "--one"]
        words += [] if method is None else ["--embed", method]
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(threads)
        if workers == 1:
            subprocess.run(words, check=True)
        else:
            launch(words, workers, 0, print)
        return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SYNTHETIC)}")
    parser.add_argument("--workers", type=positive, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=positive, default=1, help="of each worker")
    parser.add_argument("--epochs", type=positive, default=12)
    parser.add_argument("--embed", nargs="+", metavar="METHOD", default=[], help="measure the embedding by these methods")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        if asked.embed:
            embed(asked.names[0], methods.find(asked.embed[0]), asked.threads)
        else:
            train(asked.names[0], asked.epochs, asked.threads)
        return
    print(f"{environment.describe(torch.device('cpu'))}, torch {torch.__version__}, {asked.threads} thread(s) a worker")
    if asked.embed:
        print(f"{'seconds':28}{'workers':>8}{'inputs':>9}{'fit':>9}{'embed':>9}{'all':>9}{'speedup':>9}{'MB sent':>9}")
        for name, method in itertools.product(asked.names, asked.embed):
            alone = None
            for count in asked.workers:
                found = measure(name, count, asked.epochs, asked.threads, method)
                alone = alone or found["all"]
                times = "".join(f"{found[each]:>9.2f}" for each in ("inputs", "fit", "embed", "all"))
                print(
                    f"{name:14}{method:14}{count:>8}{times}{alone / found['all']:>9.2f}{found['sent'] / 1e6:>9.0f}", flush=True
                )
        return
    print(f"{'':14}{'workers':>8}{'ms per step':>13}{'speedup':>9}{'KB sent':>10}")
    for name in asked.names:
        first = None
        for count in asked.workers:
            found = measure(name, count, asked.epochs, asked.threads)
            first = first or found["ms"]
            row = f"{count:>8}{found['ms']:>13.1f}{first / found['ms']:>9.2f}"
            print(f"{name:14}{row}{found['sent'] / 1e3:>10.0f}", flush=True)


if __name__ == "__main__":
    command(main)
