"""The parameters of ``NodeEmbedder``: the settings that they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clnr.embedding.defaults import choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.job import as_begun
from clnr.engine import choose
from clnr.errors import RecipeError
from clnr.support.arguments import check_path
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.storage import resolve_path

# Parameters that are settings of the same name.
_SAME_NAME = ("recipe", "seed", "hold_out", "resume", "evaluate")


def embedder_settings(parameters: Mapping[str, Any], workers: Workers = ALONE) -> Settings:
    """The settings that parameters of an embedder ask for, for a training that ``workers`` share."""
    shortcuts = {name: parameters[name] for name in ("dimension", "epochs") if parameters[name] is not None}
    checkpoint = parameters["checkpoint"]
    settings = Settings(
        **choose_method(*(parameters[name] for name in ("method", "effort", "purpose", "encoder"))),
        engine=choose(parameters["device"], parameters["precision"], parameters["threads"]),
        changes=shortcuts,
        checkpoint=None if checkpoint is None else resolve_path(check_path("checkpoint", checkpoint)),
        baselines=parameters["evaluate"],
        workers=workers,
        **{name: parameters[name] for name in _SAME_NAME},
    )
    if settings.resume and settings.checkpoint is None:
        raise RecipeError("resume=True needs checkpoint=FILE, where the state of training is saved")
    return as_begun(settings)
