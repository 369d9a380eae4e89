"""How tables were turned into a graph, as a JSON text beside it: tables.json of a model folder and of a graph folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from clnr.errors import DataError
from clnr.support.arguments import check_choice
from clnr.support.storage.checked_files import check_count, check_positive, check_version, parse_json
from clnr.tables.columns.column_info import ColumnInfo
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.edges.ingest_report import IngestReport
from clnr.tables.table_arguments import NEGATIVE_WEIGHTS

TABLES, NODES = "tables.json", "nodes.parquet"
"""The names of its file, and of that with the columns of the node table."""
_FORMAT_VERSION = 1


class TableInfo(NamedTuple):
    """What tables.json holds: how tables were turned into a graph.

    Attributes:
        feature_encoder: How features were made; None if they were not made from tables.
        classes: The names of the labels 0, 1, 2 ...
        ingest_report: What was found in the tables.
    """

    feature_encoder: FeatureEncoder | None
    classes: tuple[str, ...]
    ingest_report: IngestReport

    def class_name(self, label: int) -> str:
        """The name of a class; its number if it has no name."""
        return self.classes[label] if label < len(self.classes) else str(label)

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
    first, names = content["first_dangling"], content.get("names")
    return IngestReport(
        **{name: check_count(content[name]) for name in ("rows", "dangling", "loops", "duplicates", "isolated")},
        first_dangling=None if first is None else str(first),
        dangling_hint=str(content.get("dangling_hint", "")),
        remarks=tuple(str(each) for each in content["remarks"]),
        directed=bool(content["directed"]),
        names=None if names is None else str(names),
        columns=tuple(ColumnInfo.from_json(each) for each in content.get("columns", [])),
        edge_types={str(kind): check_positive(number) for kind, number in content.get("edge_types", {}).items()},
        fading=check_positive(content.get("fading", 1.0)),
        negative_weights=check_choice("negative_weights", content.get("negative_weights", "refuse"), NEGATIVE_WEIGHTS),
        node_kinds=tuple(str(kind) for kind in content.get("node_kinds", [])),
    )
