"""A contract that every method keeps: it builds, its loss falls, it embeds, it repeats bit for bit, on odd graphs too."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from clnr.engine import cpu
from clnr.errors import UnknownName
from clnr.graph import Graph
from clnr.methods import CLNR, METHODS, RAW, UNTRAINED, find
from clnr.postprocess import Postprocess, Standardize
from clnr.recipe import KEYS, Recipe
from clnr.train import fit
from tests.conftest import tiny

SMALL = Recipe(hidden=16, dimension=8, epochs=30, learning_rate=1e-2, sampled_nodes=25)
ENGINE = cpu()
ODD = {
    "an isolated node": tiny(),
    "no edges": Graph.from_edges([], [], np.random.default_rng(0).random((30, 4)), labels=np.arange(30) % 2),
    "one feature": tiny(features=1),
    "two nodes": Graph.from_edges([0], [1], np.eye(2), undirected=True, labels=[0, 1]),
    "features all zero": Graph.from_edges([0], [1], np.zeros((20, 3)), undirected=True, labels=np.arange(20) % 2),
    "weighted and directed": tiny(weighted=True, undirected=False),
    "sparse features": tiny(sparse=True),
}


def trained(method, graph, recipe=SMALL, seed=0):
    model, placed = method.build(recipe), ENGINE.place(graph)
    fitted = fit(model, ENGINE, placed, recipe, seed)
    return fitted, model.embed(fitted.parameters, ENGINE, placed)


@pytest.mark.parametrize("encoder", ["gcn", "mlp"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
class TestEveryMethod:
    def test_its_loss_falls(self, method, encoder):
        fitted, _ = trained(method, tiny(200, 800, 30), dataclasses.replace(SMALL, encoder=encoder, sampled_nodes=0))
        if method.objective is None:
            assert not len(fitted.losses)
        else:
            assert fitted.losses[-5:].mean() < fitted.losses[:5].mean() - 0.05

    def test_it_repeats_bit_for_bit_whatever_ran_between(self, method, encoder):
        recipe = dataclasses.replace(SMALL, encoder=encoder)
        first, z = trained(method, tiny(), recipe)
        trained(method, tiny(seed=3), recipe, seed=9)
        torch.manual_seed(123)
        second, again = trained(method, tiny(), recipe)
        assert torch.equal(z, again)
        assert torch.equal(first.losses, second.losses)

    def test_another_seed_is_another_run(self, method, encoder):
        recipe = dataclasses.replace(SMALL, encoder=encoder)
        differ = not torch.equal(trained(method, tiny(), recipe, seed=0)[1], trained(method, tiny(), recipe, seed=1)[1])
        assert differ is (method is not RAW)

    @pytest.mark.parametrize("name", ODD)
    def test_it_survives_odd_graphs(self, method, encoder, name):
        graph = ODD[name]
        fitted, z = trained(method, graph, dataclasses.replace(SMALL, encoder=encoder, epochs=5))
        assert z.shape == (graph.num_nodes, graph.num_features if method is RAW else 8)
        assert z.isfinite().all()
        assert fitted.losses.isfinite().all()


def test_no_training_touches_torchs_own_generator():
    before = torch.random.get_rng_state()
    trained(CLNR, tiny())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_untrained_is_clnr_before_its_first_epoch():
    _, untrained = trained(UNTRAINED, tiny())
    _, start = trained(CLNR, tiny(), dataclasses.replace(SMALL, epochs=0))
    assert torch.equal(untrained, start)


def test_but_changes_what_it_names_and_remembers_its_parent():
    plain = CLNR.but("plain", "no postprocess", postprocess=())
    assert plain.postprocess == ()
    assert CLNR.postprocess == (Standardize,)
    assert plain.encoder is CLNR.encoder
    assert plain.but("plainer", "").lineage == ("plainer", "plain", "CLNR")
    assert plain.parts() != CLNR.parts()
    assert CLNR.but("twin", "the same by another name").parts() == CLNR.parts()


def test_every_part_asks_for_numbers_that_a_recipe_has():
    for method in METHODS.values():
        parts = [method.encoder, method.objective, *method.postprocess, *(part for view in method.views for part in view)]
        for part in filter(None, parts):
            assert {field.name for field in dataclasses.fields(part)} <= set(KEYS)


@dataclasses.dataclass(frozen=True)
class Scale(Postprocess):
    """A part with a number that no recipe has."""

    factor: float = 3.0

    def init(self, width, key):
        return {"weight": torch.ones(width)}

    def __call__(self, parameters, z):
        return z * parameters["weight"] * self.factor


def test_a_part_may_bring_a_number_of_its_own():
    method = CLNR.but("Scaled", "", postprocess=(Scale,))
    assert method.build(SMALL).postprocess == (Scale(3.0),)
    fitted, _ = trained(method, tiny())
    assert fitted.parameters["postprocess.0.weight"].shape == (8,)
    assert not torch.equal(fitted.parameters["postprocess.0.weight"], torch.ones(8))


def test_what_is_embedded_is_neither_postprocessed_nor_normalised():
    graph = tiny()
    fitted, z = trained(CLNR, graph)
    encoder = {name.removeprefix("encoder."): value for name, value in fitted.parameters.items()}
    hidden = torch.tensor(graph.features) @ encoder["0.weight"]
    adjacency = torch.tensor(graph.to_scipy().toarray()).T + torch.eye(40)
    scale = adjacency.sum(1).rsqrt()
    a = scale[:, None] * adjacency * scale
    expected = a @ ((a @ hidden + encoder["0.bias"]).relu() @ encoder["1.weight"]) + encoder["1.bias"]
    torch.testing.assert_close(z, expected, rtol=1e-4, atol=1e-5)


def test_names_in_any_case():
    assert find("clnr") is CLNR
    assert find("CLNR") is CLNR
    with pytest.raises(UnknownName, match="unknown method 'CLRN'; did you mean 'CLNR'"):
        find("CLRN")
