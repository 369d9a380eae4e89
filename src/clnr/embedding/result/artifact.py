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
    load_graph,
    write_report_file,
)
from clnr.embedding.result.artifact_model import load_model, write_model
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.embedding.result.export import WRITERS
from clnr.embedding.result.node_ids import lasting_ids
from clnr.embedding.result.nodes import with_names
from clnr.embedding.result.report_data import report_html
from clnr.embedding.result.shards import Shards, load_vectors, write_shard
from clnr.engine import Reference
from clnr.errors import DataError
from clnr.experiments.results import without_nan
from clnr.graph import Graph
from clnr.graph.folder import write_graph
from clnr.graph.manifest import GRAPH_FILES
from clnr.support.stage_clock import stage
from clnr.support.storage import (
    check_folder,
    errors_name,
    parse_json,
    read_stable,
    reserve_folder,
    resolve_path,
    sha256,
    write_bytes,
    write_file,
    write_folder,
)


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
    (folder / FINGERPRINT).write_bytes(json.dumps(result.fingerprint, indent=1).encode())
    _write_graph(result.graph, folder / GRAPH)
    if isinstance(result.z, Shards):
        (folder / SHARDS).mkdir()
        _link_files(result.z.paths, result.z.folder, folder)
    else:
        write_shard(folder / VECTORS, result.graph, 0, result.z)
    write_bytes(folder / DIGESTS, _digests_json(folder))


def _write_graph(graph: Graph, folder: Path) -> None:
    """Write the graph folder of a result; one in files is linked."""
    folder.mkdir()
    if graph.stored is not None:
        path = graph.stored.path
        _link_files((path / name for name in GRAPH_FILES), path, folder)
        return
    write_graph(dataclasses.replace(graph, ids=lasting_ids(graph)), folder)


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


def _digests_json(folder: Path) -> bytes:
    """SHA-256 of the files of a folder."""
    digests = {name: sha256(folder / name) for name in LOADED if (folder / name).is_file()}
    return json.dumps({"form": FORMAT_VERSION, "sha256": digests}, indent=1).encode()


# -- loading --


def load_result(folder: Path, encoder: Any = None) -> EmbeddingResult:
    """Open a folder; a file that is damaged or inconsistent is refused, and nothing in it is ever executed.

    Shards, and their graph, are read when they are asked for. Of a model with an encoder of the user's own, only vectors can be
    read unless that ``encoder`` is given.
    """
    return read_stable(folder, DIGESTS, lambda: _load(ArtifactFiles.open(folder), encoder))


def _load(files: ArtifactFiles, encoder: Any) -> EmbeddingResult:
    model, graph = load_model(files, encoder), load_graph(files, whole=files.has(VECTORS))
    z = load_vectors(files, graph.num_nodes)
    if (features := graph.num_features) != model.features:
        raise DataError(f"{files.folder / GRAPH}: nodes have {features} features, and the model takes {model.features}")
    if not model.method.lacks_encoder:
        with errors_name(files.folder / MODEL):
            nothing = Graph.from_edges([], [], np.zeros((0, model.features), np.float32))
            width = model.embed(nothing, Reference(torch.device("cpu"))).shape[1]
            if z.shape[1] != width:
                raise DataError(f"it gives vectors of {width} numbers, and those of the folder have {z.shape[1]}")
    with files.reading(FINGERPRINT) as path:
        fingerprint = dict(parse_json(path.read_text(encoding="utf-8")))
    return EmbeddingResult(model, graph, z, *load_metrics(files), fingerprint)


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
    """Write the report of a folder again, and return its path; ``name`` is a column of names for it."""
    title = resolve_path(folder).name
    return write_report_file(folder, title, report_html(name_nodes(load_result(folder), name), title, colour))


def name_nodes(result: EmbeddingResult, column: str | None) -> EmbeddingResult:
    """The same result with a column of its node table as the names of nodes; None for no change."""
    return result if column is None else dataclasses.replace(result, graph=with_names(result.graph, column))
