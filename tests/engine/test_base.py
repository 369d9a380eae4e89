import pytest
import torch

from clnr.engine import Mask, View, unit_rows, unit_rows_
from tests.conftest import tiny
from tests.engine.conftest import EVERY, FUSED, KEY, random


def test_unit_rows():
    z = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]], dtype=torch.float64, requires_grad=True)
    u = unit_rows(z)
    torch.testing.assert_close(u, torch.tensor([[0.6, 0.8], [0, 0], [1, 0]], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(u.sum(), z)
    assert gradient.isfinite().all()
    assert not gradient[1].any()
    assert torch.autograd.gradcheck(unit_rows, (torch.tensor(random(5, 3), requires_grad=True),))
    z = torch.rand(10_000, 7) - 0.5
    z[[3, 5000, 9999]] = 0
    expected = unit_rows(z)
    assert unit_rows_(z) is z
    assert torch.equal(z, expected)


@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
def test_a_function_of_each_view_with_gradients_added_up(engine):
    graph = tiny()
    device_graph = engine.to_device(graph)
    views = [View(device_graph), View(device_graph, mask=Mask(KEY, 0.5)), View(device_graph)]
    weight = torch.ones(graph.num_features, 2, device=engine.device, requires_grad=True)
    nodes = torch.tensor([3, 1], device=engine.device)

    def rows(operators, parameters, index):
        assert operators.view is views[index]
        return (index + 1) * operators.project(parameters["weight"]).index_select(0, nodes)

    results = engine.map_views(rows, views, {"weight": weight}, nodes)
    features = [engine.operators(view).features.index_select(0, nodes) for view in views]
    for index, (got, x) in enumerate(zip(results, features, strict=True)):
        torch.testing.assert_close(got, (index + 1) * x @ weight, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(sum(each.sum() for each in results), weight)
    expected = sum((index + 1) * x.sum(0) for index, x in enumerate(features))
    torch.testing.assert_close(gradient, expected[:, None].expand(-1, 2), rtol=1e-4, atol=1e-4)
