"""New tables, embedded with the model of an earlier result: added to its graph, or by themselves. Nothing is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.graph_facts import counts_of, summary, table_warnings
from clnr.embedding.planning.plan import blocks_of
from clnr.embedding.result.artifact import Output, write_result
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.shards import Shards
from clnr.embedding.rows.passes import Passes
from clnr.embedding.rows.vectors import write_vectors
from clnr.embedding.rows.whole import Whole
from clnr.embedding.workspace import Workspace
from clnr.engine import Engine
from clnr.engine.blocks import in_blocks
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.folder import check_unchanged
from clnr.support.humanize import plural
from clnr.support.progress import QUIET, Bar
from clnr.support.stage_clock import stage
from clnr.tables import TableGraph, read_tables
from clnr.tables.ingest_report import column_lines
from clnr.tables.roles.roles import table_title
from clnr.tables.table_kinds import edges_by_kind, nodes_by_kind


class Extension(NamedTuple):
    """New tables that are read to be embedded with an earlier model.

    ``facts`` are plain values, as ``clnr transform --dry-run --json`` prints them; the ``lines`` say the same.
    """

    table_graph: TableGraph
    facts: dict[str, Any]
    lines: list[str]


def read_extension(earlier: EmbeddingResult, tables: Mapping[str, Any], *, alone: bool = False) -> Extension:
    """Read new tables that an earlier model is to embed: added to its graph or, ``alone``, as a graph of their own."""
    earlier.model.method.check_encoder()
    base = earlier.table_graph
    if base.feature_encoder is None:
        raise DataError("this model was fitted on a graph in Python, not on tables")
    table_graph = read_tables(**tables, **({"feature_encoder": base.feature_encoder} if alone else {"base": base}))
    # Those of the earlier graph are known.
    others = {info.table for info in base.ingest_report.columns} - _given(tables)
    columns = column_lines(info for info in table_graph.ingest_report.columns if info.table not in others)
    counts, before = counts_of(table_graph.graph), None if alone else counts_of(base.graph)
    warnings = table_warnings(table_graph.graph, table_graph.info, 0 if before is None else before["nodes"])
    facts = {"graph": counts, "new_nodes": None, "columns": columns, "warnings": warnings}
    read = summary(counts)
    if before is not None:
        facts["new_nodes"] = counts["nodes"] - before["nodes"]
        nodes, edges = (plural(counts[what] - before[what], f"new {what[:-1]}") for what in ("nodes", "edges"))
        read = f"{nodes}, {edges}, added to {summary(before)}"
    return Extension(table_graph, facts, [f"read: {read}", *(f"- {line}" for line in (*columns, *warnings))])


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
    bar: Bar = QUIET,
) -> EmbeddingResult:
    """Embed new tables with the model of an earlier result, whose scores stay."""
    with stage("read"):
        extension = read_extension(earlier, tables, alone=alone)
        for line in extension.lines:
            bar.note(line)
    nodes = Nodes.of_tables(extension.table_graph)
    with stage("embed"):
        rows = Whole(nodes.graph, engine, earlier.model.loop_weight)
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
    workspace = Workspace.temporary(settings.workers, block_rows)
    rows = Passes(in_blocks(graph, model.loop_weight), settings, workspace.part("all"), block_rows)
    vectors = write_vectors(model, rows, nodes, workspace)
    check_unchanged(graph)
    rows.close()
    return vectors
