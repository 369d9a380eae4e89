"""The layouts of the report's map: how much of an embedding each keeps, and how long it takes.

    python -m benchmarks.map_layouts cora photo pubmed

Each embedding is that of ``clnr embed --effort quick``. For the same sample of nodes: the share of a node's 15 nearest, by
cosine, that are among its 15 nearest on the map; and the share of the latter with its label. A layout whose
library is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import time

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from benchmarks import _study_graphs, command
from clnr import NodeEmbedder
from clnr.embedding.reporting.map_layouts import MAP_LAYOUTS
from clnr.embedding.search.neighbors import neighbor_lists
from clnr.graph.csr import Array
from clnr.support.machine import environment

NEAREST = 15
SAMPLE = 2000


def drawn(layout: str, rows: Array) -> Array:
    return MAP_LAYOUTS[layout].draw(rows, neighbor_lists(rows, NEAREST), 0)


def nearest(rows: Array, nodes: Array) -> Array:
    found = NearestNeighbors(n_neighbors=NEAREST + 1).fit(rows).kneighbors(rows[nodes], return_distance=False)
    return np.array([[other for other in some if other != node][:NEAREST] for node, some in zip(nodes, found, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="graphs of benchmarks.defaults, with labels")
    asked = parser.parse_args()
    layouts = {name: row for name, row in MAP_LAYOUTS.items() if row.needs is None or importlib.util.find_spec(row.needs)}
    print(f"{environment.describe(torch.device('cpu'))}, torch {torch.__version__}")
    print(f"{'':12}{'':22}{'neighbours kept':>16}{'same label':>12}{'seconds':>9}")
    for name in asked.names:
        graph = _study_graphs.load(name).graph
        rows = normalize(np.asarray(NodeEmbedder(effort="quick", dimension=256).fit(graph).embedding_))
        nodes = np.random.default_rng(0).choice(len(rows), min(SAMPLE, len(rows)), replace=False)
        own = nearest(rows, nodes)
        for layout in layouts:
            if name == asked.names[0]:
                drawn(layout, rows[:300])  # Some compile at first use.
            began = time.perf_counter()
            points = drawn(layout, rows)
            seconds, near = time.perf_counter() - began, nearest(points, nodes)
            kept = np.mean([len(np.intersect1d(a, b)) / NEAREST for a, b in zip(own, near, strict=True)])
            label = np.mean(graph.labels[near] == graph.labels[nodes][:, None])
            print(f"{name:12}{layout:22}{kept:>16.3f}{label:>12.3f}{seconds:>9.1f}", flush=True)


if __name__ == "__main__":
    command(main)
