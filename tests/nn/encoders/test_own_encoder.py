"""An encoder of the user's own against clnr's: the same loss and gradients, whatever a view drops, masks or shuffles."""

import copy
import itertools
from typing import ClassVar

import numpy as np
import pytest
import torch

from clnr import Graph, Recipe, rng
from clnr.engine import View, choose, cpu_engine
from clnr.engine.gpu.cuda_engine import KernelEngine
from clnr.engine.reference import Reference
from clnr.errors import MethodError
from clnr.experiments.learn import learn
from clnr.methods import CLNR, METHODS, SHUFFLE
from clnr.nn.encoders.gcn import GCN
from clnr.nn.encoders.own_encoder import OwnEncoder
from clnr.nn.objectives import Infomax, StepContext
from clnr.training.loop import fit
from tests.conftest import tiny

RECIPE = Recipe(layers=2, hidden=7, dimension=5, sampled_nodes=0, edge_drop=0.4, feature_mask=0.3, epochs=4)
FORMS = [{}, {"weighted": True}, {"undirected": False}, {"sparse": True}]
# For kernels, which take long to interpret.
FEW = {"nodes": 15, "edges": 30}
BASES = [CLNR.but("base", "", encoder=GCN), CLNR.but("shuffled", "", encoder=GCN, views=((), SHUFFLE), objective=Infomax)]


class HandWritten(torch.nn.Module):
    """Kipf and Welling's convolutions from torch's own operations, with a self-loop for each node that has none."""

    def __init__(self, *widths):
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.weights = torch.nn.ParameterList([torch.randn(pair) for pair in pairs])
        self.biases = torch.nn.ParameterList([torch.zeros(width) for _, width in pairs])

    def forward(self, x, edge_index, edge_weight):
        count = len(x)
        a = torch.zeros(count, count, device=x.device).index_put((edge_index[1], edge_index[0]), edge_weight, accumulate=True)
        a = a + torch.diag((a.diagonal() == 0).float())
        scale = a.sum(1).rsqrt()
        a = scale[:, None] * a * scale
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = a @ (x.relu() if layer else x) @ weight + bias
        return x


class Normed(torch.nn.Module):
    """Two linear maps, of a node and of the sum of its neighbours, with batch norm and dropout."""

    def __init__(self, inputs, width, dropout=0.0):
        super().__init__()
        self.own, self.other = torch.nn.Linear(inputs, width), torch.nn.Linear(inputs, width)
        self.norm, self.dropout = torch.nn.BatchNorm1d(width), torch.nn.Dropout(dropout)
        self.modes = []

    def forward(self, x, edge_index):
        self.modes.append(self.training)
        summed = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        return self.dropout(self.norm(self.own(x) + self.other(summed)))


def normed(dropout=0.0, width=6):
    torch.manual_seed(1)
    return Normed(12, width, dropout)


def trained(module, recipe=RECIPE, seed=0, method=CLNR):
    return learn(method.with_encoder(module), tiny(), seed, recipe, choose("cpu", "float32"))


def with_loops(weighted):
    graph = tiny(**FEW, weighted=weighted)
    source, target, weight = graph.edges()
    ends = np.concatenate([source, [3, 7]]), np.concatenate([target, [3, 7]])
    return Graph.from_edges(*ends, graph.features, weight=None if weight is None else np.append(weight, [2.0, 0.5]))


def loss_and_gradients(method, graph, engine, parameters):
    model = method.build(RECIPE)
    leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    loss = model.loss(leaves, StepContext(engine, engine.to_device(graph), 3, 2, 9))
    return loss.detach(), dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(Reference(torch.device("cpu")), id="reference"),
        pytest.param(cpu_engine(), id="cpu"),
        pytest.param(KernelEngine, id="fused", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("graph", [*(tiny(**FEW, **form) for form in FORMS), with_loops(False), with_loops(True)])
def test_a_hand_written_gcn_has_the_loss_and_the_gradients_of_clnrs(graph, engine, base):
    engine = engine(torch.device("cuda" if torch.cuda.is_available() else "cpu")) if isinstance(engine, type) else engine
    parameters = {name: value.to(engine.device) for name, value in base.build(RECIPE).init(graph.num_features, 0).items()}
    words = {"weight": "weights", "bias": "biases"}
    places = {f"encoder.{i}.{one}": f"encoder.{several}.{i}" for i in range(2) for one, several in words.items()}
    same = {places.get(name, name): value for name, value in parameters.items()}
    own = base.with_encoder(HandWritten(graph.num_features, 7, 5))
    assert own.build(RECIPE).init(graph.num_features, 0).keys() == same.keys()
    expected, expected_gradients = loss_and_gradients(base, graph, engine, parameters)
    loss, gradients = loss_and_gradients(own, graph, engine, same)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(gradients[places.get(name, name)], gradient, rtol=1e-3, atol=1e-5)


def test_it_is_given_no_loops_but_the_graphs_own():
    seen = []

    class Seen(torch.nn.Linear):
        def forward(self, x, edge_index):
            seen.extend(edge_index.T.tolist())
            return super().forward(x)

    engine, encoder = cpu_engine(), OwnEncoder.of(Seen(12, 3))
    view = CLNR.build(RECIPE).augment(engine.to_device(with_loops(False)), 5, "train", 1)[1]
    encoder(encoder.init(12, rng.key(0)), engine.operators(view))
    assert [i for i, j in seen if i == j] == [3, 7]


def test_batch_norm_learns_its_statistics_in_training_and_keeps_them_to_embed():
    module = normed()
    before = copy.deepcopy(module.state_dict())
    made = trained(module)
    assert module.training
    assert not module.modes
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    state = {name.removeprefix("encoder."): value for name, value in made.fitted.parameters.items()}
    assert state["norm.num_batches_tracked"] == 2 * RECIPE.epochs
    assert not torch.allclose(state["norm.running_mean"], before["norm.running_mean"], atol=1e-3)
    module.load_state_dict(state)
    source, target, _ = tiny().edges()
    with torch.no_grad():
        expected = module.eval()(torch.tensor(tiny().features), torch.tensor(np.stack([source, target])))
    torch.testing.assert_close(made.z, expected, rtol=1e-4, atol=1e-5)


def test_running_statistics_are_those_of_torchs_own_loop():
    """Two views of everything, of one step without learning."""
    recipe = RECIPE.but(edge_drop=0, feature_mask=0, epochs=1, learning_rate=1e-12)
    made, module = trained(normed(), recipe), normed()
    source, target, _ = tiny().edges()
    for _ in range(2):
        module(torch.tensor(tiny().features), torch.tensor(np.stack([source, target])))
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(made.fitted.parameters[f"encoder.norm.{name}"], getattr(module.norm, name))


def test_dropout_repeats_by_seed_and_leaves_torchs_generator_alone():
    torch.manual_seed(7)
    first = trained(normed(0.5)).z
    torch.manual_seed(8)
    after = torch.rand(3)
    torch.manual_seed(8)
    second = trained(normed(0.5)).z
    assert torch.equal(first, second)
    torch.manual_seed(8)
    module = normed(0.5)
    torch.manual_seed(8)
    trained(module, seed=0)
    assert torch.equal(torch.rand(3), after)
    assert not torch.equal(trained(normed(0.5), seed=1).z, first)
    # Each epoch and each view draw their own.
    draws = [rng.key(0, "encoder", "train", epoch) for epoch in (0, 1, torch.tensor(1))]
    first, second, counted = (int(rng.draw(each, 0)) for each in draws)
    assert first != second == counted


def test_what_is_frozen_stays():
    module = normed()
    module.other.requires_grad_(False)
    parameters = trained(module).fitted.parameters
    assert torch.equal(parameters["encoder.other.weight"], module.other.weight)
    assert not torch.equal(parameters["encoder.own.weight"], module.own.weight)


def test_a_training_goes_on_from_its_checkpoint():
    class Kept:
        states: ClassVar = {}

        def is_due(self):
            return True

        def load(self):
            return (2, self.states[2]) if self.states else None

        def save(self, done, state):
            self.states.setdefault(done, {name: value.clone() for name, value in state.items()})

    engine, model = choose("cpu", "float32"), CLNR.with_encoder(normed(0.3)).build(RECIPE)
    whole = fit(model, engine, engine.to_device(tiny()), RECIPE, 0, checkpoint=Kept()).parameters
    assert list(Kept.states) == [1, 2, 3, 4]
    resumed = fit(model, engine, engine.to_device(tiny()), RECIPE, 0, checkpoint=Kept()).parameters
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.objective is not None])
def test_every_method_with_one_encoder_takes_it_and_others_say_why_not(name):
    method, width = METHODS[name], 3 if METHODS[name].supervised else 6
    if name in ("BGRL", "MVGRL", "MVGRL-plain", "CLNR-mix"):
        with pytest.raises(MethodError, match=f"{name} has two encoders, and yours is one"):
            method.with_encoder(normed())
        return
    if name == "VGAE":
        with pytest.raises(MethodError, match="Variational needs an encoder made for it, not one of your own"):
            method.with_encoder(normed())
        return
    recipe = RECIPE.but(epochs=30, learning_rate=0.01, dimension=width)
    made = trained(normed(width=width), recipe, method=method)
    assert made.fitted.losses[-5:].mean() < made.fitted.losses[:5].mean()
    assert made.z.isfinite().all()


class Lost(torch.nn.Linear):
    def forward(self, x, edge_index):
        return super().forward(x).sum(0)


class Several(torch.nn.Linear):
    def forward(self, x, edge_index):
        return super().forward(x), x


class Cached(torch.nn.Linear):
    cached = True


REFUSED = [
    (lambda: torch.nn.Linear(12, 3), "Linear fails on nodes with 12 features: TypeError"),
    (lambda: Normed(11, 3), r"Normed fails on nodes with 12 features: RuntimeError: mat1 and mat2 shapes.*\(2x12 and 11x3\)"),
    (lambda: Lost(12, 3), r"Lost must give a tensor with one row per node; for 2 nodes it gave \(3,\)"),
    (lambda: Several(12, 3), "for 2 nodes it gave tuple"),
    (lambda: Cached(12, 3), "Cached would keep the edges of the first view"),
    (lambda: Normed(12, 3).double(), r"own.weight is torch.float64, and clnr trains in float32"),
    (lambda: torch.nn.ReLU(), "ReLU has no parameters to train"),
    (lambda: Normed, "encoder must be a torch.nn.Module, not "),
    (lambda: "mlp", "not 'mlp'"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_cannot_be_trained_is_refused_in_words(make, words):
    with pytest.raises(MethodError, match=words):
        trained(make())


def test_other_refusals():
    with pytest.raises(MethodError, match="SVD trains no encoder; take a method that does, such as CLNR"):
        METHODS["SVD"].with_encoder(normed())
    with pytest.raises(MethodError, match="the encoder gives 2 columns, and there are 3 classes"):
        trained(normed(width=2), method=METHODS["GCN"])
    diffused = CLNR.but("mine", "", encoder=normed(), views=METHODS["MVGRL"].views[:2])
    with pytest.raises(MethodError, match="Normed takes edges, and a view here has a matrix in place of them"):
        learn(diffused, tiny(), 0, RECIPE, choose("cpu"))
    with pytest.raises(MethodError, match="mine: Bootstrap needs an encoder made for it, not one of your own"):
        METHODS["BGRL"].but("mine", "", encoder=normed())


def test_a_method_may_have_it_in_its_row():
    method = CLNR.but("mine", "CLNR with a module", encoder=normed())
    same = CLNR.with_encoder(normed())
    assert torch.equal(learn(method, tiny(), 0, RECIPE, choose("cpu")).z, learn(same, tiny(), 0, RECIPE, choose("cpu")).z)
    assert method.parts()["encoder"].endswith("test_own_encoder.Normed")
    assert "hidden" not in method.keys
    assert "temperature" in method.keys


def test_a_graph_without_nodes_has_no_rows():
    encoder, engine = OwnEncoder.of(normed()), cpu_engine()
    empty = Graph.from_edges([], [], np.zeros((0, 12), np.float32))
    rows = encoder(encoder.init(12, rng.key(0)), engine.operators(View(engine.to_device(empty))))
    assert rows.shape == (0, 6)


@pytest.mark.gpu
def test_it_trains_on_a_gpu(cuda):
    recipe = RECIPE.but(edge_drop=0, feature_mask=0)
    on_cpu = trained(normed(), recipe)
    on_gpu = learn(CLNR.with_encoder(normed()), tiny(), 0, recipe, choose("cuda", "float32"))
    # Batch norm cancels biases before it, so that Adam moves them by rounding errors, a learning rate per step; the running
    # mean follows them slowly.
    torch.testing.assert_close(on_gpu.z.cpu(), on_cpu.z, rtol=1e-2, atol=1e-2)
    assert on_gpu.fitted.parameters["encoder.norm.num_batches_tracked"] == 2 * recipe.epochs
    twice = [learn(CLNR.with_encoder(normed(0.5)), tiny(), 0, RECIPE, choose("cuda")) for _ in range(2)]
    torch.testing.assert_close(twice[0].fitted.losses, twice[1].fitted.losses, rtol=1e-3, atol=1e-4)
