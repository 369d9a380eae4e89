"""The scores of the study of defaults: how good the rows of an embedding are. On one CPU core, in a process of its own."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.linear_model import Ridge
from sklearn.metrics import normalized_mutual_info_score, r2_score
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from clnr.evaluation import HeldOutPairs, link_cosines, logistic_probe, score_cosines
from clnr.evaluation.geometry import alignment, effective_rank, uniformity
from clnr.graph import Graph, Split
from clnr.graph.csr import Array

NEAREST = 10
QUERIES = 2000
PAIRS = 4096
NODES = 2048
DIRECTIONS = 64
WIDEST = 2048
_BLOCK = 500


class Facts(NamedTuple):
    """What scores need to know of a graph.

    Attributes:
        labels: Class per node.
        neighbours: Its product with rows is the mean over each node's neighbours, along edges in either direction.
        reduced: The features, reduced by an SVD.
    """

    labels: Array
    neighbours: sp.csr_array
    reduced: Array

    @classmethod
    def of(cls, graph: Graph) -> Facts:
        assert graph.labels is not None
        adjacency = graph.to_scipy()
        both = sp.csr_array(adjacency.maximum(adjacency.T))
        left, values, _ = randomized_svd(graph.features, min(DIRECTIONS, *graph.features.shape), random_state=0)
        return cls(graph.labels, normalize(both, "l1"), (left * values).astype(np.float32))


def one_thread() -> None:
    """For a process among many."""
    torch.set_num_threads(1)
    threadpool_limits(1)


def link_auc(rows: Any, held: HeldOutPairs) -> float:
    """Of held-out edges against non-edges, by the cosine similarity of rows that were made without these edges."""
    unit = normalize(rows)
    return score_cosines(link_cosines(unit if sp.issparse(unit) else torch.tensor(unit), held))["auc"]


def scores(facts: Facts, rows: Any, split: Split, seed: int) -> dict[str, Any]:
    """All scores of rows, an array or a sparse matrix; nothing is chosen by them but the probe's penalty, by validation."""
    began = time.perf_counter()
    classes = np.bincount(facts.labels) / len(facts.labels)
    probe = logistic_probe(rows, facts.labels, split, seed)
    generator, unit = np.random.default_rng(seed), normalize(rows)
    one, other = _some_edges(facts.neighbours, generator)
    some = generator.permutation(unit.shape[0])[:NODES]
    # Raw features are sparse, and wide: their neighbours' are taken reduced, and they have a rank only where it is quick.
    inputs = facts.reduced if sp.issparse(rows) else rows
    return {
        "validation": probe.validation,
        "test": probe.strict,
        "converged": probe.converged,
        "effective_rank": effective_rank(_dense(rows)) if rows.shape[1] <= WIDEST else None,
        "alignment": alignment(_dense(unit[one]), _dense(unit[other])),
        "uniformity": uniformity(_dense(unit[some])),
        "neighbour_r2": neighbour_r2(facts, inputs, generator),
        "nmi": clustering_nmi(unit, facts.labels, seed),
        "purity": purity(unit, facts.labels, generator),
        "purity_chance": float(classes @ classes),
        "score_seconds": time.perf_counter() - began,
    }


def neighbour_r2(facts: Facts, inputs: Array, generator: np.random.Generator) -> float:
    """How well a node's reduced features are predicted from the mean of its neighbours' rows: R^2 of ridge regression.

    Fitted on a random half of the nodes that have neighbours, measured on the others.
    """
    x, y = facts.neighbours @ inputs, facts.reduced
    nodes = generator.permutation(np.flatnonzero(np.diff(facts.neighbours.indptr)))
    fitted, others = np.array_split(nodes, 2)
    scaler = StandardScaler().fit(x[fitted])
    model = Ridge(alpha=0.01 * len(fitted)).fit(scaler.transform(x[fitted]), y[fitted])
    return float(r2_score(y[others], model.predict(scaler.transform(x[others])), multioutput="variance_weighted"))


def clustering_nmi(unit: Any, labels: Array, seed: int) -> float:
    """Normalised mutual information of the classes and as many clusters found by k-means in unit rows."""
    if sp.issparse(unit):
        # k-means of scikit-learn takes no wider ones.
        unit = sp.csr_array((unit.data, unit.indices.astype(np.int32), unit.indptr.astype(np.int32)), shape=unit.shape)
    clusters = KMeans(len(np.unique(labels)), n_init=3, max_iter=100, random_state=seed).fit_predict(unit)
    return float(normalized_mutual_info_score(labels, clusters))


def purity(unit: Any, labels: Array, generator: np.random.Generator) -> float:
    """The share of the ten nearest nodes by cosine similarity that have a node's own label, over at most 2,000 nodes."""
    asked = generator.permutation(unit.shape[0])[:QUERIES]
    same = []
    for nodes in np.array_split(asked, -(-len(asked) // _BLOCK)):
        cosines = unit[nodes] @ unit.T
        cosines = cosines.toarray() if sp.issparse(cosines) else cosines
        cosines[np.arange(len(nodes)), nodes] = -np.inf
        nearest = np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST]
        same.append(labels[nearest] == labels[nodes][:, None])
    return float(np.concatenate(same).mean())


def _some_edges(neighbours: sp.csr_array, generator: np.random.Generator) -> tuple[Array, Array]:
    pairs = neighbours.tocoo()
    some = generator.permutation(pairs.nnz)[:PAIRS]
    return pairs.row[some], pairs.col[some]


def _dense(rows: Any) -> torch.Tensor:
    return torch.tensor(rows.toarray() if sp.issparse(rows) else rows)
