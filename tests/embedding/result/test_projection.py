from __future__ import annotations

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from clnr.embedding.result import projection
from clnr.embedding.result.neighbors import neighbor_lists

ALIKE = np.zeros((30, 4))
ODD = [np.zeros((0, 3)), np.ones((1, 3)), np.eye(2), ALIKE + 1, ALIKE, np.arange(30.0)[:, None], np.zeros((5, 0))]


def drawn(z, k=10, seed=0):
    z = np.asarray(z, np.float32)
    return projection.map_points(z, neighbor_lists(z, k), seed)


def clusters(count, each):
    noise = np.random.default_rng(0).normal(scale=0.3, size=(count * each, 12))
    return np.repeat(np.eye(count, 12) * 5, each, 0) + noise, np.repeat(np.arange(count), each)


def test_neighbours_lie_together_and_at_the_same_place_with_any_number_of_threads():
    z, cluster = clusters(4, 15)
    maps = []
    for threads in (1, 3):
        with threadpool_limits(threads):
            maps.append(drawn(z))
    assert all((each == maps[0]).all() for each in maps)
    distance = ((maps[0][:, None] - maps[0]) ** 2).sum(2)
    np.fill_diagonal(distance, np.inf)
    assert (cluster[distance.argsort(1)[:, :10]] == cluster[:, None]).mean() > 0.97


def test_far_ones_do_not_press_the_rest_into_a_corner_and_another_seed_gives_another_map():
    z, _ = clusters(4, 30)
    z[0] = 1e4
    points = drawn(z)
    spread = np.quantile(points, 0.95, 0) - np.quantile(points, 0.05, 0)
    assert (spread > 0.4 * np.ptp(points, 0)).all()
    assert (points != drawn(z, seed=1)).any()


def test_odd_embeddings_have_finite_maps():
    for z in ODD:
        points = drawn(z)
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
