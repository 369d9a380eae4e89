"""Raw files of data sets: found in a data root, or downloaded to the cache.

pooch is not used: it cannot resume a broken download, does not lock against other processes, and verifies each file's hash,
where clnr verifies the graph that is read, so that any packing of the same data is accepted.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from clnr.errors import DataError, option
from clnr.support.machine.paths import cache_folder
from clnr.support.storage import lock

Progress = Callable[[str, int, int | None], None]
Fetch = Callable[[str, Path], None]

_CHUNK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30.0
# A part that the server cannot continue is 416, and begun anew.
_TRANSIENT_CODES = (408, 416, 425, 429, 500, 502, 503, 504)
_TRIES, _PAUSE_SECONDS = 4, 1.0


def roots(root: str | Path | None) -> list[Path]:
    """The folders to search, in order: ``root``, the folder CLNR_DATA, the user's cache."""
    named = [(option("data_root"), root), ("CLNR_DATA", os.environ.get("CLNR_DATA"))]
    folders = []
    for what, value in named:
        if value:
            folder = Path(os.path.expanduser(value))
            if not folder.is_dir():
                raise DataError(f"{what} names {folder}, which is not a folder")
            folders.append(folder)
    return [*folders, cache_folder() / "data"]


def locate(
    name: str,
    layouts: tuple[tuple[str, ...], ...],
    urls: tuple[str, ...],
    root: str | Path | None = None,
    fetch: Fetch | None = None,
) -> list[Path]:
    """The files of a data set: those of the first layout that one root has completely.

    If none has, each file of the first layout is taken from any root, and missing ones are downloaded to the cache. Files of
    different origin do no harm, since the content of the whole is verified.
    """
    folders = roots(root)
    for folder in folders:
        for layout in layouts:
            if all((folder / file).is_file() for file in layout):
                return [folder / file for file in layout]
    paths = []
    for file, url in zip(layouts[0], urls, strict=True):
        target = next((folder / file for folder in folders if (folder / file).is_file()), folders[-1] / file)
        paths.append(target)
        if not target.is_file():
            try:
                (fetch or download)(url, target)
            except DataError as error:
                looked = ", ".join(map(str, folders))
                raise DataError(f"{name} needs {file}, which is in none of {looked}; and {error}") from None
    return paths


def download(url: str, target: Path, progress: Progress | None = None) -> None:
    """Download a file atomically: resumed after a break, retried after transient errors, renamed when complete."""
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock(target, wait=True):
            for attempt in range(0 if target.is_file() else _TRIES):
                try:
                    _resume(url, part, progress)
                    part.replace(target)
                    break
                except (OSError, http.client.HTTPException) as error:
                    code = getattr(error, "code", None)
                    if code == 416:
                        part.unlink(missing_ok=True)
                    if attempt == _TRIES - 1 or not _is_transient(error, code):
                        reason = f"the server answers {code}" if code else getattr(error, "reason", None) or error
                        raise DataError(f"its download from {url} failed: {reason}") from None
                time.sleep(_PAUSE_SECONDS * 2**attempt)
    except OSError as error:
        raise DataError(f"it cannot be saved as {target}: {error.strerror or error}") from None


def _is_transient(error: Exception, code: int | None) -> bool:
    """Whether a retry may help, unlike for a refusal, a full disk or a forbidden folder."""
    if code is not None:
        return code in _TRANSIENT_CODES
    return isinstance(error, urllib.error.URLError | http.client.HTTPException | TimeoutError | ConnectionError)


def _resume(url: str, part: Path, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "clnr", **({"Range": f"bytes={have}-"} if have else {})})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
        if answer.status != 206 or not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0
        if answer.status == 206 and not have:
            part.unlink(missing_ok=True)
            raise ConnectionError("the server resumed at another offset than requested")
        length = answer.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        with part.open("ab" if have else "wb") as stream:
            while chunk := answer.read(_CHUNK_BYTES):
                stream.write(chunk)
                have += len(chunk)
                if progress is not None:
                    progress(part.name.removesuffix(".part"), have, total)
            stream.flush()
            os.fsync(stream.fileno())
    if total is not None and have < total:
        raise ConnectionError(f"the connection broke at {have:,} of {total:,} bytes")
