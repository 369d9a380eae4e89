"""Samples of the nodes of a graph that scores are computed on, in memory or from files, so that they cost little."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from clnr import rng
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.search.nodes import sample_nodes
from clnr.engine import unit_rows
from clnr.evaluation import geometry
from clnr.evaluation.metrics import fresh_views
from clnr.graph import Graph
from clnr.graph.csr import Array

if TYPE_CHECKING:
    from clnr.engine import DeviceGraph, Engine

MOST_LABELLED = 50_000
"""The labelled nodes of a larger graph are a sample of so many."""
MEASURED = 5_000
"""So many nodes, drawn uniformly, stand for all in the effective rank."""
_MEASURED_PAIRS = 2048
# Taken at a time.
_BLOCK_LABELS = 1 << 22


class Labelled(NamedTuple):
    """Nodes whose labels an embedding is scored by.

    ``graph`` has nothing but their labels and, if it is published, the split; ``total`` nodes are labelled.
    """

    nodes: Array
    graph: Graph
    total: int


def labelled_nodes(graph: Graph, seed: int) -> Labelled:
    """The nodes to score by: all, or of a large graph a sample of those with a label, which are read in parts."""
    if graph.labels is None:
        return Labelled(np.empty(0, np.int64), _labels_alone(graph, None), 0)
    if graph.num_nodes <= MOST_LABELLED or graph.split is not None:
        labels = np.asarray(graph.check_labels(graph.labels[:]), np.int64)
        alone = replace(_labels_alone(graph, labels), split=graph.split)
        return Labelled(np.arange(graph.num_nodes), alone, int((labels >= 0).sum()))
    sample, total = np.empty(0, np.int64), 0
    for start in range(0, graph.num_nodes, _BLOCK_LABELS):
        nodes = start + np.flatnonzero(graph.check_labels(graph.labels[start : start + _BLOCK_LABELS], start) >= 0)
        total += len(nodes)
        # Of all labelled nodes, those with the smallest draws: the same sample, however labels are read.
        candidates = np.concatenate([sample, nodes])
        draws = rng.draw(rng.key(seed, "labelled"), torch.from_numpy(candidates)).numpy()
        sample = candidates[np.argsort(draws, kind="stable")[:MOST_LABELLED]]
    nodes = np.sort(sample)
    return Labelled(nodes, _labels_alone(graph, np.asarray(graph.labels[nodes], np.int64)), total)


def _labels_alone(graph: Graph, labels: Array | None) -> Graph:
    count = 0 if labels is None else len(labels)
    return Graph.from_edges([], [], np.zeros((count, 0), np.float32), labels=labels, name=graph.name)


def alignment_scores(model: FittedModel, engine: Engine, given: DeviceGraph) -> dict[str, float]:
    """Alignment and uniformity of some nodes in two views that training never saw.

    ``given`` is the graph without the held-out edges, with the features that the encoder is given. In blocks, columns' moments
    are those of the nodes that are measured, as in a sampled step, and only views that are alike in kind are compared.
    """
    built, count = model.method.build(model.recipe), given.graph.num_nodes
    if built.objective is None or (given.in_blocks and not model.method.symmetric_views):
        return {}
    most = min(count, (model.recipe.sampled_nodes or _MEASURED_PAIRS) if given.in_blocks else _MEASURED_PAIRS)
    some = rng.permute(rng.key(model.seed, "measured"), torch.arange(most), count)
    parameters = model.parameters_on(engine)
    with torch.no_grad(), engine.use_threads():
        if given.in_blocks:
            views = built.augment(given, model.seed, "measure", 0)
            rows = built.project(parameters, engine.float32, views, some, sampled=True)[:2]
        else:
            nodes = some.sort().values.to(engine.device)
            rows = fresh_views(model.method, model.recipe, parameters, engine.float32, given, model.seed, nodes)
        u, v = map(unit_rows, rows)
        return {"alignment": geometry.alignment(u, v), "uniformity": (geometry.uniformity(u) + geometry.uniformity(v)) / 2}


def effective_rank(vectors: Any) -> float:
    """That of some of the vectors that are written."""
    return geometry.effective_rank(torch.from_numpy(vectors[sample_nodes(len(vectors), MEASURED)]))
