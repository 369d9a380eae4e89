from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import CLNR, Recipe, embed, run, runs
from clnr.datasets import split_of
from clnr.engine import cpu_engine
from clnr.errors import ClnrError, UnknownName
from clnr.evaluation import clusters
from clnr.evaluation.geometry import alignment
from clnr.evaluation.metrics import EXTRA_METRICS
from clnr.support.deprecation import RenamedWarning
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


def test_old_names_of_arguments_work_and_warn():
    with pytest.warns(RenamedWarning, match="argument 'measures' is now 'extra_metrics'"):
        made = run(CLNR, tiny(), recipe=QUICK, device="cpu", measures=["time"])
    assert set(made.extra_metrics) == {"time"}
    with pytest.warns(RenamedWarning, match="argument 'together' is now 'parallel_seeds'"):
        (made,) = runs(CLNR, tiny(), [0], recipe=QUICK, device="cpu", together=1)
    seen = []
    with pytest.warns(RenamedWarning, match="argument 'watch' is now 'progress'"):
        embed(CLNR, tiny(), recipe=QUICK, device="cpu", watch=lambda epoch, loss: seen.append(epoch))
    assert seen == [1, 2, 3]
    with (
        pytest.warns(RenamedWarning),
        pytest.raises(ClnrError, match="measures is the old name of extra_metrics; leave out measures"),
    ):
        run(CLNR, tiny(), recipe=QUICK, device="cpu", measures=["time"], extra_metrics=["time"])
