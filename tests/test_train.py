from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from clnr.engine import cpu, gpu
from clnr.errors import TrainingError
from clnr.methods import CLNR
from clnr.objectives import Moment, NTXent, Objective
from clnr.recipe import Recipe
from clnr.train import Ledger, fit
from tests.conftest import tiny

SMALL = Recipe(hidden=16, dimension=8, epochs=25)


def training(recipe=SMALL, method=CLNR, engine=None, watch=None, seed=0):
    engine = engine or cpu()
    return fit(method.build(recipe), engine, engine.place(tiny()), recipe, seed, watch)


def test_it_is_adam_on_the_models_loss():
    """The same training, written out with torch's own pieces and the model's loss."""
    engine = cpu()
    model, placed = CLNR.build(SMALL), engine.place(tiny())
    parameters = {name: value.requires_grad_() for name, value in model.init(12, 3).items()}
    adam = torch.optim.Adam(parameters.values(), lr=1e-3)
    losses = []
    for epoch in range(25):
        loss = model.loss(parameters, Moment(engine, placed, 3, epoch))
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.detach())
    fitted = training(seed=3)
    assert torch.equal(fitted.losses, torch.stack(losses))
    assert all(torch.equal(fitted.parameters[name], value) for name, value in parameters.items())


def test_the_watch_sees_every_epoch_on_the_cpu():
    seen = []
    fitted = training(watch=lambda done, loss: seen.append((done, loss)))
    assert [done for done, _ in seen] == list(range(1, 26))
    assert [loss for _, loss in seen] == fitted.losses.tolist()


def test_times_are_positive_and_an_epoch_is_shorter_than_all():
    fitted = training()
    assert 0 < fitted.epoch_ms / 1e3 * 25 < 3 * fitted.seconds


def test_the_first_epochs_do_not_count_in_the_median():
    ledger = Ledger(30, torch.device("cpu"))
    ledger._marks = [0.0, 9.0, 18.0, 27.0] + [27.0 + i for i in range(1, 28)]
    assert ledger.epoch_ms() == pytest.approx(1000)
    assert Ledger(0, torch.device("cpu")).epoch_ms() is None


def test_no_epochs_leave_the_initial_weights():
    recipe = Recipe(hidden=16, dimension=8, epochs=0)
    fitted = training(recipe)
    start = CLNR.build(recipe).init(12, 0)
    assert all(torch.equal(value, start[name]) for name, value in fitted.parameters.items())
    assert fitted.epoch_ms is None


@dataclass(frozen=True)
class Breaks(Objective):
    """NT-Xent until the seventh epoch, then not a number."""

    temperature: float
    sampled_nodes: int

    def init(self, width, key):
        return {}

    def __call__(self, parameters, views, moment):
        loss = NTXent(self.temperature, self.sampled_nodes)(parameters, views, moment)
        return loss * (float("nan") if moment.epoch >= 6 else 1)


def test_a_loss_that_is_not_finite_stops_training_and_says_where():
    with pytest.raises(TrainingError, match=r"became nan at epoch 7 of 25.*learning_rate=0.001.*temperature=0.5"):
        training(method=CLNR.but("Breaks", "", objective=Breaks))


def test_ctrl_c_comes_through():
    def stop(done, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(watch=stop)


@pytest.mark.gpu
class TestOnTheGPU:
    @pytest.mark.filterwarnings("ignore:Synchronization debug mode")
    def test_the_loop_never_waits_for_the_device(self, cuda, monkeypatch):
        """torch raises at any synchronisation that it can detect, from the third epoch to the closing of the ledger."""
        write, close = Ledger.write, Ledger.close

        def strict_write(self, epoch, loss):
            if epoch == 2:
                torch.cuda.set_sync_debug_mode("error")
            return write(self, epoch, loss)

        def free_close(self):
            torch.cuda.set_sync_debug_mode("default")
            return close(self)

        monkeypatch.setattr(Ledger, "write", strict_write)
        monkeypatch.setattr(Ledger, "close", free_close)
        try:
            for change in ({}, {"encoder": "mlp"}, {"sampled_nodes": 10}, {"mask": "elements", "drop": "pairs"}):
                training(Recipe(hidden=16, dimension=8, epochs=80, **change), engine=gpu())
        finally:
            torch.cuda.set_sync_debug_mode("default")

    @pytest.mark.parametrize("change", [{}, {"encoder": "mlp"}, {"sampled_nodes": 10}, {"mask": "elements", "drop": "pairs"}])
    def test_a_step_can_be_captured_so_that_no_operation_of_it_waits(self, cuda, change):
        """Sparse products escape torch's detection, but nothing that waits for the device can be captured in a graph."""
        engine, recipe = gpu(), Recipe(hidden=16, dimension=8, **change)
        model, placed = CLNR.build(recipe), engine.place(tiny(sparse=True))
        parameters = {name: value.to(cuda).requires_grad_() for name, value in model.init(12, 0).items()}

        def step():
            loss = model.loss(parameters, Moment(engine, placed, 0, 3))
            return loss, torch.autograd.grad(loss, list(parameters.values()))

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            expected = step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            loss, gradients = step()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(loss, expected[0])
        torch.testing.assert_close(gradients, expected[1])

    def test_it_learns_what_the_cpu_learns(self, cuda):
        here, there = training(), training(engine=gpu())
        torch.testing.assert_close(there.losses, here.losses, rtol=1e-3, atol=1e-4)

    def test_the_watch_hears_of_it_and_a_broken_loss_is_found(self, cuda):
        seen = []
        fitted = training(Recipe(hidden=16, dimension=8, epochs=300), engine=gpu(), watch=lambda *news: seen.append(news))
        assert seen
        known = set(fitted.losses.tolist())
        assert all(loss in known for _, loss in seen)
        with pytest.raises(TrainingError, match="epoch 7 of 25"):
            training(engine=gpu(), method=CLNR.but("Breaks", "", objective=Breaks))
