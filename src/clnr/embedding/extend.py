"""New tables, embedded with the model of an earlier result: added to its graph, or by themselves. Nothing is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clnr.embedding.embed import whole_rows
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.planning.graph_facts import graph_counts, summary, table_warnings
from clnr.embedding.planning.plan import blocks_of
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.rows.passes import Passes
from clnr.embedding.rows.vectors import write_vectors
from clnr.embedding.search.nodes import Nodes
from clnr.embedding.store.artifact import Output, write_result
from clnr.embedding.store.shards import Shards, TemporaryFolder
from clnr.embedding.workspace import Workspace
from clnr.engine import Engine
from clnr.engine.blocks import in_blocks
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.folder import check_unchanged
from clnr.support.humanize import plural
from clnr.support.progress import Bar
from clnr.support.stage_clock import stage
from clnr.tables import TableGraph, read_tables
from clnr.tables.ingest_report import column_lines
from clnr.tables.roles.roles import table_title
from clnr.tables.table_kinds import edges_by_kind, nodes_by_kind


@dataclass(frozen=True)
class Extension:
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


def read_extension(earlier: EmbeddingResult, tables: Mapping[str, Any], *, alone: bool = False) -> Extension:
    """Read new tables that an earlier model is to embed: added to its graph or, ``alone``, as a graph of their own."""
    earlier.model.method.check_encoder()
    base = earlier.table_graph
    if base.feature_encoder is None:
        raise DataError("this model was fitted on a graph in Python, not on tables: NodeEmbedder.load(...).transform(graph)")
    table_graph = read_tables(**tables, **({"feature_encoder": base.feature_encoder} if alone else {"base": base}))
    # Those of the earlier graph are known.
    others = {info.table for info in base.ingest_report.columns} - _given(tables)
    columns = column_lines(info for info in table_graph.ingest_report.columns if info.table not in others)
    return Extension(table_graph, tuple(columns), None if alone else base.graph)


def _given(tables: Mapping[str, Any]) -> set[str]:
    """What the tables are called in the lines of their columns."""
    edges = {table_title("edges", each.kind) for each in edges_by_kind(tables.get("edges"))}
    nodes = {table_title("nodes", each.kind) for each in nodes_by_kind(tables.get("nodes"))}
    matrix = {"matrix"} if tables.get("feature_matrix") is not None else set()
    return edges | nodes | matrix


def extend(
    earlier: EmbeddingResult,
    tables: Mapping[str, Any],
    engine: Engine,
    *,
    alone: bool = False,
    output: Output | None = None,
    bar: Bar | None = None,
) -> EmbeddingResult:
    """Embed new tables with the model of an earlier result, whose scores stay."""
    with stage("read"):
        extension = read_extension(earlier, tables, alone=alone)
        for line in extension.lines:
            (bar or Bar(None, quiet=True)).note(line)
    nodes = Nodes.of_tables(extension.table_graph)
    with stage("embed"):
        rows = whole_rows(nodes.graph, engine, earlier.model.loop_weight)
        vectors = write_vectors(earlier.model, rows, nodes, Workspace(None))
    remark = "loss and scores are those of the training, before these tables were added"
    warnings = tuple(dict.fromkeys([*earlier.warnings, remark]))
    result = dataclasses.replace(earlier, nodes=nodes, z=vectors, warnings=warnings, fingerprint={})
    if output is not None:
        with stage("write"):
            write_result(result, output)
    return result


def embed_nodes(model: FittedModel, nodes: Nodes, engine: Engine) -> Array | Shards:
    """The vectors of another graph; of one that does not fit in memory, in shards of a temporary folder."""
    graph = nodes.graph
    if graph.num_features != model.features:
        raise DataError(f"{graph.name} has {graph.num_features:,} features per node, and this model takes {model.features:,}")
    settings = Settings(model.method, engine, recipe=model.recipe, hold_out=0.0)
    block_rows = None if graph.stored is None else blocks_of(nodes, settings, model.recipe)[1]
    if block_rows is None:
        return model.embed(nodes.in_memory().graph, engine)
    temporary = TemporaryFolder()
    workspace = Workspace(temporary.path, block_rows=block_rows)
    rows = Passes(in_blocks(graph, model.loop_weight), settings, workspace.part("all"), block_rows)
    shards = write_vectors(model, rows, nodes, workspace)
    check_unchanged(graph)
    rows.close()
    assert isinstance(shards, Shards)
    return dataclasses.replace(shards, temporary=temporary)
