"""Small files to read tables from."""

from __future__ import annotations

from pathlib import Path

EDGES = "source,target\na,b\nb,c\n"


def saved(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
