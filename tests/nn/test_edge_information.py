"""What edges tell: against a definition node by node, and on graphs of which it is known."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from clnr.engine import View, choose, cpu_engine
from clnr.graph import Graph
from clnr.methods import SVD_MIX
from clnr.methods.recipe import Recipe
from clnr.nn import edge_information as module
from clnr.nn.edge_information import LEAST_WEIGHT, edge_information, edge_weight
from tests.conftest import tiny

NODES, CLASSES = 600, 4


def reading(rows):
    matrix = torch.tensor(np.asarray(rows), dtype=torch.float32)
    return lambda nodes: matrix[torch.from_numpy(nodes)]


def told(graph, *rows):
    return edge_information(graph.draw_neighbours, [reading(each) for each in rows], graph.num_nodes)


def made(alike, informative, nodes=NODES, degree=8, seed=0):
    """A share of the edges is within circles of ten nodes, the others anywhere; features may know the class of the circle."""
    random = np.random.default_rng(seed)
    source = random.integers(0, nodes, nodes * degree // 2)
    near = source // 10 * 10 + random.integers(0, 10, len(source))
    target = np.where(random.random(len(source)) < alike, near, random.integers(0, nodes, len(source)))
    labels = np.arange(nodes) // 10 % CLASSES
    x = random.standard_normal((nodes, 6)) + 2 * informative * np.eye(CLASSES, 6)[labels]
    return Graph.from_edges(source, target, x, undirected=True)


def neighbour_sets(graph):
    found = [set() for _ in range(graph.num_nodes)]
    for i, j in zip(*graph.edges()[:2], strict=True):
        if i != j:
            found[i].add(int(j))
            found[j].add(int(i))
    return found


def area(rows, partners):
    """How often the cosine of a row and its partner exceeds that of a row and one of four partners before; equal ones half."""
    own = [cosine(row, partner) for row, partner in zip(rows, partners, strict=True)]
    others = [cosine(row, partners[k - back]) for k, row in enumerate(rows) for back in (1, 2, 3, 4)]
    return np.mean([(one > other) + (one == other) / 2 for one in own for other in others])


def cosine(a, b):
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / length) if length else 0.0


@pytest.mark.parametrize("axes", [3, 32])
@pytest.mark.parametrize("undirected", [True, False])
def test_by_rows_as_defined(undirected, axes, monkeypatch):
    monkeypatch.setattr(module, "_NODES_PER_PART", 7)
    monkeypatch.setattr(module, "_COMPARED_AXES", axes)
    graph = tiny(60, 150, undirected=undirected)
    rows = np.random.default_rng(1).standard_normal((60, 5)) * [3, 2, 1, 0.5, 0.2] + 3
    order = np.random.default_rng(2).permutation(60)
    near, middle = neighbour_sets(graph), rows.mean(0)
    unit = np.array([row / np.linalg.norm(row) for row in rows - middle])
    linked = [i for i in order if near[i]]
    assert 0 < len(linked) < 60
    means = np.array([np.mean([unit[j] for j in near[i]], axis=0) for i in linked])
    _, _, directions = np.linalg.svd(unit[linked], full_matrices=False)
    x, y = ((each @ directions.T)[:, :axes] for each in (means - means.mean(0), unit[linked]))
    guesses = []
    for k in range(len(linked)):
        other = np.arange(len(linked)) % 2 != k % 2
        model = Ridge(alpha=(x[other] ** 2).sum() / x.shape[1], fit_intercept=False).fit(x[other], y[other])
        guesses.append(model.predict(x[k : k + 1])[0])
    assert module.by_rows(graph.draw_neighbours, reading(rows), order) == pytest.approx(area(y, guesses), abs=2e-3)


@pytest.mark.parametrize("undirected", [True, False])
def test_by_edges_as_defined(undirected, monkeypatch):
    monkeypatch.setattr(module, "_NEIGHBOURS_PER_STEP", 60)
    graph = tiny(60, 90, undirected=undirected)
    order, near = np.random.default_rng(2).permutation(60), neighbour_sets(graph)
    sides = []
    for i in order:
        _, listed = graph.draw_neighbours(np.array([i]), 60)
        assert sorted(listed) == sorted(near[i])
        halves = [np.zeros(60), np.zeros(60)]
        for number, first in enumerate(listed):
            found = [first]
            for second in near[first] - {i}:
                found += [second, *(near[second] - {i})]
            np.add.at(halves[number % 2], found, 1)
        if halves[0].any() and halves[1].any():
            sides.append(halves)
    assert 30 < len(sides) < 60
    right = area([first for first, _ in sides], [second for _, second in sides])
    assert module.by_edges(graph.draw_neighbours, order, 60) == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize(
    "rows", [np.ones((NODES, 3)), np.empty((NODES, 0)), np.full((NODES, 2), np.nan)], ids=["equal", "no", "nan"]
)
def test_rows_that_say_nothing_are_not_judged_by(rows):
    graph = made(0.0, 1.0)
    assert module.by_rows(graph.draw_neighbours, reading(rows), np.arange(NODES)) is None
    assert edge_weight(graph.draw_neighbours, [reading(rows)], NODES) == 1


OTHERS = np.arange(1, 400)


@pytest.mark.parametrize("parents", [OTHERS - 1, (OTHERS - 1) // 3, np.zeros(399, int)], ids=["path", "tree", "star"])
def test_edges_that_lead_nowhere_together_are_not_judged(parents):
    noise = np.random.default_rng(0).standard_normal((400, 5))
    graph = Graph.from_edges(OTHERS, parents, noise, undirected=True)
    assert module.by_edges(graph.draw_neighbours, np.random.default_rng(1).permutation(400), 400) is None
    assert edge_weight(graph.draw_neighbours, [reading(noise)], 400) == 1


def test_the_larger_measure_counts():
    graph = made(0.0, 1.0)
    hubs = np.random.default_rng(0).standard_normal((NODES, 3))
    one, other = told(graph, graph.features), told(graph, hubs)
    assert told(graph, graph.features, hubs) == max(one, other)


@pytest.mark.parametrize(
    ("told", "weight"), [(None, 1), (0.3, 0.2), (0.51, 0.2), (0.54, 0.4), (0.57, 0.6), (0.63, 1), (1.0, 1)]
)
def test_the_weight_rises_with_what_edges_tell(told, weight, monkeypatch):
    monkeypatch.setattr(module, "edge_information", lambda *given: told)
    assert edge_weight(None, [], 5) == pytest.approx(weight)


@pytest.mark.parametrize("graph", [*(Graph.from_edges([], [], np.ones((n, 2))) for n in (0, 1, 5)), tiny(25, 100)])
def test_of_few_nodes_or_without_edges_nothing_is_measured(graph):
    assert told(graph, graph.features) is None
    assert edge_weight(graph.draw_neighbours, [reading(graph.features)], graph.num_nodes) == 1


def test_some_nodes_stand_for_all(monkeypatch):
    graph = made(0.3, 0.3, nodes=3000)
    whole = told(graph, graph.features)
    monkeypatch.setattr(module, "_MEASURED_NODES", 1500)
    asked = []
    rows = reading(graph.features)

    def read(nodes):
        asked.append(len(nodes))
        return rows(nodes)

    assert edge_information(graph.draw_neighbours, [read], 3000) == pytest.approx(whole, abs=0.03)
    assert asked[0] == 1500
    assert max(asked[1:]) <= module._NODES_PER_PART * module._NEIGHBOURS_AROUND


@pytest.mark.gpu
def test_a_gpu_measures_what_a_cpu_measures(cuda):
    graph, recipe = made(0.05, 0.5, nodes=2000), Recipe(dimension=16, edge_weight="measured")
    model = SVD_MIX.build(recipe)
    found = []
    for engine in (cpu_engine(), choose(cuda.type, "float32")):
        device_graph = engine.to_device(graph)
        parameters = model.finalize({}, engine, device_graph)
        found.append(float(parameters["readout.block.3.weight"]))
        assert model.embed(parameters, engine, View(device_graph)).isfinite().all()
    assert LEAST_WEIGHT < found[0] < 1
    assert found[1] == pytest.approx(found[0], abs=1e-3)
