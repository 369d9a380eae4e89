"""The report's map beside those of other libraries: how much of an embedding it keeps, and how long it takes.

    python -m benchmarks.map_layouts cora photo pubmed

Each embedding is that of ``clnr embed --effort quick``. For the same sample of nodes: the share of a node's 15 nearest, by
cosine, that are among its 15 nearest on the map; and the share of the latter with its label. umap-learn is compared where it is
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from benchmarks import _study_graphs, command
from clnr import NodeEmbedder
from clnr.embedding.neighbors import NeighborSearch
from clnr.embedding.projection import layout
from clnr.graph.csr import Array
from clnr.support import environment

NEAREST = 15
SAMPLE = 2000


def ours(rows: Array) -> Array:
    return layout(rows, NeighborSearch(rows).nearest(np.arange(len(rows)), NEAREST))


def t_sne(rows: Array) -> Array:
    return TSNE(init="pca", random_state=0, n_jobs=torch.get_num_threads()).fit_transform(rows)


def umap(rows: Array) -> Array:
    from umap import UMAP

    return UMAP(n_neighbors=NEAREST, random_state=0, n_jobs=1).fit_transform(rows)


LAYOUTS: dict[str, Callable[[Array], Array]] = {"clnr": ours, "scikit-learn's t-SNE": t_sne, "umap-learn": umap}


def nearest(rows: Array, nodes: Array) -> Array:
    found = NearestNeighbors(n_neighbors=NEAREST + 1).fit(rows).kneighbors(rows[nodes], return_distance=False)
    return np.array([[other for other in some if other != node][:NEAREST] for node, some in zip(nodes, found, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="graphs of benchmarks.defaults, with labels")
    asked = parser.parse_args()
    has_umap = importlib.util.find_spec("umap") is not None
    print(f"{environment.describe(torch.device('cpu'))}, torch {torch.__version__}{'' if has_umap else '; no umap-learn'}")
    print(f"{'':12}{'':22}{'neighbours kept':>16}{'same label':>12}{'seconds':>9}")
    for name in asked.names:
        graph = _study_graphs.load(name).graph
        rows = normalize(np.asarray(NodeEmbedder(effort="quick", dimension=256).fit(graph).embedding_))
        nodes = np.random.default_rng(0).choice(len(rows), min(SAMPLE, len(rows)), replace=False)
        own = nearest(rows, nodes)
        for library, make in LAYOUTS.items():
            if library == "umap-learn" and not has_umap:
                continue
            if name == asked.names[0]:
                make(rows[:300])  # Some compile at first use.
            began = time.perf_counter()
            points = make(rows)
            seconds, near = time.perf_counter() - began, nearest(points, nodes)
            kept = np.mean([len(np.intersect1d(a, b)) / NEAREST for a, b in zip(own, near, strict=True)])
            label = np.mean(graph.labels[near] == graph.labels[nodes][:, None])
            print(f"{name:12}{library:22}{kept:>16.3f}{label:>12.3f}{seconds:>9.1f}", flush=True)


if __name__ == "__main__":
    command(main)
