"""The stages of a job. Every worker runs each of them; what only the first may do is marked where it is done."""

from __future__ import annotations

import contextlib
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch

from clnr.embedding.fit_settings import Settings
from clnr.embedding.scoring.job_scores import score
from clnr.embedding.scoring.judges import JUDGES
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.embedding.stages.graph_in_memory import GraphInMemory
from clnr.embedding.stages.job_graph import Job
from clnr.embedding.store.artifact import load_metrics, save_folder
from clnr.embedding.store.artifact_files import DIGESTS, ArtifactFiles
from clnr.embedding.store.artifact_model import load_model, with_zeros
from clnr.embedding.store.output_folder import write_reserved
from clnr.embedding.store.work_folder import READ_OUT, WorkFolder
from clnr.graph.folder import check_unchanged
from clnr.methods.recipe import Recipe
from clnr.support.machine.memory import enough_memory
from clnr.support.progress import Bar
from clnr.support.stage_clock import stage as timed
from clnr.support.storage import errors_name, write_bytes
from clnr.training.loop import ProgressCallback

_LINK_ROWS = "rows"


class Stage(ABC):
    """A stage of a job; its name is what it is called where its time is shown."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, job: Job) -> None:
        """Do this worker's share of it."""


class KeptStage(Stage):
    """A stage that need not be done again by a process that resumes: what it makes is kept in the work folder."""

    @abstractmethod
    def is_kept(self, work: WorkFolder) -> bool:
        """Whether it is done."""

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
        with timed(stage.name):
            if job.work is None or not isinstance(stage, KeptStage):
                stage.run(job)
                continue
            done = workers.broadcast_object(workers.first and stage.is_kept(job.work))
            if not done:
                stage.run(job)
                if workers.first:
                    check_unchanged(job.work.folder)
                    stage.save(job, job.work)
                workers.barrier()
            if done or not workers.first:
                stage.load(job, job.work)
            # The last stage of the first worker removes what others read here.
            workers.barrier()


class Train(KeptStage):
    """Fit the inputs and train, without the held-out edges; with a checkpoint, a training that was stopped goes on."""

    name = "train"

    def run(self, job: Job) -> None:
        settings = job.settings
        checkpoint = settings.checkpoint_of(job.graph.digest, job.recipe)
        if checkpoint is not None and settings.resume:
            path = checkpoint.path
            missing = f"there is no checkpoint {path}: training starts from scratch"
            job.log(f"resuming from {path}" if path.is_file() else missing)
        with settings.engine.use_threads(), shown(settings, job.recipe, job.graph.num_nodes, job.bar) as progress:
            job.model, job.losses = job.graph.train(job.recipe, progress, checkpoint)

    def is_kept(self, work: WorkFolder) -> bool:
        return (work.path / DIGESTS).is_file()

    def save(self, job: Job, work: WorkFolder) -> None:
        result = job.graph.result(job)
        save_folder(dataclasses.replace(result, model=with_zeros(result.model)), work.path)

    def load(self, job: Job, work: WorkFolder) -> None:
        files = ArtifactFiles.open(work.path)
        job.model, job.losses = load_model(files), load_metrics(files)[0]


class FitReadout(KeptStage):
    """Fit the read-out, without the held-out edges, where that is not done with the training."""

    name = "fit the read-out"

    def run(self, job: Job) -> None:
        if job.model is not None:
            job.model, job.link_rows = job.graph.fit_readout(job.model)

    def is_kept(self, work: WorkFolder) -> bool:
        return (work.path / READ_OUT).is_file()

    def save(self, job: Job, work: WorkFolder) -> None:
        import safetensors.torch

        assert job.model is not None
        if job.link_rows is not None:
            learned = {name: value.contiguous() for name, value in job.model.parameters.items() if name.startswith("readout.")}
            rows = {_LINK_ROWS: torch.from_numpy(job.link_rows)}
            usual, chosen = job.recipe.to_dict(), job.model.recipe.to_dict()
            work.note(chosen={key: chosen[key] for key in chosen if chosen[key] != usual[key]}, told=list(job.graph.told))
            # The last to be written: where it is, all is there.
            write_bytes(work.path / READ_OUT, safetensors.torch.save(learned | rows))

    def load(self, job: Job, work: WorkFolder) -> None:
        import safetensors.torch

        assert job.model is not None
        if self.is_kept(work):
            with errors_name(work.path / READ_OUT):
                learned = safetensors.torch.load((work.path / READ_OUT).read_bytes())
                job.link_rows = learned.pop(_LINK_ROWS).numpy()
            notes = work.notes
            recipe, job.graph.told = job.model.recipe.but(**notes.get("chosen", {})), notes.get("told", [])
            job.model = dataclasses.replace(job.model, recipe=recipe, parameters=job.model.parameters | learned)


class FitBaselines(Stage):
    """Fit the baselines, without the held-out edges, on the first worker alone."""

    name = "baselines"

    def run(self, job: Job) -> None:
        if job.settings.workers.first:
            assert job.model is not None
            with job.settings.engine.use_threads(), timed(self.name, whole=True):
                job.graph.fit_baselines(job.model, job.baselines)


class Embed(KeptStage):
    """Make the vectors of all nodes."""

    name = "embed"

    def run(self, job: Job) -> None:
        with job.settings.engine.use_threads():
            job.vectors = job.graph.embed(job.model)

    def is_kept(self, work: WorkFolder) -> bool:
        dimension, _ = work.notes.get("embedded", (0, 0))
        return dimension > 0

    def save(self, job: Job, work: WorkFolder) -> None:
        work.note(embedded=[job.vectors.dimension, job.vectors.shards])

    def load(self, job: Job, work: WorkFolder) -> None:
        assert isinstance(job.graph, GraphInFiles)
        job.vectors = job.graph.shards(*map(int, work.notes["embedded"]))


class Score(Stage):
    """Score the vectors and those of baselines, on the first worker alone."""

    name = "score"

    def run(self, job: Job) -> None:
        if not job.settings.workers.first:
            return
        assert job.model is not None
        with enough_memory(), job.settings.engine.use_threads():
            samples = job.graph.samples(job.model, job.vectors, job.link_rows, job.baselines)
            job.scored = score(samples, job.model, job.settings)


class TakeBest(Stage):
    """Take the baseline that beats the method for the purpose, if there is one; without a purpose, only report it."""

    name = "take the best"

    def run(self, job: Job) -> None:
        assert isinstance(job.graph, GraphInMemory)
        better = job.graph.better_baseline()
        # Only the first worker has scores.
        if better is None or job.scored is None:
            return
        assert job.model is not None
        taken, told = better
        if not JUDGES[job.settings.purpose].taken:
            # In place of columns that would be chosen.
            others = [line for line in job.scored.warnings if line not in job.graph.told]
            job.scored = job.scored._replace(warnings=(told, *others))
            return
        other = Job(*job.graph.beside(taken, job.model.recipe), [each for each in job.baselines if each != taken])
        run_stages(other, FITTING)
        assert other.scored is not None
        kept = {key: value for key, value in job.scored.scores.items() if key.startswith(("link_a", "strict", "validation"))}
        assert other.model is not None
        provenance = other.model.provenance._replace(purpose=job.settings.purpose)
        other.model = dataclasses.replace(other.model, provenance=provenance)
        job.model, job.losses, job.vectors = other.model, other.losses, other.vectors
        beside = other.scored.baselines | {job.settings.method.name: kept}
        job.scored = other.scored._replace(baselines=beside, warnings=(told, *other.scored.warnings))


class WriteFolder(Stage):
    """Write folder and report, on the first worker alone; nothing without an output."""

    name = "write"

    def run(self, job: Job) -> None:
        if job.output is None or not job.settings.workers.first:
            return
        # A graph in memory is drawn as clnr report draws it.
        threads = contextlib.nullcontext() if job.work is None else job.settings.engine.use_threads()
        begun = None if job.work is None else job.work.becomes_output(job.output.force)
        with enough_memory(), threads:
            write_reserved(job.graph.result(job), job.output, begun)
        job.settings.remove_checkpoint()


FITTING = (Train(), FitReadout(), FitBaselines(), Embed(), Score())
"""What makes vectors and scores of a graph."""
FROM_FILES = (*FITTING, WriteFolder())
EXTENDING = (Embed(), WriteFolder())
IN_MEMORY = (*FITTING, TakeBest(), WriteFolder())
"""All of them, from the recipe to the folder; jobs over other sources have some."""


@contextlib.contextmanager
def shown(settings: Settings, recipe: Recipe, nodes: int, bar: Bar | None) -> Iterator[ProgressCallback | None]:
    """The progress of training, on a bar if there is one."""
    if bar is None:
        yield None
        return
    epochs = recipe.epochs if settings.method.objective else 0
    what = f"{settings.method.name} on {nodes:,} nodes"
    with bar.training(what, epochs) as progress:
        yield progress
