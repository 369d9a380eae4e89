"""The digest of a graph: of all that its user would call another graph, the same in memory and in files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.graph.csr import CSR, Array

# The types in which arrays enter the digest; all others enter it as int64.
_TYPES = {"incoming.indices": "int32", "incoming.weight": "float32", "ids.text": "uint8"}
_TYPES |= {"features.indices": "int32", "features.values": "float32"}
_NUMBERS_AT_A_TIME = 1 << 20


def graph_digest(arrays: Mapping[str, str], features: int, facts: str) -> str:
    """SHA-256 of a graph, from the digests of its arrays by name, the number of features, and its ``facts``.

    Edges by source follow from those by target.
    """
    lines = [f"{name} {arrays[name]}" for name in sorted(arrays) if not name.startswith("outgoing.")]
    return hashlib.sha256("\n".join([*lines, str(features), facts]).encode()).hexdigest()


def digests_of(features: Any, incoming: CSR, ids: Array, more: Mapping[str, Array | None]) -> dict[str, str]:
    """The digests of a graph's arrays in memory, by the names that they have in a graph folder."""
    parts: dict[str, Array | None] = {f"incoming.{name}": part for name, part in incoming._asdict().items()}
    if sp.issparse(features):
        parts |= {"features.indptr": features.indptr, "features.indices": features.indices}
    parts["features.values"] = features.data if sp.issparse(features) else features
    parts |= {**id_arrays(ids), **more}
    return {name: _digest(part, name) for name, part in parts.items() if part is not None}


def _digest(array: Array, name: str) -> str:
    dtype = np.dtype(_TYPES.get(name, "int64")).newbyteorder("<")
    total, rows = hashlib.sha256(), max(1, _NUMBERS_AT_A_TIME // max(1, array[:1].size))
    for start in range(0, len(array), rows):
        part = np.ascontiguousarray(array[start : start + rows], dtype)
        total.update(part.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def id_arrays(ids: Array) -> dict[str, Array]:
    """Ids as a graph folder has them, numbers or text in one piece; other objects by type and ``repr``."""
    if ids.dtype.kind in "iu":
        return {"ids.values": ids}
    texts = [each if isinstance(each, str) else f"\0{type(each).__name__} {each!r}" for each in ids.tolist()]
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, parts)])
    return {"ids.offsets": offsets, "ids.text": np.frombuffer(b"".join(parts), np.uint8)}
