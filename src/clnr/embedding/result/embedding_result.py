"""An embedded graph: its vectors, the model that makes them, and how the training went."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.result.clusters import Clusters, find_clusters
from clnr.embedding.result.nodes import Nodes
from clnr.graph import Graph
from clnr.training.fingerprint import Fingerprint


@dataclass(frozen=True, eq=False)
class EmbeddingResult:
    """An embedded graph, the model that embeds it, and how its training went; all of it in memory, or in files.

    ``z`` has a row for each node: an array or, in files, ``Shards``. Warnings are what a reader of the scores should know, a
    line each. Baselines are scored on the same edges and nodes; beside their scores stand the standard errors of the
    differences from this embedding's: ``link_auc_error``, ``strict_accuracy_error``. The
    fingerprint is of what was asked for; it is empty after an extension.
    """

    model: FittedModel
    graph: Graph
    z: Any
    losses: tuple[float, ...]
    scores: dict[str, float]
    warnings: tuple[str, ...] = ()
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    fingerprint: Fingerprint = field(default_factory=dict)

    @cached_property
    def nodes(self) -> Nodes:
        """Who its nodes are."""
        return Nodes(self.graph)

    @cached_property
    def clusters(self) -> Clusters:
        """Clusters of the nodes; their number is chosen by their silhouette."""
        return find_clusters(self.z, self.nodes)
