"""The stages of a job. Every worker runs each of them; what only the first may do is marked where it is done."""

from __future__ import annotations

import contextlib
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clnr.embedding.fit_settings import Settings
from clnr.embedding.model import FittedModel
from clnr.embedding.scoring.job_scores import Scores, score
from clnr.embedding.stages.job_graph import JobGraph
from clnr.embedding.store.work_folder import WorkFolder
from clnr.experiments.runner import first_use
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support.machine.memory import enough_memory
from clnr.support.progress import Bar
from clnr.training.loop import ProgressCallback


@dataclass(eq=False)
class Job:
    """The embedding of one graph, and what its stages have made so far.

    Attributes:
        graph: In memory or in files.
        recipe: The hyper-parameters.
        baselines: What is scored beside the embedding.
        work: The folder in which what stages have made is kept for a process that resumes; None for none.
        bar: Shows progress; None for none.
        model: What was learned; None before the training, and on a worker that has no use for it.
        losses: One per epoch.
        link_rows: Vectors of held-out edges' nodes, without these edges, where a stage of its own has fitted the read-out.
        vectors: One for each node; None before they are made, and on a worker that has no use for them.
        scored: The scores; None before they are computed, and on other workers than the first.
    """

    graph: JobGraph[Any]
    recipe: Recipe
    baselines: Collection[Method] = ()
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


class Stage(ABC):
    """A stage of a job."""

    @abstractmethod
    def run(self, job: Job) -> None:
        """Do this worker's share of it."""


class KeptStage(Stage):
    """A stage that need not be done again by a process that resumes: what it makes is kept in the work folder."""

    @abstractmethod
    def is_kept(self, work: WorkFolder) -> bool:
        """Whether an earlier process has done it."""

    @abstractmethod
    def save(self, job: Job, work: WorkFolder) -> None:
        """Keep what it made; by the first worker alone."""

    @abstractmethod
    def load(self, job: Job, work: WorkFolder) -> None:
        """Take what an earlier process or the first worker has kept."""


def run_stages(job: Job, stages: Sequence[Stage]) -> None:
    """Run stages one after the other, on every worker."""
    workers = job.settings.workers
    for stage in stages:
        if job.work is None or not isinstance(stage, KeptStage):
            stage.run(job)
            continue
        done = workers.broadcast_object(workers.first and stage.is_kept(job.work))
        if not done:
            stage.run(job)
            if workers.first:
                stage.save(job, job.work)
            workers.barrier()
        if done or not workers.first:
            stage.load(job, job.work)


class Train(KeptStage):
    """Fit the inputs and train, without the held-out edges; with a checkpoint, a training that was stopped goes on."""

    def run(self, job: Job) -> None:
        settings = job.settings
        checkpoint = settings.checkpoint_of(job.graph.digest, job.recipe, job.log)
        if checkpoint is not None and settings.resume:
            path = checkpoint.path
            missing = f"there is no checkpoint {path}: training starts from scratch"
            job.log(f"resuming from {path}" if path.is_file() else missing)
        with shown(settings, job.recipe, job.graph.num_nodes, job.bar) as progress:
            job.model, job.losses = job.graph.train(job.recipe, progress, checkpoint)

    def is_kept(self, work: WorkFolder) -> bool:
        return work.has_model()

    def save(self, job: Job, work: WorkFolder) -> None:
        assert job.model is not None
        work.save_model(job.model, job.losses)

    def load(self, job: Job, work: WorkFolder) -> None:
        job.model, job.losses = work.load_model()


class FitReadout(KeptStage):
    """Fit the read-out, without the held-out edges, where that is not done with the training."""

    def run(self, job: Job) -> None:
        if job.model is not None:
            job.model, job.link_rows = job.graph.fit_readout(job.model)

    def is_kept(self, work: WorkFolder) -> bool:
        return work.has_readout()

    def save(self, job: Job, work: WorkFolder) -> None:
        assert job.model is not None
        if job.link_rows is not None:
            work.save_readout(job.model, job.link_rows)

    def load(self, job: Job, work: WorkFolder) -> None:
        assert job.model is not None
        if work.has_readout():
            parameters, job.link_rows = work.load_readout()
            job.model = dataclasses.replace(job.model, parameters=job.model.parameters | parameters)


class Embed(KeptStage):
    """Make the vectors of all nodes."""

    def run(self, job: Job) -> None:
        with job.settings.engine.use_threads():
            job.vectors = job.graph.embed(job.model)

    def is_kept(self, work: WorkFolder) -> bool:
        return work.has_shards()

    def save(self, job: Job, work: WorkFolder) -> None:
        work.save_shards(job.vectors)

    def load(self, job: Job, work: WorkFolder) -> None:
        job.vectors = work.load_shards()


class Score(Stage):
    """Score the vectors and those of baselines, on the first worker alone."""

    def run(self, job: Job) -> None:
        if not job.settings.workers.first:
            return
        assert job.model is not None
        with enough_memory(), job.settings.engine.use_threads():
            samples = job.graph.samples(job.model, job.vectors, job.link_rows, job.baselines)
            job.scored = score(samples, job.model, job.settings)


STAGES = (Train(), FitReadout(), Embed(), Score())
"""What makes vectors and scores of a graph."""


@contextlib.contextmanager
def shown(settings: Settings, recipe: Recipe, nodes: int, bar: Bar | None) -> Iterator[ProgressCallback | None]:
    """The progress of training, on a bar if there is one."""
    if bar is None:
        yield None
        return
    epochs = recipe.epochs if settings.method.objective else 0
    what = f"{settings.method.name} on {nodes:,} nodes"
    with first_use(settings.engine, bar), bar.training(what, epochs) as progress:
        yield progress
