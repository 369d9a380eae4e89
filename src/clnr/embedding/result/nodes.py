"""Nodes found by id or by name, and what they are called; what is in files is read when it is asked for.

Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from clnr.embedding.result.node_ids import Texts, equal_texts, id_list, id_parts, near_texts, rows_of_texts, text_of
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.arguments import check_choice

_SHOWN_NODES, _MOST_NAME_LETTERS = 5, 60


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a graph, in memory or in a folder, by ids and names."""

    graph: Graph

    @property
    def ids(self) -> Any:
        return self.graph.node_ids

    def labels_of(self, nodes: Array) -> Array | None:
        """The labels of some nodes, -1 for one without; None if the graph has none."""
        return None if self.graph.labels is None else self.graph.check_labels(self.graph.labels[nodes])

    def find(self, name: Any) -> int:
        """The row of the node with this id, or else of this name; an error lists near matches."""
        row = int(self._find([name])[0])
        return self._find_named(name) if row < 0 else row

    def rows(self, names: Any) -> Array:
        """The rows of nodes with these ids; each row of an array with several columns is one id, a tuple."""
        listed = id_list(names)
        rows = self._find(listed)
        if (rows < 0).any():
            raise self._unknown(listed[int(np.argmax(rows < 0))])
        return rows

    def _find(self, names: list[Any]) -> Array:
        """The rows of the nodes with these ids, -1 where there is none; of a graph in files, by a pass over its ids."""
        if self.graph.stored is not None:
            return rows_of_texts(id_parts(self.graph), [text_of(name) for name in names])
        try:
            return np.array([self._index.get(name, self._index.get(text_of(name), -1)) for name in names], np.int64)
        except TypeError:
            raise DataError(f"an id must be hashable, and one of {names!r:.80} is not") from None

    @cached_property
    def _index(self) -> dict[Any, int]:
        """Rows by id and by its text: a number and its text are one id, as one table may have either."""
        names = self.ids.tolist()
        return {text_of(name): row for row, name in enumerate(names)} | {name: row for row, name in enumerate(names)}

    @property
    def name_column(self) -> str | None:
        """The column of names; None if no column holds names, or there is no table of nodes."""
        return None if self.graph.columns is None else self.graph.info.names

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" for one without, or whose name is its id."""
        if self.graph.columns is None or self.name_column is None:
            return [""] * len(nodes)
        names = name_texts(self.graph.columns.take(nodes, [self.name_column])[self.name_column]).to_pylist()
        ids = map(str, self.ids[nodes].tolist())
        return ["" if name is None or name == node else name for name, node in zip(names, ids, strict=True)]

    def _texts(self) -> Iterator[Texts]:
        """The name of each node, if a column holds names, and its id."""
        if self.graph.columns is not None and self.name_column is not None:
            yield map(name_texts, self.graph.columns.parts(self.name_column))
        yield id_parts(self.graph)

    def _find_named(self, name: Any) -> int:
        """The node of this name, or else of this id, whatever its case if none has it in this one."""
        for texts in self._texts() if isinstance(name, str) else ():
            nodes = equal_texts(texts, name)
            if len(nodes) == 1:
                return int(nodes[0])
            if len(nodes):
                raise DataError(f"{len(nodes):,} nodes are called {name!r:.80}; use the id of one: {self._called(nodes)}")
        raise self._unknown(name)

    def _unknown(self, node: Any) -> DataError:
        """The error that there is no such node, with those whose id or name is nearly so."""
        near = near_texts(self._texts(), text_of(node))
        what = f"did you mean {self._called(near)}?" if near else f"ids are such as {self._called(range(self.graph.num_nodes))}"
        return DataError(f"there is no node {text_of(node)!r:.80}; {what}")

    def _called(self, nodes: Sequence[int] | Array) -> str:
        """The ids of some nodes, each with its name, if it has one; of many, the first."""
        rows = np.array(nodes[:_SHOWN_NODES], np.int64)
        pairs = zip(self.ids[rows].tolist(), self.names_of(rows), strict=True)
        called = [f"{str(i)!r:.80}" + (f" ({name[:_MOST_NAME_LETTERS]})" if name else "") for i, name in pairs]
        return ", ".join(called + ["..."] * (len(nodes) > len(rows)))


def with_names(graph: Graph, column: str) -> Graph:
    """A graph with a column of its table of nodes, in any case, as their names; that of ids for none."""
    if graph.columns is None:
        raise DataError(f"column '{column}' for names needs a node table")
    known = {field.name.casefold(): field.name for field in graph.columns.schema if can_name(field.type)}
    names = known[check_choice("column", column.strip().casefold(), known)]
    is_id = any((each.column, each.role) == (names, "id") for each in graph.info.columns)
    return dataclasses.replace(graph, info=dataclasses.replace(graph.info, names=None if is_id else names))


def can_name(kind: Any) -> bool:
    """Whether values of an Arrow type can be written as text."""
    import pyarrow as pa

    is_one = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return not any(test(kind) for test in is_one)


def name_texts(values: Any) -> Any:
    """Values of an Arrow column as names: trimmed text; empty text is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(values.cast(pa.string()))
    return pc.if_else(pc.equal(texts, ""), None, texts)
