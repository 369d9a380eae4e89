"""The files of a model folder: their names, and how each is read without trusting it. Nothing here needs torch.

recipe.toml                         method, seed and hyper-parameters
model.safetensors                   learned parameters
embeddings.parquet                  id and vector of each node; or embeddings/part-*.parquet, in the order of nodes
metrics.jsonl                       loss of each epoch, then the scores
graph/                              the graph, as clnr ingest writes it: of one in files, links to these, or copies
fingerprint.json                    what was asked for: graph, settings, code and versions, for --resume
digests.json                        SHA-256 of each file above
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.graph.manifest import GRAPH_FILES, MANIFEST
from clnr.support.storage import (
    OwnFiles,
    check_folder,
    check_version,
    errors_name,
    parse_json,
    read_stable,
    resolve_path,
    sha256,
    temporary_path,
    write_bytes,
)
from clnr.version import __version__

if TYPE_CHECKING:
    from clnr.graph import Graph

FORMAT_VERSION = 1
RECIPE, MODEL, GRAPH = "recipe.toml", "model.safetensors", "graph"
VECTORS, METRICS = "embeddings.parquet", "metrics.jsonl"
SHARDS, FINGERPRINT = "embeddings", "fingerprint.json"
REPORT, DIGESTS = "report.html", "digests.json"
EXPORTS = {"csv": "embeddings.csv", "npy": "embeddings.npy"}
"""The files of other formats, by their names."""
GRAPH_FILE = f"{GRAPH}/{MANIFEST}"
"""The file that has the digests of all others of the graph."""

_FIRST_BYTES = b"form = "
LOADED = (RECIPE, MODEL, GRAPH_FILE, VECTORS, METRICS, FINGERPRINT)
"""Every file that is loaded again and has its digest in digests.json."""
# Those that are added to a folder that is there, and what a killed process leaves of them.
_REWRITTEN = (REPORT, *EXPORTS.values())
_UNFINISHED = [temporary_path(Path(name), what).name for name in _REWRITTEN for what in ("part", "lock")]
_FOLDERS = (GRAPH, *(f"{GRAPH}/{name}" for name in GRAPH_FILES), SHARDS, f"{SHARDS}/part-*.parquet")


def _is_artifact(folder: Path) -> bool:
    """Whether a folder has a recipe that begins as ours do; its values may be wrong."""
    with suppress(OSError), (folder / RECIPE).open("rb") as file:
        return file.read(len(_FIRST_BYTES)) == _FIRST_BYTES
    return False


OWN_FILES = OwnFiles((*LOADED, DIGESTS, *_REWRITTEN, *_UNFINISHED, *_FOLDERS), _is_artifact)
"""How to recognise a folder that clnr wrote."""


def check_artifact(folder: Path) -> None:
    """Fail where there is no folder that clnr embed wrote."""
    read_stable(folder, RECIPE, lambda: ArtifactFiles.open(folder))


def check_output(folder: Path, force: bool, resume: bool) -> bool:
    """Fail if the folder cannot be written; returns whether the run to be resumed has already finished it."""
    finished = resume and (folder / RECIPE).is_file()
    if force or not finished:
        check_folder(folder, force, OWN_FILES)
    return finished


@dataclass(frozen=True)
class ArtifactFiles:
    """The files of a model folder, each checked against its digest when it is read; ``digests`` are by file name."""

    folder: Path
    digests: Mapping[str, str]

    @classmethod
    def open(cls, folder: Path) -> ArtifactFiles:
        """The files of an existing folder."""
        if not folder.exists():
            raise DataError(f"{folder}: there is no such folder")
        if not (folder / RECIPE).is_file():
            raise DataError(f"{folder}: it has no {RECIPE}, so clnr embed did not write it")
        path = folder / DIGESTS
        with errors_name(path):
            content = parse_json(path.read_text(encoding="utf-8"))
            check_version(content["form"], FORMAT_VERSION)
            return cls(folder, dict(content["sha256"]))

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file() or name in self.digests

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """The path of a file whose digest is right; any error while it is read becomes one line that names the file."""
        path = self.folder / name
        with errors_name(path):
            if self.digests.get(name, "") != sha256(path):
                raise DataError("it is damaged, or was edited; restore it, or write the folder again (clnr embed)")
            yield path


def load_graph(files: ArtifactFiles, whole: bool = False) -> Graph:
    """The graph of a model folder, read when it is asked for or, ``whole``, at once; then all of it is checked."""
    from clnr.graph.folder import open_graph, verify

    with files.reading(GRAPH_FILE) as manifest:
        graph = open_graph(manifest.parent)
    if not whole:
        return graph
    verify(manifest.parent)
    return graph.in_memory()


# -- the report, and what it was drawn from, so that it need not be drawn again --


def write_report_file(folder: Path, title: str, html: bytes) -> Path:
    """Write the report of a folder, whose other files are complete, and below it what it was drawn from."""
    return write_bytes(folder / REPORT, html + _mark(folder, title))


def current_report(folder: Path) -> Path | None:
    """The report of a folder, if this version of clnr drew it from the files that are there; else None."""
    path = folder / REPORT
    with suppress(FileNotFoundError):
        if path.read_bytes().endswith(_mark(folder, resolve_path(folder).name)):
            return path
    return None


def _mark(folder: Path, title: str) -> bytes:
    """A comment that tells from what a report is drawn: the digests of a folder's files, the title and the version."""
    drawn_from = b"\0".join([(folder / DIGESTS).read_bytes(), title.encode("utf-8", "replace"), __version__.encode()])
    return f"<!-- drawn from {hashlib.sha256(drawn_from).hexdigest()} -->\n".encode()
