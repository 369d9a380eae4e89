"""A model folder: an embedding, its model, graph and report, written whole, and loaded again without trusting the files."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clnr.embedding.result.artifact_files import (
    DIGESTS,
    EXPORTS,
    FINGERPRINT,
    FORMAT_VERSION,
    GRAPH,
    LOADED,
    METRICS,
    MODEL,
    OWN_FILES,
    SHARDS,
    VECTORS,
    ArtifactFiles,
    write_report_file,
)
from clnr.embedding.result.artifact_model import load_model, write_model
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.export import WRITERS
from clnr.embedding.result.node_ids import lasting_ids
from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.report_data import report_html
from clnr.embedding.result.shards import Shards, load_vectors, write_shard
from clnr.engine import Reference
from clnr.errors import DataError
from clnr.experiments.results import without_nan
from clnr.graph import Graph
from clnr.graph.folder import write_graph
from clnr.support.stage_clock import stage
from clnr.support.storage import (
    check_folder,
    errors_name,
    lock,
    parse_json,
    read_stable,
    reserve_folder,
    resolve_path,
    sha256,
    write_bytes,
    write_file,
    write_folder,
)
from clnr.tables.ingest_report import GRAPH_FILES, NODES, TABLES


@dataclass(frozen=True)
class Output:
    """Where a result is written; with ``force``, a folder that clnr wrote may be overwritten."""

    folder: Path
    force: bool = False
    report: bool = False


# -- saving --


def write_result(result: EmbeddingResult, output: Output) -> None:
    """Write a result to a folder, complete or not at all."""
    with reserve_folder(output.folder):
        check_folder(output.folder, output.force, OWN_FILES)
        write_reserved(result, output)


def write_reserved(result: EmbeddingResult, output: Output) -> None:
    """Write a result to a folder that is reserved."""
    title, html = resolve_path(output.folder).name, None
    if output.report:
        with stage("draw"):
            html = report_html(result, title)
    with write_folder(output.folder, output.force, OWN_FILES) as part:
        save_folder(result, part)
        if html is not None:
            write_report_file(part, title, html)


def save_folder(result: EmbeddingResult, folder: Path) -> None:
    """Write all that is loaded again into a folder; shards are linked."""
    write_model(result.model, folder)
    last = {"scores": without_nan(result.scores), "remarks": result.warnings}
    if result.baselines:
        last["baselines"] = without_nan(result.baselines)
    epochs = [{"epoch": i, "loss": loss} for i, loss in enumerate(result.losses, 1)]
    (folder / METRICS).write_bytes("".join(json.dumps(line) + "\n" for line in [*epochs, last]).encode())
    (folder / TABLES).write_bytes(result.nodes.info.to_json())
    (folder / FINGERPRINT).write_bytes(json.dumps(result.fingerprint, indent=1).encode())
    _write_graph(result.nodes, folder / GRAPH)
    if isinstance(result.z, Shards):
        (folder / SHARDS).mkdir()
        _link_files(result.z.paths, result.z.folder, folder)
    else:
        write_shard(folder / VECTORS, result.nodes, 0, result.z)
    write_bytes(folder / DIGESTS, _digests_json(folder))


def _write_graph(nodes: Nodes, folder: Path) -> None:
    """Write the graph folder of a result: graph, node table, and how tables were read; one in files is linked."""
    import pyarrow.parquet as pq

    folder.mkdir()
    if nodes.graph.stored is not None:
        path = nodes.graph.stored.path
        _link_files((path / name for name in GRAPH_FILES), path, folder)
        return
    files: dict[str, Any] = {TABLES: lambda path: path.write_bytes(nodes.info.to_json())}
    if nodes.table is not None:
        columns = nodes.table.table()
        files[NODES] = lambda path: pq.write_table(columns, path)
    write_graph(dataclasses.replace(nodes.graph, ids=lasting_ids(nodes.graph)), folder, files=files)


def _link_files(paths: Iterable[Path], folder: Path, to: Path) -> None:
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


def load_result(folder: Path, encoder: Any = None) -> EmbeddingResult:
    """Open a folder; a file that is damaged or inconsistent is refused, and nothing in it is ever executed.

    Shards, and their graph, are read when they are asked for. Of a model with an encoder of the user's own, only vectors can be
    read unless that ``encoder`` is given.
    """
    return read_stable(folder, DIGESTS, lambda: _load(ArtifactFiles.open(folder), encoder))


def _load(files: ArtifactFiles, encoder: Any) -> EmbeddingResult:
    model, nodes = load_model(files, encoder), Nodes.load(files, whole=files.has(VECTORS))
    z = load_vectors(files, nodes.graph.num_nodes)
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


def load_metrics(files: ArtifactFiles) -> tuple[Any, Any, Any, Any]:
    """Losses, scores, warnings, and the scores of baselines, as ``EmbeddingResult`` has them."""
    with files.reading(METRICS) as path:
        *epochs, last = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
        losses = tuple(float(each["loss"]) for each in epochs)
        baselines = {str(name): _scores(scores) for name, scores in last.get("baselines", {}).items()}
        return losses, _scores(last["scores"]), tuple(str(each) for each in last["remarks"]), baselines


def _scores(content: dict[str, Any]) -> dict[str, float]:
    return {str(name): nan if value is None else float(value) for name, value in content.items()}


# -- what is added to a folder --


def write_formats(folder: Path, formats: list[str]) -> list[Path]:
    """Add export formats to a finished folder; returns their files."""
    result, files = load_result(folder), [folder / EXPORTS[name] for name in formats]
    with reserve_folder(folder):
        for name, file in zip(formats, files, strict=True):
            with write_file(file) as part:
                WRITERS[name](result, part)
    return files


def write_report(folder: Path, name: str | None = None, colour: str | None = None) -> Path:
    """Write the report of a folder again, and return its path.

    The folder remembers the column of names; None for no change.
    """
    result, title = load_result(folder), resolve_path(folder).name
    named = name_nodes(result, name)
    html = report_html(named, title, colour)
    if named is not result:
        save_names(named, folder)
    return write_report_file(folder, title, html)


def name_nodes(result: EmbeddingResult, column: str | None) -> EmbeddingResult:
    """The same result with a column of its node table as the names of nodes; None for no change."""
    return result if column is None else dataclasses.replace(result, nodes=result.nodes.with_names(column))


def save_names(result: EmbeddingResult, folder: Path) -> None:
    """Let a folder remember which column has the names of nodes."""
    with lock(resolve_path(folder)):
        # If this is interrupted, the folder still opens.
        write_bytes(folder / DIGESTS, _digests_json(folder, changing=TABLES))
        write_bytes(folder / TABLES, result.nodes.info.to_json())
        write_bytes(folder / DIGESTS, _digests_json(folder))
