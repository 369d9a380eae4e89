"""The files of a graph folder, and where it says what is in it. Nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path

from clnr.errors import DataError

MANIFEST = "graph.json"
ARRAYS = (
    *(f"{way}.{part}" for way in ("incoming", "outgoing") for part in ("indptr", "indices", "weight")),
    *(f"features.{part}" for part in ("indptr", "indices", "values")),
    *("ids.values", "ids.offsets", "ids.text", "labels.values"),
)
"""The names of all arrays that a graph folder may have."""


def array_file(name: str) -> str:
    return f"{name}.bin"


def find_manifest(folder: Path) -> Path:
    """The manifest of a graph folder; what has none is refused."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise DataError(f"{folder}: it has no {MANIFEST}, so it is not a graph folder; clnr ingest writes one")
    return manifest
