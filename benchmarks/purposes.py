"""Vectors for a purpose: what do labels gain that choose the read-out, and edges?

    python -m benchmarks.purposes cora cornell5-gender tolokers --seeds 3 --log purposes.jsonl
    python -m benchmarks.purposes cora photo bipartite:cora --links --log purposes.jsonl
    python -m benchmarks.purposes --log purposes.jsonl

Graphs are those of ``benchmarks.defaults``, cornell5-gender, -year, -dorm and -status (that column is the label, and not among
the features), tolokers and minesweeper, which are measured by ROC AUC; with --links also bipartite:NAME, documents and words of
a data set. Each graph is trained on once per seed, at 256 columns. Labels: 10 % of the nodes to train and 10 % to validate, or
20, 5 or 1 of each class, half of them to validate; all others test. One logistic regression evaluates all; test nodes are read
once, in the end. Edges: 5 % choose and 5 % test; ``--node2vec`` adds PyG's, on CPU (``benchmarks.baselines``). ``chosen`` is
what --for takes: all columns, others of the read-out, or a baseline. Each result is a line of the log; without graphs, tables
of the log are printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks import _study_graphs as graphs
from benchmarks import append, bipartite, command, positive, read
from benchmarks.baselines import BATCH, NODE2VEC, node2vec
from clnr import datasets
from clnr.datasets.splits import split_of
from clnr.embedding.baselines import recipe_beside
from clnr.embedding.defaults import LABELS, LINKS, choose_method, default_recipe
from clnr.embedding.embed import training_graph
from clnr.embedding.fit_settings import Settings
from clnr.embedding.result.node_ids import kind_numbers
from clnr.embedding.scoring.judges import Judge, judge_for, settle
from clnr.embedding.scoring.scores import cosines_of, labelled_nodes
from clnr.engine import Engine, View, choose
from clnr.evaluation import hold_out, logistic_probe, score_cosines, without_pairs
from clnr.evaluation.metrics import TrainedEmbedding
from clnr.experiments.learn import learn
from clnr.graph import Graph, Split
from clnr.graph.csr import median_weight
from clnr.methods import BASELINES, CLNR_MIX, Method
from clnr.nn.readout_blocks import fitted_nodes
from clnr.support.machine import environment

HELD_OUT = 0.1
FEW = (20, 5, 1)
MOST_TEST = 5_000
RIVALS = ("FastRP", "Spectral", "Cleora", NODE2VEC)

Record = dict[str, Any]


class Trial:
    """A graph trained on once, and its baselines: vectors of all nodes, and those that a judge takes."""

    def __init__(self, graph: Graph, seed: int, engine: Engine, purpose: str):
        self.settings = Settings(engine=engine, **choose_method(None, None, purpose))
        recipe, _ = default_recipe(CLNR_MIX, graph, graph.info.is_structural)
        seen, self._engine = graph.without_labels(), engine
        device_graph = engine.to_device(seen, median_weight(seen.incoming.weight))
        self.usual = learn(CLNR_MIX, seen, seed, recipe, engine, device_graph=device_graph)
        self.baselines: dict[Method, torch.Tensor] = {}
        for baseline in BASELINES:
            beside = recipe_beside(baseline, CLNR_MIX, recipe, graph)
            self.baselines[baseline] = learn(baseline, seen, seed, beside, engine, device_graph=device_graph).z

    def chosen(self, judge: Judge) -> tuple[str, torch.Tensor]:
        """What the judge takes, as ``clnr embed`` does, and its vectors."""
        trained: TrainedEmbedding = self.usual
        engine, view = self._engine.float32, View(trained.device_graph)
        parameters, nodes = trained.fitted.parameters, torch.from_numpy(judge.nodes).to(engine.device)
        model, *others = (CLNR_MIX.build(trained.recipe.but(**each)) for each in ({}, *self.settings.tried))
        with torch.no_grad():
            sample = np.union1d(fitted_nodes(len(trained.z)).numpy(), judge.nodes)
            read = model.rows(parameters, engine, view, sample)
            _, sampled = model.readout.fit_blocks(read)
            tried = model.readout.try_others(sampled, [each.readout for each in others], read.places(judge.nodes))
            changes, _ = settle(self.settings, judge, trained.z[nodes], tried)
            z = trained.z
            if changes:
                model = CLNR_MIX.build(trained.recipe.but(**changes))
                z = model.embed(model.finalize(parameters, engine, trained.device_graph), engine, view)
            best = judge.best(judge.outcome(z[nodes]), {each: judge.outcome(z[nodes]) for each, z in self.baselines.items()})
        return (changes.get("mix", "all"), z) if best is None else (best.name, self.baselines[best])


def few(graph: Graph, count: int, seed: int) -> Split:
    """So many nodes of each class that has twice as many, half of them to validate; of all others, some test."""
    assert graph.labels is not None
    generator = np.random.default_rng(100 + seed)
    order = generator.permutation(np.flatnonzero(graph.labels >= 0))
    parts: list[list[int]] = [[], [], []]
    for each in np.unique(graph.labels[order]):
        of_class = order[graph.labels[order] == each]
        if len(of_class) >= max(4, 2 * count):
            half, most = max(1, (count + 1) // 2), max(2, count)
            for part, nodes in zip(parts, (of_class[:half], of_class[half:most], of_class[most:]), strict=True):
                part.extend(nodes)
    train, validation, test = (np.array(part) for part in parts)
    return Split(np.sort(train), np.sort(validation), np.sort(generator.permutation(test)[:MOST_TEST]))


def by_labels(name: str, seed: int, engine: Engine) -> Iterator[Record]:
    graph = graphs.load(name)
    trial = Trial(graph, seed, engine, LABELS)
    measure = "roc_auc" if name in graphs.BY_AUC else "accuracy"
    for labels in ("10 %", *map(str, FEW)):
        split = split_of(graph, seed) if "%" in labels else few(graph, int(labels), seed)
        judge, _ = judge_for(LABELS, labelled_nodes(dataclasses.replace(graph, split=split), seed), None, seed)
        assert judge is not None
        taken, rows = trial.chosen(judge)
        compared = {"mix": trial.usual.z, "chosen": rows}
        compared |= {each.name: z for each, z in trial.baselines.items()} if "%" in labels else {}
        scores = {}
        for each, z in compared.items():
            value = logistic_probe(z, graph.labels, split, seed, engine.device).scores.get(measure, float("nan"))
            scores[each] = 100 * value if measure == "roc_auc" else value
        yield {"graph": name, "labels": labels, "seed": seed, "taken": taken, "scores": scores}


def by_edges(name: str, seed: int, engine: Engine, node2vec_steps: int) -> Iterator[Record]:
    real = name.removeprefix("bipartite:")
    graph = graphs.load(name) if real == name else bipartite.tables(datasets.load(real), bare=True)
    held = hold_out(graph, HELD_OUT, seed, kind_numbers(graph))
    assert held is not None
    seen = training_graph(without_pairs(graph, held.positives))
    trial = Trial(seen, seed, engine, LINKS)
    judge, test = judge_for(LINKS, labelled_nodes(seen, seed), held, seed)
    assert judge is not None
    taken, rows = trial.chosen(judge)
    compared = {"mix": trial.usual.z, "chosen": rows} | {each.name: z for each, z in trial.baselines.items()}
    if node2vec_steps:
        epochs = math.ceil(node2vec_steps * BATCH / seen.num_nodes)
        compared[NODE2VEC] = node2vec(seen, seed, rows.shape[1], epochs).to(rows)
    scores = {each: score_cosines(cast(Any, cosines_of(z, test))) for each, z in compared.items()}
    for part in ("auc", "average_precision"):
        values = {each: value[part] for each, value in scores.items()}
        yield {"graph": name, "labels": part, "seed": seed, "taken": taken, "scores": values}


def tables(records: list[Record]) -> Iterator[str]:
    """The means over seeds, in Markdown; ``gap`` is to the best baseline, chosen by test, which favours the baselines."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["labels"], record["graph"]), []).append(record)
    for labels in dict.fromkeys(labels for labels, _ in groups):
        digits = 1 if "%" in labels or labels.isdigit() else 3
        yield f"\n| {labels} | mix | chosen | gain | error | best baseline | gap | taken |\n|---|---|---|---|---|---|---|---|"
        gains = []
        for graph in (graph for each, graph in groups if each == labels):
            found = groups[labels, graph]
            means = {each: statistics.mean(one["scores"][each] for one in found) for each in found[0]["scores"]}
            gain = [one["scores"]["chosen"] - one["scores"]["mix"] for one in found]
            gains.append(statistics.mean(gain))
            error = statistics.stdev(gain) / len(gain) ** 0.5 if len(gain) > 1 else float("nan")
            rivals = {
                each: means[each] for each in (RIVALS if digits == 3 else means) if each in means.keys() - {"mix", "chosen"}
            }
            best = max(rivals, key=rivals.__getitem__, default=None)
            row = [graph, f"{means['mix']:.{digits}f}", f"{means['chosen']:.{digits}f}", f"{gains[-1]:+.{digits}f}"]
            row += [f"{error:.{digits}f}", "", ""]
            if best is not None:
                row[-2:] = f"{best} {rivals[best]:.{digits}f}", f"{means['chosen'] - rivals[best]:+.{digits}f}"
            yield f"| {' | '.join(row)} | {', '.join(dict.fromkeys(one['taken'] for one in found))} |"
        yield f"| mean | | | {statistics.mean(gains):+.{digits + 1}f} | | | | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="graph")
    parser.add_argument("--links", action="store_true", help="choose and score by edges")
    parser.add_argument("--node2vec", type=positive, default=0, metavar="STEPS", help="of its optimiser; with --links")
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--log", type=Path, required=True)
    asked = parser.parse_args()
    engine = choose(asked.device)
    print(f"{environment.describe(engine.device)}, {engine.precision}, torch {torch.__version__}")
    done = read(asked.log)
    for seed in range(asked.seeds):
        for name in asked.names:
            kinds = ("auc",) if asked.links else ("10 %",)
            if any((each["graph"], each["seed"]) == (name, seed) and each["labels"] in kinds for each in done):
                continue
            edges = by_edges(name, seed, engine, asked.node2vec) if asked.links else None
            for record in edges or by_labels(name, seed, engine):
                print(record["graph"], record["labels"], seed, record["taken"], flush=True)
                append(asked.log, record)
    for line in tables(read(asked.log)):
        print(line)


if __name__ == "__main__":
    command(main)
