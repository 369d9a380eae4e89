"""Facts about a graph, and warnings about its tables, a line each; some nodes that stand for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from clnr.errors import one_line
from clnr.graph import Graph
from clnr.graph.csr import Array, median_weight
from clnr.support.humanize import plural
from clnr.tables.ingest_report import MUCH_SHARE, count_lines, isolated_line
from clnr.tables.table_graph import TableInfo

# As long as errors may be: a query that is cut does not work.
_LONGEST_WARNING_LETTERS = 1000
# The number of labelled nodes from which on classes should have a least number of nodes each.
_LEAST_LABELLED_NODES = 20
_LEAST_NODES_OF_CLASS = 5
# The most edges of a graph whose components are counted.
_MOST_COUNTED_EDGES = 20_000_000


def counts_of(graph: Graph) -> dict[str, Any]:
    """Counts of a graph's nodes, edges, features, components and classes, as numbers.

    Of a large one, those that take no pass over its edges.
    """
    if graph.num_edges > _MOST_COUNTED_EDGES:
        return folder_counts(graph)
    adjacency = graph.to_scipy()
    parts, of = connected_components(adjacency, directed=False)
    degree = graph.degrees
    counts = folder_counts(graph) | {
        "components": int(parts),
        "largest_component": int(np.bincount(of).max()) if graph.num_nodes else 0,
        "nodes_without_edges": int((degree == 0).sum()),
        "mean_degree": float(degree.mean()) if graph.num_nodes else 0.0,
        "max_degree": int(degree.max(initial=0)),
    }
    if not graph.directed:
        loops = int((adjacency.diagonal() != 0).sum())
        counts["edges"] = (graph.num_edges + loops) // 2
    if graph.labels is not None:
        counts |= {"classes": graph.num_classes, "labelled_nodes": int((graph.labels >= 0).sum())}
    return counts


def folder_counts(graph: Graph) -> dict[str, Any]:
    """Counts of a graph, as numbers: those that take no pass over its edges."""
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges if graph.directed else graph.num_edges // 2,
        "directed": graph.directed,
        "weighted": graph.incoming.weight is not None,
        "median_weight": median_weight(graph.incoming.weight),
        "features": graph.num_features,
        "sparse": graph.sparse,
        **({"classes": graph.num_classes} if graph.num_classes else {}),
    }


def facts_in_words(counts: dict[str, Any]) -> dict[str, str]:
    """Counts in words."""
    weighted = f", weighted ({counts['median_weight']:.3g} at the median)" if counts["weighted"] else ""
    facts = {
        "nodes": f"{counts['nodes']:,}",
        "edges": f"{counts['edges']:,} {'directed' if counts['directed'] else 'undirected'}{weighted}",
        "features": f"{counts['features']:,} {'sparse' if counts['sparse'] else 'dense'}",
    }
    if "components" in counts:
        some, largest = counts["nodes"] > 0, plural(counts["largest_component"], "node")
        mean = f"{counts['mean_degree']:.1f} on average"
        facts |= {
            "components": f"{counts['components']:,}, the largest of {largest}" if some else "0",
            "nodes without edges": f"{counts['nodes_without_edges']:,}",
            "edges per node": f"{mean}, at most {counts['max_degree']:,}" if some else "0",
        }
    if "classes" in counts:
        labelled = f", of {plural(counts['labelled_nodes'], 'node')}" if "labelled_nodes" in counts else ""
        facts["classes"] = f"{counts['classes']:,}{labelled}"
    return facts


def summary(counts: dict[str, Any]) -> str:
    """What a graph has, in a few words."""
    words = [
        plural(counts["nodes"], "node"),
        plural(counts["edges"], f"{'directed' if counts['directed'] else 'undirected'} edge"),
        plural(counts["features"], "feature"),
    ]
    if "classes" in counts:
        labelled = counts.get("labelled_nodes", counts["nodes"])
        some = f" of {labelled:,} labelled nodes" if labelled < counts["nodes"] else ""
        words.append(f"{counts['classes']:,} classes{some}")
    return ", ".join(words)


def kind_weights(info: TableInfo) -> list[str]:
    """By what the weights of each kind of edges were multiplied, in a line; none if there is one kind."""
    kinds = info.ingest_report.edge_types
    factors = ", ".join(f"{kind} by {factor:.3g}" for kind, factor in kinds.items())
    return [f"mean factor of the edge weights of each kind: {factors}"] if len(kinds) > 1 else []


def table_warnings(graph: Graph, info: TableInfo, known: int = 0) -> list[str]:
    """Odd things in the tables, and what was done about each, a line each; first, what should rather be run, and warnings.

    The first ``known`` nodes were in an earlier graph.
    """
    report = info.ingest_report
    # Nodes without edges may also be those of the earlier graph.
    counted = replace(report, isolated=0) if known else report
    lines = count_lines(counted, graph.incoming.weight is not None)
    labels, classes = graph.labels, graph.num_classes
    labelled = 0 if labels is None else int((labels >= 0).sum())
    if labelled >= _LEAST_LABELLED_NODES and labelled < _LEAST_NODES_OF_CLASS * classes:
        lines.append(f"labels: {plural(labelled, 'node')} in {classes:,} classes, few of each; are these classes?")
    degrees = graph.degrees[known:] if known else np.empty(0)
    if known and (isolated := int((degrees == 0).sum())):
        much = "warning: " if report.rows and isolated > MUCH_SHARE * len(degrees) else ""
        count = f"{isolated:,} of {plural(len(degrees), 'new node')}"
        lines.append(f"{much}{isolated_line(isolated, count)}")
    lines = sorted((*lines, *report.remarks), key=lambda line: not line.startswith("warning: "))
    return [*filter(None, [report.hint]), *(one_line(line, _LONGEST_WARNING_LETTERS) for line in lines)]


def sample_nodes(count: int, most: int) -> Array:
    """The numbers of some nodes, sorted: all, or ``most`` of them, drawn uniformly and the same at every call."""
    if count <= most:
        return np.arange(count)
    # Questions for similar nodes do not need it.
    import torch

    from clnr import rng

    return np.sort(rng.permute(rng.key(0, "shown"), torch.arange(most), count).numpy())
