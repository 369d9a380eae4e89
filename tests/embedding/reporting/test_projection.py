from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr.embedding.reporting import projection
from clnr.embedding.reporting.projection import layout
from clnr.embedding.search.neighbors import neighbor_lists

ODD = {
    "none": np.zeros((0, 3)),
    "one": np.ones((1, 3)),
    "two": np.eye(2),
    "all equal": np.ones((30, 4)),
    "zeros": np.zeros((30, 4)),
    "one dimension": np.arange(30.0)[:, None],
    "no dimension": np.zeros((5, 0)),
}


def mapped(z, k=10, seed=0):
    z = np.asarray(z, np.float32)
    return layout(z, neighbor_lists(z, k), seed)


def clusters(count, each, seed=0):
    random = np.random.default_rng(seed)
    centres = np.eye(count, 12) * 5
    return np.repeat(centres, each, 0) + random.normal(scale=0.3, size=(count * each, 12)), np.repeat(np.arange(count), each)


def test_neighbours_in_the_embedding_are_neighbours_on_the_map():
    z, cluster = clusters(5, 40)
    points = mapped(z)
    distance = ((points[:, None] - points) ** 2).sum(2)
    np.fill_diagonal(distance, np.inf)
    near = distance.argsort(1)[:, :10]
    assert (cluster[near] == cluster[:, None]).mean() > 0.97


def test_far_ones_do_not_press_the_rest_into_a_corner():
    z, _ = clusters(4, 30)
    z[0] = 1e4
    points = mapped(z)
    wide = np.ptp(points, 0)
    assert (np.quantile(points, 0.95, 0) - np.quantile(points, 0.05, 0) > 0.4 * wide).all()


def test_the_same_numbers_give_the_same_map_and_another_seed_another():
    z, _ = clusters(3, 20)
    assert (mapped(z) == mapped(z)).all()
    assert (mapped(z) != mapped(z, seed=1)).any()


@pytest.mark.parametrize("z", ODD.values(), ids=ODD.keys())
def test_odd_embeddings_have_finite_maps(z):
    points = mapped(z)
    assert points.shape == (len(z), 2)
    assert np.isfinite(points).all()


def test_the_forces_do_not_depend_on_the_number_of_threads():
    random = np.random.default_rng(0)
    points = torch.from_numpy(random.standard_normal((3000, 2)).astype(np.float32))
    pairs = torch.from_numpy(random.integers(0, 3000, (2, 100_003)))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(projection._pull(points, *pairs, torch.ones(100_003)))
    finally:
        torch.set_num_threads(before)
    assert all((each == found[0]).all() for each in found)
