"""What the command line and NodeEmbedder call, in short; graphs in files are not loaded, however small they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clnr.embedding import job
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning.plan import Plan, make_plan
from clnr.embedding.result.artifact import Output
from clnr.embedding.result.embedding_result import EmbeddingResult
from clnr.graph import Graph
from clnr.tables import read_tables

MEMORY = 10_000
"""In so many bytes no graph is loaded."""


def embed_folder(
    folder: Graph, out: Path, settings: Settings, limit: float | None = MEMORY, *, force: bool = False, report: bool = False
) -> EmbeddingResult | None:
    """``clnr embed --graph``."""
    return job.embed(lambda: folder, settings, limit=limit, output=Output(out, force, report))


def embed_tables(
    tables: dict[str, Any], out: Path, settings: Settings, *, force: bool = False, report: bool = True
) -> EmbeddingResult | None:
    """``clnr embed --edges``."""
    return job.embed(lambda: read_tables(**tables), settings, output=Output(out, force, report))


def fit(graph: Graph, settings: Settings) -> EmbeddingResult | None:
    """``NodeEmbedder.fit``."""
    return job.embed(lambda: graph, settings)


def planned(folder: Graph, settings: Settings, limit: float | None = MEMORY, workers: int | None = None) -> Plan:
    """The plan of that."""
    return make_plan(folder, settings, limit, workers)
