"""Before the work: what the graph is, what will be done about what is odd in it, and what it will take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from clnr import machine
from clnr.engine import Engine
from clnr.errors import OutOfMemory
from clnr.estimate import Cost, Size, training
from clnr.graph import Graph
from clnr.methods import Method
from clnr.own.defaults import Choice
from clnr.recipe import Recipe
from clnr.tables import Read


@dataclass(frozen=True)
class Outlook:
    """What is known before training.

    Attributes:
        facts: Of the graph, each with its value.
        done: What was done about what is odd in the tables, a line each.
        choices: Numbers that follow from the graph, with their reasons.
        cost: What training will take, roughly.
        free: Bytes of memory that are free where it will run; None where that is not known.
    """

    facts: dict[str, str]
    done: tuple[str, ...]
    choices: tuple[Choice, ...]
    cost: Cost
    free: int | None

    @classmethod
    def of(cls, read: Read, method: Method, recipe: Recipe, chosen: list[Choice], engine: Engine) -> Outlook:
        kept = tuple(choice for choice in chosen if getattr(recipe, choice.key) == choice.value)
        cost = training(method, recipe, size_of(read.graph), engine)
        return cls(facts_of(read.graph), tuple(done_about(read)), kept, cost, machine.free_memory(engine.device))

    def check(self) -> None:
        """Refuse what will not fit."""
        if self.free is not None and self.cost.memory > self.free:
            raise OutOfMemory(
                f"this takes about {self.cost.memory / 2**30:.1f} GiB, and {self.free / 2**30:.1f} GiB are free; a smaller "
                "dimension and hidden (--set dimension=64 --set hidden=64) need less, or begin all the same with --anyway"
            )


def size_of(graph: Graph) -> Size:
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)


def facts_of(graph: Graph) -> dict[str, str]:
    """What there is, counted."""
    adjacency = graph.to_scipy()
    parts, of = connected_components(adjacency, directed=False)
    degree = np.diff(graph.incoming.start) + (np.diff(graph.outgoing.start) if graph.directed else 0)
    edges = graph.num_edges if graph.directed else (graph.num_edges + int((adjacency.diagonal() != 0).sum())) // 2
    plain = graph.incoming.weight is None
    facts = {
        "nodes": f"{graph.num_nodes:,}",
        "edges": f"{edges:,} {'directed' if graph.directed else 'undirected'}{'' if plain else ', weighted'}",
        "features": f"{graph.num_features:,} {'sparse' if graph.sparse else 'dense'}",
        "components": f"{parts:,}, the largest of {np.bincount(of).max():,} nodes" if graph.num_nodes else "0",
        "nodes without an edge": f"{int((degree == 0).sum()):,}",
        "edges a node": f"{degree.mean():.1f} on average, at most {degree.max():,}" if graph.num_nodes else "0",
    }
    if graph.labels is not None:
        facts["classes"] = f"{graph.num_classes:,}, of {int((graph.labels >= 0).sum()):,} nodes"
    return facts


def done_about(read: Read) -> list[str]:
    found, said = read.findings, []
    if found.dangling:
        said.append(f"{found.dangling:,} edges with an end that is no node (such as '{found.first_dangling}') are left out")
    if found.loops:
        said.append(f"{found.loops:,} edges from a node to itself are left out; each node counts itself anyway")
    if found.duplicates:
        weighted = ", weights added" if read.graph.incoming.weight is not None else ""
        said.append(f"{found.duplicates:,} edges that were there already count once{weighted}")
    if found.isolated:
        said.append(f"{found.isolated:,} nodes without an edge are embedded by their own features")
    if read.encoding is not None:
        said += [f"column '{column}' is not used: {reason}" for column, reason in read.encoding.dropped.items()]
    return [*said, *found.remarks]
