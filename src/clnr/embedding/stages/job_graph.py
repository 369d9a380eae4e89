"""A job, and its graph as the stages see it, in memory or in files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.scoring.job_scores import Samples, Scores
from clnr.embedding.store.output_folder import Output
from clnr.embedding.store.work_folder import WorkFolder
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.progress import Bar
from clnr.training.checkpoint import Checkpoint
from clnr.training.fingerprint import Fingerprint
from clnr.training.loop import ProgressCallback


class JobGraph(ABC):
    """A graph that a job trains on, embeds and scores. Where workers share that, every one of them makes each call.

    Vectors are an array, or shards.
    """

    digest: str
    num_nodes: int
    settings: Settings
    told: Sequence[str] = ()
    """What was chosen for a purpose, a line each."""

    @abstractmethod
    def train(
        self, recipe: Recipe, progress: ProgressCallback | None, checkpoint: Checkpoint | None
    ) -> tuple[FittedModel | None, tuple[float, ...]]:
        """Train without the held-out edges: the model and its losses. A worker that has no use for the model has None."""

    def fit_readout(self, model: FittedModel) -> tuple[FittedModel, Array | None]:
        """The model with its read-out, and the vectors of held-out edges' nodes, without these edges; on the first worker.

        Where the read-out is fitted with the training, the model is as it was, and None.
        """
        return model, None

    def fit_baselines(self, model: FittedModel, baselines: Collection[Method]) -> None:  # noqa: B027
        """Fit what ``samples`` compares with, without the held-out edges, where that is not done with the scores."""

    @abstractmethod
    def embed(self, model: FittedModel | None) -> Any:
        """The vectors of all nodes. A worker that has no use for them has None."""

    @abstractmethod
    def samples(self, model: FittedModel, vectors: Any, link_rows: Array | None, baselines: Collection[Method]) -> Samples:
        """What vectors, and those of baselines, are scored by; for the first worker alone."""

    @abstractmethod
    def result(self, job: Job) -> EmbeddingResult:
        """All that the stages have made so far; on the first worker."""


@dataclass(eq=False)
class Job:
    """The embedding of one graph, and what its stages have made so far.

    What no stage has made yet is None, and so is what a worker has no use for. Without an output nothing is written, and
    without a work folder nothing is kept for a process that resumes. ``link_rows`` are vectors of held-out edges' nodes,
    without these edges, where a stage of its own has fitted the read-out.
    """

    graph: JobGraph
    recipe: Recipe
    baselines: Collection[Method] = ()
    output: Output | None = None
    fingerprint: Fingerprint = field(default_factory=dict)
    work: WorkFolder | None = None
    bar: Bar | None = None
    model: FittedModel | None = None
    losses: tuple[float, ...] = ()
    link_rows: Array | None = None
    vectors: Any = None
    scored: Scores | None = None

    @property
    def settings(self) -> Settings:
        return self.graph.settings

    def log(self, line: str) -> None:
        """Show a line, if progress is shown."""
        if self.bar is not None:
            self.bar.note(line)
