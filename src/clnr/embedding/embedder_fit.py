"""``NodeEmbedder.fit`` and ``transform`` of a graph that stays in its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clnr.embedding import job
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.planning import file_plan
from clnr.embedding.result import EmbeddingResult
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.embedding.store.artifact import load_result
from clnr.embedding.store.artifact_files import SHARDS
from clnr.embedding.store.shards import Shards, TemporaryFolder
from clnr.embedding.workspace import remove_rows
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.folder import check_unchanged
from clnr.support.progress import Bar


def fit_from_files(folder: Graph, settings: Settings, bar: Bar | None) -> EmbeddingResult | None:
    """Train on a graph folder that does not fit in memory, and embed it into a temporary folder of the first worker.

    The other workers return None.
    """
    temporary = TemporaryFolder() if settings.workers.first else None
    out = Path(settings.workers.broadcast_object("" if temporary is None else str(temporary.path / "embedding")))
    job.embed_folder(folder, out, file_plan.for_files(folder, settings, None), bar=bar)
    return None if temporary is None else load_result(out, temporary)


def embed_files(model: FittedModel, folder: Graph, settings: Settings) -> Shards:
    """A graph folder that does not fit in memory, embedded with a model into a temporary folder."""
    if folder.num_features != model.features:
        raise DataError(f"{folder.name} has {folder.num_features:,} features per node, and this model takes {model.features:,}")
    _, planned = file_plan.plan(folder, settings, None)
    temporary = TemporaryFolder()
    (temporary.path / SHARDS).mkdir()
    # Nothing is trained, so that no edge is held out.
    alone = replace(settings, hold_out=0.0)
    shards = GraphInFiles(folder, alone, model.recipe, temporary.path, planned.block_rows, model.loop_weight).embed(model)
    check_unchanged(folder)
    remove_rows(temporary.path)
    return replace(shards, temporary=temporary)
