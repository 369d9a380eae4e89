"""A model folder: an embedding, its model and its graph, saved and loaded again without trusting the files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from clnr.embedding.result import EmbeddingResult
from clnr.embedding.store.artifact_files import (
    DIGESTS,
    FINGERPRINT,
    FORMAT_VERSION,
    GRAPH,
    METRICS,
    MODEL,
    RECIPE,
    SOURCE,
    VECTORS,
    ArtifactFiles,
)
from clnr.embedding.store.artifact_graph import GRAPH_FILE, load_nodes, write_nodes
from clnr.embedding.store.artifact_model import load_model, write_parameters, write_recipe
from clnr.embedding.store.export import id_column, read_vectors, vector_table
from clnr.embedding.store.shards import Shards, TemporaryFolder
from clnr.engine import Reference
from clnr.errors import DataError
from clnr.experiments.results import without_nan
from clnr.graph import Graph
from clnr.support.storage import lock, parse_json, read_stable, resolve_path, sha256, write_bytes
from clnr.tables.ingest_report import TABLES
from clnr.training.fingerprint import Fingerprint

Metrics = tuple[tuple[float, ...], dict[str, float], tuple[str, ...], dict[str, dict[str, float]]]
"""Losses, scores, warnings, and the scores of baselines, as ``EmbeddingResult`` has them."""


# -- what a folder consists of ----------------------------------------------------------------------------------------------


class FolderFile(NamedTuple):
    """A file of a model folder."""

    name: str
    write: Callable[[EmbeddingResult, Path], object]
    is_of: Callable[[EmbeddingResult], bool] = lambda result: True


def _in_one_file(result: EmbeddingResult) -> bool:
    return isinstance(result.z, np.ndarray)


def _write_vectors(result: EmbeddingResult, path: Path) -> None:
    import pyarrow.parquet as pq

    (ids,) = id_columns(result)
    pq.write_table(vector_table(ids, result.z, result.nodes.kinds_of(np.arange(result.nodes.num_nodes))), path)


def id_columns(result: EmbeddingResult) -> Iterable[Any]:
    """The ids of all nodes as Arrow arrays, as they are written beside vectors: one, or one for each shard."""
    return [id_column(result.nodes.graph)] if _in_one_file(result) else result.z.id_columns()


def _write_metrics(result: EmbeddingResult, path: Path) -> None:
    lines: list[dict[str, Any]] = [{"epoch": i, "loss": loss} for i, loss in enumerate(result.losses, 1)]
    last = {"scores": without_nan(result.scores), "remarks": result.warnings}
    if result.baselines:
        last["baselines"] = without_nan(result.baselines)
    path.write_bytes("".join(json.dumps(line) + "\n" for line in [*lines, last]).encode())


FOLDER_FILES = (
    FolderFile(RECIPE, lambda result, path: write_recipe(result.model, path)),
    FolderFile(MODEL, lambda result, path: write_parameters(result.model, path)),
    FolderFile(GRAPH_FILE, lambda result, path: write_nodes(result.nodes, path), _in_one_file),
    FolderFile(TABLES, lambda result, path: path.write_bytes(result.nodes.info.to_json())),
    FolderFile(VECTORS, _write_vectors, _in_one_file),
    FolderFile(METRICS, _write_metrics),
    FolderFile(FINGERPRINT, lambda result, path: path.write_bytes(json.dumps(result.fingerprint, indent=1).encode())),
    FolderFile(SOURCE, lambda result, path: path.write_bytes(result.z.to_json()), lambda result: isinstance(result.z, Shards)),
)
"""Every file that is loaded again, in the order in which they are written; all of them are in digests.json."""


def save_folder(result: EmbeddingResult, folder: Path) -> None:
    """Write all that is loaded again into a folder."""
    if isinstance(result.z, Shards):
        result.z.link(folder)
    for file in FOLDER_FILES:
        if file.is_of(result):
            file.write(result, folder / file.name)
    write_bytes(folder / DIGESTS, _digests_json(folder))


def _digests_json(folder: Path, changing: str | None = None) -> bytes:
    """SHA-256 of the files of a folder, and nothing for one that is about to be written anew."""
    names = [name for name, *_ in FOLDER_FILES if (folder / name).is_file()]
    digests = {name: None if name == changing else sha256(folder / name) for name in names}
    return json.dumps({"form": FORMAT_VERSION, "sha256": digests}, indent=1).encode()


# -- loading ----------------------------------------------------------------------------------------------------------------


def load_result(folder: Path, temporary: TemporaryFolder | None = None, encoder: Any = None) -> EmbeddingResult:
    """Open a folder; a file that is damaged or inconsistent is refused, and nothing in it is ever executed.

    Shards are read when they are asked for; a temporary folder is removed with the result. Of a model with an encoder of the
    user's own, only vectors can be read unless that ``encoder`` is given.
    """
    return read_stable(folder, DIGESTS, lambda: _load(ArtifactFiles.open(folder), temporary, encoder))


def _load(files: ArtifactFiles, temporary: TemporaryFolder | None, encoder: Any) -> EmbeddingResult:
    model = load_model(files, encoder)
    if files.has(SOURCE):
        shards = Shards.open(files, temporary)
        return EmbeddingResult(model, load_nodes(files, shards), shards, *load_metrics(files), _fingerprint(files))
    with files.reading(VECTORS) as path:
        ids, z = read_vectors(path)
        nothing = Graph.from_edges([], [], np.zeros((0, model.features), np.float32))
        width = z.shape[1] if model.method.lacks_encoder else model.embed(nothing, Reference(torch.device("cpu"))).shape[1]
        if z.shape[1] != width:
            raise DataError(f"vectors have {z.shape[1]} numbers, and the model gives {width}")
    nodes = load_nodes(files, ids, whole=True)
    if (features := nodes.graph.num_features) != model.features:
        raise DataError(f"{files.folder / GRAPH}: nodes have {features} features, and the model takes {model.features}")
    return EmbeddingResult(model, nodes, z, *load_metrics(files), _fingerprint(files))


def _fingerprint(files: ArtifactFiles) -> Fingerprint:
    """The fingerprint of the run that was asked for."""
    with files.reading(FINGERPRINT) as path:
        return dict(parse_json(path.read_text(encoding="utf-8")))


def load_metrics(files: ArtifactFiles) -> Metrics:
    """Losses, scores, warnings, and the scores of baselines, if there are any."""
    with files.reading(METRICS) as path:
        *epochs, last = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        losses = tuple(float(each["loss"]) for each in epochs)
        baselines = {str(name): _scores(scores) for name, scores in last.get("baselines", {}).items()}
        return losses, _scores(last["scores"]), tuple(str(each) for each in last["remarks"]), baselines


def _scores(content: dict[str, Any]) -> dict[str, float]:
    return {str(name): nan if value is None else float(value) for name, value in content.items()}


# -- names of nodes ---------------------------------------------------------------------------------------------------------


def name_nodes(result: EmbeddingResult, column: str, where: Path | str = "the graph") -> EmbeddingResult:
    """The same result with a column of its node table as the names of nodes; ``where`` is what errors call the result."""
    return dataclasses.replace(result, nodes=result.nodes.with_names(column, where))


def save_names(result: EmbeddingResult, folder: Path) -> None:
    """Let a folder remember which column has the names of nodes."""
    with lock(resolve_path(folder)):
        # If this is interrupted, the folder still opens.
        write_bytes(folder / DIGESTS, _digests_json(folder, changing=TABLES))
        write_bytes(folder / TABLES, result.nodes.info.to_json())
        write_bytes(folder / DIGESTS, _digests_json(folder))
