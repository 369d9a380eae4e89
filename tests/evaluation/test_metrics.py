from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import CLNR, Recipe, embed, run, runs
from clnr.datasets import split_of
from clnr.engine import cpu_engine
from clnr.errors import UnknownName
from clnr.evaluation import clusters
from clnr.evaluation.geometry import alignment
from clnr.evaluation.metrics import EXTRA_METRICS
from tests.conftest import tiny

QUICK = Recipe(hidden=16, dimension=2, epochs=3, probe_steps=5)


def test_extra_metrics_are_of_the_same_run():
    graph = tiny(60, 150)
    plain, made = (run(CLNR, graph, 4, recipe=QUICK, device="cpu", extra_metrics=names) for names in ((), EXTRA_METRICS))
    assert (made.strict, made.alignment) == (plain.strict, plain.alignment)
    assert plain.extra_metrics == {}
    assert made.extra_metrics["clusters"] == clusters(embed(CLNR, graph, 4, recipe=QUICK, device="cpu"), graph.labels)
    u, v = (torch.tensor(made.extra_metrics["points"][name]) for name in "uv")
    nodes = split_of(graph, 4).validation
    assert made.extra_metrics["points"]["classes"] == graph.labels[nodes].tolist()
    assert u.shape == v.shape == (len(nodes), 2)
    assert np.allclose(u.norm(dim=1), 1, atol=1e-4)
    assert alignment(u, v) == pytest.approx(made.alignment, abs=1e-4)


def test_an_unknown_metric_is_named_before_the_work():
    with pytest.raises(UnknownName, match="unknown metric 'cluster'; did you mean 'clusters'"):
        runs(CLNR, tiny(), [0], recipe=QUICK, device="cpu", extra_metrics=["cluster"])


@pytest.mark.parametrize(("asked", "expected"), [(None, [3, 3, 3, 1]), (1, [1] * 4), (2, [2] * 4), (9, [3, 3, 3, 1])])
def test_no_more_side_by_side_than_asked_for(monkeypatch, asked, expected):
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 3)
    made = runs(CLNR, tiny(), range(4), recipe=QUICK, device="cpu", parallel_seeds=asked)
    assert [each.parallel_seeds for each in made] == expected
