"""Users' ids of nodes as text, the nodes that have one, and near matches of what no node has. Nothing here needs torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import numpy as np

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.arrays import as_array
from clnr.graph.csr import Array
from clnr.graph.folder import StoredIds
from clnr.tables.kinds import NODE_KIND, ORIGINAL_ID

Texts = Iterable[Any]
"""A text of each node, null for one without: Arrow arrays in the order of nodes, which are made one at a time."""

_PART = 1 << 16
_MOST_COMPARED_TEXTS, _MOST_NEAR_TEXTS = 20_000, 5


def id_part(graph: Graph, start: int, stop: int) -> Any:
    """The ids of a range of nodes as an Arrow array: whole numbers or, if any is something else, text."""
    import pyarrow as pa

    ids = graph.node_ids
    if isinstance(ids, StoredIds):
        return ids.take(np.arange(start, stop)).cast(pa.string())
    if ids.dtype.kind == "i":
        return pa.array(ids[start:stop])
    # Half of a surrogate pair, which UTF-8 cannot hold, becomes a question mark.
    return pa.array([text_of(name).encode("utf-8", "replace").decode() for name in ids[start:stop].tolist()], pa.string())


def id_parts(graph: Graph) -> Iterator[Any]:
    """The ids of all nodes, one part after the other."""
    return (id_part(graph, at, min(at + _PART, graph.num_nodes)) for at in range(0, graph.num_nodes or 1, _PART))


def lasting_ids(graph: Graph) -> Array:
    """The ids of a graph as they are written: whole numbers or text, by which nodes are found again."""
    ids = graph.node_ids
    if ids.dtype.kind == "i":
        return ids
    texts = [text_of(name) for name in ids.tolist()]
    for name, text in zip(ids.tolist(), texts, strict=True):
        if not _has_lasting_text(name):
            raise DataError(f"the id {name!r:.80} cannot be saved: its text changes from process to process")
        if text.encode("utf-8", "replace").decode() != text:
            raise DataError(f"the id {text!r:.60} cannot be written as text")
    if len(set(texts)) < len(texts):
        raise DataError("ids of mixed types are saved as text, and two of them have the same text; make them distinct")
    return np.array(texts, object)


def _has_lasting_text(name: Any) -> bool:
    """Whether an id's text is the same in every process."""
    if isinstance(name, tuple):
        return all(map(_has_lasting_text, name))
    kind: Any = type(name)
    return not isinstance(name, frozenset) and kind.__repr__ is not object.__repr__


def text_of(name: Any) -> str:
    """An id as text, the same for Python and NumPy numbers."""
    return str(_plain(name))


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


# -- kinds --


def kinds_of(graph: Graph, nodes: Array) -> dict[str, Any]:
    """The kinds of some nodes and their ids among these, as Arrow columns by name; empty if nodes have no kinds."""
    if graph.columns is None or not graph.info.node_kinds:
        return {}
    names = [NODE_KIND, ORIGINAL_ID]
    return dict(zip(names, graph.columns.take(nodes, names).columns, strict=True))


def kind_numbers(graph: Graph) -> Array | None:
    """The kind of each node, as a number; None if nodes are of one kind."""
    kinds = graph.info.node_kinds
    if graph.columns is None or len(kinds) < 2:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    # In as few bytes as can be; a name that is not known is of a kind of its own.
    dtype = np.min_scalar_type(len(kinds))
    places = (pc.index_in(part.cast(pa.string()), pa.array(kinds)) for part in graph.columns.parts(NODE_KIND))
    return np.concatenate([np.empty(0, dtype), *(np.asarray(each.fill_null(len(kinds))).astype(dtype) for each in places)])


# -- texts --


def rows_of_texts(texts: Texts, wanted: list[str]) -> Array:
    """The node that has each of some texts, -1 where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = dict.fromkeys(wanted, -1)
    for first, part in _numbered(texts):
        for row in np.flatnonzero(pc.is_in(part, value_set=pa.array(found, pa.string()))).tolist():
            found[part[row].as_py()] = first + row
    return np.array([found[text] for text in wanted], np.int64)


def equal_texts(texts: Texts, wanted: str) -> Array:
    """The nodes whose text is this one; whatever its case, if there is none."""
    import pyarrow.compute as pc

    same, similar, text = [np.empty(0, np.int64)], [np.empty(0, np.int64)], wanted.strip()
    for first, part in _numbered(texts):
        same.append(first + _where(pc.equal(part, text)))
        similar.append(first + _where(pc.equal(pc.utf8_lower(part), text.lower())))
    exact = np.concatenate(same)
    return exact if len(exact) else np.concatenate(similar)


def near_texts(columns: Iterable[Texts], wanted: str) -> list[int]:
    """The nodes with a text in one of some columns that is like another, or has a word that is; the most alike come first.

    Of three pieces of a text, two changed letters leave one as it was: only texts that have a piece are compared, those with
    the most pieces first, and at most 20,000 of a column.
    """
    import pyarrow.compute as pc

    text, nodes = wanted.strip().lower(), dict[str, list[int]]()
    cuts = [len(text) * i // 3 for i in range(4)]
    pieces = {text[low:high] for low, high in pairwise(cuts)} - {""}
    for texts in columns:
        candidates: list[tuple[int, int, str]] = []
        for first, part in _numbered(texts):
            lower = pc.utf8_lower(part)
            counts = np.zeros(len(part), np.int64)
            for piece in pieces:
                counts[_where(pc.match_substring(lower, piece))] += 1
            rows = np.flatnonzero(counts)
            rows = rows[np.argsort(-counts[rows], kind="stable")][:_MOST_COMPARED_TEXTS]
            candidates += zip((-counts[rows]).tolist(), (first + rows).tolist(), lower.take(rows).to_pylist(), strict=True)
            candidates = sorted(candidates)[:_MOST_COMPARED_TEXTS]
        for _, node, each in candidates:
            # As ``7`` of ``user:7``.
            for word in {each, *re.split(r"[\s:]+", each)}:
                nodes.setdefault(word, []).append(node)
    near = get_close_matches(text, nodes, _MOST_NEAR_TEXTS)
    return list(dict.fromkeys(node for each in near for node in nodes[each]))


def _where(holds: Any) -> Array:
    """Where an Arrow array is true."""
    return np.flatnonzero(holds.fill_null(False).to_numpy(zero_copy_only=False))


def _numbered(texts: Texts) -> Iterator[tuple[int, Any]]:
    """Each part as one array of text, and the number of its first node."""
    import pyarrow as pa

    first = 0
    for part in texts:
        whole = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
        yield first, whole.cast(pa.string())
        first += len(whole)
