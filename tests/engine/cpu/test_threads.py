import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clnr import methods, rng
from clnr.engine import Drop, Mask, View, choose, cpu_engine
from clnr.engine.cpu import threads
from clnr.engine.gpu.cuda_engine import KernelEngine
from clnr.errors import ClnrError
from clnr.methods.recipe import Recipe
from clnr.training.loop import fit
from clnr.training.step_work import Size, step_work
from tests.conftest import tiny

ROOT = Path(__file__).parents[3]
SMALL = Recipe(hidden=16, dimension=8, sampled_nodes=10, epochs=2, probe_steps=2)


@pytest.fixture(autouse=True)
def sixteen(monkeypatch):
    """A machine of 16 processors, all of which torch is set to use."""
    monkeypatch.setattr(threads, "usable_processors", lambda: 16)
    torch.set_num_threads(16)
    yield
    assert torch.get_num_threads() == 16, "it is not set as before"
    torch.set_num_threads(1)


def by_trying(seconds, wait, most):
    """The number of threads with the least time, the first of equals, each having its own wait."""
    return min(range(1, most + 1), key=lambda count: seconds / count + wait * count)


def test_as_many_threads_as_are_fastest():
    for seconds in (0.0, 1e-4, 0.0019, 0.0021, 0.0059, 0.0061, 0.01, 0.05, 0.1, 0.2399, 0.2401, 1.0, 100.0):
        assert threads.threads_for(seconds, 16) == by_trying(seconds, threads._SECONDS_PER_THREAD, 16)


@pytest.mark.parametrize(("set_to", "processors", "most"), [(3, 16, 3), (16, 5, 5), (1, 1, 1), (40, 16, 16)])
def test_never_more_than_torch_is_set_to_or_processors(set_to, processors, most, monkeypatch):
    monkeypatch.setattr(threads, "usable_processors", lambda: processors)
    with threads.use_threads(set_to):
        assert threads.usable_threads() == most
        with cpu_engine().use_threads():
            assert torch.get_num_threads() == most


def test_the_number_that_was_asked_for_is_taken_for_small_work_too(monkeypatch):
    engine = choose("cpu", threads=5)
    for seconds in (None, 0.0, 1e9):
        with engine.use_threads(seconds) as count:
            assert count == torch.get_num_threads() == 5
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: True)
    chosen = [each.choices for each in (choose("cpu", "bfloat16", 5).float32, engine, cpu_engine())]
    assert [(each["threads"], each["most_threads"]) for each in chosen] == [(5, None), (5, None), (None, 16)]


def test_a_gpu_leaves_threads_alone_unless_some_are_asked_for():
    pytest.importorskip("triton", reason="Triton is not installed")
    engine = KernelEngine(torch.device("cpu"), torch.bfloat16)
    engine.device = torch.device("cuda")
    with engine.use_threads(0.0) as count:
        assert (count, torch.get_num_threads(), engine.choices["most_threads"]) == (None, 16, None)
    engine.threads = 3
    with engine.use_threads(0.0):
        assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("count", "message"), [(0, "from 1 to .*, not 0"), (True, "whole")])
def test_what_is_no_number_of_threads_is_refused(count, message):
    with pytest.raises(ClnrError, match=message):
        choose("cpu", threads=count)


def seen_in(method, graph, monkeypatch, **changes):
    """How many threads each step of a training had, and how many the result tells."""
    model = method.build(SMALL.but(**changes))
    seen, loss = [], type(model).loss
    monkeypatch.setattr(
        type(model), "loss", lambda self, parameters, step: seen.append(torch.get_num_threads()) or loss(self, parameters, step)
    )
    engine = cpu_engine()
    fitted = fit(model, engine, engine.to_device(graph), SMALL.but(**changes), 0)
    return set(seen), fitted.threads


def test_a_training_takes_threads_by_its_work(monkeypatch):
    assert seen_in(methods.CLNR, tiny(), monkeypatch) == ({1}, 1)
    monkeypatch.setattr(threads, "_SECONDS_PER_THREAD", 1e-9)
    assert seen_in(methods.CLNR, tiny(), monkeypatch) == ({16}, 16)


@pytest.mark.parametrize("name", ["CLNR", "BGRL", "DGI"])
def test_a_sampled_step_is_as_much_work_on_any_graph_of_that_degree(name):
    recipe = Recipe(moments="sampled")

    def seconds(recipe, nodes):
        return step_work(2, methods.METHODS[name].build(recipe).objective, recipe, Size(nodes, 10 * nodes, 100, 0)).seconds

    assert seconds(recipe.but(max_neighbors=3), 10**6) < seconds(recipe, 10**6) < seconds(Recipe(), 10**6) / 10
    assert seconds(recipe, 10**8) == pytest.approx(seconds(recipe, 10**6))
    assert seconds(Recipe(), 10**8) > 50 * seconds(Recipe(), 10**6)


def test_the_work_of_a_step_grows_with_everything():
    recipe, size = Recipe(hidden=64, dimension=64, sampled_nodes=100), Size(5000, 20000, 32, 0)

    def seconds(views, recipe, size):
        return step_work(views, methods.CLNR.build(recipe).objective, recipe, size).seconds

    base = seconds(2, recipe, size)
    larger = [
        *((2, recipe.but(**{name: value}), size) for name, value in (("hidden", 128), ("layers", 3), ("sampled_nodes", 3000))),
        *((2, recipe, size._replace(**{name: value})) for name, value in (("nodes", 9000), ("edges", 40000), ("features", 50))),
        (3, recipe, size),
    ]
    assert all(seconds(*each) > base for each in larger)
    assert seconds(2, recipe.but(moments="sampled"), size) < base


def test_results_of_our_own_loops_do_not_depend_on_threads():
    """Torch's products do, on some processors."""
    graph, outcomes = tiny(300, 3000, sparse=True), []
    weight, h = (torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows)) for rows in (graph.num_features, 300))
    for count in (1, 2, 3):
        engine = choose("cpu", threads=count)
        given = weight.clone().requires_grad_(), h.clone().requires_grad_()
        with engine.use_threads(), pytest.MonkeyPatch.context() as patch:
            patch.setattr("clnr.engine.cpu.threads._NUMBERS_PER_THREAD", 1)
            operators = engine.operators(View(engine.to_device(graph), Drop(rng.key(0), 0.5), Mask(rng.key(1), 0.5)))
            found = [operators.project(given[0]), operators.propagate(given[1], relu=True)]
            outcomes.append([*found, *torch.autograd.grad(found, given, [each.detach() for each in found])])
    for other in outcomes[1:]:
        assert all(torch.equal(one, two) for one, two in zip(outcomes[0], other, strict=True))


FORKED = """
import os, signal
import torch
from clnr.engine import View, choose
from clnr.engine.cpu import threads
from tests.conftest import tiny

threads._NUMBERS_PER_THREAD = 1
torch.set_num_threads(2)
engine, h = choose("cpu", "float32", threads=2), torch.linspace(-1, 1, 2400).reshape(300, 8)
operators = engine.operators(View(engine.to_device(tiny(300, 3000))))


def loops():
    return operators.propagate(h, relu=True)


def both():
    with engine.use_threads():
        torch.ones(1 << 20).exp()  # Torch's own loop, by two threads before the fork.
        return loops()


def more():
    torch.set_num_threads(2)
    return loops()


before = both()
for work in (both, more):
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(0 if torch.equal(work(), before) else 3)
    status = os.waitpid(child, 0)[1]
    print(work.__name__, "hung" if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status))
assert torch.get_num_threads() == 2
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_computes_the_same():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.stdout.split(), done.stderr) == (["both", "0", "more", "0"], "")
