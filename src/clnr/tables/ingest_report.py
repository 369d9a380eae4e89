"""What was found while reading tables, and how each of their columns was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line
from clnr.graph.manifest import ARRAYS, MANIFEST, array_file
from clnr.support.humanize import plural

TABLES, NODES = "tables.json", "nodes.parquet"
"""The names of the file that it is in, and of that with the columns of the node table."""
GRAPH_FILES = (MANIFEST, TABLES, NODES, *map(array_file, ARRAYS))
"""The names of all files that a graph folder may have."""
NOT_USED = "not used"
# The least columns, one after the other, that share a line if they are read alike.
_ALIKE_COLUMNS = 5
MUCH_SHARE = 1 / 3
"""More edges than this share are rarely left out on purpose; less is enough where the reason is known."""
_MUCH_EXPLAINED_SHARE = 1 / 10


class ColumnInfo(NamedTuple):
    """How one column was read.

    Attributes:
        table: ``edges`` or ``nodes``, followed by the name of its kind where there are several: ``nodes user``.
        column: Its name.
        role: ``source``, ``target``, ``weight``, ``id``, ``label``, ``name``, ``time``, ``feature`` or ``not used``.
        kind: What it holds: ``number``, ``text`` ...
        note: How it is encoded, or why it is not used.
        features: How many features it became.
        empty: In how many rows it is empty; None if that was not counted.
    """

    table: str
    column: str
    role: str
    kind: str
    note: str = ""
    features: int = 0
    empty: int | None = None

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ColumnInfo:
        """Read one of a saved list; anything else is an error."""
        info = cls(**content)
        counts = (info.features, info.empty or 0)
        if not all(isinstance(text, str) for text in info[:5]) or not all(type(each) is int and each >= 0 for each in counts):
            raise DataError("not a valid saved description of a column")
        return info


def column_lines(columns: Iterable[ColumnInfo]) -> list[str]:
    """A line for each column; many that are read alike share one."""
    lines = []
    for _, group in groupby(columns, lambda each: each._replace(column="")):
        alike = list(group)
        if len(alike) < _ALIKE_COLUMNS:
            lines += [_line(each, f"'{each.column}'", 1) for each in alike]
        else:
            names = f"'{alike[0].column}' to '{alike[-1].column}' ({len(alike):,} columns)"
            lines.append(_line(alike[0], names, len(alike)))
    return lines


def unused_numbers(columns: Iterable[ColumnInfo]) -> list[str]:
    """The names of unused numeric columns of edges without weights: one of them may be the weight."""
    edges = [info for info in columns if info.table.split()[0] == "edges"]
    weighted = {info.table for info in edges if info.role == "weight"}
    unused = [info for info in edges if (info.role, info.kind, info.note) == (NOT_USED, "number", "")]
    return list(dict.fromkeys(info.column for info in unused if info.table not in weighted))


def isolated_line(count: int, nodes: str) -> str:
    """What becomes of nodes without edges, given their number, and the same in words."""
    has, come = ("has", "its vector comes from its") if count == 1 else ("have", "their vectors come from their")
    return f"{nodes} {has} no edges: {come} features alone"


def _line(info: ColumnInfo, names: str, count: int) -> str:
    parts = [f"{info.role}, {info.kind}", info.note if info.features else ""]
    if info.features:
        parts.append(plural(info.features * count, "feature"))
    if info.empty:
        parts.append(f"{info.empty:,} empty")
    why = f": {info.note}" if info.note and not info.features else ""
    return one_line(f"{info.table} {names}: {', '.join(part for part in parts if part)}{why}")


@dataclass(frozen=True)
class IngestReport:
    """What was found while reading tables, and what was done about it.

    Attributes:
        rows: Rows of the edge table.
        dangling: Edges whose source or target is not in the node table: left out.
        loops: Edges from a node to itself: left out.
        duplicates: Repeated edges: one is kept, with the sum of weights where there are weights.
        isolated: Nodes without an edge: kept.
        first_dangling: An id that the node table lacks, as an example.
        dangling_hint: What may be wrong with the ids of these edges; empty if that is not known.
        remarks: Other notes for the user, a line each.
        directed: Whether edges are directed.
        names: The column with the names of nodes, if there is one.
        columns: How each column of the tables was read.
        edge_types: What the weights of each kind of edges were multiplied by on average; empty without kinds.
        node_kinds: The kinds of nodes; empty if nodes have none.
        hint: What should rather be run, with the reason; it comes before all else that is said. Empty if nothing.
        unused_digest: A digest of the columns of nodes that make no features.
    """

    rows: int = 0
    dangling: int = 0
    loops: int = 0
    duplicates: int = 0
    isolated: int = 0
    first_dangling: str | None = None
    dangling_hint: str = ""
    remarks: tuple[str, ...] = ()
    directed: bool = False
    names: str | None = None
    columns: tuple[ColumnInfo, ...] = ()
    edge_types: Mapping[str, float] = field(default_factory=dict)
    node_kinds: tuple[str, ...] = ()
    hint: str = ""
    unused_digest: str = ""

    @property
    def label_column(self) -> str:
        """What labels are called: their column's name, or ``label`` if they have none or several."""
        names = {each.column for each in self.columns if each.role.startswith("label")}
        return names.pop() if len(names) == 1 else "label"


def count_lines(report: IngestReport, weighted: bool) -> list[str]:
    """Edges and rows that were left out or merged, and nodes without edges, a line each; ``weighted`` is the graph."""
    lines: list[str] = []
    if dangling := dangling_warning(report):
        lines.append(f"warning: {dangling}" if loses_much(report) else dangling)
    if report.loops:
        lines.append(f"left out: {plural(report.loops, 'edge')} from a node to itself")
    if report.duplicates:
        # Not if a weight is only that of its kind.
        roles = [info.role for info in report.columns if info.table.startswith("edges")]
        adds = weighted and (not roles or "weight" in roles)
        how = "their weights are added" if adds else "each edge counts once"
        lines.append(f"merged: {plural(report.duplicates, 'row')} repeating an edge; {how}")
    if report.isolated:
        lines.append(isolated_line(report.isolated, plural(report.isolated, "node")))
    return lines


def loses_much(report: IngestReport) -> bool:
    """Whether the number of edges left out suggests that something is wrong with their ids."""
    return report.dangling > (_MUCH_EXPLAINED_SHARE if report.dangling_hint else MUCH_SHARE) * report.rows


def dangling_warning(report: IngestReport) -> str | None:
    """How many edges were left out because one of their ends is not in the node table; None if none were."""
    if not report.dangling:
        return None
    share = f" ({report.dangling / report.rows:.0%})" if loses_much(report) else ""
    count = f"{plural(report.dangling, 'edge')} of {report.rows:,}{share}"
    example = f"'{one_line(str(report.first_dangling), 80)}'"
    hint = f"; {report.dangling_hint}" if report.dangling_hint else ""
    return f"left out: {count} with an end that is not in the node table, such as {example}{hint}"
