"""A model folder: an embedding, its model and its graph, saved and loaded again without trusting the files."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterable
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clnr.embedding.result import EmbeddingResult
from clnr.embedding.search.node_ids import id_part, lasting_ids
from clnr.embedding.search.nodes import Nodes
from clnr.embedding.store.artifact_files import (
    DIGESTS,
    FINGERPRINT,
    FORMAT_VERSION,
    GRAPH,
    LOADED,
    METRICS,
    MODEL,
    RECIPE,
    SHARDS,
    VECTORS,
    ArtifactFiles,
)
from clnr.embedding.store.artifact_model import load_model, write_parameters, write_recipe
from clnr.embedding.store.shards import Shards, TemporaryFolder, load_vectors, write_shard
from clnr.engine import Reference
from clnr.errors import DataError
from clnr.experiments.results import without_nan
from clnr.graph import Graph
from clnr.graph.folder import write_graph
from clnr.support.storage import errors_name, lock, parse_json, read_stable, resolve_path, sha256, write_bytes
from clnr.tables.ingest_report import GRAPH_FILES, NODES, TABLES

Metrics = tuple[tuple[float, ...], dict[str, float], tuple[str, ...], dict[str, dict[str, float]]]
"""Losses, scores, warnings, and the scores of baselines, as ``EmbeddingResult`` has them."""


# -- saving --


def save_folder(result: EmbeddingResult, folder: Path) -> None:
    """Write all that is loaded again into a folder; shards are linked."""
    write_recipe(result.model, folder / RECIPE)
    write_parameters(result.model, folder / MODEL)
    _write_metrics(result, folder / METRICS)
    (folder / TABLES).write_bytes(result.nodes.info.to_json())
    (folder / FINGERPRINT).write_bytes(json.dumps(result.fingerprint, indent=1).encode())
    graph = _write_graph(result.nodes, folder / GRAPH)
    if isinstance(result.z, Shards):
        (folder / SHARDS).mkdir()
        link_files(result.z.paths(), result.z.folder, folder)
    else:
        everyone = np.arange(graph.num_nodes)
        write_shard(folder / VECTORS, id_part(graph, 0, len(everyone)), result.z, result.nodes.kinds_of(everyone))
    write_bytes(folder / DIGESTS, _digests_json(folder))


def _write_metrics(result: EmbeddingResult, path: Path) -> None:
    lines: list[dict[str, Any]] = [{"epoch": i, "loss": loss} for i, loss in enumerate(result.losses, 1)]
    last = {"scores": without_nan(result.scores), "remarks": result.warnings}
    if result.baselines:
        last["baselines"] = without_nan(result.baselines)
    path.write_bytes("".join(json.dumps(line) + "\n" for line in [*lines, last]).encode())


def _write_graph(nodes: Nodes, folder: Path) -> Graph:
    """Write the graph folder of a result: graph, node table, and how tables were read; one in files is linked."""
    import pyarrow.parquet as pq

    folder.mkdir()
    if nodes.graph.stored is not None:
        path = nodes.graph.stored.path
        link_files((path / name for name in GRAPH_FILES), path, folder)
        return nodes.graph
    files: dict[str, Any] = {TABLES: lambda path: path.write_bytes(nodes.info.to_json())}
    if nodes.table is not None:
        columns = nodes.table.table()
        files[NODES] = lambda path: pq.write_table(columns, path)
    graph = dataclasses.replace(nodes.graph, ids=lasting_ids(nodes.graph))
    write_graph(graph, folder, files=files)
    return graph


def link_files(paths: Iterable[Path], folder: Path, to: Path) -> None:
    """Put those files of a folder that are there into another one: linked, or copied; nothing is ever written to them."""
    for path in filter(Path.is_file, paths):
        target = to / path.relative_to(folder)
        try:
            # What may not be written to could not be flushed to disk with the others.
            if not os.access(path, os.W_OK):
                raise PermissionError
            target.hardlink_to(path)
        except OSError:
            shutil.copyfile(path, target)


def _digests_json(folder: Path, changing: str | None = None) -> bytes:
    """SHA-256 of the files of a folder, and nothing for one that is about to be written anew."""
    names = [name for name in LOADED if (folder / name).is_file()]
    digests = {name: None if name == changing else sha256(folder / name) for name in names}
    return json.dumps({"form": FORMAT_VERSION, "sha256": digests}, indent=1).encode()


# -- loading --


def load_result(folder: Path, temporary: TemporaryFolder | None = None, encoder: Any = None) -> EmbeddingResult:
    """Open a folder; a file that is damaged or inconsistent is refused, and nothing in it is ever executed.

    Shards, and their graph, are read when they are asked for; a temporary folder is removed with the result. Of a model with an
    encoder of the user's own, only vectors can be read unless that ``encoder`` is given.
    """
    return read_stable(folder, DIGESTS, lambda: _load(ArtifactFiles.open(folder), temporary, encoder))


def _load(files: ArtifactFiles, temporary: TemporaryFolder | None, encoder: Any) -> EmbeddingResult:
    model, nodes = load_model(files, encoder), Nodes.load(files, whole=files.has(VECTORS))
    z = load_vectors(files, nodes.num_nodes, temporary)
    if (features := nodes.graph.num_features) != model.features:
        raise DataError(f"{files.folder / GRAPH}: nodes have {features} features, and the model takes {model.features}")
    if not model.method.lacks_encoder:
        with errors_name(files.folder / MODEL):
            nothing = Graph.from_edges([], [], np.zeros((0, model.features), np.float32))
            width = model.embed(nothing, Reference(torch.device("cpu"))).shape[1]
            if z.shape[1] != width:
                raise DataError(f"it gives vectors of {width} numbers, and those of the folder have {z.shape[1]}")
    with files.reading(FINGERPRINT) as path:
        fingerprint = dict(parse_json(path.read_text(encoding="utf-8")))
    return EmbeddingResult(model, nodes, z, *load_metrics(files), fingerprint)


def load_metrics(files: ArtifactFiles) -> Metrics:
    """Losses, scores, warnings, and the scores of baselines, if there are any."""
    with files.reading(METRICS) as path:
        *epochs, last = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        losses = tuple(float(each["loss"]) for each in epochs)
        baselines = {str(name): _scores(scores) for name, scores in last.get("baselines", {}).items()}
        return losses, _scores(last["scores"]), tuple(str(each) for each in last["remarks"]), baselines


def _scores(content: dict[str, Any]) -> dict[str, float]:
    return {str(name): nan if value is None else float(value) for name, value in content.items()}


# -- names of nodes --


def name_nodes(result: EmbeddingResult, column: str) -> EmbeddingResult:
    """The same result with a column of its node table as the names of nodes."""
    return dataclasses.replace(result, nodes=result.nodes.with_names(column))


def save_names(result: EmbeddingResult, folder: Path) -> None:
    """Let a folder remember which column has the names of nodes."""
    with lock(resolve_path(folder)):
        # If this is interrupted, the folder still opens.
        write_bytes(folder / DIGESTS, _digests_json(folder, changing=TABLES))
        write_bytes(folder / TABLES, result.nodes.info.to_json())
        write_bytes(folder / DIGESTS, _digests_json(folder))
