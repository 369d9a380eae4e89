"""An embedded graph: its vectors, the model that makes them, and how the training went."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from clnr.embedding.model import FittedModel
from clnr.embedding.search.node_search import Texts
from clnr.engine import Engine
from clnr.graph.csr import Array
from clnr.tables import TableGraph
from clnr.tables.roles.node_names import name_texts


@dataclass(frozen=True, eq=False)
class EmbeddingResult:
    """An embedded graph, the model that embeds it, and how its training went.

    Attributes:
        model: The fitted model.
        table_graph: The graph, and how it was read.
        z: The embedding, one row per node.
        losses: One per epoch.
        scores: Values by name.
        warnings: What a reader of the scores should know, a line each.
        baselines: Scores of methods that take no training, by name, scored on the same edges and nodes. Beside each stands the
            standard error of its difference from this embedding's: ``link_auc_error``, ``strict_accuracy_error``.
    """

    model: FittedModel
    table_graph: TableGraph
    z: Array
    losses: tuple[float, ...]
    scores: dict[str, float]
    warnings: tuple[str, ...] = ()
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" for one without; empty if no column holds names."""
        return self.table_graph.names_of(nodes)

    def linked(self, node: int) -> set[int]:
        """The neighbours of a node in the graph, in either direction."""
        ways = self.table_graph.graph.incoming, self.table_graph.graph.outgoing
        return {each for way in ways for each in way.indices[way.indptr[node] : way.indptr[node + 1]].tolist()}

    def name_texts(self) -> Texts | None:
        """The names of all nodes; None if no column holds names."""
        columns, column = self.table_graph.columns, self.table_graph.ingest_report.names
        return None if column is None else lambda: [name_texts(columns[column])]


def embed_with(earlier: EmbeddingResult, table_graph: TableGraph, engine: Engine) -> EmbeddingResult:
    """Another graph embedded with the model of an earlier result; nothing is trained."""
    warnings = dict.fromkeys([*earlier.warnings, "loss and scores are those of the training, before these tables were added"])
    z = earlier.model.embed(table_graph.graph, engine)
    return dataclasses.replace(earlier, table_graph=table_graph, z=z, warnings=tuple(warnings))
