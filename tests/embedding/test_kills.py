"""Runs that are killed again and again, at moments drawn at random, and lose nothing but what had no mark yet."""

from __future__ import annotations

import random
from contextlib import contextmanager

import numpy as np
import pytest

from clnr.embedding.result.artifact import load_result
from clnr.embedding.workspace import Workspace
from clnr.methods.model import Model
from clnr.training.checkpoint import Checkpoint
from tests.embedding.jobs import MEMORY, embed_folder
from tests.embedding.test_from_files import random_folder, settings
from tests.kills import Killed, killed

KILLS, EPOCHS = 30, 5
# How many calls that change something on disk one process lives for.
LIFE = 60


@pytest.mark.full
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("limit", [None, MEMORY], ids=["memory", "files"])
def test_thirty_kills_lose_only_what_had_no_mark(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(Checkpoint, "seconds", 0.0)
    graph, draw = random_folder(tmp_path / "graph"), random.Random(0)
    chosen = settings("CLNR-mix", hold_out=0.1, resume=True, changes={"epochs": EPOCHS, "structure": 8})
    whole = embed_folder(graph, tmp_path / "whole", chosen, limit)
    epochs, made, again = [], set(), []
    loss, writing = Model.loss, Workspace.writing
    monkeypatch.setattr(Model, "loss", lambda *args: epochs.append(args[2].epoch) or loss(*args))

    @contextmanager
    def noted(workspace, name, count):
        rows = workspace.folder, name
        again.extend({rows} & made)
        with writing(workspace, name, count) as writer:
            yield writer
        made.add(rows)

    monkeypatch.setattr(Workspace, "writing", noted)
    kills = runs = 0
    while kills < KILLS:
        out, before, running = tmp_path / f"out-{runs}", kills, True
        while running:
            try:
                with killed(monkeypatch, draw.randrange(LIFE)):
                    embed_folder(graph, out, chosen, limit)
                running = False
            except Killed:
                kills += 1
        result = load_result(out)
        np.testing.assert_array_equal(np.asarray(result.z), np.asarray(whole.z))
        assert result.scores == whole.scores
        assert len(epochs) <= EPOCHS + kills - before
        assert again == []
        epochs.clear()
        made.clear()
        runs += 1
    assert {path.name for path in tmp_path.iterdir()} == {"graph", "whole", *(f"out-{run}" for run in range(runs))}
