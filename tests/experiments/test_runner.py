from __future__ import annotations

import copy
import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from clnr import methods
from clnr.engine import cpu_engine
from clnr.errors import TrainingError
from clnr.experiments import runner as module
from clnr.experiments.run_cache import RunCache, run_key
from clnr.experiments.runner import find_or_make
from clnr.methods import CLNR
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe, recipe_keys
from clnr.support.machine import code_digest, environment
from clnr.support.progress import Bar
from tests.conftest import tiny

QUICK = Recipe(hidden=16, dimension=8, epochs=3, probe_steps=20)
GRAPH = tiny(60, 150)


def summary(seeds=2, rerun=False, bar=None):
    return find_or_make(CLNR, GRAPH, QUICK, seeds, cpu_engine(), RunCache(), rerun, bar or Bar(None, quiet=True))


def test_what_the_record_has_is_not_run_again_unless_told(monkeypatch):
    first = summary(2)
    ran, runs = [], module.runs
    monkeypatch.setattr(module, "runs", lambda *arguments, **more: ran.extend(arguments[2]) or runs(*arguments, **more))
    notes = []
    more = summary(3, bar=Bar(None, quiet=False, print_line=notes.append))
    assert ran == [2]
    assert more.runs[:2] == first.runs
    assert notes[0] == f"CLNR: 2 of 3 from the run cache ({RunCache().path}); --rerun makes them again"
    summary(2, rerun=True)
    assert ran == [2, 0, 1]


def test_seeds_go_side_by_side_as_far_as_the_engine_has_them(monkeypatch):
    groups, runs = [], module.runs
    monkeypatch.setattr(module, "runs", lambda *arguments, **more: groups.append(arguments[2]) or runs(*arguments, **more))
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 2)
    beside = summary(5)
    assert groups == [[0, 1], [2, 3], [4]]
    assert [run.parallel_seeds for run in beside.runs] == [2, 2, 2, 2, 1]
    monkeypatch.undo()
    alone = summary(5, rerun=True)
    assert [run.strict for run in alone.runs] == [run.strict for run in beside.runs]


def test_of_seeds_side_by_side_those_that_succeed_are_kept(monkeypatch):
    whole = Model.loss

    def loss(self, parameters, step):
        return whole(self, parameters, step) * (float("nan") if step.seed == 1 else 1)

    monkeypatch.setattr(Model, "loss", loss)
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 3)
    with pytest.raises(TrainingError, match="nan at epoch 1"):
        summary(3)
    assert [run.seed for _, run in RunCache().runs()] == [0, 2]


# -- what makes two runs the same run --------------------------------------------------------------------------------------


def key_of(graph=None, method=methods.CLNR, recipe=None, seed=0, engine=None) -> str:
    return run_key(tiny() if graph is None else graph, method, recipe or Recipe(), seed, engine or cpu_engine())


def engine_with(**changes):
    engine = copy.copy(cpu_engine())
    for name, value in changes.items():
        object.__setattr__(engine, name, value)
    return engine


@pytest.mark.parametrize(
    "changed",
    [
        {"graph": tiny(weighted=True)},
        {"graph": dataclasses.replace(tiny(), ids=np.arange(40) + 7)},
        {"method": methods.UNTRAINED},
        {"method": methods.CLNR.but("CLNR", "as CLNR, but plain", postprocess=())},
        {"seed": 2**32},
        {"engine": engine_with(name="other")},
        {"engine": engine_with(dtype=torch.bfloat16)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_the_key_changes_with(changed):
    assert key_of(**changed) != key_of()


def test_the_key_changes_with_each_value_of_the_recipe():
    keys = [key_of()]
    for name, value in Recipe().to_dict().items():
        choices = recipe_keys()[name].choices
        other = choices[1] if choices else value + 1 if isinstance(value, int) else (value or 0) / 2 + 1e-4
        keys.append(key_of(recipe=Recipe.of({name: other})))
    assert len(set(keys)) == len(keys)


def on_a_gpu(monkeypatch, name: str) -> str:
    """The key of a run on a GPU of some name, which need not be here."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    return key_of(engine=engine_with(device=torch.device("cuda")))


def test_the_key_changes_with_torch_and_what_computes(monkeypatch):
    keys = [key_of()]
    for holder, name, value in [
        (code_digest, "code_version", lambda: "another"),
        (environment, "_processor", lambda: "another processor"),
        (torch, "__version__", "99.0"),
        (torch.cuda, "get_device_name", lambda device: "a GPU"),
    ]:
        monkeypatch.setattr(holder, name, value)
        keys.append(key_of())
    assert keys[-1] == keys[-2], "a GPU that does not compute does not count"
    keys[-1] = on_a_gpu(monkeypatch, "a GPU")
    keys.append(on_a_gpu(monkeypatch, "another GPU"))
    keys.append(on_a_gpu(monkeypatch, "another processor"))
    monkeypatch.setattr(torch.version, "cuda", "99.9")
    keys.append(on_a_gpu(monkeypatch, "another processor"))
    assert len(set(keys)) == len(keys)


def test_the_key_changes_with_the_number_of_threads_as_results_do(monkeypatch):
    monkeypatch.setattr("clnr.engine.cpu.threads.usable_processors", lambda: 8)
    keys = []
    for most, asked in ((1, None), (2, None), (8, None), (8, 2)):
        torch.set_num_threads(most)
        keys.append(key_of(engine=engine_with(threads=asked)))
    torch.set_num_threads(99)
    assert key_of() == keys[2], "there are no more processors"
    on_gpu = on_a_gpu(monkeypatch, "a GPU")
    torch.set_num_threads(1)
    assert on_a_gpu(monkeypatch, "a GPU") == on_gpu
    assert len(set(keys)) == len(keys)
    assert key_of(engine=engine_with(threads=2)) == keys[3]


def test_the_key_does_not_change_with_names_or_the_form_of_a_number():
    renamed = methods.CLNR.but("another", "the same by another name")
    assert key_of(tiny().named("another"), renamed, Recipe(weight_decay=0)) == key_of()


@pytest.mark.full
def test_the_key_is_the_same_in_every_process():
    code = "from tests.experiments.test_runner import key_of; print(key_of())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "12345"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == key_of()
