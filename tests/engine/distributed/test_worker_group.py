"""Two and three workers give what one gives: the operations, and whole trainings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch

from clnr.embedding.planning.memory_plan import size_of
from clnr.engine.distributed.worker_group import join
from clnr.errors import RecipeError
from clnr.experiments import cost
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import CCA
from clnr.support.processes.workers import ALONE
from clnr.training.step_work import Size, sharing_pays
from tests import oracles
from tests.session_folders import made_once, run_module
from tests.worker_checks import METHOD_NAMES, OF_THREE, RECIPE, SAMPLED, SIZES, graph, numbers, recipe_of, weighted

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
    return [place for place in groups(found) if name in found[place]["trained"]]


@pytest.mark.full
def test_every_worker_was_there(found):
    assert sorted(found) == [(1, 0), *groups(found)]
    assert {tuple(found[2, rank]["trained"]) for rank in range(2)} == {METHOD_NAMES}
    assert {tuple(found[3, rank]["trained"]) for rank in range(3)} == {OF_THREE}


@pytest.mark.full
def test_shares_are_in_order_and_as_equal_as_can_be(found):
    for size in SIZES:
        shares = [found[size, rank]["operations"]["share"].tolist() for rank in range(size)]
        assert [node for share in shares for node in share] == list(range(100, 110))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.full
@pytest.mark.parametrize(("what", "atol"), [("operations", 1e-8), ("batch_norm", 2e-6), ("shared_rows", 1e-5)])
def test_what_workers_compute_together_is_what_one_computes(found, what, atol):
    """Values and gradients; in batch norm a node of which several workers have the row counts once."""
    one = found[1, 0][what]
    for place in groups(found):
        for name in one.keys() - {"share", "sent"}:
            torch.testing.assert_close(
                found[place][what][name], one[name], rtol=1e-5, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
            )
    assert all(found[place]["shared_rows"]["sent"] > 0 for place in groups(found))


@pytest.mark.full
def test_moments_are_those_of_all_rows_however_far_from_zero(found):
    rows = (numbers(10, 4) * torch.tensor([1, 1e-3, 100, 0]) + torch.tensor([0, 1e3, 1e4, 5])).double().numpy()
    for place in found:
        np.testing.assert_allclose(found[place]["operations"]["mean"], rows.mean(0), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(found[place]["operations"]["variance"], rows.var(0), rtol=1e-5, atol=1e-12)


@pytest.mark.full
def test_nt_xent_is_that_of_the_formula(found):
    rows = (numbers(10, 4) * torch.tensor([1, 1e-3, 100, 0]) + torch.tensor([0, 1e3, 1e4, 5])).double().numpy()
    expected = oracles.nt_xent(rows[:, :2], rows[:, 1:3] / 1000, 0.2)
    for place in found:
        assert float(found[place]["operations"]["nt-xent loss"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_workers_take_the_step_that_one_takes(found, name):
    one = found[1, 0]["trained"][name]
    for place in places(found, name):
        got = found[place]["trained"][name]
        assert got["gradient"].dtype == torch.float64
        assert got["gradient"].abs().max() > 1e-4
        # Features that are propagated before anything is learned are so in float32.
        torch.testing.assert_close(got["first loss"], one["first loss"], rtol=1e-7, atol=0)
        torch.testing.assert_close(got["gradient"], one["gradient"], rtol=0, atol=1e-6 * float(one["gradient"].abs().max()))


@pytest.mark.full
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_after_20_epochs_workers_have_what_one_has(found, name):
    """But for rounding of float32, which each of 20 epochs enlarges, and more on one processor than on another."""
    one = found[1, 0]["trained"][name]
    for place in places(found, name):
        got = found[place]["trained"][name]
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
    assert lengths.pop() < 20


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
def test_bytes_sent_are_rows_and_gradients(found):
    model, width = METHODS["nCLNR"].build(RECIPE), RECIPE.dimension
    parameters = sum(value.numel() for value in model.init(model.input_width(graph().num_features), 0).values())
    for size in SIZES:
        share = -(-SAMPLED // size)
        # Both views' rows, and a logarithm for each; the loss and the gradients.
        gathered = (size - 1) * 4 * share * 2 * (width + 1)
        summed = 2 * (size - 1) * 4 * (1 + parameters) / size
        assert float(found[size, 0]["trained"]["nCLNR"]["sent"]) == pytest.approx(gathered + summed, rel=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_the_plan_says_how_much_they_send(found, name):
    size = size_of(graph())
    for workers in {size for size, _ in places(found, name)}:
        measured = float(found[workers, 0]["trained"][name]["sent"])
        assert cost.sent(METHODS[name], recipe_of(name), size, workers) == pytest.approx(measured, rel=0.1)


@pytest.mark.full
def test_rows_that_workers_share_are_those_of_the_definition(found):
    adjacency, x = oracles.propagation(weighted()), oracles.dense(weighted().features)
    weight, bias, h = (numbers(*shape, seed=seed).numpy() for seed, shape in enumerate([(7, 30), (30,), (50, 7)]))
    for place in groups(found):
        for name, expected in {
            "propagate 30 False 0": adjacency @ h.clip(0),
            "first 30 False 0": adjacency @ x @ weight + bias,
            "further 30 True 0": adjacency @ h.clip(0) @ weight + bias,
        }.items():
            np.testing.assert_allclose(found[place]["shared_rows"][name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.full
def test_a_graph_in_memory_is_embedded_by_all_as_by_one(found):
    one = found[1, 0]["fitted"]
    for size in SIZES:
        got = found[size, 0]["fitted"]
        torch.testing.assert_close(got["z"], one["z"], rtol=0, atol=1e-5 * float(one["z"].abs().max()))
        assert got["parameters"].keys() == one["parameters"].keys()
        assert got["scores"] == pytest.approx(one["scores"], abs=1e-4)
        assert not any(found[size, rank]["fitted"] for rank in range(1, size))


def test_small_graphs_are_embedded_by_one():
    recipe = Recipe(hidden=256, dimension=256)
    assert not sharing_pays(1, recipe, Size(10**6, 10**7, 100, 0))
    assert not sharing_pays(4, recipe, Size(500, 2000, 100, 0))
    assert sharing_pays(2, recipe, Size(10**5, 10**6, 100, 0))
    # Of few columns, messages take longer than products.
    assert not sharing_pays(2, Recipe(hidden=8, dimension=8), Size(10**5, 10**5, 100, 0))


@pytest.mark.full
def test_workers_with_different_graphs_all_say_so(found):
    for place in groups(found):
        assert found[place]["agreement"].startswith("DataError: workers 0 and 1 do not have the same tables; start all")
    assert found[1, 0]["agreement"] == "agreed"


def test_without_an_environment_one_is_alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert join("cpu", 1) is ALONE
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert join("cpu", 1) is ALONE


_SAMPLED_ONLY = (
    "several workers share sampled steps only, and this recipe has full ones, as small graphs do: --set moments=sampled"
)


@pytest.mark.parametrize(
    ("name", "moments", "message"),
    [
        ("dCLNR", "all", "dCLNR: Whiten needs the rows of all nodes in each step, so one worker must train it"),
        ("CLNR", "all", f"{_SAMPLED_ONLY}, or train CLNR with one"),
        ("SVD", "all", "SVD trains nothing that several workers could share"),
        ("BGRL", "all", f"{_SAMPLED_ONLY}, or train BGRL with one"),
        ("GAE", "all", "GAE: Reconstruct needs the rows of all nodes in each step, so one worker must train it"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_the_reason(name, moments, message):
    with pytest.raises(RecipeError) as caught:
        METHODS[name].check_shared(Recipe(moments=moments))
    assert str(caught.value) == message


def test_an_objective_of_ones_own_is_shared_only_if_it_says_so():
    @dataclass(frozen=True)
    class Own(CCA):
        shares: ClassVar[bool] = False

    with pytest.raises(RecipeError, match="own: Own does not share its steps between workers, so one worker must train it"):
        METHODS["CLNR"].but("own", "", objective=Own).check_shared(Recipe(moments="sampled"))
