"""What a job embeds: a graph in memory, a graph in files, or new tables with an earlier model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning import file_plan
from clnr.embedding.planning.file_plan import FilePlan
from clnr.embedding.planning.graph_facts import graph_counts, summary, table_warnings
from clnr.embedding.planning.memory_plan import MemoryPlan, plan
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.scoring.job_scores import Scores
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.embedding.stages.graph_in_memory import GraphInMemory
from clnr.embedding.stages.job_graph import Job
from clnr.embedding.stages.stages import EXTENDING, FROM_FILES, IN_MEMORY, Stage
from clnr.embedding.store.artifact import load_result
from clnr.embedding.store.output_folder import Output
from clnr.embedding.store.work_folder import WorkFolder, is_trained
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import median_weight
from clnr.methods.recipe import Recipe
from clnr.support.humanize import plural
from clnr.support.progress import Bar
from clnr.support.storage import check_positive
from clnr.tables import TableGraph, read_tables
from clnr.tables.ingest_report import column_lines
from clnr.tables.roles.roles import table_title
from clnr.tables.table_kinds import edges_by_kind, nodes_by_kind


class Source(ABC):
    """What a job embeds."""

    stages: ClassVar[Sequence[Stage]]

    @property
    @abstractmethod
    def digest(self) -> str: ...

    @abstractmethod
    def plan(self, settings: Settings) -> tuple[Recipe, Any]:
        """The recipe, and a plan that has lines; refuses what cannot work."""

    @abstractmethod
    def begin(self, settings: Settings, recipe: Recipe, planned: Any, output: Output | None, bar: Bar | None) -> Job:
        """The job, if there is memory and disk enough."""

    def differences(self, earlier: EmbeddingResult, output: Output) -> list[str]:
        """How a finished output differs in what its fingerprint lacks, a phrase each."""
        return []

    def result(self, job: Job) -> EmbeddingResult:
        """What the job has made, on the first worker."""
        return job.graph.result(job)


@dataclass(frozen=True, eq=False)
class InMemory(Source):
    """A graph in memory; ``names`` is the column of names that was asked for."""

    table_graph: TableGraph
    names: str | None = None

    stages = IN_MEMORY

    @property
    def digest(self) -> str:
        return self.table_graph.graph.digest

    def plan(self, settings: Settings) -> tuple[Recipe, MemoryPlan]:
        return plan(self.table_graph, settings)

    def differences(self, earlier: EmbeddingResult, output: Output) -> list[str]:
        was, now = (each.ingest_report.names for each in (earlier.nodes.info, self.table_graph))
        if self.names is None or was == now:
            return []
        how = f"clnr report {output.folder} --name {self.names}"
        return [f"its names come from another column; {how} changes that"]

    def begin(self, settings: Settings, recipe: Recipe, planned: MemoryPlan, output: Output | None, bar: Bar | None) -> Job:
        planned.check_memory()
        graph, fingerprint = GraphInMemory(self.table_graph, settings), settings.fingerprint(self.digest, recipe)
        return Job(graph, recipe, settings.compared, output, fingerprint, bar=bar)


@dataclass(frozen=True, eq=False)
class InFiles(Source):
    """A graph in files; it may take ``bound`` bytes of memory, or what is free."""

    folder: Graph
    bound: int | None = None

    stages = FROM_FILES

    @property
    def digest(self) -> str:
        return self.folder.digest

    def plan(self, settings: Settings) -> tuple[Recipe, FilePlan]:
        return file_plan.plan(self.folder, settings, self.bound)

    def begin(self, settings: Settings, recipe: Recipe, planned: FilePlan, output: Output | None, bar: Bar | None) -> Job:
        assert output is not None
        fingerprint = settings.fingerprint(self.digest, recipe)
        work = WorkFolder(output.folder, self.folder, settings, fingerprint, output.force)
        block_rows = work.begin(planned.block_rows)
        loop_weight = check_positive(median_weight(self.folder.incoming.weight))
        graph = GraphInFiles(self.folder, settings, recipe, work.path, block_rows, loop_weight, bar)
        job = Job(graph, recipe, settings.compared, output, fingerprint, work, bar)
        if settings.workers.first and is_trained(output.folder):
            job.log("training is complete; continuing with the embedding")
        return job

    def result(self, job: Job) -> EmbeddingResult:
        assert job.output is not None
        return load_result(job.output.folder)


@dataclass(frozen=True)
class ExtensionPlan:
    """New tables that are read to be embedded with an earlier model.

    ``base`` is the model's graph; None if the tables are a graph of their own.
    """

    table_graph: TableGraph
    columns: tuple[str, ...]
    base: Graph | None

    @property
    def new_nodes(self) -> int | None:
        """How many nodes the model's graph did not have; None if the tables are a graph of their own."""
        return None if self.base is None else self.table_graph.graph.num_nodes - self.base.num_nodes

    @property
    def _warnings(self) -> list[str]:
        return table_warnings(self.table_graph.graph, self.table_graph.info, 0 if self.base is None else self.base.num_nodes)

    @property
    def lines(self) -> list[str]:
        """All of it, a line each."""
        counts = graph_counts(self.table_graph.graph)
        read = summary(counts)
        if self.base is not None:
            known = graph_counts(self.base)
            nodes, edges = (plural(counts[what] - known[what], f"new {what[:-1]}") for what in ("nodes", "edges"))
            read = f"{nodes}, {edges}, added to {summary(known)}"
        return [f"read: {read}", *(f"- {line}" for line in (*self.columns, *self._warnings))]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr transform --dry-run --json`` prints them."""
        return {
            "graph": graph_counts(self.table_graph.graph),
            "new_nodes": self.new_nodes,
            "columns": list(self.columns),
            "warnings": self._warnings,
        }


def plan_extension(earlier: EmbeddingResult, tables: Mapping[str, Any], *, alone: bool = False) -> ExtensionPlan:
    """Read new tables that an earlier model is to embed: added to its graph or, ``alone``, as a graph of their own."""
    earlier.model.method.check_encoder()
    base = earlier.table_graph
    if base.feature_encoder is None:
        raise DataError("this model was fitted on a graph in Python, not on tables: NodeEmbedder.load(...).transform(graph)")
    table_graph = read_tables(**tables, **({"feature_encoder": base.feature_encoder} if alone else {"base": base}))
    # Those of the earlier graph are known.
    others = {info.table for info in base.ingest_report.columns} - _given(tables)
    columns = column_lines(info for info in table_graph.ingest_report.columns if info.table not in others)
    return ExtensionPlan(table_graph, tuple(columns), None if alone else base.graph)


def _given(tables: Mapping[str, Any]) -> set[str]:
    """What the tables are called in the lines of their columns."""
    edges = {table_title("edges", each.kind) for each in edges_by_kind(tables.get("edges"))}
    nodes = {table_title("nodes", each.kind) for each in nodes_by_kind(tables.get("nodes"))}
    matrix = {"matrix"} if tables.get("feature_matrix") is not None else set()
    return edges | nodes | matrix


@dataclass(frozen=True, eq=False)
class Extension(Source):
    """New tables, added to the graph of an earlier result or, ``alone``, by themselves; nothing is trained."""

    earlier: EmbeddingResult
    tables: Mapping[str, Any]
    alone: bool = False

    stages = EXTENDING

    @property
    def digest(self) -> str:
        return self.earlier.nodes.graph.digest

    def plan(self, settings: Settings) -> tuple[Recipe, ExtensionPlan]:
        return self.earlier.model.recipe, plan_extension(self.earlier, self.tables, alone=self.alone)

    def begin(self, settings: Settings, recipe: Recipe, planned: ExtensionPlan, output: Output | None, bar: Bar | None) -> Job:
        remark = "loss and scores are those of the training, before these tables were added"
        warnings = tuple(dict.fromkeys([*self.earlier.warnings, remark]))
        job = Job(GraphInMemory(planned.table_graph, settings), recipe, output=output, bar=bar)
        job.model, job.losses = self.earlier.model, self.earlier.losses
        job.scored = Scores(self.earlier.scores, warnings, self.earlier.baselines)
        return job
