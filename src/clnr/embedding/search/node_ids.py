"""Users' ids and names of nodes: finding a node by either, and near matches of what is neither. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from heapq import nsmallest
from itertools import pairwise
from typing import Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.arrays import as_array
from clnr.graph.csr import Array
from clnr.graph.stored_ids import StoredIds

Texts = Callable[[], Iterable[Any]]
"""A text of each node, null for one without: Arrow arrays in the order of nodes, which are made one at a time."""

_PART = 1 << 16
_SHOWN_MATCHES = 5
_MOST_COMPARED_TEXTS = 20_000
_LEAST_RATIO = 0.6
_MOST_NAME_LETTERS = 60


class NodeIds:
    """The ids of all nodes, in the order of rows: an array in memory, or what reads some or parts of them from files.

    A number and its text are the same id: one table may have numbers where another has text. Indexes of what is in memory are
    built by the first question that needs them; what is ``in_files``, mapped or not, is passed over.
    """

    def __init__(self, values: Any, in_files: bool = False):
        self.values, self._in_files = values, in_files

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, nodes: Any) -> Any:
        """The ids of some nodes, or of one."""
        return self.values[nodes]

    def texts(self) -> Iterator[Any]:
        """All of them as Arrow text, one part after the other."""
        return (self.part(start, min(start + _PART, len(self))) for start in range(0, len(self) or 1, _PART))

    def part(self, start: int, stop: int) -> Any:
        """A range of them as Arrow text."""
        import pyarrow as pa

        if isinstance(self.values, StoredIds):
            return self.values.take(np.arange(start, stop)).cast(pa.string())
        values = self.values[start:stop]
        return pa.array(values).cast(pa.string()) if values.dtype == np.int64 else arrow_texts(map(text_of, values.tolist()))

    def get(self, name: Any) -> int | None:
        """The row of the node with this id; None if there is none."""
        row = int(self._find([name])[0])
        return None if row < 0 else row

    def rows(self, names: Any) -> Array:
        """The rows of nodes with these ids; each row of an array with several columns is one id, a tuple."""
        listed = id_list(names)
        rows = self._find(listed)
        if (rows < 0).any():
            raise NodeTexts(self.texts).unknown(_plain(listed[int(np.argmax(rows < 0))]))
        return rows

    def _find(self, names: list[Any]) -> Array:
        """The rows of the nodes with these ids, -1 where there is none."""
        if self._in_files:
            return self._pass_over([text_of(name) for name in names])
        return np.array([self._row(name) for name in names], np.int64)

    def _row(self, name: Any) -> int:
        try:
            return self._by_id.get(name, self._by_text.get(text_of(name), -1))
        except TypeError:
            raise DataError(f"an id must be hashable, and {name!r:.80} is not") from None

    def _pass_over(self, texts: list[str]) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        found, first = dict.fromkeys(texts, -1), 0
        for part in self.texts():
            for row in np.flatnonzero(pc.is_in(part, value_set=pa.array(found, pa.string()))).tolist():
                found[part[row].as_py()] = first + row
            first += len(part)
        return np.array([found[text] for text in texts], np.int64)

    @cached_property
    def _by_id(self) -> dict[Any, int]:
        return {name: i for i, name in enumerate(self.values.tolist())}

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return {text_of(name): i for i, name in enumerate(self.values.tolist())}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.values, self._in_files)


def text_of(name: Any) -> str:
    """An id as text, the same for Python and NumPy numbers."""
    return str(_plain(name))


def json_id(name: Any) -> int | str:
    """An id as JSON has it: an integer, as in embeddings.parquet, else its text."""
    plain = _plain(name)
    return plain if type(plain) is int else str(plain)


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
    if not isinstance(listed, list):
        return [listed]
    return [(name[0] if len(name) == 1 else tuple(name)) if isinstance(name, list) else name for name in listed]


# -- names and near matches --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeTexts:
    """The ids and the names of all nodes as text; None if no column holds names.

    ``hint`` is added to the error for a text that is like none of them.
    """

    ids: Texts
    names: Texts | None = None
    hint: Callable[[str], str] = lambda _: ""

    def find_named(self, text: Any) -> int:
        """The node of this name, or else of this id, whatever its case if none has it in this one; an error lists near ones."""
        for texts in filter(None, (self.names, self.ids)) if isinstance(text, str) else ():
            nodes = equal_texts(texts(), text)
            if len(nodes) == 1:
                return int(nodes[0])
            if len(nodes):
                some = ", ".join(f"{each!r:.80}" for each in _texts_at(self.ids(), nodes[:_SHOWN_MATCHES]))
                more = ", ..." if len(nodes) > _SHOWN_MATCHES else ""
                raise DataError(f"{len(nodes):,} nodes are called {text!r:.80}; use the id of one: {some}{more}")
        raise self.unknown(text)

    def unknown(self, node: Any) -> DataError:
        """The error that there is no such node, with those whose id or name is nearly so, or else a hint."""
        text = str(node)
        alike: dict[int, float] = {}
        for texts in filter(None, (self.ids, self.names)):
            for likeness, node_number in near_texts(texts(), text):
                alike[node_number] = max(likeness, alike.get(node_number, 0.0))
        nodes = nsmallest(_SHOWN_MATCHES, alike, key=lambda each: (-alike[each], each))
        said = f"there is no node {node!r:.80}"
        if nodes:
            return DataError(f"{said}; did you mean {self._called(nodes)}?")
        first = self._called(range(min(3, sum(map(len, self.ids())))))
        what = "id is" if self.names is None else "id or name is"
        return DataError(f"{said}, and no {what} like it" + (f"; ids are such as {first}" if first else "") + self.hint(text))

    def _called(self, nodes: Iterable[int]) -> str:
        """The ids of some nodes, each with its name, if it has one."""
        rows = np.array([*nodes], np.int64)
        ids = _texts_at(self.ids(), rows)
        names = [None] * len(ids) if self.names is None else _texts_at(self.names(), rows)
        pairs = zip(ids, names, strict=True)
        return ", ".join(f"{i!r:.80}" + (f" ({name[:_MOST_NAME_LETTERS]})" if name and name != i else "") for i, name in pairs)


def near_texts(texts: Iterable[Any], wanted: str, most: int = _SHOWN_MATCHES) -> list[tuple[float, int]]:
    """How like another, from 0 to 1, the texts most like it are, whatever its case, and the nodes that have them; best first.

    Of three pieces of a text, two changed letters leave one as it was: only texts that have a piece are compared, those with
    the most pieces first, and at most 20,000.
    """
    text = wanted.strip().lower()
    cuts = [len(text) * i // 3 for i in range(4)]
    pieces = {text[low:high] for low, high in pairwise(cuts)} - {""}
    candidates: list[tuple[int, int, str]] = []
    for first, part in _numbered(texts):
        counts = _count_pieces(part, pieces)
        rows = np.flatnonzero(counts)
        rows = rows[np.argsort(-counts[rows], kind="stable")][:_MOST_COMPARED_TEXTS]
        candidates += zip((-counts[rows]).tolist(), (first + rows).tolist(), part.take(rows).to_pylist(), strict=True)
        candidates = sorted(candidates)[:_MOST_COMPARED_TEXTS] if len(candidates) > _MOST_COMPARED_TEXTS else candidates
    matcher = SequenceMatcher(None, b=text, autojunk=False)
    near = ((_alike(matcher, text, each.lower()), node) for _, node, each in candidates)
    return nsmallest(most, (each for each in near if each[0] >= _LEAST_RATIO), key=lambda each: (-each[0], each[1]))


def _alike(matcher: SequenceMatcher[str], text: str, other: str) -> float:
    """1 for the same text, more than 0.8 for one that holds it, else difflib's ratio, or a little less than that of a word.

    An id that is this one but for a kind, as ``user:7`` is 7, comes before others that hold it.
    """
    if other.endswith(f":{text}"):
        return 0.99
    if text in other:
        return 0.8 + 0.2 * len(text) / len(other)
    words = other.split()
    return max(_ratio(matcher, other), 0.9 * max((_ratio(matcher, word) for word in words), default=0.0) if words[1:] else 0.0)


def _ratio(matcher: SequenceMatcher[str], other: str) -> float:
    matcher.set_seq1(other)
    quick = min(matcher.real_quick_ratio(), matcher.quick_ratio())
    return matcher.ratio() if quick >= _LEAST_RATIO else 0.0


def equal_texts(texts: Iterable[Any], wanted: str) -> Array:
    """The nodes whose text is this one; whatever its case, if there is none."""
    import pyarrow.compute as pc

    same, similar = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first, part in _numbered(texts):
        for nodes, holds in (
            (same, pc.equal(part, wanted.strip())),
            (similar, pc.equal(pc.utf8_lower(part), wanted.strip().lower())),
        ):
            nodes.append(first + np.flatnonzero(holds.fill_null(False).to_numpy(zero_copy_only=False)))
    exact = np.concatenate(same)
    return exact if len(exact) else np.concatenate(similar)


def _count_pieces(part: Any, pieces: Iterable[str]) -> Array:
    """How many of some pieces each text has, whatever their case."""
    import pyarrow.compute as pc

    counts = np.zeros(len(part), np.int64)
    for piece in pieces:
        holds = pc.match_substring(part, piece, ignore_case=True).fill_null(False)
        counts += holds.to_numpy(zero_copy_only=False)
    return counts


def _texts_at(texts: Iterable[Any], nodes: Array) -> list[Any]:
    wanted: list[Any] = [None] * len(nodes)
    for first, part in _numbered(texts):
        for place in np.flatnonzero((nodes >= first) & (nodes < first + len(part))).tolist():
            wanted[place] = part[int(nodes[place]) - first].as_py()
    return wanted


def _numbered(texts: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Each part as one array of text, and the number of its first node."""
    import pyarrow as pa

    first = 0
    for part in texts:
        whole = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
        yield first, whole.cast(pa.string())
        first += len(whole)
