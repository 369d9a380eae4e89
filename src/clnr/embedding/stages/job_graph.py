"""A graph as the stages of a job see it, in memory or in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Generic, TypeVar

from clnr.embedding.fit_settings import Settings
from clnr.embedding.model import FittedModel
from clnr.embedding.scoring.job_scores import Samples
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.training.loop import CheckpointCallback, ProgressCallback

Vectors = TypeVar("Vectors")
"""One row for each node: an array, or shards."""


class JobGraph(ABC, Generic[Vectors]):
    """A graph that a job trains on, embeds and scores. Where workers share that, every one of them makes each call.

    Attributes:
        digest: Of its content.
        num_nodes: How many nodes it has.
        settings: How to train.
    """

    digest: str
    num_nodes: int
    settings: Settings

    @abstractmethod
    def train(
        self, recipe: Recipe, progress: ProgressCallback | None, checkpoint: CheckpointCallback | None
    ) -> tuple[FittedModel | None, tuple[float, ...]]:
        """Train without the held-out edges: the model and its losses. A worker that has no use for the model has None."""

    def fit_readout(self, model: FittedModel) -> tuple[FittedModel, Array | None]:
        """The model with its read-out, and the vectors of held-out edges' nodes, without these edges; on the first worker.

        Where the read-out is fitted with the training, the model is as it was, and None.
        """
        return model, None

    @abstractmethod
    def embed(self, model: FittedModel | None) -> Vectors | None:
        """The vectors of all nodes. A worker that has no use for them has None."""

    @abstractmethod
    def samples(self, model: FittedModel, vectors: Vectors, link_rows: Array | None, baselines: Collection[Method]) -> Samples:
        """What vectors, and those of baselines, are scored by; for the first worker alone."""
