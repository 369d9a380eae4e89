"""An embedding in shards as ``NodeEmbedder`` has it: rows and ids are read when they are asked for."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from clnr.embedding import disk_plan
from clnr.embedding.fit_settings import Settings
from clnr.embedding.model import FittedModel
from clnr.embedding.out_of_core import check_disk, embed_folder
from clnr.embedding.reporting.map_layouts import DEFAULT_LAYOUT
from clnr.embedding.reporting.report_file import write_report_file
from clnr.embedding.reporting.sample_report import sample_report_html
from clnr.embedding.scoring.sampled_scores import SampledScores
from clnr.embedding.search.node_ids import id_list
from clnr.embedding.search.node_search import Texts
from clnr.embedding.shared_fit import embed_shared
from clnr.embedding.stages.file_stages import FileStages
from clnr.embedding.store.artifact import load_metrics, load_model
from clnr.embedding.store.artifact_files import DIGESTS, LOADED_FILES, OWNED_FILES, SHARDS, ArtifactFiles
from clnr.embedding.store.artifact_graph import load_table_info
from clnr.embedding.store.shards import Shards
from clnr.embedding.store.stored_columns import stored_name_texts, stored_names
from clnr.errors import ClnrError, DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.support.progress import Bar
from clnr.support.storage.atomic_io import atomic_folder, check_folder, reserve_folder, resolve_path
from clnr.support.storage.checked_files import read_stable
from clnr.support.storage.folder_locks import shared_folder
from clnr.tables.table_info import TableInfo


class TemporaryFolder:
    """A folder of the system's temporary ones (``TMPDIR``), removed with the last that refers to this."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="clnr-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class StoredEmbedding:
    """The vectors of all nodes, in shards: an array whose rows are read when they are asked for.

    ``z[5]``, ``z[10:20]``, ``z[[3, 1]]`` and ``z[mask]`` are NumPy arrays. ``for part in z.blocks()`` gives all rows, one shard
    at a time. ``numpy.asarray(z)`` reads everything.

    Args:
        shards: Where they are.
        folder: A temporary folder that they are in, which goes with the last that uses it; None for one that stays.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, shards: Shards, folder: TemporaryFolder | None = None):
        self._shards, self._folder = shards, folder

    @property
    def shape(self) -> tuple[int, int]:
        return self._shards.nodes, self._shards.dimension

    def __len__(self) -> int:
        return self._shards.nodes

    def __getitem__(self, index: Any) -> Array:
        rows, columns = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        nodes = _chosen(rows, len(self))
        found = self._shards.rows(nodes.reshape(-1)).reshape(*nodes.shape, self.shape[1])
        return found[(..., *columns)] if columns else found

    def __iter__(self) -> Iterator[Array]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[Array]:
        """All rows in order, one shard at a time."""
        for _, z in self._shards.parts():
            yield z

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.concatenate([np.empty((0, self.shape[1]), np.float32), *self.blocks()]).astype(
            dtype or self.dtype, copy=False
        )

    def __repr__(self) -> str:
        return f"StoredEmbedding(shape={self.shape}, folder={str(self._shards.folder)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._folder is not None:
            raise ClnrError("an embedding in temporary files cannot be pickled: save(folder), then NodeEmbedder.load(folder)")
        return type(self), (self._shards,)


def _chosen(index: Any, count: int) -> Array:
    """``numpy.arange(count)[index]``; for a number, a slice or numbers without an array of all."""
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    numbers = np.asarray(index)
    if numbers.dtype.kind not in "iu":
        return np.flatnonzero(numbers) if numbers.dtype == bool and numbers.shape == (count,) else np.arange(count)[index]
    numbers = numbers.astype(np.int64, copy=False)
    outside = (numbers < -count) | (numbers >= count)
    if outside.any():
        raise IndexError(f"index {numbers[outside][0]} is out of bounds for {count} rows")
    return np.where(numbers < 0, numbers + count, numbers)


class StoredIds:
    """The ids of all nodes, beside their vectors in shards: an array whose elements are read when they are asked for.

    It finds rows by id as ``node_ids.Lookup`` does, by a pass over all ids.
    """

    def __init__(self, z: StoredEmbedding, shards: Shards):
        self._z, self._shards = z, shards

    @property
    def shape(self) -> tuple[int]:
        return (len(self._z),)

    def __len__(self) -> int:
        return len(self._z)

    def __getitem__(self, index: Any) -> Any:
        nodes = _chosen(index, len(self))
        return self._shards.ids(nodes) if np.ndim(nodes) else self._shards.ids(np.array([nodes]))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def get(self, name: Any) -> int | None:
        """The row of the node with this id; None if there is none."""
        found = int(self._shards.locate([name])[0])
        return None if found < 0 else found

    def texts(self) -> Iterator[Any]:
        """The ids as Arrow text, those of one shard at a time."""
        return self._shards.id_texts()

    def rows(self, names: Any) -> Array:
        """The rows of nodes with these ids."""
        return self._shards.find(id_list(names))


@dataclass(frozen=True, eq=False)
class StoredResult:
    """An embedded graph folder, the model that embeds it, and how its training went: ``EmbeddingResult`` of a graph in files.

    Attributes:
        model: The fitted model.
        info: How the tables of the graph were read.
        shards: The embedding.
        z: The same as an array.
        losses: One per epoch.
        scored: Scores on samples.
    """

    model: FittedModel
    info: TableInfo
    shards: Shards
    z: StoredEmbedding
    losses: tuple[float, ...]
    scored: SampledScores

    @classmethod
    def fit(
        cls, folder: GraphFolder, settings: Settings, bar: Bar | None, options: Mapping[str, Any], workers: int
    ) -> StoredResult:
        """Train from files, and embed into a temporary folder; several workers are told the options of the embedder."""
        made = TemporaryFolder()
        path = made.path / "embedding"
        if workers > 1:
            disk_plan.plan(folder, settings, None, workers)
            embed_shared(folder, path, options, workers)
        else:
            embed_folder(folder, path, settings, bar=bar)
        return cls.load(path, made)

    @classmethod
    def load(cls, path: Path, temporary: TemporaryFolder | None = None) -> StoredResult:
        """What ``clnr embed --graph`` or ``save`` wrote."""
        return read_stable(path, DIGESTS, lambda: cls._load(ArtifactFiles.open(path), temporary))

    @classmethod
    def _load(cls, files: ArtifactFiles, temporary: TemporaryFolder | None) -> StoredResult:
        shards = Shards.open(files)
        losses, *scored = load_metrics(files)
        z = StoredEmbedding(shards, temporary)
        return cls(load_model(files), load_table_info(files), shards, z, losses, SampledScores(*scored))  # type: ignore[arg-type]

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" for one without; empty if no column holds names, or the graph folder is not there."""
        folder, ids = self.shards.graph_folder(), [str(each) for each in self.shards.ids(nodes).tolist()]
        return [] if folder is None else stored_names(folder, self.info.ingest_report.names, nodes, ids)

    def name_texts(self) -> Texts | None:
        """The names of all nodes; None if no column holds names, or the graph folder is not there."""
        folder, column = self.shards.graph_folder(), self.info.ingest_report.names
        return None if folder is None or column is None else lambda: stored_name_texts(folder, column)

    def report_html(self, title: str, layout: str = DEFAULT_LAYOUT) -> bytes:
        folder = self.shards.graph_folder()
        if folder is None:
            raise DataError(f"the graph folder {self.shards.graph[0]} is not there, or was changed: a report needs it")
        return sample_report_html(self.model, folder, self.shards, self.losses, self.scored, title, layout)

    def save(self, path: Path, *, force: bool, layout: str | None) -> None:
        """Write all of it to a folder, with a report if its map has a layout; shards are linked, or copied."""
        title = resolve_path(path).name
        html = None if layout is None else self.report_html(title, layout)
        with reserve_folder(path, OWNED_FILES):
            check_folder(path, force, OWNED_FILES)
            with atomic_folder(path, force, OWNED_FILES) as part:
                (part / SHARDS).mkdir()
                others = (self.shards.folder / name for name in (*LOADED_FILES, DIGESTS))
                for each in (*self.shards.paths(), *(path for path in others if path.is_file())):
                    _link(each, part / each.relative_to(self.shards.folder))
                if html is not None:
                    write_report_file(part, title, html)


def embed_files(model: FittedModel, folder: GraphFolder, settings: Settings) -> StoredEmbedding:
    """A graph folder that does not fit in memory, embedded with a model into a temporary folder."""
    if folder.num_features != model.features:
        raise DataError(f"{folder.path} has {folder.num_features:,} features per node, and this model takes {model.features:,}")
    _, planned = disk_plan.plan(folder, settings, None)
    made = TemporaryFolder()
    check_disk(made.path, planned)
    (made.path / SHARDS).mkdir()
    # Nothing is trained, so that no edge is held out.
    alone = replace(settings, hold_out=0.0)
    with shared_folder(folder.path):
        stages = FileStages(folder, alone, model.recipe, made.path, planned.block_rows)
        dimension, shards = stages.embed(model)
        stages.remove()
    where = folder.path, folder.digest
    return StoredEmbedding(Shards(made.path, folder.num_nodes, dimension, shards, where), made)


def _link(path: Path, to: Path) -> None:
    with suppress(OSError):
        to.hardlink_to(path)
        return
    shutil.copyfile(path, to)
