"""Clusters of nodes by k-means of their vectors: which nodes, the most typical ones, and what sets each cluster apart."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from clnr.embedding.graph_facts import sample_nodes
from clnr.embedding.result.neighbors import rows_of_kind
from clnr.embedding.result.node_ids import text_of
from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.shards import blocks
from clnr.embedding.result.traits import Trait, traits_of
from clnr.errors import ClnrError, shorten
from clnr.graph.csr import Array
from clnr.graph.kind_rows import unit
from clnr.support.humanize import plural

USUAL_CLUSTERS, CLEAR_SILHOUETTE = 8, 0.25
"""How many clusters are taken where none are clear, and from which silhouette on they are (Kaufman and Rousseeuw, 1990)."""
# The most clusters that are found without being asked for: as many as the report has colours.
_MOST_CLUSTERS = 12
# The size of the sample on which clusters are fitted and described, and of the part on which their number is chosen.
_FITTED_NODES, _JUDGED_NODES = 10_000, 1_000
_ITERATIONS, _RESTARTS = 10, 3
_TYPICAL_NODES, _MOST_LETTERS, _TITLE_TRAITS = 5, 60, 3
_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class Cluster:
    """Nodes whose vectors point the same way.

    Attributes:
        number: Clusters are numbered from 0, the largest first.
        size: How many nodes it has.
        typical: The ids of the nodes nearest its centre, nearest first.
        names: What these are called, "" for one without a name.
        traits: What sets it apart: first what is beyond chance, then the largest difference.
    """

    number: int
    size: int
    typical: tuple[Any, ...]
    names: tuple[str, ...]
    traits: tuple[Trait, ...]

    @property
    def title(self) -> str:
        """Its number, and in a few words what sets it apart beyond chance."""
        words = [trait.short for trait in self.traits if trait.telling][:_TITLE_TRAITS]
        return f"{self.number}: {', '.join(words)}" if words else f"cluster {self.number}"

    @property
    def typical_texts(self) -> list[str]:
        """Its typical nodes by name, or by id, none of them long."""
        return [shorten(name or str(node), _MOST_LETTERS) for node, name in zip(self.typical, self.names, strict=True)]

    @property
    def summary(self) -> str:
        """Its size and its typical nodes."""
        return f"{plural(self.size, 'node')}, typical: {'; '.join(self.typical_texts)}"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        ids = (node if type(node) is int else text_of(node) for node in self.typical)
        typical = [{"id": node, "name": name or None} for node, name in zip(ids, self.names, strict=True)]
        traits = [trait._asdict() for trait in self.traits]
        return {"cluster": self.number, "size": self.size, "typical": typical, "traits": traits}


@dataclass(frozen=True, eq=False)
class Clusters:
    """All nodes in clusters, or those of a kind; ``print`` shows a line for each cluster.

    Attributes:
        assignment: The number of each node's cluster; -1 for a node of another kind.
        clusters: The largest first; of more than 10,000 nodes, by a sample.
        silhouette: How well they are separated, from -1 to 1: about 0 where they overlap. NaN for a single cluster.
    """

    assignment: Array
    clusters: tuple[Cluster, ...]
    silhouette: float

    def __repr__(self) -> str:
        return "\n".join(f"{each.title}: {each.summary}" for each in self.clusters)

    def to_dict(self) -> dict[str, Any]:
        """All but the assignment, as plain values."""
        silhouette = None if math.isnan(self.silhouette) else self.silhouette
        return {"silhouette": silhouette, "clusters": [each.to_dict() for each in self.clusters]}


def find_clusters(z: Any, nodes: Nodes, count: int | None = None, kind: str | None = None) -> Clusters:
    """Clusters of all nodes, or of a kind, by k-means of vectors of length 1, as the search compares them; the seed is fixed.

    Without ``count``, their number is the one of 2 to 12 with the highest silhouette, if that is at least 0.25; else 8, or the
    square root of the number of nodes where that is less.
    """
    everyone = np.arange(len(z))
    if kind is not None:
        everyone = np.concatenate([of_kind for of_kind, _ in rows_of_kind(z, nodes, kind)])
    sample = everyone[sample_nodes(len(everyone), _FITTED_NODES)]
    if count is not None and not 2 <= count <= len(sample):
        raise ClnrError(f"the number of clusters (-k) must be from 2 to {len(sample):,}, not {count:,}")
    sampled = unit(z[sample])
    judged = sample_nodes(len(sample), _JUDGED_NODES)
    distances = _distances(sampled[judged])
    centres = _centres(sampled, _best_count(sampled[judged], distances) if count is None else count)
    assignment, distance = np.empty(len(z), np.int32), np.empty(len(z), np.float32)
    for first, rows in blocks(z, _BLOCK_ROWS):
        there = slice(first, first + len(rows))
        assignment[there], distance[there] = _nearest(unit(rows), centres)
    assignment[np.setdiff1d(np.arange(len(assignment)), everyone)] = -1
    traits = traits_of(nodes, sample, assignment[sample], len(centres))
    clusters = []
    for number, size in enumerate(np.bincount(assignment[everyone], minlength=len(centres)).tolist()):
        members = np.flatnonzero(assignment == number)
        typical = members[np.argsort(distance[members], kind="stable")[:_TYPICAL_NODES]]
        ids, names = nodes.ids[typical].tolist(), nodes.names_of(typical)
        clusters.append(Cluster(number, size, tuple(ids), tuple(names), traits[number]))
    return Clusters(assignment, tuple(clusters), silhouette(distances, assignment[sample[judged]]))


def _centres(z: Array, count: int) -> Array:
    """The centres of clusters, the largest first; fewer where rows are alike."""
    if not z.size:
        return np.zeros((min(1, len(z)), z.shape[1]), np.float32)
    centres, assignment = _k_means(z, min(count, len(np.unique(z, axis=0))))
    sizes = np.bincount(assignment, minlength=len(centres))
    order = np.argsort(-sizes, kind="stable")
    return centres[order[: np.count_nonzero(sizes)]]


def _k_means(z: Array, count: int) -> tuple[Array, Array]:
    """Centres and the cluster of each row: k-means++ and Lloyd's algorithm, the best of some restarts.

    SciPy's k-means, as scikit-learn's takes 1.6 seconds to import, which each report would wait for.
    """
    from scipy.cluster.vq import kmeans2

    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty")
        for seed in range(_RESTARTS):
            centres, _ = kmeans2(z, count, iter=_ITERATIONS, minit="++", seed=np.random.default_rng(seed))
            found.append((centres, *_nearest(z, centres)))
    centres, assignment, _ = min(found, key=lambda each: float(np.square(each[2], dtype=np.float64).sum()))
    return centres, assignment


def _nearest(z: Array, centres: Array) -> tuple[Array, Array]:
    """The nearest centre of each row, and how far it is."""
    from scipy.cluster.vq import vq

    return vq(z, centres) if centres.size else (np.zeros(len(z), np.int32), np.zeros(len(z), np.float32))


# -- how many --


def _best_count(z: Array, distances: Array) -> int:
    """The number of clusters with the highest silhouette; the usual one if that is low."""
    most = min(_MOST_CLUSTERS, len(z) - 1, len(np.unique(z, axis=0))) if z.size else 0
    scores = {count: silhouette(distances, _k_means(z, count)[1]) for count in range(2, most + 1)}
    clear = {count: score for count, score in scores.items() if score >= CLEAR_SILHOUETTE}
    return max(clear, key=clear.__getitem__) if clear else min(USUAL_CLUSTERS, round(math.sqrt(len(z))))


def _distances(z: Array) -> Array:
    squares = np.einsum("nd,nd->n", z, z)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2 * (z @ z.T), 0))


def silhouette(distances: Array, assignment: Array) -> float:
    """The mean silhouette of rows, by the distances of all pairs (Rousseeuw, 1987); NaN for a single cluster.

    Of each row, (b - a) / max(a, b): a is its mean distance to the others of its cluster, b that to the nearest other cluster.
    """
    clusters, codes, sizes = np.unique(assignment, return_inverse=True, return_counts=True)
    if len(clusters) < 2:
        return math.nan
    everyone = np.arange(len(codes))
    sums = distances @ (codes[:, None] == np.arange(len(clusters))).astype(distances.dtype)
    within = (sums[everyone, codes] - distances[everyone, everyone]) / np.maximum(sizes[codes] - 1, 1)
    means = sums / sizes
    means[everyone, codes] = np.inf
    between = means.min(1)
    largest = np.maximum(np.maximum(within, between), np.finfo(np.float32).tiny)
    return float(np.where(sizes[codes] > 1, (between - within) / largest, 0).mean())
