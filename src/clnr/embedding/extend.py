"""New tables, embedded with the model of an earlier result: added to its graph, or by themselves. Nothing is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.graph_facts import counts_of, summary
from clnr.embedding.planning.plan import blocks_of
from clnr.embedding.result.artifact import Output, write_result
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.shards import Shards
from clnr.embedding.rows.passes import Passes
from clnr.embedding.rows.vectors import write_vectors
from clnr.embedding.rows.whole import Whole
from clnr.embedding.workspace import Workspace
from clnr.engine import Engine
from clnr.engine.blocks import in_blocks
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.folder import check_unchanged
from clnr.graph.table_info import title_of
from clnr.support.humanize import plural
from clnr.support.progress import QUIET, Bar
from clnr.support.stage_clock import stage
from clnr.tables import read_tables
from clnr.tables.column_report import column_lines
from clnr.tables.kinds import edges_by_kind, nodes_by_kind


class Extension(NamedTuple):
    """New tables that are read to be embedded with an earlier model.

    ``facts`` are plain values, as ``clnr transform --dry-run --json`` prints them; the ``lines`` say the same.
    """

    graph: Graph
    facts: dict[str, Any]
    lines: list[str]


def read_extension(earlier: EmbeddingResult, tables: Mapping[str, Any], *, alone: bool = False) -> Extension:
    """Read new tables that an earlier model is to embed: added to its graph or, ``alone``, as a graph of their own."""
    earlier.model.method.check_encoder()
    encoder = earlier.graph.info.encoder
    if encoder is None:
        raise DataError("this model was fitted on a graph in Python, not on tables")
    graph = read_tables(**tables, **({"encoder": encoder} if alone else {"base": earlier.graph.in_memory()}))
    of_edges, of_nodes = edges_by_kind(tables.get("edges")), nodes_by_kind(tables.get("nodes"))
    titles = {*(title_of("edges", each.kind) for each in of_edges), *(title_of("nodes", each.kind) for each in of_nodes)}
    columns, warnings = column_lines(each for each in graph.info.columns if each.table in titles), [*graph.info.notes]
    counts, before = counts_of(graph), None if alone else counts_of(earlier.graph)
    facts = {"graph": counts, "new_nodes": None, "columns": columns, "warnings": warnings}
    read = summary(counts)
    if before is not None:
        facts["new_nodes"] = counts["nodes"] - before["nodes"]
        nodes, edges = (plural(counts[what] - before[what], f"new {what[:-1]}") for what in ("nodes", "edges"))
        read = f"{nodes}, {edges}, added to {summary(before)}"
    return Extension(graph, facts, [f"read: {read}", *(f"- {line}" for line in (*columns, *warnings))])


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
    graph = extension.graph
    with stage("embed"):
        rows = Whole(graph, engine, earlier.model.loop_weight)
        vectors = write_vectors(earlier.model, rows, graph, Workspace(None))
    remark = "loss and scores are those of the training, before these tables were added"
    warnings = tuple(dict.fromkeys([*earlier.warnings, remark]))
    result = dataclasses.replace(earlier, graph=graph, z=vectors, warnings=warnings, fingerprint={})
    if output is not None:
        with stage("write"):
            write_result(result, output)
    return result


def embed_nodes(model: FittedModel, graph: Graph, engine: Engine) -> Array | Shards:
    """The vectors of another graph; of one that does not fit in memory, in shards of a temporary folder."""
    if graph.num_features != model.features:
        raise DataError(f"{graph.name} has {graph.num_features:,} features per node, and this model takes {model.features:,}")
    settings = Settings(model.method, engine, recipe=model.recipe, hold_out=0.0)
    block_rows = None if graph.stored is None else blocks_of(graph, settings, model.recipe)[1]
    if block_rows is None:
        return model.embed(graph.in_memory(), engine)
    workspace = Workspace.temporary(settings.workers, block_rows)
    rows = Passes(in_blocks(graph, model.loop_weight), settings, workspace.part("all"), block_rows)
    vectors = write_vectors(model, rows, graph, workspace)
    check_unchanged(graph)
    rows.close()
    return vectors
