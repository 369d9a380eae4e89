"""What a report tells of a training: facts, scores, the loss, and the map."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from clnr import rng
from clnr.embedding.fitting import EmbeddingResult
from clnr.embedding.neighbors import Neighbours
from clnr.embedding.preflight import MOST, degrees_of, done_about, facts_of
from clnr.embedding.projection import layout
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.report import Column, Curve, ReportData, page
from clnr.support.environment import versions
from clnr.tables.node_names import can_name

_NEAR = 15
_LONG = 200
_FEW = 50

_SCORES = {
    "link_auc": "AUC of held-out edges (chance: 0.5)",
    "link_average_precision": "their average precision (chance: 0.5)",
    "links_held_out": "held-out edges, not seen in training",
    "effective_rank": "effective rank: dimensions in use",
    "alignment": "alignment: distance of two views of a node (lower is better)",
    "uniformity": "uniformity on the sphere (lower is better)",
    "strict_accuracy": "accuracy of a linear probe, %, test nodes read once (strict)",
    "validation_accuracy": "its validation accuracy, %, by which its step was chosen",
}


def told(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Each score's name and value, as people read them, in an order of their own."""
    known = [name for name in _SCORES if name in scores]
    return [(_SCORES[name], f"{scores[name]:,.0f}" if name == "links_held_out" else f"{scores[name]:.4g}") for name in known]


def html(outcome: EmbeddingResult, title: str) -> bytes:
    """The report's page, as a file holds it."""
    return page(story(outcome, title)).encode()


def story(outcome: EmbeddingResult, title: str) -> ReportData:
    """All that the report's page shows."""
    graph, trained = outcome.read.graph, outcome.trained
    shown = _shown(graph.num_nodes)
    z = outcome.z[shown]
    near = Neighbours(z).nearest(np.arange(len(shown)), _NEAR)
    start, links = _neighbours(graph, shown)
    names = [name[:_LONG] for name in outcome.read.names_of(shown)]
    facts = [*facts_of(graph).items(), *([("names", f"column {outcome.read.ingest_report.names}")] if any(names) else [])]
    recipe = {key: getattr(trained.recipe, key) for key in trained.method.keys}
    made = {"method": f"{trained.method.name}: {trained.method.summary}", "seed": str(trained.seed)}
    remarks = [*done_about(outcome.read), *outcome.remarks]
    if len(shown) < graph.num_nodes:
        remarks.append(
            f"{len(shown):,} of {graph.num_nodes:,} nodes, drawn at random, are on the map; neighbours are among those"
        )
    return ReportData(
        title=title,
        sections=[
            ("The graph", facts),
            ("Scores", told(outcome.scores)),
            ("What was done", [*made.items(), *((key, str(value)) for key, value in recipe.items())]),
            ("Made with", [(name, value) for name, value in versions().items() if name != "code"]),
        ],
        remarks=remarks,
        curves=[Curve("loss", outcome.losses)] if outcome.losses else [],
        ids=[str(each) for each in graph.node_ids[shown].tolist()],
        points=layout(z, near, trained.seed),
        columns=_columns(outcome, shown),
        near=near.nodes.astype(np.int32),
        closeness=near.cosine,
        start=start,
        links=links,
        names=names if any(names) else (),
    )


def _shown(count: int) -> Array:
    if count <= MOST:
        return np.arange(count)
    return np.sort(rng.permute(rng.key(0, "shown"), torch.arange(MOST), count).numpy())


def _neighbours(graph: Graph, shown: Array) -> tuple[Array, Array]:
    """Who is joined to whom, whichever way, among the nodes shown: compressed rows."""
    adjacency = graph.to_scipy()
    both = (adjacency + adjacency.T).tocsr()[shown][:, shown]
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    return both.indptr.astype(np.int64), both.indices.astype(np.int32)


def _columns(outcome: EmbeddingResult, shown: Array) -> list[Column]:
    """What the map can be coloured by: classes, the table's columns but for names, degrees."""
    graph, table = outcome.read.graph, outcome.read.columns
    ids = [str(each) for each in graph.node_ids[shown].tolist()]
    columns = []
    if graph.labels is not None:
        columns.append(_classes(graph.labels[shown], outcome.read.classes))
    if table is not None:
        beside = [name for name in table.column_names if name != outcome.read.ingest_report.names]
        found = (_column(name, table[name].combine_chunks().take(shown), ids) for name in beside)
        taken = {each.name for each in columns}
        more = [column for column in found if column is not None and column.name not in taken]
        columns += sorted(more, key=_worth)
    return [*columns, Column("number of edges", degrees_of(graph)[shown].astype(np.float32))]


def _classes(labels: Array, names: tuple[str, ...]) -> Column:
    """Classes by name; those without one by their number, of which only what occurs is named."""
    bare = np.unique(labels[labels >= len(names)])
    codes = np.where(labels < len(names), np.maximum(labels, -1), len(names) + np.searchsorted(bare, labels))
    return Column("label", codes.astype(np.int32), (*names, *(str(label) for label in bare.tolist())))


def _worth(column: Column) -> int:
    """Which to colour by first: a few categories, then numbers, then what has a name for nearly every node."""
    return 0 if 2 <= len(column.names) <= _FEW else 1 if column.is_number else 2


def _column(name: str, values: Any, ids: list[str]) -> Column | None:
    """A column of a table, as numbers or as categories; None where it is neither, or the ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not can_name(values.type):
        return None
    texts = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    if texts.to_pylist() == ids:
        return None
    if not pa.types.is_boolean(values.type):
        # In a CSV file numbers are texts, too.
        try:
            filled = pc.if_else(pc.equal(texts, ""), None, texts)
            numbers = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            pass
        else:
            # What float32 has no room for is shown as missing.
            return Column(name, np.where(np.abs(numbers) <= np.finfo(np.float32).max, numbers, np.nan).astype(np.float32))
    coded = pc.dictionary_encode(texts)
    names = tuple(str(each)[:_LONG] for each in coded.dictionary.to_pylist())
    return Column(name, coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32), names)
