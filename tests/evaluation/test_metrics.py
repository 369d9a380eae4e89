from __future__ import annotations

import pytest

from clnr import CLNR, Recipe, runs
from clnr.engine import cpu_engine
from tests.conftest import tiny

QUICK = Recipe(hidden=16, dimension=2, epochs=3, probe_steps=5)


@pytest.mark.parametrize(("asked", "expected"), [(None, [3, 3, 3, 1]), (1, [1] * 4), (2, [2] * 4), (9, [3, 3, 3, 1])])
def test_no_more_side_by_side_than_asked_for(monkeypatch, asked, expected):
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 3)
    made = runs(CLNR, tiny(), range(4), recipe=QUICK, device="cpu", parallel_seeds=asked)
    assert [each.parallel_seeds for each in made] == expected
