"""report.html of a folder, and what it was drawn from, so that it need not be drawn again. Nothing here needs torch."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from clnr.embedding.store.artifact_files import DIGESTS, REPORT
from clnr.support.storage import resolve_path, write_bytes
from clnr.version import __version__


def write_report_file(folder: Path, title: str, html: bytes) -> Path:
    """Write the report of a folder, whose other files are complete, and below it what it was drawn from."""
    return write_bytes(folder / REPORT, html + _mark(folder, title))


def current_report(folder: Path) -> Path | None:
    """The report of a folder, if this version of clnr drew it from the files that are there; else None."""
    path = folder / REPORT
    if not (path.is_file() and (folder / DIGESTS).is_file()):
        return None
    mark = _mark(folder, resolve_path(folder).name)
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - len(mark)))
        return path if file.read() == mark else None


def _mark(folder: Path, title: str) -> bytes:
    """A comment that tells from what a report is drawn: the digests of a folder's files, the title and the version."""
    drawn_from = b"\0".join([(folder / DIGESTS).read_bytes(), title.encode("utf-8", "replace"), __version__.encode()])
    return f"<!-- drawn from {hashlib.sha256(drawn_from).hexdigest()} -->\n".encode()
