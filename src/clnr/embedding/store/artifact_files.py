"""The files of a model folder: their names, and how each is read without trusting it. Nothing here needs torch.

recipe.toml                         method, seed and hyper-parameters
model.safetensors                   learned parameters
embeddings.parquet                  id and vector of each node; or embeddings/part-*.parquet, in the order of nodes
metrics.jsonl                       loss of each epoch, then the scores
graph.safetensors, nodes.parquet    the graph, and its node table
source.json                         with shards, in place of these two: the graph folder, and its digest
tables.json                         how tables were turned into the graph, and the names of its classes
digests.json                        SHA-256 of each file above
neighbors.usearch, neighbors.json   an index that earlier versions of clnr kept here; never read
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from clnr.errors import DataError
from clnr.support.storage.checked_files import check_version, errors_name, parse_json, sha256

FORMAT_VERSION = 1
RECIPE, MODEL, GRAPH = "recipe.toml", "model.safetensors", "graph.safetensors"
VECTORS, METRICS = "embeddings.parquet", "metrics.jsonl"
SHARDS, SOURCE = "embeddings", "source.json"
REPORT, DIGESTS = "report.html", "digests.json"
INDEX, INDEX_INFO = "neighbors.usearch", "neighbors.json"


@dataclass(frozen=True)
class ArtifactFiles:
    """The files of a model folder, each checked against its digest when it is read.

    ``digests`` are by file name; None for a folder written before clnr kept them.
    """

    folder: Path
    digests: Mapping[str, str] | None

    @classmethod
    def open(cls, folder: Path) -> ArtifactFiles:
        """The files of an existing folder."""
        if not folder.is_dir():
            what = "it is a file, not a folder that clnr embed wrote" if folder.exists() else "there is no such folder"
            raise DataError(f"{folder}: {what}")
        if not (folder / RECIPE).is_file():
            raise DataError(f"{folder}: it has no {RECIPE}, so clnr embed did not write it")
        path = folder / DIGESTS
        if not path.is_file():
            return cls(folder, None)
        with errors_name(path):
            content = parse_json(path.read_text(encoding="utf-8"))
            check_version(content["form"], FORMAT_VERSION)
            return cls(folder, dict(content["sha256"]))

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file() or name in (self.digests or {})

    @contextmanager
    def reading(self, name: str) -> Iterator[Path]:
        """The path of a file whose digest is right; any error while it is read becomes one line that names the file."""
        path = self.folder / name
        with errors_name(path):
            if self.digests is not None and self.digests.get(name) != sha256(path):
                raise DataError("it is damaged, or was edited; restore it, or write the folder again (clnr embed)")
            yield path
