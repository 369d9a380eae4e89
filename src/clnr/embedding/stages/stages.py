"""The stages of a job. Every worker runs each of them; what only the first may do is marked where it is done."""

from __future__ import annotations

import contextlib
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.job_plan import JobSizes, StageCost
from clnr.embedding.scoring.job_scores import score
from clnr.embedding.stages.job_graph import Job, Output
from clnr.embedding.store.work_folder import WorkFolder
from clnr.experiments.runner import first_use
from clnr.methods.recipe import Recipe
from clnr.support.machine.memory import enough_memory
from clnr.support.progress import Bar
from clnr.training.loop import ProgressCallback


class Stage(ABC):
    """A stage of a job."""

    @abstractmethod
    def run(self, job: Job) -> None:
        """Do this worker's share of it."""

    def cost(self, sizes: JobSizes) -> StageCost:
        """What it takes, if that counts: a plan adds up seconds and passes, and takes the most memory and disk of any stage."""
        return StageCost()


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
                job.graph.check_unchanged()
                stage.save(job, job.work)
            workers.barrier()
        if done or not workers.first:
            stage.load(job, job.work)


class Tune(Stage):
    """Try recipes and take the best, if that is asked for."""

    def run(self, job: Job) -> None:
        if job.settings.tune:
            job.recipe = job.graph.tune(job)

    def cost(self, sizes: JobSizes) -> StageCost:
        return sizes.tune()


class Train(KeptStage):
    """Fit the inputs and train, without the held-out edges; with a checkpoint, a training that was stopped goes on."""

    def run(self, job: Job) -> None:
        settings = job.settings
        checkpoint = settings.checkpoint_of(job.graph.digest, job.recipe, job.log)
        if checkpoint is not None and settings.resume:
            path = checkpoint.path
            missing = f"there is no checkpoint {path}: training starts from scratch"
            job.log(f"resuming from {path}" if path.is_file() else missing)
        with settings.engine.use_threads(), shown(settings, job.recipe, job.graph.num_nodes, job.bar) as progress:
            job.model, job.losses = job.graph.train(job.recipe, progress, checkpoint)

    def cost(self, sizes: JobSizes) -> StageCost:
        return sizes.train()

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

    def cost(self, sizes: JobSizes) -> StageCost:
        return sizes.fit_readout()

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

    def cost(self, sizes: JobSizes) -> StageCost:
        return sizes.embed()

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
        if not job.settings.workers.alone:
            job.log(f"this worker sent {job.settings.workers.sent / 1e6:,.1f} MB to others")

    def cost(self, sizes: JobSizes) -> StageCost:
        return sizes.score()


class TakeBest(Stage):
    """Take the baseline with the best score by validation nodes or, without labels, by edges, if that is asked for."""

    def run(self, job: Job) -> None:
        # Only the first worker has scores.
        if not (job.settings.auto and job.scored):
            return
        scores, baselines = job.scored.scores, job.scored.baselines
        measure = "validation_accuracy" if "validation_accuracy" in scores else "link_auc"
        by_name = {name: each[measure] for name, each in baselines.items() if measure in each}
        own, method = scores.get(measure, nan), job.settings.method
        best = max({method.name: own, **by_name}, key={method.name: own, **by_name}.__getitem__)
        if best == method.name or isnan(by_name[best]):
            return
        job.log(f"{best} has the better {measure.replace('_', ' ')}, {by_name[best]:.4g} against {own:.4g}: it is taken")
        assert job.model is not None
        taken = methods.find(best)
        other = Job(*job.graph.beside(taken, job.model.recipe), [each for each in job.baselines if each != taken])
        run_stages(other, FITTING)
        assert other.scored is not None
        kept = {name: value for name, value in scores.items() if name.startswith(("link_a", "strict", "validation"))}
        job.model, job.losses, job.vectors = other.model, other.losses, other.vectors
        job.scored = other.scored._replace(baselines=other.scored.baselines | {method.name: kept})


@dataclass(frozen=True)
class WriteFolder(Stage):
    """Write folder and report, on the first worker alone; nothing without an output."""

    output: Output | None = None

    def run(self, job: Job) -> None:
        if job.settings.workers.first and self.output is not None:
            job.graph.write(job, self.output)
            job.settings.remove_checkpoint()

    def cost(self, sizes: JobSizes) -> StageCost:
        return sizes.draw()


FITTING = (Train(), FitReadout(), Embed(), Score())
"""What makes vectors and scores of a graph."""


def all_stages(output: Output | None = None) -> tuple[Stage, ...]:
    """The stages of a job, from the recipe to the folder."""
    return (Tune(), *FITTING, TakeBest(), WriteFolder(output))


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
