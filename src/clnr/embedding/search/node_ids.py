"""Users' ids of nodes: finding a node by its id, and ids as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from clnr.embedding.search.node_search import NodeTexts
from clnr.errors import DataError
from clnr.graph.arrays import as_array
from clnr.graph.csr import Array


class NodeIds(ABC):
    """The ids of all nodes, in the order of rows. A number and its text are the same id: one table may have numbers where
    another has text."""

    @property
    @abstractmethod
    def values(self) -> Any:
        """All of them as an array, or as what is read like one."""

    @abstractmethod
    def __getitem__(self, nodes: Any) -> Any:
        """The ids of some nodes, or of one."""

    @abstractmethod
    def texts(self) -> Iterable[Any]:
        """All of them as Arrow text, in the blocks of rows."""

    @abstractmethod
    def find(self, names: list[Any]) -> Array:
        """The rows of the nodes with these ids, -1 where there is none."""

    def get(self, name: Any) -> int | None:
        """The row of the node with this id; None if there is none."""
        row = int(self.find([name])[0])
        return None if row < 0 else row

    def rows(self, names: Any) -> Array:
        """The rows of nodes with these ids; each row of an array with several columns is one id, a tuple."""
        listed = id_list(names)
        rows = self.find(listed)
        if (rows < 0).any():
            raise NodeTexts(self.texts).unknown(_plain(listed[int(np.argmax(rows < 0))]))
        return rows


class ArrayIds(NodeIds):
    """Ids in memory, of any hashable type. Indexes are built by the first question that needs them."""

    def __init__(self, ids: Array):
        self._ids = ids

    @property
    def values(self) -> Array:
        return self._ids

    def __getitem__(self, nodes: Any) -> Any:
        return self._ids[nodes]

    def texts(self) -> list[Any]:
        return [arrow_texts(map(text_of, self._ids.tolist()))]

    def find(self, names: list[Any]) -> Array:
        return np.array([self._row(name) for name in names], np.int64)

    def _row(self, name: Any) -> int:
        try:
            row = self._by_id.get(name)
        except TypeError:
            raise DataError(f"an id must be hashable, and {name!r:.80} is not") from None
        return self._by_text.get(text_of(name), -1) if row is None else row

    @cached_property
    def _by_id(self) -> dict[Any, int]:
        return {name: i for i, name in enumerate(self._ids.tolist())}

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return {text_of(name): i for i, name in enumerate(self._ids.tolist())}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._ids,)


def text_of(name: Any) -> str:
    """An id as text, the same for Python and NumPy numbers."""
    return str(_plain(name))


def arrow_texts(texts: Iterable[str]) -> Any:
    """An Arrow array of texts; half of a surrogate pair, which UTF-8 cannot hold, becomes a question mark."""
    import pyarrow as pa

    return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())


def has_lasting_text(name: Any) -> bool:
    """Whether an id's text is the same in every process."""
    if isinstance(name, tuple):
        return all(map(has_lasting_text, name))
    kind: Any = type(name)
    return not isinstance(name, frozenset) and kind.__repr__ is not object.__repr__


def _plain(name: Any) -> Any:
    if isinstance(name, np.generic):
        return name.item()
    return tuple(map(_plain, name)) if type(name) is tuple else name


def id_list(names: Any) -> list[Any]:
    """Ids as a list; a single one as a list of one, and each row of an array with several columns as a tuple."""
    if isinstance(names, str | bytes) or not (hasattr(names, "__array__") or isinstance(names, Iterable)):
        return [names]
    listed = as_array(names, "ids").tolist() if hasattr(names, "__array__") else list(names)
    return [_as_id(name) if isinstance(name, list) else name for name in listed] if isinstance(listed, list) else [listed]


def _as_id(cells: list[Any]) -> Any:
    return cells[0] if len(cells) == 1 else tuple(cells)
