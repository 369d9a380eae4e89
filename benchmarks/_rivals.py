"""Other programs that make vectors of nodes: each reads the two Parquet tables of ``benchmarks.embed``, and writes an array.

    python benchmarks/_rivals.py NAME FOLDER FILE.npy DIMENSION EPOCHS

As a script of its own, it needs nothing of clnr but for CLNR in plain PyG: the Python that has a rival need not have clnr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

# node2vec, as in PyG's example.
WALK_NODES, WINDOW, WALKS_PER_NODE, BATCH, LEARNING_RATE = 20, 10, 10, 128, 0.01


class Asked(NamedTuple):
    """The width of the vectors, and the epochs of node2vec."""

    dimension: int
    epochs: int


def node_ids(folder: Path) -> Any:
    """The column of ids."""
    import pyarrow.parquet as pq

    return pq.read_table(folder / "nodes.parquet", columns=["id"])["id"].combine_chunks()


def read_edges(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of each edge, as rows of the node table."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    ids, edges = node_ids(folder), pq.read_table(folder / "edges.parquet")
    source, target = (pc.index_in(edges[side], ids).to_numpy().astype(np.int64) for side in ("source", "target"))
    return source, target


def by_pycleora(folder: Path, asked: Asked) -> np.ndarray:
    """pycleora with its defaults, from edges alone; a node without edges has zeros."""
    import pyarrow.parquet as pq
    import pycleora

    edges = pq.read_table(folder / "edges.parquet")
    lines = (f"{a} {b}" for a, b in zip(edges["source"].to_pylist(), edges["target"].to_pylist(), strict=True))
    graph = pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::node")
    vectors = pycleora.embed(graph, feature_dim=asked.dimension)
    place = {name: row for row, name in enumerate(graph.entity_ids)}
    places = np.array([place.get(name, -1) for name in node_ids(folder).to_pylist()])
    return np.where(places[:, None] >= 0, vectors[places], 0).astype(np.float32)


def by_grape(folder: Path, asked: Asked) -> np.ndarray:
    """node2vec of GRAPE, from edges alone: walks and windows as in PyG's example, else its defaults."""
    import pyarrow.parquet as pq
    from ensmallen import Graph, models

    nodes = pq.read_table(folder / "nodes.parquet", columns=["id"]).to_pandas()
    edges = pq.read_table(folder / "edges.parquet").to_pandas()
    sides = {"edge_src_column": "source", "edge_dst_column": "target"}
    graph = Graph.from_pd(edges_df=edges, nodes_df=nodes, node_name_column="id", **sides, directed=False, name="tables")
    walks = {"walk_length": WALK_NODES, "iterations": WALKS_PER_NODE, "window_size": WINDOW, "epochs": asked.epochs}
    model = models.SkipGram(
        embedding_size=asked.dimension, **walks, learning_rate=LEARNING_RATE, random_state=42, verbose=False
    )
    vectors = model.fit_transform(graph)[0]
    place = {name: row for row, name in enumerate(graph.get_node_names())}
    return vectors[[place[name] for name in nodes["id"]]].astype(np.float32)


def uniform_walks(rowptr: Tensor, col: Tensor, start: Tensor, length: int, p: float = 1.0, q: float = 1.0) -> Tensor:
    """Uniform random walks of ``length`` steps from each start, [n, length + 1]; a node without neighbours stays.

    Arguments as of pyg-lib's ``random_walk``, for p = q = 1.
    """
    import torch

    assert p == q == 1, "only uniform walks are implemented"
    degree, walks = rowptr.diff(), [start]
    for _ in range(length):
        here = walks[-1]
        choices = degree[here]
        # In float64: a float32 just below 1 times a large degree may round up to the degree.
        step = rowptr[here] + (torch.rand(len(here), dtype=torch.float64) * choices).long()
        walks.append(torch.where(choices > 0, col[step.clamp(max=len(col) - 1)], here) if len(col) else here)
    return torch.stack(walks, 1)


def by_node2vec(folder: Path, asked: Asked) -> np.ndarray:
    """PyG's Node2Vec as in its example but for the epochs, from edges alone; without pyg-lib, walks are drawn in torch."""
    import torch
    from torch_geometric.nn.models import node2vec

    if not node2vec.WITH_PYG_LIB:
        node2vec.WITH_PYG_LIB = True
        library = torch.library.Library("pyg", "DEF")
        library.define("random_walk(Tensor rowptr, Tensor col, Tensor seed, int walk_length, float p, float q) -> Tensor")
        library.impl("random_walk", uniform_walks, "CPU")
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    source, target = read_edges(folder)
    edges = torch.from_numpy(np.stack([np.concatenate([source, target]), np.concatenate([target, source])]))
    size = {"walks_per_node": WALKS_PER_NODE, "num_nodes": len(node_ids(folder)), "sparse": True}
    model = node2vec.Node2Vec(edges, asked.dimension, WALK_NODES, WINDOW, **size).to(device)
    adam = torch.optim.SparseAdam(list(model.parameters()), lr=LEARNING_RATE)
    # As in the example, where there are cores for it.
    workers = 4 if (os.cpu_count() or 1) > 4 else 0
    for _ in range(asked.epochs):
        for near, far in model.loader(batch_size=BATCH, shuffle=True, num_workers=workers):
            adam.zero_grad()
            model.loss(near.to(device), far.to(device)).backward()
            adam.step()
    return model().detach().cpu().numpy()


def by_plain_pyg(folder: Path, asked: Asked) -> np.ndarray:
    """CLNR in plain PyG, with the epochs and hyper-parameters that clnr takes for the graph."""
    import pyarrow.parquet as pq
    import torch

    from benchmarks._plain_pyg import PlainCLNR
    from clnr.embedding.defaults import default_recipe
    from clnr.graph import Graph
    from clnr.methods import CLNR

    source, target = read_edges(folder)
    x = pq.read_table(folder / "nodes.parquet", columns=["x"])["x"].combine_chunks()
    features = x.flatten().to_numpy().reshape(len(x), -1)
    graph = Graph.from_edges(source, target, features, undirected=True, name="tables")
    torch.manual_seed(0)
    recipe, _ = default_recipe(CLNR, graph)
    training = PlainCLNR(
        graph, recipe.but(dimension=asked.dimension), torch.device("cuda" if torch.cuda.is_available() else "cpu")
    )
    for _ in range(recipe.epochs):
        training.epoch()
    with torch.no_grad():
        return training.model.eval()(training.x, training.edges).cpu().numpy()


class Rival(NamedTuple):
    """A program, the packages that it needs, and whether it needs clnr's own Python."""

    embed: Callable[[Path, Asked], np.ndarray]
    packages: tuple[str, ...]
    beside_clnr: bool = False


RIVALS = {
    "pycleora": Rival(by_pycleora, ("pycleora", "pyarrow")),
    "GRAPE node2vec": Rival(by_grape, ("ensmallen", "pyarrow", "pandas")),
    "PyG Node2Vec": Rival(by_node2vec, ("torch_geometric",), True),
    "plain PyG CLNR": Rival(by_plain_pyg, ("torch_geometric",), True),
}


if __name__ == "__main__":
    who, folder, file, *numbers = sys.argv[1:]
    np.save(file, RIVALS[who].embed(Path(folder), Asked(*map(int, numbers))))
