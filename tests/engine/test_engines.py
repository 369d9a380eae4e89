"""Each engine faces the reference in values and gradients at odd sizes; the reference faces dense NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.engine import Asked, Drop, Dropout, Mask, View, choose, choose_again, cpu_engine, to_sparse_matrix
from clnr.engine.gpu.cuda_engine import KernelEngine
from clnr.errors import DeviceError, UnknownName
from clnr.methods import CLNR
from clnr.methods.recipe import Recipe
from clnr.nn.objectives import StepContext
from tests import oracles
from tests.cases import pairs
from tests.conftest import tiny
from tests.engine.conftest import DROPS, ENGINES, EVERY, FUSED, GRAPHS, KEY, MASKS, OTHER, fused, random, reference


def reference_view(graph, drop="half", mask="columns"):
    engine = reference()
    return engine.operators(View(engine.to_device(graph), DROPS[drop], MASKS[mask]))


def single(array, engine, **more):
    return torch.tensor(array, dtype=torch.float32, device=engine.device, **more)


def unlike(graph, seed=6):
    """A matrix that is no normalised adjacency: neither symmetric nor of the graph's structure, and partly negative."""
    n = graph.num_nodes
    matrix = random(n, n, seed=seed) * (np.random.default_rng(seed).random((n, n)) < 0.3) + np.diag(np.arange(1.0, n + 1))
    return matrix.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("name", GRAPHS)
def test_reference_propagates_as_the_dense_matrix(name, drop):
    graph, rule = GRAPHS[name], DROPS[drop]

    def keep(source, target):
        if rule is None:
            return True
        i, j = (min(source, target), max(source, target)) if rule.pairs else (source, target)
        return rng.draw(rule.key, i, j) >= int(rule.rate * 2**32)

    h = np.random.default_rng(2).standard_normal((graph.num_nodes, 6))
    got = reference_view(graph, drop).propagate(torch.tensor(h, dtype=torch.float32))
    np.testing.assert_allclose(got.numpy(), oracles.propagation(graph, keep) @ h, atol=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_reference_masks_features(name):
    graph = GRAPHS[name]
    x = oracles.dense(graph.features)
    columns = [rng.draw(OTHER, j) >= int(0.4 * 2**32) for j in range(x.shape[1])]
    elements = [[rng.draw(OTHER, i, j) >= int(0.4 * 2**32) for j in range(x.shape[1])] for i in range(x.shape[0])]
    for mask, kept in (("all", True), ("columns", columns), ("elements", elements)):
        np.testing.assert_allclose(reference_view(graph, "all", mask).features.numpy(), x * np.array(kept), rtol=1e-6)


@pytest.mark.parametrize(("name", "drop", "mask"), pairs(GRAPHS, DROPS, MASKS))
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_engine_equals_reference_in_values_and_gradients(engine, name, drop, mask):
    assert_equal_to_reference(engine, GRAPHS[name], drop, mask)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.full] * (name != "usual")) for name in GRAPHS])
def test_kernels_equal_reference_in_values_and_gradients(name):
    assert_equal_to_reference(fused(), GRAPHS[name], "half", "columns")


@pytest.mark.full
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("engine", FUSED, indirect=True)
def test_kernels_equal_reference_in_every_view(engine, drop, mask):
    """Of a smaller graph, since each row takes long to interpret."""
    assert_equal_to_reference(engine, tiny(12, 24, 6, sparse=True), drop, mask)


def assert_equal_to_reference(engine, graph, drop, mask):
    wide, narrow, target = random(graph.num_features, 9), random(9, 4, seed=3), random(graph.num_nodes, 4, seed=4)

    def outcome(operators, device):
        w, v = (torch.tensor(a, dtype=torch.float32, device=device, requires_grad=True) for a in (wide, narrow))
        shift, bias = (torch.linspace(-1, 1, width, device=device, requires_grad=True) for width in (9, 4))
        hidden = operators.convolve(w, shift)
        convolved = operators.convolve(v, bias, hidden, relu=True) + operators.convolve(v, bias, hidden)
        widened = operators.convolve(v.T.contiguous(), shift, convolved, relu=True)
        projected = operators.project(w, shift) @ v
        propagated = operators.propagate(operators.project(w)) + operators.propagate(hidden, relu=True)
        loss = ((convolved + projected) * torch.tensor(target, dtype=torch.float32, device=device)).sum()
        (loss + propagated.square().sum() + widened.square().sum() / 9).backward()
        outcomes = (convolved, projected, propagated, widened, operators.features, w.grad, v.grad, shift.grad, bias.grad)
        return [t.detach().cpu().numpy() for t in outcomes]

    device_graph = engine.to_device(graph)
    got = outcome(engine.operators(View(device_graph, DROPS[drop], MASKS[mask])), engine.device)
    expected = outcome(reference_view(graph, drop, mask), "cpu")
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def propagated(engine, operators, matrix, h):
    """What an engine makes of h, and of a gradient on the way back, against a dense matrix."""
    h = single(h, engine, requires_grad=True)
    back = random(*h.shape, seed=8)
    out = operators.propagate(h)
    out.backward(single(back, engine))
    np.testing.assert_allclose(out.detach().cpu().numpy(), matrix @ h.detach().cpu().numpy(), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(h.grad.cpu().numpy(), matrix.T @ back, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_gradients_flow_through_the_transpose(engine, name):
    graph = GRAPHS[name]
    operators = engine.operators(View(engine.to_device(graph)))
    propagated(engine, operators, oracles.propagation(graph), random(graph.num_nodes, 3))


@pytest.mark.parametrize("drop", ["all", "half", "pairs", "none left"])
@pytest.mark.parametrize("name", ["usual", "sparse features", "one node", "loops of its own"])
@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_links_are_propagated_by_as_they_are(engine, name, drop):
    graph, rule = GRAPHS[name], DROPS[drop]
    dense = unlike(graph)
    view = View(engine.to_device(graph), rule, propagation_matrix=to_sparse_matrix(sp.csr_array(dense), engine.device))
    for i, j in zip(*np.nonzero(dense), strict=True):
        ends = (min(i, j), max(i, j)) if rule and rule.pairs else (j, i)
        if i != j and rule and not oracles.kept(rule.key, rule.rate, *map(int, ends)):
            dense[i, j] = 0
    propagated(engine, engine.operators(view), dense, random(graph.num_nodes, 3))


@pytest.mark.parametrize("name", ["usual", "directed, weighted, sparse", "star", "loops of its own"])
@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_each_edge_has_its_own_rate_and_a_self_loop_always_stays(engine, name):
    graph = GRAPHS[name]
    device_graph = engine.to_device(graph)

    def rate(i, j):
        return 1.0 if i == j else (i * 7 + j * 3) % 10 / 10

    ends = torch.stack([device_graph.edges.columns, device_graph.edges.rows]).T.tolist()
    drop = Drop(KEY, torch.tensor([rate(i, j) for i, j in ends], dtype=torch.float64, device=engine.device))
    expected = [i == j or oracles.kept(KEY, rate(i, j), i, j) for i, j in ends]
    assert drop.keep(device_graph.edges).tolist() == expected
    matrix = oracles.propagation(graph, lambda i, j: oracles.kept(KEY, rate(i, j), i, j))
    propagated(engine, engine.operators(View(device_graph, drop)), matrix, random(graph.num_nodes, 3))


@pytest.mark.parametrize("links", [False, True], ids=["edges", "links"])
@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_a_tensor_of_equal_rates_is_that_rate(engine, links):
    graph = GRAPHS["usual"]
    device_graph = engine.to_device(graph)
    own = to_sparse_matrix(sp.csr_array(unlike(graph)), engine.device) if links else None
    count = len((own or device_graph.edges).rows)
    each = Drop(KEY, torch.full((count,), 0.3, dtype=torch.float64, device=engine.device))
    h = single(random(40, 3), engine)
    one, other = (
        engine.operators(View(device_graph, drop, propagation_matrix=own)).propagate(h) for drop in (each, Drop(KEY, 0.3))
    )
    assert torch.equal(one, other)


def masked(x, mask, rates):
    """X as a mask leaves it, number by number."""
    out = np.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            kept = oracles.kept(mask.key, rates[j], i, j) if mask.elements else oracles.kept(mask.key, rates[j], j)
            out[i, j] = x[i, j] * kept * mask.scale
    return out


@pytest.mark.parametrize(
    ("name", "kind", "order"),
    pairs(["usual", "sparse features", "one feature", "no edges"], ["none", "columns", "elements", "rates"], [False, True]),
)
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_masks_scales_and_orders_of_features(engine, name, kind, order):
    graph = GRAPHS[name]
    nodes, count = graph.num_nodes, graph.num_features
    x = oracles.dense(graph.features)
    rates = np.arange(count) % 4 / 4 if kind == "rates" else np.full(count, 0.4)
    masks = {
        "none": None,
        "columns": Mask(OTHER, 0.4, False, 1.7),
        "elements": Mask(OTHER, 0.4, True, 2.5),
        "rates": Mask(OTHER, torch.tensor(rates, device=engine.device), False, 3.0),
    }
    x = x if masks[kind] is None else masked(x, masks[kind], rates.tolist())
    moved = torch.arange(nodes, device=engine.device).roll(1) if order else None
    x = x[np.roll(np.arange(nodes), 1)] if order else x
    operators = engine.operators(View(engine.to_device(graph), None, masks[kind], moved))
    np.testing.assert_allclose(operators.features.cpu().numpy(), x, rtol=1e-5, atol=1e-7)
    for width in (1, 30):
        w, back = random(count, width), random(nodes, width, seed=9)
        convolve = partial(operators.convolve, bias=torch.zeros(width, device=engine.device))
        for apply, matrix in ((operators.project, x), (convolve, oracles.propagation(graph) @ x)):
            weight = single(w, engine, requires_grad=True)
            out = apply(weight)
            out.backward(single(back, engine))
            np.testing.assert_allclose(out.detach().cpu().numpy(), matrix @ w, rtol=1e-4, atol=2e-5)
            np.testing.assert_allclose(weight.grad.cpu().numpy(), matrix.T @ back, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_dropout_has_its_rate_and_keeps_the_mean(engine, rate):
    operators = engine.operators(View(engine.to_device(GRAPHS["usual"]), dropout=Dropout(KEY, rate)))
    h = torch.ones(400, 50, device=engine.device, requires_grad=True)
    out = operators.dropout(h, "here")
    (gradient,) = torch.autograd.grad(out.sum(), h)
    out = out.detach()
    assert torch.equal(gradient, out)
    assert sorted({round(value, 4) for value in out.flatten().tolist()}) == pytest.approx([0, 1 / (1 - rate)], abs=1e-4)
    assert abs(float((out == 0).double().mean()) - rate) < 5 * (rate * (1 - rate) / out.numel()) ** 0.5
    assert abs(float(out.mean()) - 1) < 5 * (rate / (1 - rate) / out.numel()) ** 0.5
    expected = [oracles.kept(oracles.key(1, "train", 0, 0, "DropEdges", "here"), rate, i) for i in range(200)]
    assert (out.flatten()[:200] > 0).tolist() == expected
    assert not torch.equal(out, operators.dropout(h, "there"))


@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_without_dropout_nothing_is_left_out(engine):
    h = single(random(40, 3), engine)
    assert engine.operators(View(engine.to_device(GRAPHS["usual"]))).dropout(h, "here") is h


def test_what_a_graph_gives_once_is_made_once():
    device_graph, calls = cpu_engine().to_device(GRAPHS["usual"]), []
    for _ in range(3):
        assert device_graph.once("a", lambda: calls.append(1) or len(calls)) == 1
    assert device_graph.once("b", lambda: 7) == 7
    assert calls == [1]


def test_a_sparse_matrix_and_its_transpose_are_the_matrix():
    matrix = sp.csr_array(np.where(random(5, 7) > 0.3, random(5, 7, seed=3), 0).astype(np.float32))
    made = to_sparse_matrix(matrix, torch.device("cpu"))
    forward = sp.csr_array((made.values, made.columns, made.indptr), shape=made.shape)
    transposed = sp.csr_array(
        (made.values[made.order], made.transposed_columns, made.transposed_indptr), shape=made.shape[::-1]
    )
    np.testing.assert_array_equal(forward.toarray(), matrix.toarray())
    np.testing.assert_array_equal(transposed.toarray(), matrix.toarray().T)
    np.testing.assert_array_equal(made.rows.numpy(), np.nonzero(matrix.toarray())[0])


def test_choosing_an_engine():
    assert choose("cpu").name == "cpu"
    assert choose("auto").name == ("gpu" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UnknownName, match="unknown device 'gpu'"):
        choose("gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_choosing_a_precision(monkeypatch):
    assert choose("cpu", "float32").precision == cpu_engine().precision == "float32"
    with pytest.raises(UnknownName, match="unknown precision 'half'"):
        choose("cpu", "half")
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: True)
    assert (choose("cpu", "bfloat16").precision, choose("cpu", "bfloat16").float32.precision) == ("bfloat16", "float32")


FLOAT32 = {"device": "cpu", "precision": "float32", "threads": None, "most_threads": 1}


def test_a_run_is_resumed_as_it_was_begun(monkeypatch):
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: True)
    began = choose("cpu", "bfloat16", 3)
    for asked in (Asked(), Asked("cpu"), Asked("cpu", "bfloat16", 3)):
        again = choose_again(asked, began.choices)
        assert (again.choices, again.asked) == (began.choices, asked)
    assert choose_again(Asked(threads=2), began.choices).threads == 2
    # What is asked for counts: the checkpoint then says what differs.
    assert choose_again(Asked(precision="float32"), began.choices).precision == "float32"


def test_so_are_the_threads_that_it_may_take(monkeypatch):
    monkeypatch.setattr("clnr.engine.base.usable_threads", lambda: 8)
    monkeypatch.setattr("clnr.engine.choice.usable_threads", lambda: 8)
    began = choose("cpu", "float32").choices
    assert began == FLOAT32 | {"most_threads": 8}
    for most in (2, 8):
        again = choose_again(Asked(), began | {"most_threads": most})
        assert again.thread_rule == again.float32.thread_rule == f"up to {most}"
        with again.use_threads():
            assert torch.get_num_threads() == most
    with pytest.raises(DeviceError, match=r"begun with up to 9 threads, and there are 8 here: add --threads 8 \(threads=8\)"):
        choose_again(Asked(), began | {"most_threads": 9})
    assert choose_again(Asked(threads=8), began | {"most_threads": 9}).thread_rule == "8"
    assert choose_again(Asked(), began | {"most_threads": 9}, alone=False).thread_rule == "up to 8"


def test_what_this_machine_has_not_is_refused_with_what_would_work(monkeypatch):
    monkeypatch.setenv("CLNR_PRECISION", "float32")
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu = {"device": "cuda", "precision": "bfloat16", "threads": None, "most_threads": None}
    for begun, why in ((gpu, "device 'cuda' is not here"), (FLOAT32 | {"precision": "bfloat16"}, "cannot multiply bfloat16")):
        with pytest.raises(DeviceError) as caught:
            choose_again(Asked(), begun)
        assert str(caught.value).startswith(f"it was begun on {begun['device']} in bfloat16, and goes on there alone: ")
        assert why in str(caught.value)
        assert str(caught.value).endswith("to start anew here, leave out --resume (resume=False)")


def test_an_engine_in_bfloat16_has_an_exact_one():
    pytest.importorskip("triton", reason="Triton is not installed")
    quick = KernelEngine(torch.device("cpu"), torch.bfloat16)
    assert (quick.precision, quick.float32.precision) == ("bfloat16", "float32")
    assert cpu_engine().float32.precision == "float32"


@pytest.mark.full
@pytest.mark.parametrize("name", ["usual", "sparse features", "weighted"])
def test_in_bfloat16_what_is_learned_differs_by_its_precision(name):
    """The whole loss of CLNR and its gradients, by the kernels, against float32."""
    pytest.importorskip("triton", reason="Triton is not installed")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graph = GRAPHS[name]
    outcomes = []
    for dtype in (torch.float32, torch.bfloat16):
        engine = KernelEngine(device, dtype)
        model = CLNR.build(Recipe(hidden=16, dimension=8, sampled_nodes=10))
        parameters = {key: value.to(device).requires_grad_() for key, value in model.init(graph.num_features, 0).items()}
        loss = model.loss(parameters, StepContext(engine, engine.to_device(graph), 0, 0, 5))
        gradients = torch.autograd.grad(loss, [parameters["encoder.0.weight"], parameters["encoder.1.weight"]])
        outcomes.append((loss.detach(), *gradients))
    for exact, quick in zip(*outcomes, strict=True):
        assert quick.dtype == torch.float32
        assert float((quick - exact).norm()) < 0.05 * float(exact.norm())
        assert not torch.equal(quick, exact)


def test_a_device_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="'cuda' is not here"):
        choose("cuda")


@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
@pytest.mark.parametrize("sparse", [False, True])
def test_products_are_those_of_the_weight_that_was_given_and_of_none_before(engine, sparse):
    """Also of weights that are freed at once, in whose place the next one may come to lie."""
    graph = tiny(sparse=sparse)
    device_graph = engine.to_device(graph)
    streams = engine.streams(device_graph, 2)
    operators = [engine.operators(View(device_graph), streams) for _ in range(2)]
    x = torch.tensor(graph.features.toarray() if sparse else graph.features)
    for number in range(20):
        for each in operators:
            got = each.project(torch.full((graph.num_features, 2), float(number), device=engine.device))
            torch.testing.assert_close(got.cpu().float(), number * x.sum(1, keepdim=True).expand(-1, 2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_a_view_propagates_by_its_own_links_and_by_none_before(engine):
    device_graph = engine.to_device(tiny())
    h = torch.ones(40, 3, device=engine.device)
    for number in range(1, 20):
        links = to_sparse_matrix(sp.eye_array(40, format="csr") * number, engine.device)
        out = engine.operators(View(device_graph).but(propagation_matrix=links)).propagate(h)
        assert torch.equal(out, number * h)
        del links, out
