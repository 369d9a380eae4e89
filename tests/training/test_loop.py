import gc
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from clnr.engine import View, cpu_engine, gpu_engine
from clnr.errors import TrainingError
from clnr.methods import CLNR, METHODS
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import NTXent, StepContext, Supervision
from clnr.training import train_state
from clnr.training.loop import MetricBuffer, fit, fit_all
from clnr.training.train_state import CudaGraphStep, EarlyStopping, ended, learning_rate
from tests.cases import in_tiers, pairs
from tests.conftest import tiny

SMALL = Recipe(hidden=16, dimension=8, epochs=25)
LABELS = torch.arange(40) % 3
LESSON = Supervision(torch.arange(10), LABELS[:10], torch.arange(10, 20), LABELS[10:20])


# Enough epochs that patience ends.
SAMPLED = {"sampled_nodes": 10, "moments": "sampled", "epochs": 200, "learning_rate": 0.05, "patience": 10}


def training(recipe=SMALL, method=CLNR, engine=None, progress=None, seed=0):
    engine = engine or cpu_engine()
    supervision = Supervision(*(part.to(engine.device) for part in LESSON)) if method.supervised else None
    return fit(method.build(recipe), engine, engine.to_device(tiny()), recipe, seed, progress, supervision)


def by_hand(recipe, method, seed=0):
    """The same training, written out with torch's own pieces and the model's loss: all losses, and parameters at the end."""
    engine = cpu_engine()
    model, device_graph = method.build(recipe), engine.to_device(tiny())
    parameters = {name: value.requires_grad_() for name, value in model.init(12, seed).items()}
    adam = {"l2": torch.optim.Adam, "decoupled": torch.optim.AdamW}[recipe.weight_decay_mode]
    optimiser = adam(parameters.values(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True)
    losses, best, kept, waited = [], math.inf, None, 0
    for epoch in range(recipe.epochs):
        optimiser.param_groups[0]["lr"] = learning_rate(recipe, epoch)
        loss = model.loss(
            parameters, StepContext(engine, device_graph, seed, epoch, recipe.epochs, LESSON if method.supervised else None)
        )
        watched = loss.item()
        if method.supervised:
            with torch.no_grad():
                z = model.embed(parameters, engine, View(device_graph))
            watched = torch.nn.functional.cross_entropy(z[10:20], LABELS[10:20]).item()
        losses.append(loss.item())
        if watched < best:
            best, waited = watched, 0
            kept = {name: value.detach().clone() for name, value in parameters.items()}
        else:
            waited += 1
        if recipe.patience and waited >= recipe.patience:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        model.update_ema(parameters, epoch, recipe.epochs)
    return losses, kept if recipe.patience else parameters


def assert_same(fitted, expected):
    losses, parameters = expected
    assert fitted.losses.tolist() == losses
    assert all(torch.equal(fitted.parameters[name], value) for name, value in parameters.items())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(("CLNR", {"weight_decay": 0.1, "weight_decay_mode": mode}) for mode in ("l2", "decoupled")),
        *((name, {"warmup": 0.3, "schedule": "cosine"}) for name in ("CLNR", "BGRL")),
        *((name, {"learning_rate": 0.05, "patience": 3}) for name in ("CLNR", "BGRL", "DGI", "GCN")),
        *((name, {}) for name in ("CLNR", "BGRL", "DGI", "GCN")),
        ("BGRL", {"weight_decay": 0.1}),
        *(
            pytest.param(name, SAMPLED | {"max_neighbors": most}, marks=pytest.mark.full)
            for name, most in (("CLNR", 0), ("CLNR-mix", 2), ("CCA-SSG", 2), ("BGRL", 0))
        ),
    ],
    ids=str,
)
def test_it_is_adam_on_the_models_loss(name, change):
    """Where steps are sampled, what stops them is the loss of the sampled nodes."""
    recipe = Recipe(**{"hidden": 16, "dimension": 8, "epochs": 20, **change})
    fitted = training(recipe, METHODS[name], seed=3)
    assert_same(fitted, by_hand(recipe, METHODS[name], 3))
    if recipe.moments == "sampled":
        assert len(fitted.losses) < 200
        assert fitted.losses.min() < fitted.losses[0] - 0.1 * fitted.losses[0].abs()


def test_the_warm_up_is_a_straight_line_from_zero_and_then_a_cosine_falls_towards_zero():
    recipe = Recipe(epochs=100, learning_rate=0.5, warmup=0.2, schedule="cosine")
    rates = [learning_rate(recipe, epoch) for epoch in range(100)]
    np.testing.assert_allclose(rates[:20], 0.5 * np.arange(20) / 20)
    np.testing.assert_allclose(rates[20:], 0.5 * np.cos(np.pi / 2 * np.arange(80) / 80) ** 2, atol=1e-12)
    assert rates[20] == max(rates) == 0.5
    deterministic = recipe.but(schedule="constant")
    assert {learning_rate(deterministic, epoch) for epoch in range(20, 100)} == {0.5}


def ended_by_hand(criteria, patience):
    lowest, waited = math.inf, 0
    for epoch, value in enumerate(criteria):
        if value < lowest:
            lowest, waited = value, 0
        else:
            waited += 1
        if patience and waited >= patience:
            return epoch + 1
    return None


def sequences():
    """Few values, so that there are many ties; some that are no number, or infinite, anywhere."""
    random = np.random.default_rng(0)
    values = [0.0, 1.0, 2.0, -1.0, math.nan, math.inf]
    for chances in ([0.3, 0.3, 0.2, 0.2, 0, 0], [0.2, 0.2, 0.2, 0.1, 0.3, 0], [0.2, 0.2, 0.1, 0.1, 0.2, 0.2]):
        for _ in range(100):
            yield random.choice(values, random.integers(0, 12), p=chances).tolist()


@pytest.mark.parametrize("patience", [0, 1, 2, 3, 5])
def test_the_end_is_as_a_plain_loop_finds_it(patience):
    wrong = [
        criteria
        for criteria in sequences()
        if ended(torch.tensor(criteria, dtype=torch.float32), patience) != ended_by_hand(criteria, patience)
    ]
    assert wrong == []


@pytest.mark.parametrize("patience", [1, 2, 3, 5])
def test_what_is_kept_is_of_the_lowest_before_the_end_however_late_the_end_is_heard_of(patience):
    for criteria in sequences():
        parameters = {"w": torch.tensor(-1.0)}
        best = EarlyStopping(parameters, patience)
        for epoch, value in enumerate(criteria):
            parameters["w"] = torch.tensor(float(epoch))
            best.update(torch.tensor(value), parameters)
        counted = criteria[: ended_by_hand(criteria, patience)]
        known = [value for value in counted if value < math.inf]
        expected = counted.index(min(known)) if known else -1
        assert best.parameters["w"] == expected, criteria


SCRIPT = [5.0, 3.0, 4.0, 3.0, 2.0, 2.5, 2.0, 7.0, 1.0, 0.5]


def at_epoch(step, values):
    """What a list says for this epoch, which may be a counter on the device."""
    device_graph = step.device_graph
    return device_graph.once(str(values), lambda: torch.tensor(values, device=device_graph.device))[step.epoch]


@dataclass(frozen=True)
class Scripted(NTXent):
    """NT-Xent, lifted so that its value in each epoch is as written above."""

    def __call__(self, parameters, views, step):
        loss = super().__call__(parameters, views, step)
        return loss - loss.detach() + at_epoch(step, SCRIPT)


# Without standardisation, whose biases have no gradient but rounding, which Adam would scale up.
SCRIPTED = METHODS["nCLNR"].but("Scripted", "", objective=Scripted)


def test_the_watch_sees_every_epoch_on_the_cpu():
    seen = []
    fitted = training(progress=lambda done, loss: seen.append((done, loss)))
    assert [done for done, _ in seen] == list(range(1, 26))
    assert [loss for _, loss in seen] == fitted.losses.tolist()


def test_the_first_epochs_do_not_count_in_the_median():
    buffer = MetricBuffer(30, 1, torch.device("cpu"))
    buffer._marks = [0.0, 9.0, 18.0, 27.0] + [27.0 + i for i in range(1, 28)]
    assert buffer.epoch_ms() == pytest.approx(1000)
    assert MetricBuffer(0, 1, torch.device("cpu")).epoch_ms() is None


@pytest.mark.parametrize("patience", [0, 5])
def test_no_epochs_leave_the_initial_weights(patience):
    fitted = training(SMALL.but(epochs=0, patience=patience))
    start = CLNR.build(SMALL).init(12, 0)
    assert all(torch.equal(value, start[name]) for name, value in fitted.parameters.items())
    assert fitted.epoch_ms is None


@dataclass(frozen=True)
class Breaks(NTXent):
    """NT-Xent until the seventh epoch, then not a number."""

    def __call__(self, parameters, views, step):
        return super().__call__(parameters, views, step) * at_epoch(step, [1.0] * 6 + [math.nan] * 294)


BREAKS = CLNR.but("Breaks", "", objective=Breaks)


@pytest.mark.parametrize("patience", [0, 20])
def test_a_loss_that_is_not_finite_stops_training_and_says_where(patience):
    with pytest.raises(TrainingError, match=r"became nan at epoch 7 of 25.*smaller learning_rate than 0.001"):
        training(SMALL.but(patience=patience), BREAKS)


@dataclass(frozen=True)
class BreaksAfterwards(Scripted):
    """Ends by patience first, and is not a number later."""

    def __call__(self, parameters, views, step):
        loss = super().__call__(parameters, views, step)
        return loss * at_epoch(step, [1.0] * 8 + [math.nan] * 2)


def test_what_happens_in_vain_breaks_nothing(monkeypatch):
    """News that comes with the last epoch, of a loss that is no number, but only after the end."""
    recipe, method = SMALL.but(epochs=10, patience=3), CLNR.but("BreaksAfterwards", "", objective=BreaksAfterwards)
    look = MetricBuffer.poll

    def late(self, done):
        known = look(self, done)
        return known if done == 10 else None

    at_once = training(recipe, method)
    monkeypatch.setattr(MetricBuffer, "poll", late)
    in_vain = training(recipe, method)
    assert in_vain.losses.tolist() == [5.0, 3.0, 4.0, 3.0, 2.0, 2.5, 2.0, 7.0]
    assert all(torch.equal(value, at_once.parameters[name]) for name, value in in_vain.parameters.items())


def parallel_seeds(method, seeds, recipe=SMALL, engine=None):
    engine = engine or cpu_engine()
    supervision = Supervision(*(part.to(engine.device) for part in LESSON)) if method.supervised else None
    device_graph = engine.to_device(tiny())
    return fit_all(
        method.build(recipe), recipe, [StepContext(engine, device_graph, seed, 0, recipe.epochs, supervision) for seed in seeds]
    )


@pytest.mark.parametrize(
    ("name", "patience", "sampled"),
    pairs(["CLNR", "BGRL", "GCN", "Untrained"], [0, 4], [{}, {"sampled_nodes": 10, "moments": "sampled"}]),
)
@pytest.mark.full
def test_side_by_side_each_is_what_it_would_be_alone(name, patience, sampled):
    method, recipe = METHODS[name], SMALL.but(patience=patience, learning_rate=0.05, **sampled)
    for seed, fitted in zip((3, 0, 8), parallel_seeds(method, (3, 0, 8), recipe), strict=True):
        alone = training(recipe, method, seed=seed)
        assert torch.equal(fitted.losses, alone.losses)
        assert all(torch.equal(value, alone.parameters[name]) for name, value in fitted.parameters.items())
        assert (fitted.parallel_seeds, alone.parallel_seeds) == (3, 1)


def test_what_fails_does_so_alone_and_all_together_end_early(monkeypatch):
    """A loss that is not finite ends one training, not those beside it."""
    whole, steps = Model.loss, []

    def loss(self, parameters, step):
        steps.append((step.seed, step.epoch))
        return whole(self, parameters, step) * (math.nan if step.seed % 2 and step.epoch == 3 else 1)

    monkeypatch.setattr(Model, "loss", loss)
    assert all(isinstance(each, TrainingError) for each in parallel_seeds(CLNR, (1, 3)))
    assert steps[-2:] == [(1, 3), (3, 3)]
    one, broken, other = parallel_seeds(CLNR, (0, 1, 2))
    assert isinstance(broken, TrainingError)
    assert "epoch 4 of 25" in str(broken)
    assert len(one.losses) == len(other.losses) == 25


CHANGES = [
    {},
    {"encoder": "mlp"},
    {"sampled_nodes": 10},
    {"feature_mask_mode": "elements", "edge_drop_mode": "pairs"},
    {"sampled_nodes": 10, "moments": "sampled"},
    {"sampled_nodes": 10, "moments": "sampled", "max_neighbors": 3},
    {"sampled_nodes": 10, "moments": "sampled", "encoder": "mlp"},
    {"patience": 5},
]
SAMPLING = [method for method in METHODS.values() if method.samples]


@pytest.mark.parametrize("where", ["loss", "criterion", "update_ema"])
@pytest.mark.parametrize("name", ["BGRL", "GCN"])
def test_a_step_that_was_broken_off_is_done_once(name, where, monkeypatch):
    """Wherever in a step something waits for the device: in the epoch that finds out, nothing is updated twice."""
    method, mode = METHODS[name], ["default"]
    recipe = SMALL.but(heads=2, patience=9, epochs=6)
    plain = training(recipe, method)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: mode[0])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda new: mode.__setitem__(0, new))
    whole, broken = getattr(Model, where), []

    def waits(self, *given):
        out = whole(self, *given)
        if mode[0] == "error":
            broken.append(where)
            raise RuntimeError("called a synchronizing CUDA operation")
        return out

    monkeypatch.setattr(Model, where, waits)
    tried = CudaGraphStep.__init__
    monkeypatch.setattr(CudaGraphStep, "__init__", lambda self, *given: tried(self, *given) or setattr(self, "_eager", 2))
    fitted = training(recipe, method)
    assert (broken, mode) == ([where], ["default"])
    assert torch.equal(fitted.losses, plain.losses)
    assert all(torch.equal(fitted.parameters[each], value) for each, value in plain.parameters.items())


WHOLE = [pytest.param(*each.values, {}, id=each.id, marks=each.marks) for each in in_tiers(METHODS.values())]
OF_SOME = [
    pytest.param(method, {"sampled_nodes": 25, "moments": "sampled", "max_neighbors": most}, id=f"{method.name} sampled {most}")
    for method in SAMPLING
    for most in (0, 3)
]


def on_gpu(recipe=SMALL, method=CLNR, **more):
    return training(recipe, method, gpu_engine(torch.float32), **more)


def assert_close(one, other, losses, parameters=None):
    """Within a relative and an absolute error of losses, and of parameters if given."""
    torch.testing.assert_close(one.losses, other.losses, rtol=losses[0], atol=losses[1])
    if parameters is not None:
        rtol, atol = parameters
        torch.testing.assert_close(one.parameters, other.parameters, rtol=rtol, atol=atol, check_device=False)


@pytest.mark.gpu
class TestOnTheGPU:
    def test_matmul_precision_is_put_back(self, cuda):
        before = torch.get_float32_matmul_precision()
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            try:
                training(SMALL.but(epochs=4, sampled_nodes=10), engine=gpu_engine())
                assert torch.get_float32_matmul_precision() == precision
            finally:
                torch.set_float32_matmul_precision(before)

    @pytest.mark.filterwarnings("ignore:Synchronization debug mode")
    @pytest.mark.parametrize("eager", [3, 1000], ids=["played back", "eager"])
    def test_the_loop_never_waits_for_the_device(self, cuda, monkeypatch, eager):
        """torch raises at any synchronisation that it can detect, from the fifth epoch to the closing of the ledger."""
        look, close, recipe = MetricBuffer.poll, MetricBuffer.close, SMALL.but(epochs=80)

        def strict_look(self, done):
            if done == 5:
                torch.cuda.set_sync_debug_mode("error")
            return look(self, done)

        def free_close(self):
            torch.cuda.set_sync_debug_mode("default")
            return close(self)

        monkeypatch.setattr(train_state, "_EAGER_EPOCHS", eager)
        monkeypatch.setattr(MetricBuffer, "poll", strict_look)
        monkeypatch.setattr(MetricBuffer, "close", free_close)
        sampled = [(recipe.but(sampled_nodes=10, moments="sampled"), method) for method in SAMPLING]
        patient = [(recipe.but(patience=each), METHODS[name]) for name in ("DGI", "BGRL", "GCN") for each in (0, 7, 100)]
        try:
            for given in [*((recipe.but(**change), CLNR) for change in CHANGES), *sampled, *patient]:
                training(*given, engine=gpu_engine())
        finally:
            torch.cuda.set_sync_debug_mode("default")

    @pytest.mark.parametrize("patience", [0, 30])
    @pytest.mark.parametrize(("method", "changes"), WHOLE + OF_SOME)
    def test_what_is_played_back_is_what_would_have_been_computed(self, cuda, monkeypatch, method, changes, patience):
        recipe = SMALL.but(heads=2, warmup=0.2, schedule="cosine", dropout=0.2, patience=patience, **changes)
        played = on_gpu(recipe, method)
        monkeypatch.setattr(train_state, "_EAGER_EPOCHS", 1000)
        assert_close(played, on_gpu(recipe, method), (1e-3, 1e-3), (1e-2, 1e-2))

    @pytest.mark.parametrize("change", CHANGES[:-1], ids=str)
    def test_a_step_can_be_captured_so_that_no_operation_of_it_waits(self, cuda, change):
        """Sparse products escape torch's detection, but nothing that waits for the device can be captured in a graph."""
        engine, recipe = gpu_engine(torch.float32), Recipe(hidden=16, dimension=8, **change)
        model, device_graph = CLNR.build(recipe), engine.to_device(tiny(sparse=True))
        parameters = {name: value.to(cuda).requires_grad_() for name, value in model.init(12, 0).items()}

        def step():
            loss = model.loss(parameters, StepContext(engine, device_graph, 0, 3, 10))
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
            return [loss, *(each for each in gradients if each is not None)]

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            expected = step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = step()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(captured, expected)

    @pytest.mark.parametrize(("method", "changes"), WHOLE + OF_SOME)
    def test_it_learns_what_the_cpu_learns(self, cuda, method, changes):
        """Sampled steps with one layer: of inner ones a GPU computes all rows, which then are the batch of a batch norm."""
        recipe = SMALL.but(heads=2, **(changes and changes | {"layers": 1, "epochs": 10}))
        assert_close(on_gpu(recipe, method), training(recipe, method), (1e-2 if changes else 1e-3, 1e-3))

    @pytest.mark.parametrize("patience", [1, 3])
    def test_it_stops_where_the_cpu_stops(self, cuda, patience):
        """On a loss that rounding cannot bring into another order."""
        recipe = SMALL.but(epochs=10, patience=patience)
        here, there = training(recipe, SCRIPTED), on_gpu(recipe, SCRIPTED)
        assert_close(there, here, (0, 0), (1e-3, 1e-4))

    def test_the_watch_hears_of_it_and_a_broken_loss_is_found(self, cuda):
        seen = []
        fitted = training(SMALL.but(epochs=300), engine=gpu_engine(), progress=lambda *news: seen.append(news))
        assert seen
        assert {loss for _, loss in seen} <= set(fitted.losses.tolist())
        with pytest.raises(TrainingError, match="epoch 7 of 25"):
            training(engine=gpu_engine(), method=BREAKS)

    @pytest.mark.parametrize("method", in_tiers(METHODS.values()))
    def test_side_by_side_each_is_what_it_would_be_alone(self, cuda, method):
        recipe = SMALL.but(heads=2)
        for seed, fitted in zip((3, 0, 8), parallel_seeds(method, (3, 0, 8), recipe, gpu_engine(torch.float32)), strict=True):
            assert_close(fitted, on_gpu(recipe, method, seed=seed), (1e-3, 1e-3))


def test_nothing_that_was_drawn_stays_after_a_training():
    training(SMALL.but(sampled_nodes=29), METHODS["GRACE"])
    gc.collect()
    assert not [each.shape for each in gc.get_objects() if type(each) is torch.Tensor and each.shape[1:] == (29,)]
