from __future__ import annotations

import pytest
from benchmarks import growth
from benchmarks.growth import WHOLE, Measured


def rows(stage, seconds, effort="quick"):
    """A stage whose seconds are a function of the edges, at three sizes."""
    return [Measured(effort, nodes, 10 * nodes, stage, seconds(10.0 * nodes), 100 * nodes) for nodes in growth.sizes(100_000)]


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_exponents_are_those_of_the_edges(power):
    small, _, large = rows("train", lambda edges: 7e-9 * edges**power)
    assert growth.exponent(small, large) == pytest.approx(power)
    assert growth.exponent(None, large) is None


def test_only_what_grows_faster_than_the_edges_and_counts_is_marked():
    """Two of these are steep, and one of them takes no time to speak of."""
    made = rows("read", lambda edges: edges / 1e5) + rows("score", lambda edges: (edges / 1e5) ** 2)
    made += rows("write", lambda edges: 1e-3 * (edges / 1e5) ** 2) + rows(WHOLE, lambda edges: 3 * (edges / 1e5))
    made += rows("train", lambda edges: 1.0, "standard")
    marked = [line for line in growth.table(made, "quick").splitlines() if "*" in line]
    assert marked == ["| score | 1.00 | 9.00 (2.00*) | 100.00 (2.00*) |"]
