"""A graph in memory without the edges that are held out to score by."""

from __future__ import annotations

import dataclasses

from clnr import evaluation
from clnr.evaluation import LinkSplit
from clnr.graph import Graph
from clnr.tables import TableGraph
from clnr.tables.columns.structural import degree_features


def held_out(table_graph: TableGraph, share: float, seed: int) -> tuple[LinkSplit | None, Graph]:
    """The edges that training does not see, if any, and the graph that it sees."""
    graph = table_graph.graph.with_median_loops()
    split = evaluation.hold_out(graph, share, seed, table_graph.kind_numbers) if share else None
    return split, graph if split is None else training_graph(table_graph, split.graph)


def training_graph(table_graph: TableGraph, seen: Graph) -> Graph:
    """A graph without its held-out edges; structural features are computed again, so that they do not leak those edges."""
    structure = None if table_graph.feature_encoder is None else table_graph.feature_encoder.structure
    if structure is None:
        return seen
    source, target, _ = seen.edges()
    return dataclasses.replace(
        seen, features=structure.features(degree_features(source, target, seen.num_nodes), seen.node_ids)
    )
