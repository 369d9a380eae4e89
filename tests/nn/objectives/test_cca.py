from __future__ import annotations

import numpy as np
import pytest

from clnr.nn.objectives import CCA
from tests import oracles
from tests.nn.objectives.moments import differentiable, rows, value


@pytest.mark.parametrize("shape", [(1, 1), (20, 4), (3, 6)])
@pytest.mark.parametrize("decorrelation", [0.0, 1e-3, 2.0])
def test_values_equal_the_loop(shape, decorrelation):
    u, v = rows(2, *shape)
    assert value(CCA(decorrelation), [u, v]) == pytest.approx(oracles.cca(u, v, decorrelation))


def test_gradient():
    assert differentiable(CCA(0.3), rows(2, 6, 3))


@pytest.mark.parametrize("width", [1, 4])
def test_equal_white_views_reach_minus_their_width(width):
    """The trace is the width, and there is no correlation left to penalise."""
    z = np.concatenate([np.eye(width), -np.eye(width)]) * np.sqrt(width)
    assert value(CCA(5.0), [z, z]) == pytest.approx(-width)
    assert value(CCA(5.0), [z, -z]) == pytest.approx(width)


def test_equal_columns_cost_their_correlation():
    """Two equal standardised columns: the trace is 2, and two correlations of 1 in either view are penalised."""
    z = np.repeat([[1.0], [-1.0]], 2, axis=1)
    assert value(CCA(0.5), [z, z]) == pytest.approx(-2 + 0.5 * 4)


def test_without_decorrelation_it_is_half_the_distance_of_standardised_views():
    u, v = (oracles.standardize(z) for z in rows(2, 50, 3))
    half = ((u - v) ** 2).sum() / 50 / 2
    assert value(CCA(0.0), [u, v]) == pytest.approx(half - 3)


def test_views_may_change_places():
    u, v = rows(2, 30, 3)
    assert value(CCA(0.3), [u, v]) == pytest.approx(value(CCA(0.3), [v, u]))
