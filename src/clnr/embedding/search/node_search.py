"""Finding a node by its name, and near matches of what is neither an id nor a name. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array

Texts = Callable[[], Iterable[Any]]
"""A text of each node, null for one without: Arrow arrays in the order of nodes, which are made one at a time."""

_SHOWN_MATCHES = 5
_MOST_COMPARED_TEXTS = 20_000
_LEAST_RATIO = 0.6
_MOST_NAME_LETTERS = 60


class NearText(NamedTuple):
    """A text that is like another: how much, from 0 to 1, and the node that has it."""

    alike: float
    node: int


@dataclass(frozen=True)
class NodeTexts:
    """The ids and the names of all nodes as text.

    Attributes:
        ids: Their ids.
        names: Their names; None if no column holds names.
    """

    ids: Texts
    names: Texts | None = None

    def find_named(self, text: Any) -> int:
        """The node of this name, whatever its case if none has it in this one; an error lists near matches, by id or name."""
        if isinstance(text, str) and self.names is not None:
            found = _equal(self.names(), text)
            if len(found) == 1:
                return int(found[0])
            if len(found):
                some = ", ".join(f"{each!r:.80}" for each in _texts_at(self.ids(), found[:_SHOWN_MATCHES]))
                more = ", ..." if len(found) > _SHOWN_MATCHES else ""
                raise DataError(f"{len(found):,} nodes are called {text!r:.80}; take the id of one: {some}{more}")
        raise self.unknown(text)

    def unknown(self, node: Any) -> DataError:
        """The error that there is no such node, with those whose id or name is nearly so."""
        text = str(node)
        alike: dict[int, float] = {}
        for texts in filter(None, (self.ids, self.names)):
            for near in near_texts(texts(), text):
                alike[near.node] = max(near.alike, alike.get(near.node, 0.0))
        nodes = nsmallest(_SHOWN_MATCHES, alike, key=lambda each: (-alike[each], each))
        said = f"there is no node {node!r:.80}"
        if nodes:
            return DataError(f"{said}; did you mean {self._called(nodes)}?")
        first = self._called(range(min(3, sum(map(len, self.ids())))))
        what = "id is" if self.names is None else "id or name is"
        return DataError(f"{said}, and no {what} like it" + (f"; ids are such as {first}" if first else ""))

    def _called(self, nodes: Iterable[int]) -> str:
        """The ids of some nodes, each with its name, if it has one."""
        rows = np.array([*nodes], np.int64)
        ids = _texts_at(self.ids(), rows)
        names = [None] * len(ids) if self.names is None else _texts_at(self.names(), rows)
        pairs = zip(ids, names, strict=True)
        return ", ".join(f"{i!r:.80}" + (f" ({name[:_MOST_NAME_LETTERS]})" if name and name != i else "") for i, name in pairs)


def near_texts(texts: Iterable[Any], wanted: str, most: int = _SHOWN_MATCHES) -> list[NearText]:
    """The nodes whose texts are most like another, whatever its case, best first.

    Of three pieces of a text, two changed letters leave one as it was: only texts that have a piece are compared, those with
    the most pieces first, and at most 20,000.
    """
    text = wanted.strip().lower()
    cuts = [len(text) * i // 3 for i in range(4)]
    pieces = {text[low:high] for low, high in pairwise(cuts)} - {""}
    candidates: list[tuple[int, int, str]] = []
    for first, part in _numbered(texts):
        found = _count_pieces(part, pieces)
        rows = np.flatnonzero(found)
        rows = rows[np.argsort(-found[rows], kind="stable")][:_MOST_COMPARED_TEXTS]
        there = part.take(rows).to_pylist()
        candidates += zip((-found[rows]).tolist(), (first + rows).tolist(), there, strict=True)
        candidates = sorted(candidates)[:_MOST_COMPARED_TEXTS] if len(candidates) > _MOST_COMPARED_TEXTS else candidates
    matcher = SequenceMatcher(None, b=text, autojunk=False)
    near = (NearText(_alike(matcher, text, each.lower()), node) for _, node, each in candidates)
    return nsmallest(most, (each for each in near if each.alike >= _LEAST_RATIO), key=lambda each: (-each.alike, each.node))


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


def _equal(texts: Iterable[Any], wanted: str) -> Array:
    """The nodes whose text is this one; whatever its case, if there is none."""
    import pyarrow.compute as pc

    same, similar = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first, part in _numbered(texts):
        for found, holds in (
            (same, pc.equal(part, wanted.strip())),
            (similar, pc.equal(pc.utf8_lower(part), wanted.strip().lower())),
        ):
            found.append(first + np.flatnonzero(holds.fill_null(False).to_numpy(zero_copy_only=False)))
    exact = np.concatenate(same)
    return exact if len(exact) else np.concatenate(similar)


def _count_pieces(part: Any, pieces: Iterable[str]) -> Array:
    """How many of some pieces each text has, whatever their case."""
    import pyarrow.compute as pc

    found = np.zeros(len(part), np.int64)
    for piece in pieces:
        holds = pc.match_substring(part, piece, ignore_case=True).fill_null(False)
        found += holds.to_numpy(zero_copy_only=False)
    return found


def _texts_at(texts: Iterable[Any], nodes: Array) -> list[Any]:
    """The texts of some nodes."""
    found: list[Any] = [None] * len(nodes)
    for first, part in _numbered(texts):
        for place in np.flatnonzero((nodes >= first) & (nodes < first + len(part))).tolist():
            found[place] = part[int(nodes[place]) - first].as_py()
    return found


def _numbered(texts: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Each part as one array of text, and the number of its first node."""
    import pyarrow as pa

    first = 0
    for part in texts:
        whole = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
        yield first, whole.cast(pa.string())
        first += len(whole)
