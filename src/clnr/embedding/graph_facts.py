"""Facts about a graph, as numbers and in words; some nodes that stand for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from clnr.graph import Graph
from clnr.graph.csr import Array, median_weight
from clnr.graph.table_info import TableInfo
from clnr.support.humanize import plural

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
    kinds = info.edge_kinds
    factors = ", ".join(f"{kind} by {factor:.3g}" for kind, factor in kinds.items())
    return [f"mean factor of the edge weights of each kind: {factors}"] if len(kinds) > 1 else []


def sample_nodes(count: int, most: int) -> Array:
    """The numbers of some nodes, sorted: all, or ``most`` of them, drawn uniformly and the same at every call."""
    if count <= most:
        return np.arange(count)
    # Questions for similar nodes do not need it.
    import torch

    from clnr import rng

    return np.sort(rng.permute(rng.key(0, "shown"), torch.arange(most), count).numpy())
