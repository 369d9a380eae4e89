"""Users' ids of nodes: finding a node by its id, and ids as text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.arrays import as_array
from clnr.graph.csr import Array


class Lookup:
    """Finds rows by node id; ids may be of any hashable type.

    A number and its text are the same id, since one table may have numbers where another has text. Indexes are built by the
    first lookup that needs them.
    """

    def __init__(self, ids: Array):
        self._ids = ids

    def row(self, name: Any) -> int:
        """The row of the node with this id."""
        try:
            found = self._by_id.get(name)
        except TypeError:
            raise DataError(f"an id must be hashable, and {name!r:.80} is not") from None
        if found is None and (found := self._by_text.get(text_of(name))) is None:
            raise DataError(f"there is no node {name!r:.80} in the graph")
        return found

    def rows(self, names: Any) -> Array:
        """The rows of nodes with these ids; each row of an array with several columns is one id, a tuple."""
        return np.array([self.row(name) for name in id_list(names)], np.int64)

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
