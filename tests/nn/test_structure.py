import numpy as np
import pytest
import torch

from clnr.engine import Reference, cpu_engine
from clnr.graph import Graph
from clnr.nn import structure
from clnr.nn.structure import neighbour_matrix, put_walks, random_rows, walks
from tests.nn.dense_graphs import GRAPHS, neighbours, power, transition, unit

REFERENCE = Reference(torch.device("cpu"))


def dense(matrix):
    out = np.zeros(matrix.shape)
    out[matrix.rows.numpy(), matrix.columns.numpy()] = matrix.values.numpy()
    return out


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("left", "right"), [(-1.0, 0.0), (-0.5, -0.5), (0.0, 0.0), (0.5, -1.0)])
def test_the_matrix_of_neighbours(name, left, right):
    graph = GRAPHS[name]
    a = neighbours(graph)
    degree = a.sum(1)
    expected = power(degree, left)[:, None] * a * power(degree, right)
    np.testing.assert_allclose(dense(neighbour_matrix(REFERENCE.to_device(graph), left, right)), expected, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 2, 7, 128])
def test_random_rows_follow_from_ids_alone(width):
    ids = np.array(["a", "b", "c", "d"])
    rows = random_rows(REFERENCE.to_device(Graph.from_edges([0], [1], np.ones((4, 1)), ids=ids)), width).numpy()
    assert rows.shape == (4, width)
    order = [2, 0]
    others = random_rows(REFERENCE.to_device(Graph.from_edges([], [], np.ones((2, 3)), ids=ids[order])), width).numpy()
    assert (others == rows[order]).all()
    assert len(np.unique(rows[:, 0])) == 4


@pytest.mark.parametrize("engine", [REFERENCE, cpu_engine()], ids=["reference", "cpu"])
@pytest.mark.parametrize("name", GRAPHS)
def test_walks_average_over_neighbours_again_and_again(name, engine):
    graph = GRAPHS[name]
    device_graph = engine.to_device(graph)
    rows, step_matrix = random_rows(device_graph, 6).double().numpy(), transition(graph)
    found = walks(engine, device_graph, 6, (1, 3, 4))
    assert len(found) == 3
    for step in range(1, 5):
        rows = unit(step_matrix @ rows)
        if step in (1, 3, 4):
            np.testing.assert_allclose(found[(1, 3, 4).index(step)].numpy(), rows, atol=2e-5)


@pytest.mark.parametrize("before", [(), (4,), (1, 3, 4)], ids=str)
def test_walks_are_where_they_were_put(before, monkeypatch):
    device_graph, steps = REFERENCE.to_device(GRAPHS["undirected"]), (1, 3, 4)
    expected = walks(REFERENCE, REFERENCE.to_device(GRAPHS["undirected"]), 6, steps)
    walks(REFERENCE, device_graph, 6, before)
    out = torch.full((device_graph.graph.num_nodes, 20), torch.nan)
    put_walks(REFERENCE, device_graph, out[:, 2:], steps, 1.7)
    np.testing.assert_array_equal(out[:, 2:].numpy(), (torch.cat(expected, 1) / 1.7).numpy())
    assert out[:, :2].isnan().all()
    # They are not walked again, whatever the divisor.
    monkeypatch.setattr(structure, "random_rows", pytest.fail)
    for got, right in zip(walks(REFERENCE, device_graph, 6, steps), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), right.numpy(), rtol=1e-6)
    again = torch.empty(len(out), 18)
    put_walks(REFERENCE, device_graph, again, steps, 1.7)
    assert torch.equal(again, out[:, 2:])
    # What was put there is all that is kept.
    kept = [rows for step, (rows, _) in device_graph.of_edges.made["walks", 6].items() if step not in before]
    assert all(each.untyped_storage().data_ptr() == out.untyped_storage().data_ptr() for each in kept)
