"""The files of a graph folder, and where it says what is in it. Nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path

from clnr.errors import DataError

MANIFEST, TABLES, NODES = "graph.json", "tables.json", "nodes.parquet"
_PARTS = {"indptr": "<i8", "indices": "<i4", "weight": "<f4"}
ARRAYS = {f"{way}.{part}": dtype for way in ("incoming", "outgoing") for part, dtype in _PARTS.items()}
ARRAYS |= {"features.indptr": "<i8", "features.indices": "<i4", "features.values": "<f4"}
ARRAYS |= {"ids.values": "<i8", "ids.offsets": "<i8", "ids.text": "|u1", "labels.values": "<i8"}
"""All arrays that a graph folder may have, and the types of their numbers; those of features may be float16."""


def array_file(name: str) -> str:
    return f"{name}.bin"


GRAPH_FILES = (MANIFEST, TABLES, NODES, *map(array_file, ARRAYS))
"""The names of all files that a graph folder may have."""


def find_manifest(folder: Path) -> Path:
    """The manifest of a graph folder; what has none is refused."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise DataError(f"{folder}: it has no {MANIFEST}, so it is not a graph folder; clnr ingest writes one")
    return manifest
