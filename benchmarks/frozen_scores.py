"""Have the vectors of real graphs become worse? Accuracy and link AUC of four ways to embed, beside those of earlier code.

    CLNR_DATA=data python -m benchmarks.frozen_scores --log now.jsonl --against benchmarks/frozen_scores.jsonl
    python -m benchmarks.frozen_scores --graphs cora --seeds 2 --device cpu --threads 1 --log now.jsonl

A seed draws a tenth of the nodes to train a logistic regression, another to validate it, the rest to test; a twentieth of the
edges, which are taken out of the graph before ``NodeEmbedder`` sees it; as many non-edges; and it is the embedder's seed. All
are drawn and vectors are scored here, so that scores of any two versions of clnr are paired by seed; they are compared only if
the same was drawn. Each score, in percent, is a line of the log. What is there is not done again; a log has one code's scores.

A fall is a mean difference over seeds of too many standard errors below 0: so many that, if only randomness differed, one cell
(accuracy or AUC of a way on a graph) would fall by chance in one comparison of twenty, and one mean over graphs likewise. That
is 5.2 for cells of a full run and 2.9 for means, by Student's t: of 48 cells, some are nearly always beyond 2. The variance of
a cell's differences is the mean of its own, which three seeds hardly tell, and that of all graphs by the same way and score; a
standard error is at least 0.1 points, that of a mean at least that by the root of the number of graphs. A fall ends with exit
code 1.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

import clnr
from benchmarks import _study_graphs, append, command, positive, read
from benchmarks.embed import markdown, probe, tenths
from clnr import NodeEmbedder
from clnr.engine import choose
from clnr.errors import ClnrError
from clnr.graph import Graph, Split
from clnr.graph.csr import Array
from clnr.support.machine import environment

GRAPHS = ("cora", "citeseer", "pubmed", "photo", "dblp", "github")
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "quick": {"effort": "quick"},
    "labels": {"purpose": "labels"},
    "links": {"purpose": "links"},
}
SCORES = ("accuracy", "link_auc")
HELD_OUT, LEAST_ERROR, BY_CHANCE = 0.05, 0.1, 0.05

Record = dict[str, Any]


class Trial(NamedTuple):
    """What a seed draws of a graph: it without some edges; a split of its nodes; these edges, as many non-edges."""

    graph: Graph
    split: Split
    linked: Array
    apart: Array

    @classmethod
    def of(cls, graph: Graph, seed: int) -> Trial:
        pairs, count = np.stack(_study_graphs.pairs(graph)), graph.num_nodes
        draw = np.random.default_rng(seed)
        order = draw.permutation(pairs.shape[1])
        out, left = np.split(order, [int(HELD_OUT * len(order))])
        others = np.sort(draw.integers(count, size=(2, 3 * len(out))), axis=0)
        near = np.isin(others[0] * count + others[1], pairs[0] * count + pairs[1]) | (others[0] == others[1])
        seen = _study_graphs.with_edges(graph, *pairs[:, left], undirected=True)
        split = Split(*tenths(count, seed))
        return cls(replace(seen, split=split), split, pairs[:, out], others[:, ~near][:, : len(out)])

    def scores(self, vectors: Array) -> Record:
        """Of vectors of its nodes, in percent."""
        unit, pairs = normalize(vectors), np.hstack([self.linked, self.apart])
        truth = np.repeat([1, 0], [self.linked.shape[1], self.apart.shape[1]])
        auc = 100 * roc_auc_score(truth, (unit[pairs[0]] * unit[pairs[1]]).sum(1))
        return {"accuracy": probe(vectors, np.asarray(self.graph.labels), *self.split), "link_auc": auc}

    def digest(self) -> int:
        """Tells whether the same was drawn of the same graph, its nodes in the same order."""
        arrays = (self.linked, self.apart, *self.split, self.graph.labels)
        return zlib.crc32(b"".join(np.asarray(each, np.int64).tobytes() for each in arrays))


def key(record: Record) -> tuple[Any, ...]:
    """What two scores must share to be compared."""
    return record["graph"], record["way"], record["seed"], record["drawn"]


def measure(asked: argparse.Namespace) -> Iterator[Record]:
    """The scores that are not in the log yet."""
    engine, sources = choose(asked.device, threads=asked.threads), Path(clnr.__file__).parent
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources.rglob("*.py")))).hexdigest()[:16]
    where = {"machine": environment.describe(engine.device), "precision": engine.precision}
    where |= environment.versions() | {"code": code}
    before = read(asked.log)
    if any(each[name] != where[name] for each in before for name in ("code", "precision", "torch")):
        raise ClnrError(f"{asked.log} has scores of other code, another torch or another precision; name another --log")
    done = {key(each) for each in before}
    for name in asked.graphs:
        graph = _study_graphs.load(name)
        for seed, way in itertools.product(range(asked.seeds), asked.ways):
            trial = Trial.of(graph, seed)
            record = {"graph": name, "way": way, "seed": seed, "drawn": trial.digest()}
            if key(record) not in done:
                began = time.perf_counter()
                embedder = NodeEmbedder(seed=seed, device=asked.device, threads=asked.threads, **WAYS[way]).fit(trial.graph)
                record["seconds"] = round(time.perf_counter() - began, 2)
                yield record | trial.scores(np.asarray(embedder.embedding_)) | where


def differences(now: list[Record], earlier: list[Record], way: str, score: str) -> dict[str, Array]:
    """By graph, how much more each seed has now than earlier, where two seeds at least are in both."""
    old, found = {key(each): each[score] for each in earlier}, dict[str, list[float]]()
    for each in now:
        if each["way"] == way and key(each) in old:
            found.setdefault(each["graph"], []).append(each[score] - old[key(each)])
    return {graph: np.array(values) for graph, values in found.items() if len(values) > 1}


def compare(now: list[Record], earlier: list[Record]) -> list[tuple[list[str], bool]]:
    """A row for each score of each way on each graph, and for its mean over graphs; and whether it fell."""
    everything = {each: differences(now, earlier, *each) for each in itertools.product(WAYS, SCORES)}
    kept = {each: by_graph for each, by_graph in everything.items() if by_graph}
    if not kept:
        raise ClnrError("nothing to compare: no graph and way has two seeds in both files, with the same nodes and edges drawn")
    rows, cells = [], sum(map(len, kept.values()))
    for (way, score), by_graph in kept.items():
        means = [float(values.mean()) for values in by_graph.values()]
        own = [values.var(ddof=1) / len(values) for values in by_graph.values()]
        pooled, freedom = float(np.mean(own)), sum(len(values) - 1 for values in by_graph.values())
        errors = [max(LEAST_ERROR, ((each + pooled) / 2) ** 0.5) for each in own]
        most = t.ppf(1 - BY_CHANCE / cells, max(1, freedom / 2))
        tests = [(graph, mean, error, most) for graph, mean, error in zip(by_graph, means, errors, strict=True)]
        error = max(LEAST_ERROR, pooled**0.5) / len(own) ** 0.5
        tests.append(("mean", float(np.mean(means)), error, t.ppf(1 - BY_CHANCE / len(kept), freedom)))
        for graph, mean, error, most in tests:
            fell = mean < -most * error
            numbers = [f"{mean:+.2f}", f"{error:.2f}", f"{mean / error:+.1f}", f"{-most:.1f}"]
            rows.append(([way, score, graph, *numbers, "FELL" if fell else ""], fell))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS, metavar="GRAPH", help="as for benchmarks.defaults")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS], metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--seeds", type=positive, default=3)
    parser.add_argument("--data", type=Path, help="folder with raw data sets; default: CLNR_DATA")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=positive)
    parser.add_argument("--log", type=Path, required=True, help="file to append each score to, as a line of JSON")
    parser.add_argument("--against", type=Path, metavar="FILE", help="such a file of earlier code, to compare with")
    asked = parser.parse_args()
    if asked.against is not None and not asked.against.is_file():
        raise ClnrError(f"there is no file {asked.against}")
    if asked.data is not None:
        os.environ["CLNR_DATA"] = str(asked.data)
    for each in measure(asked):
        append(asked.log, each)
        print("{graph:10}{way:9}{seed:3}{accuracy:8.2f}{link_auc:8.2f}{seconds:8.1f} s".format(**each), flush=True)
    if asked.against is not None:
        for file in (asked.log, asked.against):
            print(
                f"{file}:", *sorted({f"{each['machine']}, {each['precision']}, torch {each['torch']}" for each in read(file)})
            )
        rows = compare(read(asked.log), read(asked.against))
        header = ["way", "score", "graph", "difference", "standard error", "in errors", "least", ""]
        print(markdown(header, [cells for cells, _ in rows], 3))
        sys.exit(int(any(fell for _, fell in rows)))


if __name__ == "__main__":
    command(main)
