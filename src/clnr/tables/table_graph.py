"""A graph from tables, with how they were read: in memory, and beside it as tables.json of a model folder or a graph folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.folder import open_graph
from clnr.graph.manifest import MANIFEST
from clnr.support.storage import check_count, check_positive, check_version, errors_name, parse_json, read_stable
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.ingest_report import NODES, TABLES, ColumnInfo, IngestReport
from clnr.tables.node_table import NodeTable


class TableGraph(NamedTuple):
    """A graph from tables, and what is needed to extend it by more tables.

    Attributes:
        graph: The graph.
        feature_encoder: How its features were made; None if they did not come from tables.
        classes: Names of the labels 0, 1, 2 ...
        ingest_report: What was found in the tables.
        columns: The columns of the node table as an Arrow table, one row per node; None if there was no node table.
    """

    graph: Graph
    feature_encoder: FeatureEncoder | None
    classes: tuple[str, ...] = ()
    ingest_report: IngestReport = IngestReport()
    columns: Any = None

    def __repr__(self) -> str:
        return f"TableGraph({self.graph!r}{'' if self.columns is None else f', {self.columns.num_columns} columns of nodes'})"

    @property
    def info(self) -> TableInfo:
        """How its tables were read."""
        return TableInfo(self.feature_encoder, self.classes, self.ingest_report)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of all labels; a label without a name is called by its number."""
        return tuple(self.class_name(label) for label in range(max(len(self.classes), self.graph.num_classes)))

    def class_name(self, label: int) -> str:
        return self.classes[label] if label < len(self.classes) else str(label)


_FORMAT_VERSION = 1


class TableInfo(NamedTuple):
    """What tables.json holds: how tables were turned into a graph, as a ``TableGraph`` has it."""

    feature_encoder: FeatureEncoder | None
    classes: tuple[str, ...]
    ingest_report: IngestReport

    def class_name(self, label: int) -> str:
        """The name of a class; its number if it has no name."""
        return self.classes[label] if label < len(self.classes) else str(label)

    @property
    def facts(self) -> str:
        """What of tables belongs to the digest of a graph: columns, categories, classes and kinds."""
        encoders = () if self.feature_encoder is None else self.feature_encoder.column_encoders
        columns, report = [(each.column, each.kind, each.values) for each in encoders], self.ingest_report
        facts = columns, self.classes, report.node_kinds, sorted(report.edge_types), report.unused_digest
        return json.dumps(facts) if any(facts) else ""

    def check_labels(self, num_classes: int) -> None:
        """Labels that came from tables must all have a name; a graph from elsewhere may have any."""
        if self.feature_encoder is not None and num_classes > len(self.classes):
            raise DataError(f"a node has label {num_classes - 1}, but {TABLES} lists {len(self.classes):,} classes")

    def to_json(self) -> bytes:
        report = self.ingest_report
        content = {
            "form": _FORMAT_VERSION,
            "encoding": None if self.feature_encoder is None else json.loads(self.feature_encoder.to_json()),
            "classes": self.classes,
            "findings": {
                **vars(report),
                "columns": [column._asdict() for column in report.columns],
                "edge_types": dict(report.edge_types),
            },
        }
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_json(cls, text: str) -> TableInfo:
        """Read what ``to_json`` wrote; anything else is an error."""
        content = parse_json(text)
        check_version(content["form"], _FORMAT_VERSION)
        encoding = content["encoding"]
        encoder = None if encoding is None else FeatureEncoder.from_json(json.dumps(encoding))
        return cls(encoder, tuple(str(name) for name in content["classes"]), _ingest_report(content["findings"]))


def _ingest_report(content: Mapping[str, Any]) -> IngestReport:
    first, names = content["first_dangling"], content["names"]
    return IngestReport(
        **{name: check_count(content[name]) for name in ("rows", "dangling", "loops", "duplicates", "isolated")},
        first_dangling=None if first is None else str(first),
        dangling_hint=str(content["dangling_hint"]),
        remarks=tuple(str(each) for each in content["remarks"]),
        directed=bool(content["directed"]),
        names=None if names is None else str(names),
        columns=tuple(ColumnInfo.from_json(each) for each in content["columns"]),
        edge_types={str(kind): check_positive(number) for kind, number in content["edge_types"].items()},
        node_kinds=tuple(str(kind) for kind in content["node_kinds"]),
        hint=str(content["hint"]),
        unused_digest=str(content["unused_digest"]),
    )


def load_graph_folder(path: Path) -> TableGraph:
    """A graph folder as a graph in memory, as ``read_tables`` has it."""
    return read_stable(path, MANIFEST, lambda: in_memory(open_graph(path)))


def in_memory(graph: Graph) -> TableGraph:
    """All of a graph that is in a folder, as ``read_tables`` has it."""
    assert graph.stored is not None
    table = node_table(graph)
    return TableGraph(graph.in_memory(), *read_table_info(graph), None if table is None else table.table())


def node_table(graph: Graph) -> NodeTable | None:
    """The table of nodes beside a graph in a folder, if there is one."""
    path = None if graph.stored is None else graph.stored.path / NODES
    return NodeTable(path, graph.num_nodes) if path is not None and path.is_file() else None


def read_table_info(graph: Graph) -> TableInfo:
    """How the tables of a graph in a folder were read."""
    path = None if graph.stored is None else graph.stored.path / TABLES
    if path is None or not path.is_file():
        return TableInfo(None, (), IngestReport(directed=graph.directed))
    with errors_name(path):
        info = TableInfo.from_json(path.read_text(encoding="utf-8"))
        info.check_labels(graph.num_classes)
        return info
