"""report.html of a folder, and what it was drawn from, so that it need not be drawn again. Nothing here needs torch."""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from pathlib import Path

from clnr.embedding.store.artifact_files import DIGESTS, REPORT
from clnr.support.storage import resolve_path, write_bytes
from clnr.version import __version__

_DRAWN_BY = ("report", "embedding")


def write_report_file(folder: Path, title: str, html: bytes) -> Path:
    """Write the report of a folder, whose other files are complete, and below it what it was drawn from."""
    return write_bytes(folder / REPORT, html + _mark(folder, title))


def current_report(folder: Path) -> Path | None:
    """The report of a folder, if this version of clnr drew it from the files that are there; else None."""
    path, mark = folder / REPORT, _mark(folder, resolve_path(folder).name)
    if not mark or not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - len(mark)))
        return path if file.read() == mark else None


def _mark(folder: Path, title: str) -> bytes:
    """A comment that tells from what a report is drawn: the digests of a folder's files, the title and the code.

    It is empty for a folder without digests, which nothing is known about.
    """
    if not (folder / DIGESTS).is_file():
        return b""
    parts = [(folder / DIGESTS).read_bytes(), title.encode("utf-8", "replace"), __version__.encode()]
    digests = [hashlib.sha256(part).digest() for part in (*parts, *(path.read_bytes() for path in drawing_code()))]
    return f"<!-- drawn from {hashlib.sha256(b''.join(digests)).hexdigest()} -->\n".encode()


def drawing_code() -> list[Path]:
    """The files of the package that decide what a report shows."""
    package = Path(str(resources.files("clnr")))
    files = (path for name in _DRAWN_BY for path in sorted((package / name).rglob("*")))
    return [path for path in files if path.is_file() and path.suffix != ".pyc"]
