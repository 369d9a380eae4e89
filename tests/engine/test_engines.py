"""Each engine faces dense float64 matrices in values and gradients at odd sizes; the reference also plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.engine import Drop, Dropout, Mask, View, choose, choose_again, cpu_engine, to_sparse_matrix
from clnr.errors import DeviceError, UnknownName
from clnr.support.machine.devices import Asked
from tests import oracles
from tests.cases import pairs
from tests.conftest import tiny
from tests.engine.conftest import DROPS, EVERY, FUSED, GRAPHS, KEY, MASKS, OTHER, SMALL_GRAPHS, random, reference
from tests.engine.dense_views import DenseOperators, close, outcome


def single(array, engine, **more):
    return torch.tensor(array, dtype=torch.float32, device=engine.device, **more)


def unlike(graph, seed=6):
    """A matrix that is no normalised adjacency: neither symmetric nor of the graph's structure, and partly negative."""
    n = graph.num_nodes
    matrix = random(n, n, seed=seed) * (np.random.default_rng(seed).random((n, n)) < 0.3) + np.diag(np.arange(1.0, n + 1))
    return matrix.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("name", GRAPHS)
def test_reference_masks_features(name):
    graph = GRAPHS[name]
    x = oracles.dense(graph.features)
    nodes, columns = (range(size) for size in x.shape)
    kept = [oracles.kept(OTHER[:2], 0.4, j) for j in columns]
    elements = [[oracles.kept(OTHER[:2], 0.4, i, j) for j in columns] for i in nodes]
    rated = [oracles.kept(OTHER[:2], j % 4 / 4, j) for j in columns]
    for mask, factor in (
        (None, 1),
        (MASKS["columns"], 1.7 * np.array(kept)),
        (MASKS["elements"], 2.5 * np.array(elements)),
        (column_rates(graph, "cpu"), 3 * np.array(rated)),
    ):
        got = reference().operators(View(reference().to_device(graph), mask=mask)).features
        np.testing.assert_allclose(got.numpy(), x * factor, rtol=1e-6)


def column_rates(graph, device):
    """A mask of columns, each at its own rate."""
    return Mask(OTHER, torch.arange(graph.num_features, device=device).double() % 4 / 4, False, 3.0)


@pytest.mark.parametrize(("name", "drop", "mask", "permuted"), pairs(GRAPHS, DROPS, [*MASKS, "rates"], [False, True]))
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_values_and_gradients_are_those_of_dense_matrices(engine, name, drop, mask, permuted):
    assert_equal_to_dense(engine, GRAPHS[name], drop, mask, permuted)


KERNEL_VIEWS = [
    *((name, "half", "columns", False) for name in SMALL_GRAPHS),
    *(("sparse features", *view) for view in pairs(DROPS, [*MASKS, "rates"], [False, True])),
]


@pytest.mark.full
@pytest.mark.parametrize(("name", "drop", "mask", "permuted"), KERNEL_VIEWS)
@pytest.mark.parametrize("engine", FUSED, indirect=True)
def test_kernels_values_and_gradients_are_those_of_dense_matrices(engine, name, drop, mask, permuted):
    assert_equal_to_dense(engine, SMALL_GRAPHS[name], drop, mask, permuted)


def assert_equal_to_dense(engine, graph, drop, mask, permuted):
    masks = MASKS | {"rates": column_rates(graph, engine.device)}
    order = torch.arange(graph.num_nodes, device=engine.device).roll(1) if permuted else None
    view = View(engine.to_device(graph), DROPS[drop], masks[mask], order)
    got = outcome(engine.operators(view), graph.num_features, torch.float32, engine.device)
    for one, other in zip(got, outcome(DenseOperators(view), graph.num_features, torch.float64), strict=True):
        close(one, other, rtol=2e-4, atol=2e-5)


def propagated(engine, operators, matrix, h):
    """What an engine makes of h, and of a gradient on the way back, against a dense matrix."""
    h = single(h, engine, requires_grad=True)
    back = random(*h.shape, seed=8)
    out = operators.propagate(h)
    out.backward(single(back, engine))
    np.testing.assert_allclose(out.detach().cpu().numpy(), matrix @ h.detach().cpu().numpy(), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(h.grad.cpu().numpy(), matrix.T @ back, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("drop", ["all", "half", "pairs", "none left"])
@pytest.mark.parametrize("name", ["usual", "sparse features", "one node", "loops of its own"])
@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_links_are_propagated_by_as_they_are(engine, name, drop):
    graph, rule = SMALL_GRAPHS[name], DROPS[drop]
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
    graph = SMALL_GRAPHS[name]
    device_graph = engine.to_device(graph)

    def rate(i, j):
        return 1.0 if i == j else (i * 7 + j * 3) % 10 / 10

    ends = torch.stack([device_graph.edges.columns, device_graph.edges.rows]).T.tolist()
    drop = Drop(KEY, torch.tensor([rate(i, j) for i, j in ends], dtype=torch.float64, device=engine.device))
    expected = [i == j or oracles.kept(KEY, rate(i, j), i, j) for i, j in ends]
    assert drop.keep(device_graph.edges).tolist() == expected
    matrix = oracles.propagation(graph, lambda i, j: oracles.kept(KEY, rate(i, j), i, j))
    propagated(engine, engine.operators(View(device_graph, drop)), matrix, random(graph.num_nodes, 3))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_dropout_is_that_of_the_draws_and_scales_the_others_up(engine, rate):
    operators = engine.operators(View(engine.to_device(GRAPHS["usual"]), dropout=Dropout(KEY, rate)))
    h = torch.ones(400, 50, device=engine.device, requires_grad=True)
    out = operators.dropout(h, "here")
    (gradient,) = torch.autograd.grad(out.sum(), h)
    out = out.detach()
    assert torch.equal(gradient, out)
    assert sorted({round(value, 4) for value in out.flatten().tolist()}) == pytest.approx([0, 1 / (1 - rate)], abs=1e-4)
    expected = [oracles.kept(oracles.key(1, "train", 0, 0, "DropEdges", "here"), rate, i) for i in range(200)]
    assert (out.flatten()[:200] > 0).tolist() == expected
    assert not torch.equal(out, operators.dropout(h, "there"))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("engine", EVERY, indirect=True)
def test_rows_of_some_nodes_are_propagated_as_those_of_all(engine, name):
    graph = GRAPHS[name]
    h = random(graph.num_nodes, 5)
    operators = engine.operators(View(engine.to_device(graph)))
    expected = oracles.propagation(graph) @ h
    some = np.random.default_rng(0).permutation(graph.num_nodes)[: 1 + graph.num_nodes // 2]
    for nodes, index in ((torch.tensor(some, device=engine.device), some), (slice(None), slice(None))):
        got = operators.propagate_to(nodes, single(h, engine))
        np.testing.assert_allclose(got.cpu().numpy(), expected[index], atol=1e-5)
    (gradient,) = torch.autograd.grad(
        operators.propagate_to(torch.tensor(some, device=engine.device), given := single(h, engine, requires_grad=True)).sum(),
        given,
    )
    ones = np.repeat(oracles.propagation(graph)[some].sum(0)[:, None], 5, 1)
    np.testing.assert_allclose(gradient.cpu().numpy(), ones, atol=1e-5)


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
    other = made.with_values(made.values * 2)
    assert other.rows is made.rows
    assert other.order is made.order
    np.testing.assert_array_equal(other.transposed_values.numpy(), transposed.data * 2)
    # The order of a row does not matter.
    matrix = sp.csr_array((np.float32([1, 2, 3]), [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    made = to_sparse_matrix(matrix, torch.device("cpu"))
    assert (made.columns.tolist(), made.values.tolist(), matrix.indices.tolist()) == ([0, 2, 1], [2, 1, 3], [2, 0, 1])


def test_features_given_as_a_tensor_are_not_copied():
    graph, x = cpu_engine().to_device(tiny()), torch.rand(40, 3)
    given = graph.with_features(x)
    assert given.features is x
    assert given.graph.features.ctypes.data == x.data_ptr()
    assert given.edges is graph.edges


def test_choosing_an_engine(monkeypatch):
    assert choose("cpu").name == "cpu"
    assert choose("auto").name == ("gpu" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UnknownName, match="unknown device 'gpu'"):
        choose("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="'cuda' is not available"):
        choose("cuda")


def test_without_triton_the_cpu_is_taken_unless_the_gpu_was_asked_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("clnr.engine.choice.triton_kernels", lambda: None)
    with pytest.warns(UserWarning, match="Triton is not installed, so the GPU is not used"):
        assert choose().name == "cpu"
    with pytest.raises(DeviceError, match="a GPU needs Triton"):
        choose("cuda")


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
        assert again.choices == again.float32.choices == began | {"most_threads": most}
        with again.use_threads():
            assert torch.get_num_threads() == most
    with pytest.raises(DeviceError, match=r"started with up to 9 threads, and this machine has 8: set threads to 8;"):
        choose_again(Asked(), began | {"most_threads": 9})
    assert choose_again(Asked(threads=8), began | {"most_threads": 9}).choices["threads"] == 8
    assert choose_again(Asked(), began | {"most_threads": 9}, alone=False).choices == began


def test_what_this_machine_has_not_is_refused_with_what_would_work(monkeypatch):
    monkeypatch.setenv("CLNR_PRECISION", "float32")
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu = {"device": "cuda", "precision": "bfloat16", "threads": None, "most_threads": None}
    for begun, why in ((gpu, "'cuda' is not available"), (FLOAT32 | {"precision": "bfloat16"}, "no bfloat16 instructions")):
        with pytest.raises(DeviceError) as caught:
            choose_again(Asked(), begun)
        assert str(caught.value).startswith(f"this run was started on {begun['device']} in bfloat16: ")
        assert why in str(caught.value)
