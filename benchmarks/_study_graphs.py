"""The graphs of the study of defaults: real ones that no recipe is known for, and others made from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from clnr import datasets
from clnr.datasets import formats
from clnr.datasets.download import roots
from clnr.errors import DataError, UnknownName
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.table_info import TableInfo
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.structural import StructuralFeatures, degree_features

FILES = {
    "dblp": "CitationFull/dblp/raw/dblp.npz",
    "github": "MUSAE/GitHub/raw/musae_github.npz",
    "arxiv2023": "ArXiv2023/raw/arxiv_2023.npz",
    "tolokers": "Heterophilous/Tolokers/raw/tolokers.npz",
    "minesweeper": "Heterophilous/Minesweeper/raw/minesweeper.npz",
    "cornell5": "Facebook100/Cornell5/raw/cornell5.npz",
}
ANSWERS = ("gender", "year", "dorm", "status")
"""Columns of Cornell5 that a task asks for, as in ``cornell5-year``; it is not among the features then."""
BY_AUC = ("tolokers", "minesweeper")
"""Classes are so unequal that ROC AUC is measured."""
COLUMNS = 8
STRUCTURE = "structure"


def load(name: str) -> Graph:
    """A graph by its name in the study: ``cora``, or with changes as in ``cora:few``, ``cora:h=0.25``, ``cora:structure``.

    No recipe is known for it, and it has no published split.
    """
    real, *changes = name.split(":")
    graph = dataclasses.replace(_real(real), name=name, dataset=None, split=None)
    for change in changes:
        if change.startswith("h="):
            graph = rewired(graph, _share(name, change))
        elif change in CHANGES:
            graph = CHANGES[change](graph)
        elif change != STRUCTURE:
            raise UnknownName("change of a graph", change, [*CHANGES, STRUCTURE, "h=0.25"])
    # After all others: it follows from the edges.
    return without_features(graph) if STRUCTURE in changes else graph


def _real(name: str) -> Graph:
    name, _, answer = name.partition("-")
    if name not in FILES:
        return datasets.load(name)
    folders = roots(None)
    for folder in folders:
        if (folder / FILES[name]).is_file():
            graph = formats.read(formats.npz, [folder / FILES[name]])
            return _asked(graph, folder / FILES[name], answer) if answer or name in BY_AUC else graph
    looked = ", ".join(str(folder) for folder in folders)
    raise DataError(f"{name} needs {FILES[name]}, which is in none of: {looked}; set CLNR_DATA to a folder that has it")


def _asked(graph: Graph, file: Path, answer: str) -> Graph:
    """A graph with its features as they are, or with one of its columns as the label and the others, one-hot, as features."""
    with np.load(file, allow_pickle=False) as parts:
        if not answer:
            rows = sp.csr_array(tuple(parts[f"attr_{part}"] for part in ("data", "indices", "indptr")), parts["attr_shape"])
            return dataclasses.replace(graph, features=np.ascontiguousarray(rows.toarray(), np.float32))
        columns, names = parts["metadata"], list(parts["metadata_names"])
    if answer not in names:
        raise UnknownName("column", answer, names)
    known = columns[:, names.index(answer)] != 0
    labels = np.full(graph.num_nodes, -1)
    labels[known] = np.unique(columns[known, names.index(answer)], return_inverse=True)[1]
    codes = [np.unique(columns[:, at], return_inverse=True)[1] for at, each in enumerate(names) if each != answer]
    # The first is the unknown, 0.
    features = sp.hstack([sp.eye_array(each.max() + 1, format="csr")[each][:, 1:] for each in codes]).tocsr()
    return dataclasses.replace(graph, features=features.astype(np.float32), labels=labels)


def _share(name: str, change: str) -> float:
    try:
        share = float(change.removeprefix("h="))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise DataError(f"{name}: the share of edges within a class is a number from 0 to 1, as in h=0.25, not '{change}'")
    return share


def without_features(graph: Graph) -> Graph:
    """The graph as a table of edges alone would give it."""
    source, target, _ = graph.edges()
    columns = degree_features(source, target, graph.num_nodes)
    structure = StructuralFeatures.fit(columns)
    info = TableInfo(encoder=FeatureEncoder(structure=structure).to_json())
    return dataclasses.replace(graph, features=structure.features(columns), info=info)


def few(graph: Graph) -> Graph:
    """Eight numeric columns: the first principal directions of the features, each with as much noise as signal."""
    left, _, _ = randomized_svd(graph.features, COLUMNS, random_state=0)
    noise = np.random.default_rng(0).standard_normal(left.shape)
    return dataclasses.replace(graph, features=(left / left.std(0) + noise).astype(np.float32))


def rewired(graph: Graph, share: float) -> Graph:
    """Edges drawn anew: a share of them within a class, the others anywhere.

    Every node keeps its degree, but for loops and double edges, which are dropped.
    """
    assert graph.labels is not None
    generator = np.random.default_rng(0)
    ends = generator.permutation(np.concatenate(pairs(graph)))
    count = round(share * len(ends))
    within = ends[:count][np.argsort(graph.labels[ends[:count]], kind="stable")]
    _, sizes = np.unique(graph.labels[within], return_counts=True)
    # The last end of a class with an odd number of them has no partner there.
    alone = np.cumsum(sizes)[sizes % 2 == 1] - 1
    anywhere = generator.permutation(np.concatenate([within[alone], ends[count:]]))
    drawn = np.concatenate([np.delete(within, alone).reshape(-1, 2), anywhere.reshape(-1, 2)])
    drawn = np.unique(np.sort(drawn[drawn[:, 0] != drawn[:, 1]], 1), axis=0)
    return with_edges(graph, drawn[:, 0], drawn[:, 1], undirected=True)


def directed(graph: Graph) -> Graph:
    """Every edge keeps one direction, drawn at random."""
    source, target = pairs(graph)
    turned = np.random.default_rng(0).random(len(source)) < 0.5
    return with_edges(graph, np.where(turned, target, source), np.where(turned, source, target))


def weighted(graph: Graph) -> Graph:
    """Weights drawn from an exponential distribution of mean 1, and as many random edges of mean weight 0.2 among them."""
    source, target = pairs(graph)
    generator, count = np.random.default_rng(0), len(source)
    others = generator.integers(graph.num_nodes, size=(2, count))
    weight = np.concatenate([generator.exponential(1.0, count), generator.exponential(0.2, count)])
    both = np.concatenate([source, others[0]]), np.concatenate([target, others[1]])
    distinct = both[0] != both[1]
    return with_edges(graph, both[0][distinct], both[1][distinct], weight=weight[distinct], undirected=True)


def bipartite(graph: Graph) -> Graph:
    """Nodes are dealt into two halves at random, and edges within a half are dropped."""
    source, target = pairs(graph)
    half = np.random.default_rng(0).permutation(graph.num_nodes) % 2
    across = half[source] != half[target]
    return with_edges(graph, source[across], target[across], undirected=True)


def shuffled(graph: Graph) -> Graph:
    """Every node has the features of another, so that only edges tell anything."""
    return dataclasses.replace(graph, features=graph.features[np.random.default_rng(9).permutation(graph.num_nodes)])


def unlike(graph: Graph) -> Graph:
    """Edges drawn anew: every one leads from a class to the next, so that neighbours are unlike but tell all."""
    assert graph.labels is not None
    generator = np.random.default_rng(0)
    source = generator.permutation(np.concatenate(pairs(graph)))[: len(pairs(graph)[0])]
    following = (graph.labels[source] + 1) % graph.num_classes
    members = [np.flatnonzero(graph.labels == each) for each in range(graph.num_classes)]
    target = np.array([generator.choice(members[each]) for each in following])
    return with_edges(graph, source, target, undirected=True)


CHANGES: dict[str, Callable[[Graph], Graph]] = {
    "few": few,
    "directed": directed,
    "weighted": weighted,
    "bipartite": bipartite,
    "shuffled": shuffled,
    "unlike": unlike,
}


def pairs(graph: Graph) -> tuple[Array, Array]:
    """Both ends of each undirected edge, once."""
    source, target, _ = graph.edges()
    once = source < target
    return source[once], target[once]


def with_edges(graph: Graph, source: Array, target: Array, **more: Any) -> Graph:
    return Graph.from_edges(source, target, graph.features, labels=graph.labels, name=graph.name, **more)
