"""Where a graph folder says what is in it. Nothing heavy is imported here."""

from __future__ import annotations

from pathlib import Path

from clnr.errors import DataError

MANIFEST = "graph.json"


def find_manifest(folder: Path) -> Path:
    """The manifest of a graph folder; what has none is refused."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise DataError(f"{folder}: it has no {MANIFEST}, so it is not a graph folder; clnr ingest writes one")
    return manifest
