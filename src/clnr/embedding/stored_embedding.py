"""Graph folders that do not fit in memory, as ``NodeEmbedder`` trains on and embeds them: from files into temporary ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.job import check_disk, embed_folder
from clnr.embedding.planning import file_plan
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.shared_fit import embed_shared
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.embedding.store.artifact import load_result
from clnr.embedding.store.artifact_files import SHARDS
from clnr.embedding.store.shards import Shards, TemporaryFolder
from clnr.errors import DataError
from clnr.graph.graph_folder import GraphFolder
from clnr.support.progress import Bar
from clnr.support.storage.folder_locks import shared_folder


def fit_files(
    folder: GraphFolder, settings: Settings, bar: Bar | None, options: Mapping[str, Any], workers: int
) -> EmbeddingResult:
    """Train from files, and embed into a temporary folder; several workers are told the options of the embedder."""
    temporary = TemporaryFolder()
    path = temporary.path / "embedding"
    if workers > 1:
        file_plan.plan(folder, settings, None, workers)
        embed_shared(folder, path, options, workers)
    else:
        embed_folder(folder, path, settings, bar=bar)
    return load_result(path, temporary)


def embed_files(model: FittedModel, folder: GraphFolder, settings: Settings) -> Shards:
    """A graph folder that does not fit in memory, embedded with a model into a temporary folder."""
    if folder.num_features != model.features:
        raise DataError(f"{folder.path} has {folder.num_features:,} features per node, and this model takes {model.features:,}")
    _, planned = file_plan.plan(folder, settings, None)
    temporary = TemporaryFolder()
    check_disk(temporary.path, planned)
    (temporary.path / SHARDS).mkdir()
    # Nothing is trained, so that no edge is held out.
    alone = replace(settings, hold_out=0.0)
    with shared_folder(folder.path):
        graph = GraphInFiles(folder, alone, model.recipe, temporary.path, planned.sizes.block_rows)
        shards = graph.embed(model)
        graph.remove()
    return replace(shards, temporary=temporary)
