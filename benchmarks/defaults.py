"""Which method should embed an unfamiliar graph? Every candidate on real and generated graphs, at one width.

    python -m benchmarks.defaults cora dblp cora:structure cora:h=0.25 --log study.jsonl
    python -m benchmarks.defaults cora dblp --dimensions 128 256 512 --node2vec --minutes 8 --log study.jsonl
    python -m benchmarks.defaults --log study.jsonl --table tables.md

Graphs are cora, citeseer, pubmed, photo, computers, cs, physics, toy, dblp, github and arxiv2023, under no name that a recipe
is known for, and what is made of them, from fixed seeds:

NAME:structure  without features: a table of edges alone
NAME:few        eight numeric columns: principal directions of the features, as much noise as signal
NAME:h=0.25     edges drawn anew with the same degrees: a quarter within a class, the others anywhere
NAME:directed   every edge keeps one of its directions
NAME:weighted   edges of random weight, and as many random edges of a fifth of that weight among them
NAME:bipartite  nodes in two random halves, edges only between them
NAME:shuffled   every node with the features of another
NAME:unlike     edges drawn anew, each from a class to the next

Changes can be combined, as in cora:bipartite:structure. Each method has its recipe for an unknown graph. A seed draws a split
of 10 % training, 10 % validation and 80 % test nodes, and decides training. One logistic regression evaluates all; test nodes
are read once, in the end. Link AUC is that of an embedding made without a tenth of the edges. Methods are trained here, all
seeds at once on a GPU, and scored in other processes. Each result is a line of the log, and what is there is not done again.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import _study_graphs as graphs
from benchmarks import append, command, positive, read
from benchmarks._study_scores import Facts, link_auc, one_thread, scores
from benchmarks._study_tables import NODE2VEC, label, tables
from clnr import methods
from clnr.datasets.splits import random_split
from clnr.embedding.defaults import default_recipe
from clnr.embedding.embed import training_graph
from clnr.engine import Engine, choose
from clnr.errors import ClnrError
from clnr.evaluation import HeldOutPairs, hold_out, without_pairs
from clnr.experiments.learn import learn
from clnr.graph import Graph, Split
from clnr.methods import Method
from clnr.methods.recipe import Recipe, parse
from clnr.support.machine import environment

WITHOUT_SEED = (*methods.BASELINES, methods.SVD_MIX)
METHODS = (
    methods.RAW,
    *WITHOUT_SEED,
    *(methods.CLNR, methods.CLNR_HOPS, methods.CLNR_MLP, methods.CLNR_MIX),
)
HELD_OUT = 0.1
STEPS = 1000

Record = dict[str, Any]


class Job(NamedTuple):
    """Rows to be scored by another process, or a graph to be embedded there first; and what is known of the result already."""

    record: Record
    function: Any
    arguments: tuple[Any, ...]


class Trial(NamedTuple):
    """A graph with one seed: its split, the edges held out, and the graph without them."""

    graph: Graph
    facts: Facts
    seed: int
    split: Split
    held: HeldOutPairs | None
    seen: Graph


def key(record: Record) -> tuple[Any, ...]:
    """What distinguishes one result from another."""
    return record["graph"], label(record), record["dimension"], record["seed"]


def missing(graph: str, asked: argparse.Namespace, done: set[tuple[Any, ...]]) -> Iterator[tuple[Method | None, list[Record]]]:
    """The results on one graph that are not done yet, by method and dimension; None for node2vec."""
    settings = parse(asked.set)
    for dimension in asked.dimensions:
        for method in (*asked.methods, *([None] if asked.node2vec else [])):
            common = {
                "graph": graph,
                "method": NODE2VEC if method is None else method.name,
                "set": {name: value for name, value in settings.items() if method and name in method.keys},
                "dimension": None if method == methods.RAW else dimension,
            }
            records = [common | {"seed": seed} for seed in range(asked.seeds)]
            found = [record for record in records if key(record) not in done]
            # Raw features are the same for all dimensions.
            done.update(map(key, found))
            if found:
                yield method, found


def jobs(name: str, asked: argparse.Namespace, engine: Engine, done: set[tuple[Any, ...]]) -> Iterator[Job]:
    """What is to be done on one graph; each method is trained when it is asked for, all its seeds at once."""
    wanted = list(missing(name, asked, done))
    if not wanted:
        return
    graph = graphs.load(name)
    facts = Facts.of(graph)
    sizes = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features, "classes": graph.num_classes}

    @functools.cache
    def trial(seed: int) -> Trial:
        held = hold_out(graph, HELD_OUT, seed) if seed < (asked.link_seeds or asked.seeds) else None
        seen = graph if held is None else training_graph(without_pairs(graph, held.positives))
        return Trial(graph, facts, seed, random_split(graph, seed), held, seen)

    for method, records in wanted:
        if method is None:
            for record in records:
                yield Job(record | sizes, walk, (trial(record["seed"]), record["dimension"], asked.node2vec))
            continue
        width = {} if method == methods.RAW else {"dimension": records[0]["dimension"]}
        try:
            recipe = default_recipe(method, graph)[0].but(**width, **records[0]["set"])
            rows, seconds = embed(method, graph, [record["seed"] for record in records], recipe, engine)
            for record, of_seed in zip(records, rows, strict=True):
                _, _, seed, split, held, seen = trial(record["seed"])
                auc = None if held is None else link_auc(embed(method, seen, [seed], recipe, engine)[0][0], held)
                yield Job(record | sizes | {"seconds": seconds, "link_auc": auc}, scores, (facts, of_seed, split, seed))
        except ClnrError as error:
            print(f"{name}, {label(records[0])}: {error}", flush=True)


def embed(method: Method, graph: Graph, seeds: list[int], recipe: Recipe, engine: Engine) -> tuple[list[Any], float]:
    """The rows of a method for each seed, and in how many seconds each was made."""
    if method == methods.RAW:
        return [graph.features for _ in seeds], 0.0
    began, alone = time.perf_counter(), seeds[:1] if method in WITHOUT_SEED else seeds
    rows = [learn(method, graph, seed, recipe, engine).z.cpu().numpy() for seed in alone]
    return rows * (len(seeds) // len(rows)), (time.perf_counter() - began) / len(alone)


def walk(trial: Trial, dimension: int, steps: int) -> Record:
    """Scores of node2vec after so many steps of its optimiser; a process of its own embeds and scores."""
    from benchmarks.baselines import BATCH, node2vec

    graph, facts, seed, split, held, seen = trial
    epochs, began = math.ceil(steps * BATCH / graph.num_nodes), time.perf_counter()
    rows = node2vec(graph, seed, dimension, epochs).numpy()
    seconds = time.perf_counter() - began
    auc = None if held is None else link_auc(node2vec(seen, seed, dimension, epochs).numpy(), held)
    return {"seconds": seconds, "link_auc": auc} | scores(facts, rows, split, seed)


def run(asked: argparse.Namespace, pool: Executor) -> None:
    """Do what is not in the log yet, until it is done or time is up."""
    engine, done = choose(asked.device), {key(record) for record in read(asked.log)}
    stop = math.inf if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    waiting: dict[Future[Record], Record] = {}
    print(f"{environment.describe(engine.device)}, {engine.precision}, torch {torch.__version__}, {asked.workers} workers")
    print(f"{'graph':24}{'method':24}{'width':>6}{'seed':>6}{'valid %':>8}{'test %':>8}{'AUC':>8}{'seconds':>8}{'scored':>8}")
    for name in asked.names:
        try:
            for job in jobs(name, asked, engine, done):
                waiting[pool.submit(job.function, *job.arguments)] = job.record
                # A few more than there are processes, so that none waits for the next training.
                collect(waiting, asked.workers + 4, asked.log)
                if time.monotonic() > stop:
                    break
        except ClnrError as error:
            print(f"{name}: {error}", flush=True)
        if time.monotonic() > stop:
            print("time is up; the same command goes on from here", flush=True)
            break
    collect(waiting, 0, asked.log)


def collect(waiting: dict[Future[Record], Record], most: int, log: Path | None) -> None:
    """Write the results that are there, and wait for more until so many at most are still to come."""
    finished = {each for each in waiting if each.done()}
    while finished or len(waiting) > most:
        for each in finished:
            write(waiting.pop(each) | each.result(), log)
        finished = wait(waiting, None if len(waiting) > most else 0, FIRST_COMPLETED).done


def write(record: Record, log: Path | None) -> None:
    auc = "" if record["link_auc"] is None else f"{record['link_auc']:.3f}"
    name = f"{record['graph']:24}{label(record):24}{record['dimension'] or '':>6}{record['seed']:>6}"
    times = f"{record['seconds']:>8.1f}{record['score_seconds']:>8.1f}"
    print(f"{name}{record['validation']:>8.1f}{record['test']:>8.1f}{auc:>8}{times}", flush=True)
    append(log, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="GRAPH", help="as cora, dblp:structure or photo:h=0.25")
    parser.add_argument("--methods", nargs="+", type=methods.find, default=METHODS, metavar="METHOD")
    parser.add_argument("--dimensions", nargs="+", type=positive, default=[256])
    parser.add_argument("--seeds", type=positive, default=5)
    parser.add_argument("--link-seeds", type=positive, help="seeds with a link AUC, if fewer: each trains once more")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the recipes of methods that use it")
    parser.add_argument("--node2vec", type=positive, nargs="?", const=STEPS, metavar="STEPS", help=f"{STEPS:,} if not given")
    parser.add_argument("--workers", type=positive, default=os.cpu_count(), help="processes that score")
    parser.add_argument("--minutes", type=float, help="train nothing more after this time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--log", type=Path, help="file to append each result to, as a line of JSON")
    parser.add_argument("--table", type=Path, help="file for tables of all that is in the log, in Markdown")
    parser.add_argument("--ours", default=methods.CLNR_MIX.name, help="the method that tables compare with the baselines")
    asked = parser.parse_args()
    if not (asked.names or asked.table):
        parser.error("name some graphs, or --table")
    if asked.names:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(asked.workers, mp_context=context, initializer=one_thread) as pool:
            run(asked, pool)
    if asked.table:
        asked.table.write_text(tables(read(asked.log), asked.ours))


if __name__ == "__main__":
    command(main)
