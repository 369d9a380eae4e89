"""An epoch of CLNR and of plain PyG with 1, 2, 4, ... threads of a CPU, and with as many as clnr chooses: milliseconds.

    python -m benchmarks.threads cora cs                       # up to as many threads as there are processors
    python -m benchmarks.threads cora --threads 1 16 --precision float32

All in one process, one after the other. "choice" is the time with clnr's own number of threads, which follows in brackets.
"""

from __future__ import annotations

import argparse
import itertools

import torch

from benchmarks import command, positive
from benchmarks.epoch import IMPLEMENTATIONS, SYNTHETIC
from benchmarks.epoch import subject as load
from clnr import CLNR
from clnr.engine import choose
from clnr.engine.cpu.threads import threads_for, usable_threads
from clnr.graph import Graph
from clnr.methods.recipe import Recipe
from clnr.support.machine import environment
from clnr.support.machine.processors import usable_processors
from clnr.training.step_work import Size, step_work

SLOW = 1e3


def epoch(who: str, subject: tuple[Graph, Recipe], precision: str, threads: int | None, epochs: int) -> float:
    """Milliseconds of an epoch: the median of some, or the second one where it takes seconds."""
    graph, recipe = subject
    train, moments = IMPLEMENTATIONS[who]
    engine = choose("cpu", precision, threads)
    with engine.use_threads():
        second = train(graph, recipe.but(moments=moments), engine, 2)
        return second if second > SLOW else train(graph, recipe.but(moments=moments), engine, epochs)


def choice(who: str, subject: tuple[Graph, Recipe]) -> int:
    """How many threads clnr takes."""
    graph, recipe = subject
    recipe = recipe.but(moments=IMPLEMENTATIONS[who][1])
    size = Size(graph.num_nodes, graph.num_edges, graph.num_features, 0)
    seconds = step_work(len(CLNR.views), CLNR.build(recipe).objective, recipe, size).seconds
    return threads_for(seconds, usable_threads())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, or {', '.join(SYNTHETIC)}")
    parser.add_argument("--threads", type=positive, nargs="+", help="by default 1, 2, 4, ... up to all processors")
    parser.add_argument("--precision", default="auto", help="of clnr; plain PyG is float32")
    parser.add_argument("--epochs", type=positive, default=10)
    parser.add_argument("--without-pyg", action="store_true", help="time clnr alone")
    asked = parser.parse_args()
    powers = itertools.takewhile(lambda count: count <= usable_processors(), (2**power for power in itertools.count()))
    counts = asked.threads or list(powers)
    precision = choose("cpu", asked.precision).precision
    print(f"{environment.describe(torch.device('cpu'))}, {precision}, torch {torch.__version__}, {asked.epochs} epochs")
    print(f"{'ms with so many threads':30}" + "".join(f"{count:>10}" for count in counts) + f"{'choice':>16}")
    for name in asked.names:
        subject = load(name)
        for who in IMPLEMENTATIONS:
            is_ours = who.startswith("clnr")
            if asked.without_pyg and not is_ours:
                continue
            times = [epoch(who, subject, precision, count, asked.epochs) for count in counts]
            line = f"{name:14}{who:16}" + "".join(f"{each:>10.1f}" for each in times)
            if is_ours:
                line += f"{epoch(who, subject, precision, None, asked.epochs):>11.1f} ({choice(who, subject):>2})"
            print(line, flush=True)


if __name__ == "__main__":
    command(main)
