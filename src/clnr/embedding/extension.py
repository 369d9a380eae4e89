"""New tables embedded with an earlier model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clnr.embedding.planning.graph_facts import facts_line, graph_counts, graph_facts, table_warnings
from clnr.embedding.result import EmbeddingResult, embed_with
from clnr.engine import Engine
from clnr.errors import DataError
from clnr.support.humanize import plural
from clnr.support.progress import Bar
from clnr.tables import TableGraph, read_tables
from clnr.tables.ingest_report import column_lines
from clnr.tables.roles.roles import table_title
from clnr.tables.table_kinds import edges_by_kind, nodes_by_kind


def extend(
    earlier: EmbeddingResult,
    tables: Mapping[str, Any],
    engine: Engine,
    *,
    standalone: bool = False,
    bar: Bar | None = None,
) -> EmbeddingResult:
    """New tables embedded with an earlier model; nothing is trained.

    Args:
        earlier: What to embed with, and the graph that the tables are added to.
        tables: The arguments of ``read_tables``.
        engine: Where to compute.
        standalone: Whether the tables are a graph of their own instead.
        bar: Shows what was read; None for none.
    """
    log = (bar or Bar(None, quiet=True)).note
    plan = plan_extension(earlier, tables, standalone=standalone)
    for line in plan.lines:
        log(line)
    return embed_with(earlier, plan.table_graph, engine)


@dataclass(frozen=True)
class ExtensionPlan:
    """New tables that are read to be embedded with an earlier model; ``print`` shows it in lines.

    Attributes:
        table_graph: Their graph, with that of the model or by itself.
        columns: How each of their columns was read, a line each.
        new_nodes: How many nodes the model's graph did not have; None if the tables are a graph of their own.
    """

    table_graph: TableGraph
    columns: tuple[str, ...]
    new_nodes: int | None

    @property
    def lines(self) -> list[str]:
        """All of it, a line each."""
        new = [] if self.new_nodes is None else [plural(self.new_nodes, "new node")]
        more = (*new, *self.columns, *table_warnings(self.table_graph))
        return [facts_line(graph_facts(self.table_graph.graph)), *(f"- {line}" for line in more)]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``clnr embed --model --dry-run --json`` prints them."""
        return {
            "graph": graph_counts(self.table_graph.graph),
            "new_nodes": self.new_nodes,
            "columns": list(self.columns),
            "warnings": table_warnings(self.table_graph),
        }


def plan_extension(earlier: EmbeddingResult, tables: Mapping[str, Any], *, standalone: bool = False) -> ExtensionPlan:
    """What ``extend`` would embed; its arguments."""
    earlier.model.method.check_kept()
    base = earlier.table_graph
    if base.feature_encoder is None:
        raise DataError("this model was fitted on a graph in Python, not on tables: NodeEmbedder.load(...).transform(graph)")
    table_graph = read_tables(**tables, **({"feature_encoder": base.feature_encoder} if standalone else {"base": base}))
    # Those of the earlier graph are known.
    others = {info.table for info in base.ingest_report.columns} - _given(tables)
    columns = column_lines(info for info in table_graph.ingest_report.columns if info.table not in others)
    new_nodes = None if standalone else table_graph.graph.num_nodes - base.graph.num_nodes
    return ExtensionPlan(table_graph, tuple(columns), new_nodes)


def _given(tables: Mapping[str, Any]) -> set[str]:
    """What the tables are called in the lines of their columns."""
    queries = {role for role in ("edges", "nodes") if tables.get(f"{role}_query") is not None}
    edges = {table_title("edges", each.kind) for each in edges_by_kind(tables.get("edges"))}
    nodes = {table_title("nodes", each.kind) for each in nodes_by_kind(tables.get("nodes"))}
    matrix = {"matrix"} if tables.get("feature_matrix") is not None else set()
    return queries | edges | nodes | matrix
