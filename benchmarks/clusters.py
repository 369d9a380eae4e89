"""How many clusters to take: rules compared by how well k-means then agrees with labels.

    python -m benchmarks.clusters cora citeseer pubmed photo computers cs dblp arxiv2023

Each embedding is that of ``clnr embed --effort quick``; labels are not used to make it. For each rule the number of clusters,
the normalised mutual information with the labels (NMI), and the adjusted Rand index (ARI).
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks import _study_graphs, command
from clnr import NodeEmbedder
from clnr.embedding.result import clusters
from clnr.graph.csr import Array
from clnr.graph.kind_rows import unit

ELBOW = range(1, 31)


def highest_silhouette(z: Array) -> int:
    distances = clusters._distances(z)
    scores = {count: clusters.silhouette(distances, clusters._k_means(z, count)[1]) for count in range(2, 13)}
    return max(scores, key=scores.__getitem__)


def elbow(z: Array) -> int:
    """Where the sum of squared distances is farthest below the line from its first value to its last (Satopaa et al., 2011)."""
    found = [clusters._k_means(z, count) for count in ELBOW]
    inertia = np.array([np.square(z - centres[nearest]).sum() for centres, nearest in found])
    falls = (inertia - inertia[-1]) / (inertia[0] - inertia[-1])
    return ELBOW[int(np.argmax(1 - np.linspace(0, 1, len(ELBOW)) - falls))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="graphs of benchmarks.defaults, with labels")
    rules = {
        "8": lambda z: 8,
        "10": lambda z: 10,
        "log2 of nodes": lambda z: round(np.log2(len(z))),
        "highest silhouette": lambda z: highest_silhouette(z[:: -(-len(z) // 1000)]),
        "elbow": lambda z: elbow(z[:: -(-len(z) // 3000)]),
        "as many as classes": None,
    }
    scores: dict[str, list[tuple[float, float]]] = {rule: [] for rule in rules}
    for name in parser.parse_args().names:
        graph = _study_graphs.load(name)
        embedder = NodeEmbedder(effort="quick", dimension=256, hold_out=0).fit(graph)
        z, known = unit(np.asarray(embedder.embedding_)), graph.labels >= 0
        for rule, choose in rules.items():
            count = graph.num_classes if choose is None else choose(z)
            pair = graph.labels[known], embedder.clusters(count).assignment[known]
            scores[rule].append((normalized_mutual_info_score(*pair), adjusted_rand_score(*pair)))
            print(f"{name:12}{rule:22}{count:4}{scores[rule][-1][0]:8.3f}{scores[rule][-1][1]:8.3f}", flush=True)
        print(f"{name:12}{'taken':22}{len(embedder.clusters().clusters):4}", flush=True)
    for rule, each in scores.items():
        nmi, ari = np.mean(each, axis=0)
        print(f"{'mean':12}{rule:22}{'':4}{nmi:8.3f}{ari:8.3f}")


if __name__ == "__main__":
    command(main)
