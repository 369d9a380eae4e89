from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from clnr import NodeEmbedder
from clnr.embedding.reporting import projection
from clnr.embedding.reporting.map_layouts import MAP_LAYOUTS, check_layout
from clnr.embedding.search.neighbors import neighbor_lists
from clnr.errors import UnknownName
from tests.conftest import tiny

INSTALLED = [name for name, row in MAP_LAYOUTS.items() if row.needs is None or importlib.util.find_spec(row.needs)]
ODD = {
    "none": np.zeros((0, 3)),
    "one": np.ones((1, 3)),
    "two": np.eye(2),
    "all equal": np.ones((30, 4)),
    "zeros": np.zeros((30, 4)),
    "one dimension": np.arange(30.0)[:, None],
    "no dimension": np.zeros((5, 0)),
}


def drawn(name, z, k=10, seed=0):
    z = np.asarray(z, np.float32)
    return MAP_LAYOUTS[name].draw(z, neighbor_lists(z, k), seed)


def clusters(count, each):
    noise = np.random.default_rng(0).normal(scale=0.3, size=(count * each, 12))
    return np.repeat(np.eye(count, 12) * 5, each, 0) + noise, np.repeat(np.arange(count), each)


@pytest.mark.parametrize(
    "name", ["fast", *(pytest.param(name, marks=pytest.mark.full) for name in INSTALLED if name != "fast")]
)
def test_neighbours_lie_together_and_at_the_same_place_with_any_number_of_threads(name):
    z, cluster = clusters(4, 15)
    maps = []
    for threads in (1, 3):
        with threadpool_limits(threads):
            maps.append(drawn(name, z))
    assert all((each == maps[0]).all() for each in maps)
    distance = ((maps[0][:, None] - maps[0]) ** 2).sum(2)
    np.fill_diagonal(distance, np.inf)
    assert (cluster[distance.argsort(1)[:, :10]] == cluster[:, None]).mean() > 0.97


def test_far_ones_do_not_press_the_rest_into_a_corner_and_another_seed_gives_another_map():
    z, _ = clusters(4, 30)
    z[0] = 1e4
    points = drawn("fast", z)
    spread = np.quantile(points, 0.95, 0) - np.quantile(points, 0.05, 0)
    assert (spread > 0.4 * np.ptp(points, 0)).all()
    assert (points != drawn("fast", z, seed=1)).any()


@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize("z", ODD.values(), ids=ODD.keys())
def test_odd_embeddings_have_finite_maps(name, z):
    points = drawn(name, z)
    assert points.shape == (len(z), 2)
    assert np.isfinite(points).all()


def test_the_forces_do_not_depend_on_the_number_of_threads():
    random = np.random.default_rng(0)
    points = torch.from_numpy(random.standard_normal((3000, 2)).astype(np.float32))
    pairs = torch.from_numpy(random.integers(0, 3000, (2, 100_003)))
    before, forces = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            forces.append(projection._pull(points, *pairs, torch.ones(100_003)))
    finally:
        torch.set_num_threads(before)
    assert all((each == forces[0]).all() for each in forces)


def test_an_embedder_draws_with_any_layout(tmp_path):
    embedder = NodeEmbedder("Raw").fit(tiny())
    assert '<meta name="layout" content="tsne">' in embedder.report(tmp_path / "a.html", layout="tsne").read_text()
    embedder.save(tmp_path / "folder", report=True, layout="tsne")
    assert "t-SNE, of scikit-learn" in (tmp_path / "folder" / "report.html").read_text()
    with pytest.raises(UnknownName, match="unknown layout 'TSNE'; did you mean 'tsne'"):
        embedder.report(tmp_path / "b.html", layout="TSNE")
    with pytest.raises(UnknownName, match="known: fast, tsne, umap"):
        check_layout(None)
