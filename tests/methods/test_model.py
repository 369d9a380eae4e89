"""Rows that fit inputs or a read-out: against NumPy, on unseen nodes, by every engine; sampled steps."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.embedding.fitted_model import FittedModel, Provenance
from clnr.engine import Drop, Mask, Reference, View, cpu_engine
from clnr.errors import RecipeError
from clnr.experiments.learn import learn
from clnr.graph import Graph
from clnr.methods import BASELINES, CLNR, METHODS
from clnr.methods.recipe import Recipe
from clnr.nn.encoders.gcn import GAT
from clnr.nn.inputs import STEPS, AddStructure, WeightFeatures
from clnr.nn.objectives import Reconstruct, StepContext
from clnr.nn.structure import walks
from tests import oracles
from tests.cases import in_tiers
from tests.conftest import tiny
from tests.engine.dense_views import DenseEngine
from tests.methods.test_registry import kinds

CPU = torch.device("cpu")
REFERENCE = Reference(CPU)
FREE = [method.name for method in BASELINES] + ["SVD-mix"]
TRAINED = ["CLNR-hops", "CLNR-MLP", "CLNR-mix"]
ROWS = pytest.mark.parametrize("name", in_tiers(FREE + TRAINED))
SMALL = Recipe(hidden=8, dimension=6, epochs=2, reduced=20, walk_columns=4, structure=0, walk_steps=2)
MLP = {"CLNR-MLP": {"encoder": "mlp"}}


def fitted(name, graph, engine=None, **changes):
    """A model fitted on a graph, and the graph's own vectors."""
    method, recipe = METHODS[name], SMALL.but(**MLP.get(name, {}) | changes)
    learned = learn(method, graph, 0, recipe, engine or cpu_engine())
    parameters = {key: value.cpu() for key, value in learned.fitted.parameters.items()}
    return FittedModel(
        method, 0, recipe, parameters, graph.num_features, Provenance(0.0, "cpu", "float32", None, None)
    ), learned.z.cpu().numpy()


def gram(rows):
    centred = rows - rows.mean(0)
    return centred @ centred.T


def side_by_side(*blocks):
    """Centred blocks, each of root mean square row length 1."""
    blocks = [block - block.mean(0) for block in blocks]
    return np.concatenate([block / np.sqrt((block**2).sum() / len(block)) for block in blocks], 1)


# -- unseen nodes -----------------------------------------------------------------------------------------------------------


def chain(count, features=7, extra=0):
    """A path with random features; and ``extra`` nodes, known only to its last and to each other."""
    x = np.random.default_rng(0).random((count + 5, features))[: count + extra]
    return Graph.from_edges(np.arange(count + extra - 1), np.arange(1, count + extra), x, undirected=True)


@ROWS
def test_unseen_nodes_are_embedded_and_known_ones_far_away_stay(name):
    known, more = chain(30), chain(30, extra=3)
    model, z = fitted(name, known, walk_steps=3)
    again = model.embed(known, cpu_engine())
    np.testing.assert_allclose(again, z, atol=1e-4)
    after = model.embed(more, cpu_engine())
    assert after.shape == (33, z.shape[1])
    assert np.isfinite(after).all()
    assert after[30:].any()
    # Walks have up to 16 steps, a GCN two and a read-out two more.
    near = 17 if "mix" in name else 5
    np.testing.assert_allclose(after[: 30 - near], z[: 30 - near], atol=2e-4)
    assert np.abs(after[29] - z[29]).max() > 1e-3 or name == "SVD"
    assert model.embed(Graph.from_edges([], [], np.zeros((0, 7))), cpu_engine()).shape == (0, z.shape[1])


@pytest.mark.parametrize("name", ["FastRP", "Cleora"])
def test_what_learns_nothing_embeds_nodes_that_it_has_never_seen(name):
    model, _ = fitted(name, chain(30))
    assert model.parameters == {}
    other = dataclasses.replace(chain(20), ids=np.array([f"x{i}" for i in range(20)]))
    _, alone = fitted(name, other)
    np.testing.assert_allclose(model.embed(other, cpu_engine()), alone, atol=1e-6)


@pytest.mark.parametrize("name", FREE)
def test_huge_and_tiny_numbers_have_finite_vectors(name):
    weighted = Graph.from_edges([0, 1], [1, 2], np.eye(3), weight=[1e30, 1e-30], undirected=True)
    for graph in (weighted, *(dataclasses.replace(tiny(), features=tiny().features * np.float32(f)) for f in (1e-25, 1e30))):
        _, z = fitted(name, graph)
        assert np.isfinite(z).all()
        assert z.any()


# -- engines ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{}, {"sparse": True}, {"weighted": True, "undirected": False}], ids=["plain", "sparse", "directed"]
)
@ROWS
def test_engines_agree_with_the_reference(name, how):
    """With what one of them has learned, and with what each has learned by itself."""
    graph = tiny(**how)
    model, _ = fitted(name, graph, REFERENCE)
    right = model.embed(graph, REFERENCE)
    np.testing.assert_allclose(model.embed(graph, cpu_engine()), right, rtol=1e-3, atol=1e-4)
    if METHODS[name].objective is None:
        _, z = fitted(name, graph, cpu_engine(), dimension=99)
        _, expected = fitted(name, graph, REFERENCE, dimension=99)
        np.testing.assert_allclose(gram(z), gram(expected), atol=2e-3)


# -- inputs -----------------------------------------------------------------------------------------------------------------


def test_inputs_follow_one_another():
    graph = REFERENCE.to_device(tiny())
    model = METHODS["CLNR-mix"].build(SMALL.but(structure=2))
    parameters, fitted = model.fit_inputs(graph, REFERENCE)
    weighted = WeightFeatures()(WeightFeatures().fit(graph, REFERENCE), graph, REFERENCE)
    expected = AddStructure(2)(AddStructure(2).fit(weighted, REFERENCE), weighted, REFERENCE)
    prepared = model.prepare(parameters, graph, REFERENCE)
    for each in (fitted, prepared):
        np.testing.assert_array_equal(oracles.dense(each.graph.features), oracles.dense(expected.graph.features))
    assert prepared.graph.num_features == model.input_width(12) == 12 + 3 * 2
    assert set(parameters) == {"input.0.weight", "input.0.centre", "input.0.bag", "input.1.length"}
    assert {name: value.shape for name, value in model.empty_inputs(12, 40).items()} == {
        name: value.shape for name, value in parameters.items()
    }


def test_methods_on_one_graph_share_its_edges_its_walks_and_what_the_same_inputs_make():
    graph, recipe = REFERENCE.to_device(tiny()), SMALL.but(structure=2)
    (_, one), (_, other), (_, raw) = (
        METHODS[name].build(recipe).fit_inputs(graph, REFERENCE) for name in ("CLNR-mix", "SVD-mix", "CLNR")
    )
    assert one is other
    assert one is not raw
    assert one.edges is raw.edges is graph.edges
    (four,) = walks(REFERENCE, graph, 3, (4,))
    assert four is walks(REFERENCE, one, 3, (4,))[0]
    assert walks(REFERENCE, one, 3, STEPS)[0] is four
    again = METHODS["SVD-mix"].build(recipe.but(structure=3)).fit_inputs(graph, REFERENCE)[1]
    assert again.graph.num_features == 12 + 9


def test_reduced_features_of_a_view_are_not_those_of_the_graph():
    graph, model = REFERENCE.to_device(tiny()), METHODS["SVD-propagated"].build(SMALL)
    fitted = model.finalize({}, REFERENCE, graph)
    whole = View(graph)
    views = [whole, whole.but(mask=Mask(rng.key(1), 0.5)), whole.but(drop=Drop(rng.key(2), 0.5)), whole]
    first, masked, dropped, last = (model.embed(fitted, REFERENCE, view) for view in views)
    assert torch.equal(first, last)
    assert not torch.allclose(first, masked)
    assert not torch.allclose(first, dropped)


def test_a_read_out_does_not_change_the_training():
    """CLNR-hops learns what CLNR learns, bit for bit."""
    hops, _ = fitted("CLNR-hops", tiny())
    plain, z = fitted("CLNR", tiny())
    assert all(torch.equal(hops.parameters[name], value) for name, value in plain.parameters.items())
    a = oracles.propagation(tiny())
    model = METHODS["CLNR-hops"].build(SMALL.but(dimension=99))
    final = model.finalize(plain.parameters, REFERENCE, REFERENCE.to_device(tiny()))
    found = model.embed(final, REFERENCE, View(REFERENCE.to_device(tiny()))).numpy()
    np.testing.assert_allclose(gram(found), 99 / 3 * gram(side_by_side(z, a @ z, a @ a @ z)), atol=0.05)


@pytest.mark.parametrize("most", [80, 30])
def test_statistics_are_of_all_nodes_or_of_a_uniform_sample(monkeypatch, most):
    monkeypatch.setattr("clnr.methods.model.MEASURED_NODES", most)
    graph, model = tiny(80, 200), CLNR.build(SMALL.but(encoder="mlp"))
    parameters = model.init(graph.num_features, 0)
    final = model.finalize(parameters, cpu_engine(), cpu_engine().to_device(graph))
    rows = graph.features @ parameters["encoder.0.weight"].numpy() + parameters["encoder.0.bias"].numpy()
    some = rows[rng.permute(rng.key(0, "measured"), torch.arange(most), 80).numpy()]
    np.testing.assert_allclose(final["encoder.0.mean"], some.mean(0), atol=1e-5)
    np.testing.assert_allclose(final["encoder.0.variance"], some.var(0), rtol=1e-4)


# -- sampled steps ----------------------------------------------------------------------------------------------------------

ENGINE = cpu_engine()
SAMPLING = {name: method for name, method in METHODS.items() if method.samples}
ROW_BY_ROW = ("nCLNR", "GRACE", "GRACE-all", "GCA")


def loss_and_gradients(method, engine, graph, dtype=torch.float32, **changes):
    model = method.build(Recipe(**{"hidden": 8, "dimension": 8, "sampled_nodes": 30} | changes))
    parameters = {key: value.to(dtype).requires_grad_() for key, value in model.init(graph.num_features, 1).items()}
    loss = model.loss(parameters, StepContext(engine, engine.to_device(graph), 1, 4, 10))
    return loss, torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("most", [0, 2])
@pytest.mark.parametrize("how", [{}, {"sparse": True, "undirected": False, "weighted": True}], ids=["plain", "directed"])
@pytest.mark.parametrize(("method", "encoder"), [each for each in kinds() if each.values[0].samples])
def test_a_sampled_step_is_that_of_dense_float64_matrices(method, encoder, how, most):
    """Of all rows, or with batch norm of those that boolean powers reach."""
    changes = {"encoder": encoder, "layers": 3, "moments": "sampled", "max_neighbors": most, "edge_drop": 0.2}
    graph = tiny(80, 200, **how)
    got = loss_and_gradients(method, ENGINE, graph, **changes)
    loss, gradients = loss_and_gradients(method, DenseEngine(), graph, torch.float64, **changes)
    # Standardised columns of few rows scale rounding up.
    expected = loss.float(), tuple(each.float() for each in gradients)
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=3e-4)


@pytest.mark.parametrize("name", SAMPLING)
def test_without_moments_a_sampled_step_is_exact(name):
    graph = tiny(80, 200)
    (whole, gradients), (part, others) = (
        loss_and_gradients(SAMPLING[name], ENGINE, graph, moments=moments) for moments in ("all", "sampled")
    )
    if name in ROW_BY_ROW:
        torch.testing.assert_close((whole, gradients), (part, others), rtol=1e-4, atol=1e-5)
    else:
        assert abs(whole.item() - part.item()) > 1e-4


def test_what_is_measured_after_training_has_the_moments_of_all_nodes():
    """However it was trained."""
    graph, recipe = tiny(80, 200), Recipe(hidden=8, dimension=8, sampled_nodes=9, moments="sampled")
    model, device_graph = CLNR.build(recipe), ENGINE.to_device(graph)
    parameters, nodes = model.init(graph.num_features, 0), torch.tensor([7, 0, 79, 33])
    views = model.augment(device_graph, 0, "train", 3)
    whole = model.project(parameters, ENGINE, views)
    for rows, all_rows in zip(model.project(parameters, ENGINE, views, nodes), whole, strict=True):
        torch.testing.assert_close(rows, all_rows[nodes], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nodes", [0, 80, 1000])
@pytest.mark.parametrize("name", in_tiers(SAMPLING))
def test_where_all_nodes_are_in_the_loss_nothing_is_sampled(name, nodes):
    sampled = {"sampled_nodes": nodes, "max_neighbors": 1}
    losses = [
        loss_and_gradients(SAMPLING[name], ENGINE, tiny(80, 200), moments=each, **sampled)[0] for each in ("all", "sampled")
    ]
    assert torch.equal(*losses)


def test_neighbours_are_drawn_afresh_each_epoch_and_for_each_view():
    model = CLNR.build(Recipe(max_neighbors=5))
    device_graph = ENGINE.to_device(tiny())
    views = [view for epoch in range(3) for view in model.augment(device_graph, 0, "train", epoch)]
    assert len({view.neighbors.key for view in views}) == 6
    assert {view.neighbors.most for view in views} == {5}
    assert all(view.neighbors is None for view in CLNR.build(Recipe()).augment(device_graph, 0, "train", 0))


def test_what_needs_all_rows_says_so():
    with pytest.raises(RecipeError, match=r"^dCLNR: Whiten needs the rows of all nodes, so moments must be 'all'$"):
        METHODS["dCLNR"].build(Recipe(moments="sampled"))
    attentive = CLNR.but("attentive", "CLNR by attention", encoder=GAT)
    with pytest.raises(RecipeError, match=r"^attentive: GAT needs the rows of all nodes"):
        attentive.build(Recipe(moments="sampled"))
    assert not {"moments", "sampled_nodes"} & {key for name in ("GAE", "VGAE", "GCN", "GAT") for key in METHODS[name].keys}
    assert METHODS["GAE"].whole_part is Reconstruct


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("CLNR", {"encoder.1.bias"}),
        ("CLNR-mix", {"encoder.gcn.0.bias", "encoder.mlp.1.bias"}),
        ("nCLNR", set()),
        ("rCLNR", set()),
        ("GCLNR", set()),
    ],
)
def test_in_sampled_steps_a_bias_that_standardisation_removes_does_not_learn(name, without):
    graph, recipe = tiny(80, 200), Recipe(hidden=8, dimension=8, sampled_nodes=9, moments="sampled")
    model = METHODS[name].build(recipe)
    step = StepContext(ENGINE, ENGINE.to_device(graph), 0, 0, 5)
    parameters = {key: value.requires_grad_() for key, value in model.init(12, 0).items()}

    def gradients(values):
        return torch.autograd.grad(model.loss(values, step), list(parameters.values()), allow_unused=True)

    found = dict(zip(parameters, gradients(parameters), strict=True))
    assert {key for key, gradient in found.items() if gradient is None} == without
    moved = {key: value + 0.1 if key in without else value for key, value in parameters.items()}
    torch.testing.assert_close(model.loss(moved, step), model.loss(parameters, step))
