"""The folder beside the output in which a graph in files is embedded; what a stopped process left of it can be resumed."""

from __future__ import annotations

import dataclasses
import json
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.reporting.report_file import write_report_file
from clnr.embedding.scoring.job_scores import Scores
from clnr.embedding.stages.block_passes import ShardFiles
from clnr.embedding.store.artifact import (
    differences,
    load_metrics,
    load_model,
    metrics_jsonl,
    not_asked_for,
    save_model,
    with_zeros,
)
from clnr.embedding.store.artifact_files import DIGESTS, METRICS, OWNED_FILES, SHARDS, SOURCE, ArtifactFiles, digests_json
from clnr.embedding.store.shards import Shards, shard_columns, source_json
from clnr.engine import choose_again
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.support.humanize import plural
from clnr.support.storage.atomic_io import move_folder, resolve_path, write_atomic
from clnr.support.storage.checked_files import errors_name, parse_json
from clnr.support.storage.file_locks import temporary_name
from clnr.tables.table_graph import TABLES, read_table_info
from clnr.training.checkpoint import begun_with

_ABOUT, _SEEN, _READ_OUT = "about.json", "seen-by-all", "read-out.safetensors"
_ROWS = "rows"
_LATEST, _POLL = 10.0, 0.2


def is_trained(out: Path) -> bool:
    """Whether a process that was stopped has left a model, so that only the embedding of ``embed_folder`` is left to do."""
    work = _work_path(resolve_path(out))
    return (work / _ABOUT).is_file() and (work / DIGESTS).is_file()


def _work_path(out: Path) -> Path:
    return out.with_name(temporary_name(out.name, "work"))


def as_begun(settings: Settings, out: Path | None = None) -> Settings:
    """Settings with the engine that a run which is resumed was begun with, except for what is asked for.

    Args:
        settings: As they are asked for.
        out: The output folder, if there is one.
    """
    if not settings.resume:
        return settings
    found, what = None, settings.checkpoint
    if out is not None and (about := _work_path(resolve_path(out)) / _ABOUT).is_file():
        with errors_name(about):
            found, what = parse_json(about.read_text(encoding="utf-8")).get("choices"), about.parent
    elif settings.checkpoint is not None:
        found = begun_with(settings.checkpoint)
    found = settings.workers.broadcast_object(found)
    if found is None or what is None:
        return settings
    with errors_name(what):
        engine = choose_again(settings.engine.asked, found, settings.workers.alone)
    return dataclasses.replace(settings, engine=engine)


class WorkFolder:
    """The folder beside the output in which it is made; what a stopped process left of it can be resumed."""

    def __init__(self, out: Path, folder: GraphFolder, settings: Settings, recipe: Recipe):
        self.path = _work_path(out)
        self._out, self._folder, self._settings, self._recipe = out, folder, settings, recipe
        about = settings.about(folder.digest, recipe)
        # As it will be read back.
        self._about = json.loads(json.dumps({"graph": about.pop("tables"), **about}))

    @property
    def bytes_there(self) -> int:
        """The size of all files that an earlier process has left."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def begin(self, block_rows: int) -> tuple[int, str | None]:
        """Make the folder, or go on in what a stopped process left, if that is to be resumed; all workers call it.

        Args:
            block_rows: How many rows a block may gather, as this worker has memory.

        Returns:
            How many rows a block may gather, for all workers and as before; and a line that says what is made again, or None.
        """
        workers, remark = self._settings.workers, None
        if workers.first:
            self._check_left()
        self._check_seen()
        block_rows = workers.all_reduce_min(block_rows)
        if workers.first:
            block_rows = self._begin_blocks(block_rows)
            remark = self._remove_old_shards()
        return workers.broadcast_object(block_rows), remark

    def _check_left(self) -> None:
        """Fail if what is left is of something else; what is not to be resumed is removed."""
        if self._settings.resume and (self.path / _ABOUT).is_file():
            with errors_name(self.path / _ABOUT):
                earlier = dict(self._saved()["about"])
            if differs := [name for name, value in self._about.items() if earlier.get(name) != value]:
                raise DataError(
                    f"{self.path} has what was stopped with another {' and '.join(differs)}; undo that, or start anew without "
                    "--resume (resume=False)"
                )
            return
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / SHARDS).mkdir(parents=True)

    def is_finished(self, force: bool) -> bool:
        """Whether the output already is what is asked for; if it is something else, it must be free to overwrite."""
        files = ArtifactFiles.open(self._out)
        earlier, (_, graph) = load_model(files), Shards.open(files).graph
        differs = [] if graph == self._folder.digest else ["it was made from another graph"]
        differs += differences(earlier, self._settings, self._recipe)
        if differs and not force:
            raise not_asked_for(self._out, differs)
        return not differs

    def _check_seen(self) -> None:
        """Fail on a worker that does not see what the first one writes to this folder."""
        workers, path = self._settings.workers, self.path / _SEEN
        if workers.alone:
            return
        mark = workers.broadcast_object(secrets.randbelow(1 << 60))
        if workers.first:
            path.write_text(str(mark), encoding="utf-8")
        workers.barrier()
        # A network file system may show it a little later.
        end = time.monotonic() + _LATEST
        while not (path.is_file() and path.read_text(encoding="utf-8") == str(mark)):
            if time.monotonic() > end:
                raise DataError(
                    f"{self.path.parent} is not the folder that the first worker writes to; on several hosts, --out must be on "
                    "a file system that all of them share"
                )
            time.sleep(_POLL)
        workers.barrier()
        if workers.first:
            path.unlink()

    def _begin_blocks(self, block_rows: int) -> int:
        """How many rows a block may gather: as given, or as before, if an earlier process has begun with blocks."""
        if not (self.path / _ABOUT).is_file():
            content = {"about": self._about, "block_rows": block_rows, "choices": self._settings.engine.choices}
            write_atomic(self.path / _ABOUT, json.dumps(content).encode())
        return int(self._saved()["block_rows"])

    def _remove_old_shards(self) -> str | None:
        """Remove the shards that another version of clnr has left with other columns; returns a line that says so."""
        columns, paths = ShardFiles(self.path, self._folder, []).columns, sorted((self.path / SHARDS).glob("*.parquet"))
        old = [path for path in paths if shard_columns(path) != columns]
        if not old:
            return None
        if self.has_shards():
            write_atomic(self.path / _ABOUT, json.dumps({**self._saved(), "embedded": [0, 0]}).encode())
        for path in old:
            path.unlink()
        return (
            f"{len(old)} of {plural(len(paths), 'shard')} have the columns of another version of clnr: they are written again"
        )

    # -- what stages have made ----------------------------------------------------------------------------------------

    def has_model(self) -> bool:
        return (self.path / DIGESTS).is_file()

    def load_model(self) -> tuple[FittedModel, tuple[float, ...]]:
        """Model and losses of a training that is complete."""
        files = ArtifactFiles.open(self.path)
        return load_model(files), load_metrics(files)[0]

    def save_model(self, model: FittedModel, losses: tuple[float, ...]) -> None:
        save_model(with_zeros(model), self.path)
        self._save_metrics(losses, Scores({}, (), {}))
        (self.path / TABLES).write_bytes(read_table_info(self._folder).to_json())
        (self.path / DIGESTS).write_bytes(digests_json(self.path))

    def has_readout(self) -> bool:
        return (self.path / _READ_OUT).is_file()

    def load_readout(self) -> tuple[Parameters, Array]:
        """What the read-out has learned, and the vectors of held-out edges' nodes."""
        import safetensors.torch

        path = self.path / _READ_OUT
        with errors_name(path):
            parameters = safetensors.torch.load(path.read_bytes())
            return parameters, parameters.pop(_ROWS).numpy()

    def save_readout(self, model: FittedModel, rows: Array) -> None:
        import safetensors.torch

        parameters = {name: value.contiguous() for name, value in model.parameters.items() if name.startswith("readout.")}
        write_atomic(self.path / _READ_OUT, safetensors.torch.save(parameters | {_ROWS: torch.from_numpy(rows)}))

    def _save_metrics(self, losses: tuple[float, ...], scored: Scores) -> None:
        (self.path / METRICS).write_bytes(metrics_jsonl(losses, *scored).encode())

    def has_shards(self) -> bool:
        """Whether all shards are written."""
        return self._embedded()[0] > 0

    def load_shards(self) -> Shards:
        return Shards(self.path, self._folder.num_nodes, *self._embedded(), (self._folder.path, self._folder.digest))

    def save_shards(self, shards: Shards) -> None:
        """Remember that all of them are written."""
        write_atomic(self.path / _ABOUT, json.dumps(self._saved() | {"embedded": [shards.dimension, shards.shards]}).encode())

    def _embedded(self) -> tuple[int, int]:
        """The numbers of a vector and of shards; 0 if they are not all written."""
        dimension, count = self._saved().get("embedded", (0, 0))
        return int(dimension), int(count)

    def _saved(self) -> dict[str, Any]:
        return parse_json((self.path / _ABOUT).read_text(encoding="utf-8"))

    def finish(
        self,
        model: FittedModel,
        shards: Shards,
        losses: tuple[float, ...],
        scored: Scores,
        report: bytes | None,
        force: bool,
    ) -> None:
        save_model(model, self.path)
        self._save_metrics(losses, scored)
        (self.path / SOURCE).write_bytes(source_json(self._folder, shards.dimension, shards.shards))
        (self.path / DIGESTS).write_bytes(digests_json(self.path))
        if report is not None:
            write_report_file(self.path, resolve_path(self._out).name, report)
        for name in (_READ_OUT, _ABOUT):
            (self.path / name).unlink(missing_ok=True)
        move_folder(self.path, self._out, force, OWNED_FILES)
