"""Two and three workers give what one gives: steps, and whole trainings."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest
import torch

from clnr.engine.distributed import worker_group
from clnr.engine.distributed.worker_group import WorkerGroup, _meet, join
from clnr.errors import LostWorker, RecipeError
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import CCA
from clnr.support.processes.launch import Place
from clnr.support.processes.workers import ALONE
from tests.session_folders import made_once, run_module
from tests.worker_checks import EPOCHS, METHOD_NAMES, OF_THREE, SIZES

if not hasattr(os, "fork"):
    pytest.skip("needs fork", allow_module_level=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What every worker of every group found: by size and rank."""
    folder = made_once(tmp_path_factory, "worker-group", partial(run_module, "tests.worker_checks"))
    return {tuple(map(int, path.stem.split("-"))): torch.load(path) for path in folder.glob("*.pt")}


def groups(found):
    return [(size, rank) for size in SIZES for rank in range(size)]


def places(found, name):
    """Where a method was trained by several workers."""
    trained = [place for place in groups(found) if name in found[place]["trained"]]
    assert len(trained) == (5 if name in OF_THREE else 2)
    return trained


@pytest.mark.full
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_workers_take_the_step_that_one_takes_and_have_what_one_has_after_some_epochs(found, name):
    """But for rounding of float32, which each epoch enlarges, and more on one processor than on another."""
    one = found[1, 0]["trained"][name]
    for place in places(found, name):
        got = found[place]["trained"][name]
        assert got["gradient"].dtype == torch.float64
        assert got["gradient"].abs().max() > 1e-4
        # Features that are propagated before anything is learned are so in float32.
        torch.testing.assert_close(got["first loss"], one["first loss"], rtol=1e-7, atol=0)
        torch.testing.assert_close(got["gradient"], one["gradient"], rtol=0, atol=1e-6 * float(one["gradient"].abs().max()))
        torch.testing.assert_close(got["losses"], one["losses"], rtol=0, atol=2e-3)
        torch.testing.assert_close(got["z"], one["z"], rtol=0, atol=1e-2 * max(1.0, float(one["z"].abs().max())))


@pytest.mark.full
def test_workers_of_a_group_agree_bit_for_bit(found):
    for size, rank in groups(found):
        for name in found[size, rank]["trained"]:
            for what in ("losses", "z"):
                assert torch.equal(found[size, rank]["trained"][name][what], found[size, 0]["trained"][name][what])


@pytest.mark.full
def test_early_stopping_stops_all_alike(found):
    lengths = {len(found[place]["trained"]["CLNR-hops"]["losses"]) for place in found}
    assert len(lengths) == 1
    assert lengths.pop() < EPOCHS


def test_every_method_that_samples_is_tried():
    recipe = Recipe(moments="sampled")

    def shared(method):
        try:
            method.check_shared(recipe)
        except RecipeError:
            return False
        return True

    assert {name for name, method in METHODS.items() if shared(method)} == set(METHOD_NAMES)


@pytest.mark.full
def test_a_graph_in_memory_is_embedded_by_the_first_as_by_one(found):
    one = found[1, 0]["fitted"]
    for size in SIZES:
        got = found[size, 0]["fitted"]
        torch.testing.assert_close(got["z"], one["z"], rtol=0, atol=1e-5 * float(one["z"].abs().max()))
        assert got["parameters"].keys() == one["parameters"].keys()
        assert got["scores"] == pytest.approx(one["scores"], abs=1e-4)
        assert not any(found[size, rank]["fitted"] for rank in range(1, size))


@pytest.mark.full
def test_workers_with_different_graphs_all_say_so(found):
    for place in groups(found):
        assert found[place]["agreement"] == "DataError: workers 0 and 1 do not have the same tables"
    assert found[1, 0]["agreement"] == "agreed"


def test_without_an_environment_one_is_alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert join("cpu") is ALONE
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    assert join("cpu") is ALONE


@dataclass(frozen=True)
class Own(CCA):
    """An objective of one's own, which does not say that it can be shared."""

    shares: ClassVar[bool] = False


@pytest.mark.parametrize(
    ("method", "moments", "named"),
    [
        (METHODS["dCLNR"], "all", "dCLNR: Whiten"),
        (METHODS["GAE"], "all", "GAE: Reconstruct"),
        (METHODS["SVD"], "all", "SVD trains nothing"),
        (METHODS["CLNR"], "all", "moments must be 'sampled'"),
        (METHODS["CLNR"].but("own", "", objective=Own), "sampled", "own: Own"),
    ],
)
def test_what_cannot_be_shared_is_refused_by_what_is_in_the_way(method, moments, named):
    with pytest.raises(RecipeError, match=named):
        method.check_shared(Recipe(moments=moments))


def test_workers_of_a_restart_do_not_take_what_lost_ones_left_in_the_store():
    """Others may start before the first, and find the last start's names; a wait that nobody ends is a lost worker."""
    store, starts = torch.distributed.HashStore(), []
    places = [Place(rank, 3, rank, 3) for rank in (2, 1, 0)]
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            waiting = []
            for place in places:
                waiting.append(pool.submit(_meet, store, place, 60.0))
                time.sleep(0.01)
            (start,) = {each.result() for each in waiting}
        starts.append(start)
    assert len({*starts}) == 3
    with pytest.raises(LostWorker, match="worker 1 of 3 did not find the others"):
        _meet(store, places[1], 0.01)


def test_a_worker_that_takes_long_is_waited_for_and_one_that_fails_or_is_silent_is_not(monkeypatch):
    monkeypatch.setattr(worker_group, "_SILENT_SECONDS", 0.5)
    monkeypatch.setattr(worker_group, "_BEAT_SECONDS", 0.1)
    store = torch.distributed.HashStore()
    first, second = (WorkerGroup(rank, 2, 2, store, is_own=False) for rank in range(2))
    with ThreadPoolExecutor(2) as pool:
        pool.submit(first.beat)
        waiting = pool.submit(second.all_reduce_min, 7)
        time.sleep(1)
        assert not waiting.done()
        assert (first.all_reduce_min(3), waiting.result()) == (3, 3)
        first.close()
    with pytest.raises(LostWorker, match="worker 0, which is silent"):
        second.barrier()
    assert (first.claim(), second.claim(), first.claim()) == (True, False, True)
    with pytest.raises(LostWorker, match="another worker reported an error"):
        second.leave()
