"""The digest of a graph: of all that its user would call another graph, the same in memory and in files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from clnr.graph.csr import Array
from clnr.graph.manifest import ARRAYS


def graph_arrays(graph: Any) -> dict[str, Array]:
    """The arrays of a graph by the names, and of the types, that they have in a graph folder."""
    x, arrays = graph.features, dict[str, Array | None]()
    for way, edges in zip(("incoming", "outgoing"), graph.edges_by_end, strict=False):
        arrays |= {f"{way}.{part}": values for part, values in edges._asdict().items()}
    if graph.sparse:
        arrays |= {"features.indptr": x.indptr, "features.indices": x.indices}
    arrays["features.values"] = x.data if graph.sparse else x
    arrays |= {**_id_arrays(graph.node_ids), "labels.values": graph.labels}
    return {name: np.ascontiguousarray(part, ARRAYS[name]) for name, part in arrays.items() if part is not None}


def graph_digest(arrays: Mapping[str, str], features: int, facts: str) -> str:
    """SHA-256 of a graph, from the digests of its arrays by name, the number of features, and its ``facts``.

    Edges by source follow from those by target.
    """
    lines = [f"{name} {arrays[name]}" for name in sorted(arrays) if not name.startswith("outgoing.")]
    return hashlib.sha256("\n".join([*lines, str(features), facts]).encode()).hexdigest()


def digest_in_memory(graph: Any) -> str:
    """The digest of a graph in memory, with its split, which no folder has."""
    split = {} if graph.split is None else {part: nodes.astype("<i8") for part, nodes in graph.split._asdict().items()}
    arrays = {name: hashlib.sha256(part.data).hexdigest() for name, part in (graph_arrays(graph) | split).items()}
    return graph_digest(arrays, graph.num_features, graph.info.facts)


def _id_arrays(ids: Array) -> dict[str, Array]:
    """Numbers, or text in one piece; other objects by type and ``repr``."""
    if ids.dtype.kind in "iu":
        return {"ids.values": ids}
    texts = [each if isinstance(each, str) else f"\0{type(each).__name__} {each!r}" for each in ids.tolist()]
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, parts)])
    return {"ids.offsets": offsets, "ids.text": np.frombuffer(b"".join(parts), np.uint8)}
