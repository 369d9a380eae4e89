"""The report of an embedding that is in shards: its scores, and the map of a sample of its nodes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from clnr.embedding.disk_plan import folder_facts
from clnr.embedding.fitting import EmbeddingResult, FittedModel
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT
from clnr.embedding.reporting.report_data import report_data
from clnr.embedding.reporting.report_file import write_report_file
from clnr.embedding.scoring.sampled_scores import SampledScores, shown_nodes
from clnr.embedding.store.artifact import load_metrics, load_model
from clnr.embedding.store.artifact_files import ArtifactFiles
from clnr.embedding.store.shards import Shards
from clnr.embedding.store.stored_columns import stored_columns
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.report import Column, render_html
from clnr.support.storage.atomic_io import resolve_path
from clnr.tables import TableGraph
from clnr.tables.folder_read import read_table_info


def sample_report_html(
    model: FittedModel,
    folder: GraphFolder,
    shards: Shards,
    losses: tuple[float, ...],
    scored: SampledScores,
    title: str,
    layout: str = DEFAULT_LAYOUT,
) -> bytes:
    """The report as the bytes of an HTML file.

    Args:
        model: What embedded the graph.
        folder: The graph.
        shards: Its embedding.
        losses: One per epoch.
        scored: Its scores.
        title: The heading.
        layout: Of the map.
    """
    nodes = shown_nodes(folder)
    sample = EmbeddingResult(model, _sample_graph(folder, shards, nodes), shards.rows(nodes), losses, *scored)
    data = report_data(sample, title, layout)
    notes = [*data.notes]
    if len(nodes) < folder.num_nodes:
        notes.append(f"the map shows {len(nodes):,} of {folder.num_nodes:,} nodes, drawn at random; neighbours are among those")
    (first, _), *sections = data.sections
    degrees = Column(data.columns[-1].name, folder.degrees(nodes).astype(np.float32))
    shown = dataclasses.replace(
        data,
        sections=[(first, [*folder_facts(folder).items()]), *sections],
        columns=[*data.columns[:-1], degrees],
        notes=notes,
    )
    return render_html(shown).encode()


def write_sample_report(files: ArtifactFiles, layout: str = DEFAULT_LAYOUT) -> Path:
    """Write the report of a folder with shards again; its graph folder must be where it was."""
    shards = Shards.open(files)
    folder = shards.graph_folder()
    if folder is None:
        raise DataError(
            f"{files.folder}: its graph folder, {shards.graph[0]}, is not there, or was changed: it makes the report"
        )
    losses, scores, warnings, baselines = load_metrics(files)
    title = resolve_path(files.folder).name
    scored = SampledScores(scores, warnings, baselines)
    html = sample_report_html(load_model(files), folder, shards, losses, scored, title, layout)
    return write_report_file(files.folder, title, html)


def _sample_graph(folder: GraphFolder, shards: Shards, nodes: Array) -> TableGraph:
    """Some nodes, which are sorted, and the edges between them; without features."""
    stored = folder.rows("incoming")
    sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for place, node in enumerate(nodes.tolist()):
        _, row, _ = stored.span(node, node + 1)
        at = np.minimum(np.searchsorted(nodes, row), len(nodes) - 1)
        linked = at[nodes[at] == row]
        sources.append(linked)
        targets.append(np.full(len(linked), place))
    graph = Graph.from_edges(
        np.concatenate(sources),
        np.concatenate(targets),
        np.zeros((len(nodes), 0), np.float32),
        labels=None if folder.labels is None else np.asarray(folder.labels[nodes]),
        ids=shards.ids(nodes),
        name=folder.name,
    )
    info = read_table_info(folder)
    return TableGraph(graph, info.feature_encoder, info.classes, info.ingest_report, stored_columns(folder, nodes))
