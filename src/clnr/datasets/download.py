"""Where raw files are, and how they get there: found in a data root, or downloaded whole into the cache."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from clnr.errors import DataError
from clnr.support.atomic_io import file_lock
from clnr.support.paths import cache_folder

Progress = Callable[[str, int, int | None], None]
Fetch = Callable[[str, Path], None]

_CHUNK = 1 << 16
_TIMEOUT = 30.0
_PASSING = (408, 425, 429, 500, 502, 503, 504)


def roots(root: str | Path | None) -> list[Path]:
    """Folders to look into, in order: the one given, the one that CLNR_DATA names, the user's cache."""
    named = [("--data-root", root), ("CLNR_DATA", os.environ.get("CLNR_DATA"))]
    found = []
    for what, value in named:
        if value:
            folder = Path(os.path.expanduser(value))
            if not folder.is_dir():
                raise DataError(f"{what} names {folder}, which is not a folder")
            found.append(folder)
    return [*found, cache_folder() / "data"]


def locate(
    name: str,
    layouts: tuple[tuple[str, ...], ...],
    urls: tuple[str, ...],
    root: str | Path | None = None,
    fetch: Fetch | None = None,
) -> list[Path]:
    """The files of a data set: those of the first layout that one root holds completely.

    Where none does, each file of the first layout is taken from wherever it is, and what is nowhere is downloaded to the
    cache; files of different origin cannot go wrong together, since the content of the whole is verified.
    """
    places = roots(root)
    for place in places:
        for layout in layouts:
            if all((place / file).is_file() for file in layout):
                return [place / file for file in layout]
    found = []
    for file, url in zip(layouts[0], urls, strict=True):
        target = next((place / file for place in places if (place / file).is_file()), places[-1] / file)
        found.append(target)
        if not target.is_file():
            try:
                (fetch or download)(url, target)
            except DataError as error:
                looked = ", ".join(str(place) for place in places)
                raise DataError(
                    f"{name} needs {file}, which is in none of: {looked}; and {error}. "
                    f"To get it by hand, save {url} as {target}, or set CLNR_DATA to a folder that has it"
                ) from None
    return found


def download(url: str, target: Path, progress: Progress | None = None, tries: int = 4, pause: float = 1.0) -> None:
    """Fetch a file whole or not at all: resumed after a break, tried again after passing faults, renamed when complete."""
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(target, wait=True):
            if target.is_file():
                return
            for attempt in range(tries):
                try:
                    _append(url, part, progress)
                    break
                except urllib.error.HTTPError as error:
                    if error.code == 416:
                        part.unlink(missing_ok=True)
                    elif error.code not in _PASSING or attempt == tries - 1:
                        raise DataError(f"its download from {url} failed: the server answers {error.code}") from None
                except (OSError, http.client.HTTPException) as error:
                    if not _passing(error) or attempt == tries - 1:
                        reason = getattr(error, "reason", None) or error
                        raise DataError(f"its download from {url} failed: {reason}") from None
                time.sleep(pause * 2**attempt)
            else:
                raise DataError(f"its download from {url} failed: the server refuses to resume or restart")
            part.replace(target)
    except OSError as error:
        raise DataError(f"it cannot be saved as {target}: {error.strerror or error}") from None


def _passing(error: Exception) -> bool:
    """Whether a fault may be gone next time; a full disk or a forbidden folder will not."""
    return isinstance(error, urllib.error.URLError | http.client.HTTPException | TimeoutError | ConnectionError)


def _append(url: str, part: Path, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "clnr", **({"Range": f"bytes={have}-"} if have else {})})
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        if answer.status != 206 or not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0
        if answer.status == 206 and not have:
            part.unlink(missing_ok=True)
            raise ConnectionError("the server resumed at another place than asked")
        length = answer.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        with part.open("ab" if have else "wb") as stream:
            while chunk := answer.read(_CHUNK):
                stream.write(chunk)
                have += len(chunk)
                if progress is not None:
                    progress(part.name.removesuffix(".part"), have, total)
            stream.flush()
            os.fsync(stream.fileno())
    if total is not None and have < total:
        raise ConnectionError(f"the connection broke at {have:,} of {total:,} bytes")
