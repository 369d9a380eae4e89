"""The settings of a job from the parameters of ``NodeEmbedder``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clnr.embedding.defaults import choose_method
from clnr.embedding.fit_settings import Settings
from clnr.embedding.store.work_folder import as_begun
from clnr.engine import choose
from clnr.support.arguments import check_path
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.storage.atomic_io import resolve_path

# Parameters that are settings of the same name.
_SAME_NAME = ("recipe", "seed", "hold_out", "tune", "checkpoint_every", "resume", "evaluate", "ignore_memory_check")


def embedder_settings(parameters: Mapping[str, Any], workers: Workers = ALONE) -> Settings:
    """The settings that parameters of an embedder ask for.

    Args:
        parameters: All of them, by name.
        workers: Those that share the training, which this process has joined.
    """
    shortcuts = {name: parameters[name] for name in ("dimension", "epochs") if parameters[name] is not None}
    checkpoint = parameters["checkpoint"]
    settings = Settings(
        **choose_method(parameters["method"], parameters["effort"]),
        engine=choose(parameters["device"], parameters["precision"], parameters["threads"]),
        changes=shortcuts,
        checkpoint=None if checkpoint is None else resolve_path(check_path("checkpoint", checkpoint)),
        baselines=parameters["evaluate"],
        workers=workers,
        **{name: parameters[name] for name in _SAME_NAME},
    )
    # Workers that are started find out themselves what a checkpoint was begun with.
    return as_begun(settings) if parameters["workers"] == 1 else settings
