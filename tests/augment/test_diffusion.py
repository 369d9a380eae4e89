import numpy as np
import pytest

from clnr.augment import diffusion
from clnr.augment.diffusion import personalised_pagerank
from clnr.graph import Graph
from tests import oracles
from tests.cases import pairs
from tests.conftest import tiny

ROUNDING = 2e-7
LOOPS = Graph.from_edges([0, 1, 1], [0, 2, 3], np.ones((5, 1)), weight=[3.0, 0.5, 4.0], undirected=True)
UNDIRECTED = {
    "usual": tiny(),
    "weighted": tiny(weighted=True),
    "dense": tiny(12, 200),
    "star": Graph.from_edges([0] * 20, range(1, 21), np.ones((21, 1)), undirected=True),
    "path": Graph.from_edges(range(9), range(1, 10), np.ones((10, 1)), undirected=True),
    "loops of its own": LOOPS,
    "no edges": Graph.from_edges([], [], np.ones((4, 1))),
}
DIRECTED = {"directed": tiny(undirected=False), "directed and weighted": tiny(undirected=False, weighted=True)}


@pytest.mark.parametrize(("name", "alpha", "error"), pairs(UNDIRECTED | DIRECTED, [0.05, 0.2, 0.9], [1.0, 1e-1, 1e-2, 1e-4]))
def test_the_error_is_within_its_bound(name, alpha, error):
    exact, degree = oracles.diffusion((UNDIRECTED | DIRECTED)[name], alpha)
    gap = exact - personalised_pagerank((UNDIRECTED | DIRECTED)[name], alpha, error).toarray()
    assert gap.min() >= -ROUNDING
    if name in UNDIRECTED:
        assert (gap <= error * np.sqrt(np.outer(degree, degree)) + ROUNDING).all()


@pytest.mark.parametrize("name", UNDIRECTED | DIRECTED)
def test_a_tiny_error_gives_the_exact_matrix(name):
    edges = (UNDIRECTED | DIRECTED)[name]
    exact, _ = oracles.diffusion(edges, 0.3)
    np.testing.assert_allclose(personalised_pagerank(edges, 0.3, 1e-12).toarray(), exact, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("error", [1.0, 1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("name", UNDIRECTED | DIRECTED)
def test_a_row_is_a_share_of_walks_on_a_bounded_number_of_nodes(name, error):
    edges, alpha = (UNDIRECTED | DIRECTED)[name], 0.2
    degree = oracles.with_loops(edges).sum(1)
    s = personalised_pagerank(edges, alpha, error).toarray()
    p = s / np.sqrt(degree)[:, None] * np.sqrt(degree)[None, :]
    assert p.min() >= 0
    assert p.sum(1).max() <= 1 + 1e-6
    assert (p.diagonal() >= alpha * (1 - 1e-6)).all()
    others = (p > 0) & ~np.eye(len(p), dtype=bool)
    assert (others @ degree).max() <= (1 - alpha) / (alpha * error)


@pytest.mark.parametrize("rows", [1, 3, 39, 40])
def test_blocks_of_rows_do_not_matter(rows, monkeypatch):
    whole = personalised_pagerank(tiny(), 0.2, 1e-3).toarray()
    monkeypatch.setattr(diffusion, "_BLOCK_ROWS", rows)
    np.testing.assert_array_equal(personalised_pagerank(tiny(), 0.2, 1e-3).toarray(), whole)
