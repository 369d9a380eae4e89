"""Before the work: what the graph is, what will be done about what is odd in it, and what it will take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from clnr.embedding.defaults import Choice
from clnr.embedding.projection import steps_of
from clnr.engine import Engine
from clnr.errors import OutOfMemory
from clnr.experiments.cost import Cost, Size, evaluating, mapping, training
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.methods import Method
from clnr.methods.recipe import Recipe
from clnr.support import memory
from clnr.support.humanize import duration, one_line, plural
from clnr.tables import IngestReport, TableGraph

MOST = 100_000
"""Nodes on the map, at the most."""


@dataclass(frozen=True)
class Preflight:
    """What is known before training.

    Attributes:
        facts: Of the graph, each with its value.
        done: What was done about what is odd in the tables, a line each.
        choices: Numbers that follow from the graph, with their reasons.
        cost: What training will take, roughly.
        after: Seconds of what comes after it, likewise: an evaluation by labels, neighbours and the map.
        free: Bytes of memory that are free where it will run; None where that is not known.
    """

    facts: dict[str, str]
    done: tuple[str, ...]
    choices: tuple[Choice, ...]
    cost: Cost
    after: float
    free: int | None

    @classmethod
    def of(cls, read: TableGraph, method: Method, recipe: Recipe, chosen: list[Choice], engine: Engine) -> Preflight:
        kept = tuple(choice for choice in chosen if getattr(recipe, choice.key) == choice.value)
        graph = read.graph
        cost = training(method, recipe, size_of(graph), engine)
        shown = min(graph.num_nodes, MOST)
        after = mapping(shown, recipe.dimension, steps_of(shown))
        if graph.labels is not None:
            known = int((graph.labels >= 0).sum())
            after += evaluating(known, graph.num_classes, recipe.dimension, recipe.probe_steps, engine)
        free = memory.free_memory(engine.device)
        return cls(facts_of(graph), tuple(done_about(read)), kept, cost, after, free)

    @property
    def told(self) -> list[str]:
        """In lines."""
        seconds, memory = self.cost
        return [
            in_a_line(self.facts),
            *(f"- {line}" for line in self.done),
            *(f"- {choice.key}={choice.value}: {choice.reason}" for choice in self.choices),
            f"about {duration(seconds)} to train, {duration(self.after)} to evaluate and draw, and "
            f"{memory / 2**30:.1f} GiB of memory: a rough guess",
        ]

    def to_dict(self) -> dict[str, Any]:
        """What ``clnr embed --dry-run --json`` prints."""
        choices = [choice._asdict() for choice in self.choices]
        cost = {"train_seconds": self.cost.seconds, "other_seconds": self.after, "memory_bytes": self.cost.memory}
        return {"graph": self.facts, "done": self.done, "choices": choices, **cost, "free_memory_bytes": self.free}

    def check(self) -> None:
        """Refuse what will not fit."""
        if self.free is not None and self.cost.memory > self.free:
            raise OutOfMemory(
                f"this takes about {self.cost.memory / 2**30:.1f} GiB, and {self.free / 2**30:.1f} GiB are free; a smaller "
                "dimension and hidden (--set dimension=64 --set hidden=64) need less; "
                "--ignore-memory-check begins all the same"
            )


def size_of(graph: Graph) -> Size:
    x = graph.features
    held = x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
    return Size(graph.num_nodes, graph.num_edges, graph.num_features, held)


def facts_of(graph: Graph) -> dict[str, str]:
    """What there is, counted."""
    adjacency = graph.to_scipy()
    parts, of = connected_components(adjacency, directed=False)
    degree = degrees_of(graph)
    edges = graph.num_edges if graph.directed else (graph.num_edges + int((adjacency.diagonal() != 0).sum())) // 2
    plain = graph.incoming.weight is None
    facts = {
        "nodes": f"{graph.num_nodes:,}",
        "edges": f"{edges:,} {'directed' if graph.directed else 'undirected'}{'' if plain else ', weighted'}",
        "features": f"{graph.num_features:,} {'sparse' if graph.sparse else 'dense'}",
        "components": f"{parts:,}, the largest of {plural(int(np.bincount(of).max()), 'node')}" if graph.num_nodes else "0",
        "nodes without an edge": f"{int((degree == 0).sum()):,}",
        "edges a node": f"{degree.mean():.1f} on average, at most {degree.max():,}" if graph.num_nodes else "0",
    }
    if graph.labels is not None:
        facts["classes"] = f"{graph.num_classes:,}, of {plural(int((graph.labels >= 0).sum()), 'node')}"
    return facts


def in_a_line(facts: dict[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in facts.items())


def degrees_of(graph: Graph) -> Array:
    """How many edges each node has, whichever way they go."""
    return np.diff(graph.incoming.indptr) + (np.diff(graph.outgoing.indptr) if graph.directed else 0)


def done_about(read: TableGraph) -> list[str]:
    """What was done about what is odd in tables, a line each."""
    found = read.ingest_report
    said: list[str] = []
    if lost := left_out(found):
        said.append(lost)
    if found.loops:
        said.append(f"left out: {plural(found.loops, 'edge')} from a node to itself, as each node counts itself anyway")
    if found.duplicates:
        weighted = ", weights added" if read.graph.incoming.weight is not None else ""
        said.append(f"counted once: {plural(found.duplicates, 'row')} with an edge that was there already{weighted}")
    if found.isolated:
        said.append(f"embedded by features alone: {plural(found.isolated, 'node')} without an edge")
    if read.feature_encoder is not None:
        said += [f"column '{column}' is not used: {reason}" for column, reason in read.feature_encoder.dropped.items()]
    return [one_line(line) for line in (*said, *found.remarks)]


def left_out(found: IngestReport) -> str | None:
    """What is lost of the edges because their ends are no nodes, if any are."""
    if not found.dangling:
        return None
    lost = f"{plural(found.dangling, 'edge')} of {found.rows:,}"
    return one_line(f"left out: {lost} with an end that is no node, as '{found.first_dangling}'")
