from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from clnr.engine import cpu, gpu
from clnr.errors import DataError
from clnr.methods import METHODS
from clnr.objectives import Lesson
from clnr.own.checkpoint import Checkpoint
from clnr.run import shelf
from clnr.train import fit
from tests.conftest import tiny

ABOUT = {"graph": "tiny", "recipe": {"epochs": 9, "learning_rate": 1e-3}}
LABELS = torch.arange(40) % 3


class Killed(BaseException):
    """As by kill -9: nothing that training does may catch it."""


class Mortal(Checkpoint):
    """Dies right after a state was kept."""

    def save(self, done, state):
        super().save(done, state)
        raise Killed


def trained(method, recipe, keeper=None, engine=None):
    engine = engine or cpu()
    parts = (torch.arange(10), LABELS[:10], torch.arange(10, 20), LABELS[10:20])
    lesson = Lesson(*(part.to(engine.device) for part in parts)) if method.supervised else None
    return fit(method.build(recipe), engine, engine.place(tiny()), recipe, 3, lesson=lesson, keeper=keeper)


def same(a, b):
    assert a.losses.tolist() == b.losses.tolist()
    assert a.parameters.keys() == b.parameters.keys()
    for name in a.parameters:
        assert torch.equal(a.parameters[name], b.parameters[name]), name


def recipe_of(method):
    return shelf(method, "tiny").recipe.but(hidden=16, dimension=3 if method.supervised else 8, epochs=9, head_width=0)


@pytest.mark.parametrize("name", METHODS)
def test_a_training_that_died_goes_on_bit_for_bit(name, tmp_path):
    method = METHODS[name]
    recipe = recipe_of(method)
    whole = trained(method, recipe)
    if not len(whole.losses):
        return
    path = tmp_path / "state"
    for every in (4, 4):  # Twice: after epoch 4, and gone on from there, after epoch 8.
        with pytest.raises(Killed):
            trained(method, recipe, Mortal(path, every, ABOUT, resume=True))
    same(trained(method, recipe, Checkpoint(path, 100, ABOUT, resume=True)), whole)


@pytest.mark.parametrize("died", range(1, 10))
def test_it_goes_on_from_any_epoch(died, tmp_path):
    recipe = recipe_of(METHODS["CLNR"]).but(schedule="cosine", warmup=0.3)
    whole = trained(METHODS["CLNR"], recipe)
    with pytest.raises(Killed):
        trained(METHODS["CLNR"], recipe, Mortal(tmp_path / "state", died, ABOUT, resume=False))
    same(trained(METHODS["CLNR"], recipe, Checkpoint(tmp_path / "state", 100, ABOUT, resume=True)), whole)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["CLNR", "BGRL", "GCN"])
def test_on_a_gpu_it_goes_on_as_well(name, tmp_path, cuda):
    method, engine = METHODS[name], gpu(torch.float32)
    recipe = recipe_of(method).but(epochs=30)
    with pytest.raises(Killed):
        trained(method, recipe, Mortal(tmp_path / "state", 12, ABOUT, resume=True), engine)
    resumed = trained(method, recipe, Checkpoint(tmp_path / "state", 100, ABOUT, resume=True), engine)
    torch.testing.assert_close(resumed.losses, trained(method, recipe, None, engine).losses, rtol=1e-4, atol=1e-4)


def test_without_a_file_it_starts_afresh(tmp_path):
    recipe = recipe_of(METHODS["CLNR"])
    same(
        trained(METHODS["CLNR"], recipe, Checkpoint(tmp_path / "state", 4, ABOUT, resume=True)),
        trained(METHODS["CLNR"], recipe),
    )


def test_what_is_kept_can_be_left_aside(tmp_path):
    recipe = recipe_of(METHODS["CLNR"])
    path = tmp_path / "state"
    Checkpoint(path, 1, {"graph": "another"}, resume=True).save(1, {"written": torch.ones(2, 3)})
    same(trained(METHODS["CLNR"], recipe, Checkpoint(path, 4, ABOUT, resume=False)), trained(METHODS["CLNR"], recipe))
    assert Checkpoint(path, 4, ABOUT, resume=True).load()[0] == 8


def test_a_state_of_another_training_is_refused_by_what_differs(tmp_path):
    path = tmp_path / "state"
    Checkpoint(path, 1, ABOUT, resume=True).save(1, {"written": torch.ones(2, 3)})
    other = {**ABOUT, "graph": "another"}
    with pytest.raises(DataError, match=r"graph was tiny and is another.*without --resume"):
        Checkpoint(path, 1, other, resume=True).load()


def test_a_damaged_state_is_refused(tmp_path):
    path = tmp_path / "state"
    Checkpoint(path, 1, ABOUT, resume=True).save(1, {"written": torch.ones(2, 3)})
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for cut in (0, 1, 8, 60, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="no checkpoint"):
            Checkpoint(path, 1, ABOUT, resume=True).load()
    for _ in range(50):
        damaged = bytearray(whole)
        damaged[random.integers(0, 60)] = random.integers(0, 256)
        path.write_bytes(damaged)
        try:
            done, _ = Checkpoint(path, 1, ABOUT, resume=True).load()
        except DataError:
            continue
        assert done == 1


def test_a_newer_form_is_refused(tmp_path):
    import safetensors.torch

    told = {"form": 99, "done": 1, "about": ABOUT}
    (tmp_path / "state").write_bytes(safetensors.torch.save({"written": torch.ones(2, 3)}, {"clnr": json.dumps(told)}))
    with pytest.raises(DataError, match="form 99"):
        Checkpoint(tmp_path / "state", 1, ABOUT, resume=True).load()


def test_a_loss_that_is_not_finite_is_not_kept(tmp_path):
    path = tmp_path / "state"
    keeper = Checkpoint(path, 1, ABOUT, resume=False)
    keeper.save(1, {"written": torch.ones(2, 3)})
    keeper.save(2, {"written": torch.tensor([[1.0, torch.nan, 1.0]] * 2)})
    assert Checkpoint(path, 1, ABOUT, resume=True).load()[0] == 1
