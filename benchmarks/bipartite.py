"""Two kinds of nodes: do their vectors find held-out edges, and by which comparison?

    python -m benchmarks.bipartite cora citeseer

Documents and words of a data set's bag of words, with an edge for each word in a document. Half of the words are such nodes,
the other half is the text of documents, or is left out. A twentieth of the edges is held out. Told are the area under the ROC
curve of these against as many non-edges between a document and a word, and the share of held-out words among the 10 and the 100
words that are most similar to their document, without those linked to it: by cosine, and as ``clnr similar --kind`` does it.
Beside them: the AUC of cosines against pairs of any kinds, of rows standardised by kind, and of the number of a word's edges.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from benchmarks import command, positive
from clnr import datasets, methods, rng
from clnr.datasets.noise import sample_non_edges
from clnr.embedding.defaults import default_recipe
from clnr.embedding.embed import training_graph
from clnr.embedding.result.neighbors import most_similar
from clnr.embedding.result.node_ids import kind_numbers
from clnr.embedding.result.nodes import Nodes
from clnr.engine import cpu_engine, unit_rows
from clnr.evaluation import HeldOutPairs, hold_out, link_cosines, score_cosines, without_pairs
from clnr.evaluation.link_prediction import standardised
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.machine import environment
from clnr.tables import read_tables

HELD_OUT = 0.05
LEAST = 3
ASKED = 500


def link_scores(rows: torch.Tensor, held: HeldOutPairs) -> dict[str, float]:
    """How well rows separate held-out edges from non-edges."""
    return score_cosines(link_cosines(rows, held))


def tables(graph: Graph, bare: bool) -> Graph:
    """Documents and words, read from tables."""
    x = sp.csr_array(graph.features)
    often = np.flatnonzero((x > 0).sum(0) >= LEAST)
    linked, rest = often[::2], often[1::2]
    document, word = x[:, linked].nonzero()
    documents = {"id": np.arange(graph.num_nodes)}
    if not bare:
        documents["text"] = [" ".join(f"w{each}" for each in row.nonzero()[-1]) for row in x[:, rest].toarray()]
    nodes = {"document": pa.table(documents), "word": pa.table({"id": np.arange(len(linked))})}
    return read_tables({("document", "has", "word"): pa.table({"document": document, "word": word})}, nodes)


def found(z: Array, split: HeldOutPairs, graph: Graph, by_kind: bool) -> tuple[float, float]:
    """The share of held-out words among the 10 and the 100 most similar to their document, by a graph without their edges."""
    nodes, words = Nodes(graph), np.array([each.startswith("word:") for each in graph.node_ids.tolist()])
    documents = np.unique(split.positives[0])[:ASKED]
    hits = []
    for node in documents.tolist():
        if by_kind:
            near = most_similar(z, nodes, node, 100, kind="word", unlinked=True).nodes
        else:
            near = most_similar(z, nodes, node, len(words), unlinked=True).nodes
            near = near[words[near]][:100]
        held = split.positives[1][split.positives[0] == node]
        hits += [(each in near[:10], each in near) for each in held.tolist()]
    ten, hundred = np.mean(hits, axis=0)
    return float(ten), float(hundred)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="data sets with a bag of words")
    parser.add_argument("--method", default="SVD-mix")
    parser.add_argument("--epochs", type=positive, default=20, help="if the method trains")
    asked = parser.parse_args()
    method = methods.find(asked.method)
    print(f"{environment.describe(torch.device('cpu'))}, torch {torch.__version__}; {method.name}, seed 0")
    print(f"{'':12}{'documents have':18}{'compared by':16}{'AUC':>8}{'top 10':>8}{'top 100':>8}")
    for name in asked.names:
        for has, bare in (("text", False), ("nothing", True)):
            began, graph = time.perf_counter(), tables(datasets.load(name), bare)
            split = hold_out(graph, HELD_OUT, 0, kind_numbers(graph))
            assert split is not None
            seen = without_pairs(graph, split.positives)
            recipe, _ = default_recipe(method, graph)
            if method.objective is not None:
                recipe = recipe.but(epochs=asked.epochs)
            z = learn(method, training_graph(seen), 0, recipe, cpu_engine()).z
            plain = split._replace(kinds=None)
            any_kinds = sample_non_edges(graph.edges_by_end, split.positives.shape[1], rng.key(0, "any kinds"))
            of_any_kinds = np.stack(np.divmod(any_kinds, graph.num_nodes))
            edges = torch.from_numpy(np.diff(seen.incoming.indptr).astype(np.float32))
            one = torch.where(torch.from_numpy(split.kinds == 0), 1.0, edges)[:, None]
            others = {
                "any pairs": link_scores(unit_rows(z), plain._replace(negatives=of_any_kinds)),
                "by kind": link_scores(torch.from_numpy(standardised(z.numpy(), split.kinds)), plain),
                "edges": link_scores(one, plain),
            }
            for how, by_kind in (("cosine", False), ("kinds", True)):
                auc = link_scores(z if by_kind else unit_rows(z), split if by_kind else plain)["auc"]
                ten, hundred = found(z.numpy(), split, seen, by_kind)
                print(f"{name:12}{has:18}{how:16}{auc:>8.3f}{ten:>8.3f}{hundred:>8.3f}", flush=True)
            for how, scores in others.items():
                print(f"{name:12}{has:18}{how:16}{scores['auc']:>8.3f}")
            print(f"{'':12}{graph.num_nodes:,} nodes, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    command(main)
