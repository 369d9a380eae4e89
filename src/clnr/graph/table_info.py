"""How tables became a graph: plain values, which stand on it, and beside its arrays in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from clnr.errors import DataError
from clnr.support.storage import check_count, check_positive, check_version, parse_json

_FORMAT_VERSION = 2


class ColumnInfo(NamedTuple):
    """How one column was read.

    Attributes:
        table: ``edges`` or ``nodes``, followed by the name of its kind where there are several: ``nodes user``.
        column: Its name.
        role: Of edges ``source``, ``target``, ``weight`` or ``until``; of nodes ``id``, ``label``, ``name`` or
            ``feature``; else ``unused``.
        type: Its type, where that has been found out.
        note: How it is encoded, or why it is not used.
        features: How many features it became.
        empty: In how many rows it is empty.
    """

    table: str
    column: str
    role: str
    type: str = ""
    note: str = ""
    features: int = 0
    empty: int = 0


@dataclass(frozen=True)
class TableInfo:
    """What was found in tables, and what was done about it.

    Attributes:
        columns: How each column was read.
        classes: The names of the labels 0, 1, 2 ...
        names: The column of the node table with the names of nodes, if there is one.
        directed: Whether edges are directed.
        node_kinds: The kinds of nodes; empty if nodes have none.
        edge_kinds: What the weights of each kind of edges were multiplied by on average; empty without kinds.
        counts: How many ``rows`` the tables of edges have; how many edges were left out, for want of an end (``missing``) or
            since an end is no node (``unknown``), and as ``loops``; and how many rows ``repeat`` one.
        notes: What a user should know of all this, a line each.
        encoder: How features are made of columns, as JSON; None if they did not come from tables.
        unused: A digest of the columns of nodes that make no features.
    """

    columns: tuple[ColumnInfo, ...] = ()
    classes: tuple[str, ...] = ()
    names: str | None = None
    directed: bool = False
    node_kinds: tuple[str, ...] = ()
    edge_kinds: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    encoder: Mapping[str, Any] | None = None
    unused: str = ""

    @property
    def facts(self) -> str:
        """What of tables belongs to the digest of a graph: columns, categories, classes and kinds."""
        encoded = () if self.encoder is None else self.encoder["columns"]
        columns = [(each["column"], each["kind"], each["values"]) for each in encoded]
        facts = columns, self.classes, self.names, self.node_kinds, sorted(self.edge_kinds), self.unused
        return json.dumps(facts) if any(facts) else ""

    @property
    def is_structural(self) -> bool:
        """Whether features come from the structure of the graph."""
        return self.encoder is not None and self.encoder["structure"] is not None

    @property
    def label_column(self) -> str:
        """What labels are called: the name of their column, or ``label``."""
        return next((each.column for each in self.columns if each.role == "label"), "label")

    def class_name(self, label: int) -> str:
        """The name of a class; its number if it has no name."""
        return self.classes[label] if label < len(self.classes) else str(label)

    def to_json(self) -> bytes:
        content = asdict(self) | {"columns": [each._asdict() for each in self.columns]}
        return json.dumps({"form": _FORMAT_VERSION, **content}, indent=1).encode()

    @classmethod
    def from_json(cls, text: str) -> TableInfo:
        """Read what ``to_json`` wrote; anything else is an error."""
        content = parse_json(text)
        check_version(content.pop("form"), _FORMAT_VERSION)
        columns, encoder, names = content["columns"], content["encoder"], content["names"]
        infos = tuple(ColumnInfo(**each) for each in columns)
        right = all(isinstance(text, str) for each in infos for text in each[:5])
        right = right and isinstance(encoder, dict | None) and isinstance(names, str | None)
        if not right:
            raise DataError("not a valid saved description of tables")
        for each in infos:
            check_count(each.features)
            check_count(each.empty)
        return cls(
            columns=infos,
            names=names,
            directed=bool(content["directed"]),
            edge_kinds={str(kind): check_positive(number) for kind, number in content["edge_kinds"].items()},
            counts={str(what): check_count(number) for what, number in content["counts"].items()},
            encoder=encoder,
            unused=str(content["unused"]),
            **{name: tuple(str(each) for each in content[name]) for name in ("classes", "node_kinds", "notes")},
        )


def title_of(role: str, kind: str | None) -> str:
    """What a table is called in the lines of its columns: ``edges``, or ``edges bought``."""
    return role if kind is None else f"{role} {kind}"
