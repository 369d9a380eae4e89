"""What a report shows of an embedding: facts, scores, the loss, and the map."""

from __future__ import annotations

from typing import Any

import numpy as np

from clnr.embedding.graph_facts import counts_of, facts_in_words, sample_nodes
from clnr.embedding.result.clusters import Clusters
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.neighbors import neighbor_lists
from clnr.embedding.result.nodes import Nodes, can_name
from clnr.embedding.result.projection import map_points
from clnr.embedding.scoring.baseline_comparison import compare, headline_scores
from clnr.errors import shorten
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods.settings import Probe
from clnr.nn.hyper_parameters import declared
from clnr.report import Column, ComparisonTable, ReportData, render_html
from clnr.support.arguments import check_choice
from clnr.support.machine.environment import versions
from clnr.tables.column_report import column_lines
from clnr.tables.columns.column_types import ColumnEncoder
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.kinds import plain_name

# The most nodes that a map shows, of vectors in memory and of those in shards.
_MOST_NODES, _MOST_NODES_IN_SHARDS = 100_000, 5_000
_NEAR_NODES = 15
_MOST_LETTERS = 200
# The most values of a column that a map opens with, and the fewest nodes of each, on average.
_FEW_VALUES, _LEAST_NODES_OF_VALUE = 20, 2

_SCORES = {
    "link_auc": "link AUC: held-out edges against non-edges (chance: 0.5)",
    "link_average_precision": "average precision on the same edges (chance: 0.5)",
    "links_held_out": "edges held out of training",
    "effective_rank": "effective rank: dimensions in use",
    "alignment": "alignment: distance of two views of a node (lower is better)",
    "uniformity": "uniformity on the sphere (lower is better)",
    "strict_accuracy": "accuracy of a linear probe on test nodes, %",
    "strict_macro_f1": "macro-F1 of the probe, %: mean over classes",
    "strict_roc_auc": "ROC AUC of the probe (chance: 0.5)",
    "strict_average_precision": "average precision of the probe for the rarer class",
    "validation_accuracy": "accuracy of the probe on validation nodes, %",
    "majority_accuracy": "majority-class baseline, %",
}
_DETAILS = ("links_held_out", "effective_rank", "alignment", "uniformity", "validation_accuracy")


def format_scores(scores: dict[str, float], details: bool = True) -> list[tuple[str, str]]:
    """The description and the value of each score, in a fixed order; without ``details``, of those that say most."""
    names = [name for name in _SCORES if name in scores and (details or name not in _DETAILS)]
    return [(_SCORES[name], f"{scores[name]:,.0f}" if name == "links_held_out" else f"{scores[name]:.4g}") for name in names]


def report_html(result: EmbeddingResult, title: str, colour: str | None = None) -> bytes:
    """The report as the bytes of an HTML file."""
    return render_html(report_data(result, title, colour)).encode()


def report_data(result: EmbeddingResult, title: str, colour: str | None = None) -> ReportData:
    """Everything that the report shows, of all nodes or of a sample.

    The map opens with the colours of a column: the named one, else labels, else a column of few values, else clusters.
    """
    model, nodes, info = result.model, result.nodes, result.graph.info
    total = nodes.graph.num_nodes
    shown = sample_nodes(total, _MOST_NODES if isinstance(result.z, np.ndarray) else _MOST_NODES_IN_SHARDS)
    z, ids = result.z[shown], [str(each) for each in nodes.ids[shown].tolist()]
    near, (start, links) = neighbor_lists(z, _NEAR_NODES), edges_among(nodes.graph, shown)
    names = [shorten(name, _MOST_LETTERS) for name in nodes.names_of(shown)]
    facts = facts_in_words(counts_of(nodes.graph)) | ({"names": f"column {nodes.name_column}"} if any(names) else {})
    columns = [line.partition(": ")[::2] for line in column_lines(info.columns)]
    # The probe that judges a user's graph has no hyper-parameters.
    recipe = {key: getattr(model.recipe, key) for key in model.method.keys if key not in declared([Probe])}
    trained_by = {"method": f"{model.method.name}: {model.method.summary}", "seed": str(model.seed)}
    table = compare(model.method, result.scores, result.baselines, model.provenance.purpose)
    notes = [*(line for line in info.notes if line.startswith("warning: ")), *result.warnings]
    notices = [line for line in info.notes if not line.startswith("warning: ")]
    if len(shown) < total:
        notices.append(f"the map and its neighbours are a random sample: {len(shown):,} of {total:,} nodes")
    return ReportData(
        title=title,
        sections=[
            ("The graph", [*facts.items()]),
            ("All scores", format_scores(result.scores)),
            *([("Columns", columns)] if columns else []),
            ("Training", [*trained_by.items(), *((key, str(value)) for key, value in recipe.items())]),
            ("Versions", [(name, value) for name, value in versions().items() if name != "code"]),
        ],
        notes=notes,
        notices=notices,
        curves=[("loss", result.losses)] if result.losses else [],
        ids=ids,
        points=map_points(z, near, model.seed),
        columns=_columns(nodes, shown, ids, result.clusters, colour),
        near=near.nodes.astype(np.int32),
        closeness=near.cosine,
        start=start,
        links=links,
        names=names if any(names) else (),
        comparison=None if table is None else ComparisonTable("Beside baselines", table.headings, table.rows, table.sentence),
        scores=headline_scores(result.scores, result.baselines, result.z.shape[1]),
        clusters=[
            (each.title, [each.summary, *([f"inside (outside): {'; '.join(map(str, each.traits))}"] if each.traits else [])])
            for each in result.clusters.clusters
        ],
    )


def edges_among(graph: Graph, nodes: Array) -> tuple[Array, Array]:
    """The edges among some nodes, which are sorted, in either direction, without loops: CSR indptr and indices."""
    count = len(nodes)
    keys = [np.empty(0, np.int64)]
    for way in graph.edges_by_end if count else ():
        edges = graph.take_edges(nodes, way)
        rows = np.repeat(np.arange(count), np.diff(edges.indptr))
        places = np.minimum(np.searchsorted(nodes, edges.indices), count - 1)
        among = (nodes[places] == edges.indices) & (rows != places)
        keys.append(rows[among] * count + places[among])
    rows, columns = np.divmod(np.unique(np.concatenate(keys)), max(1, count))
    return np.searchsorted(rows, np.arange(count + 1)), columns.astype(np.int32)


# -- what the map can be coloured by --


def _columns(nodes: Nodes, shown: Array, ids: list[str], clusters: Clusters, colour: str | None) -> list[Column]:
    """Classes, clusters, the node table's columns except names, and degrees; the first is what the map opens with."""
    labels, info, table = nodes.labels_of(shown), nodes.graph.info, nodes.graph.columns
    encoded = () if info.encoder is None else FeatureEncoder.of(info.encoder).columns
    encoders = {plain_name(each.column) if each.node_kind else each.column: each for each in encoded}
    # Those that the map can open with, and others.
    first, others = list[Column](), list[Column]()
    if labels is not None:
        first.append(_classes(info.label_column, labels, nodes.graph))
    if table is not None:
        rows, left_out = table.take(shown), {info.names, *(each.name for each in first)}
        for name in (name for name in rows.column_names if name not in left_out):
            column = _column(name, rows[name].combine_chunks(), ids)
            if column is not None:
                (first if _has_few_values(column, encoders.get(name)) else others).append(column)
    # A table may have a column of this name.
    name = "clusters" if any(each.name == "cluster" for each in (*first, *others)) else "cluster"
    cluster = Column(name, clusters.assignment[shown], tuple(each.title for each in clusters.clusters))
    degrees = Column("number of edges", nodes.graph.degrees[shown].astype(np.float32))
    columns = [*first[:1], cluster, *first[1:], *others, degrees]
    if colour is not None:
        check_choice("column", colour, [each.name for each in columns])
        columns.sort(key=lambda each: each.name != colour)
    return columns


def _has_few_values(column: Column, encoder: ColumnEncoder | None) -> bool:
    """Whether a column was read as one of a few categories, which nodes share."""
    if encoder is None or encoder.kind not in ("category", "boolean") or column.is_number:
        return False
    known = column.values[column.values >= 0]
    return 2 <= len(np.unique(known)) <= min(_FEW_VALUES, len(known) / _LEAST_NODES_OF_VALUE)


def _classes(title: str, labels: Array, graph: Graph) -> Column:
    """Classes that occur, by name."""
    classes, codes = np.unique(labels, return_inverse=True)
    unknown = int(np.count_nonzero(classes < 0))
    return Column(title, (codes - unknown).astype(np.int32), tuple(map(graph.info.class_name, classes[unknown:].tolist())))


def _column(name: str, values: Any, ids: list[str]) -> Column | None:
    """A table's column as numbers or as categories; None if it is neither, or holds the ids."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not can_name(values.type):
        return None
    texts = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    if texts.to_pylist() == ids:
        return None
    if not pa.types.is_boolean(values.type):
        # In a CSV file, numbers are text, too.
        try:
            filled = pc.if_else(pc.equal(texts, ""), None, texts)
            numbers = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            pass
        else:
            # What does not fit into float32 is shown as missing.
            return Column(name, np.where(np.abs(numbers) <= np.finfo(np.float32).max, numbers, np.nan).astype(np.float32))
    coded = pc.dictionary_encode(texts)
    names = tuple(shorten(str(each), _MOST_LETTERS) for each in coded.dictionary.to_pylist())
    return Column(name, coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32), names)
