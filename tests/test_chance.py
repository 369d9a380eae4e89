from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clnr import chance
from tests import oracles

COUNT = 200_000


def correlation(a, b):
    return float(np.corrcoef(np.asarray(a, float), np.asarray(b, float))[0, 1])


def bits(rate=0.5, seed=0, stream="train", epoch=0, view=0, i=None, j=0):
    i = torch.arange(COUNT) if i is None else i
    return chance.keep(chance.key(seed, stream, epoch, view), rate, i, j).numpy()


def test_mix_is_the_published_function_in_wrapping_arithmetic():
    x = np.random.default_rng(0).integers(0, 2**32, 10_000)
    np.testing.assert_array_equal(chance.mix(torch.from_numpy(x)).numpy(), oracles.lowbias32(x).astype(np.int64))
    np.testing.assert_array_equal(chance.mix(x), oracles.lowbias32(x).astype(np.int64))
    assert [chance.mix(int(value)) for value in x[:100]] == oracles.lowbias32(x[:100]).tolist()


def test_draws_are_pinned():
    """A change of these numbers changes every result ever recorded."""
    key = chance.key(7, "train", 3, 1, "DropEdges")
    assert key == (1442387001, 649168804)
    assert [chance.draw(key, i, 5) for i in range(4)] == [4262289326, 2811785683, 1584431221, 2191824287]


def test_keys_from_tensors_equal_keys_from_numbers():
    epochs = torch.arange(50)
    together = chance.key(3, "nodes", epochs)
    for epoch in range(50):
        assert (int(together.a[epoch]), int(together.b[epoch])) == chance.key(3, "nodes", epoch)


def test_streams_differ_in_every_word_of_their_path():
    keys = [chance.key(seed, s, e, v) for seed in (0, 1, 2**32, 2**40 + 1) for s in "ab" for e in range(50) for v in range(2)]
    assert len(set(keys)) == len(keys)
    assert len({key.a for key in keys}) > 0.99 * len(keys)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_rates(rate):
    kept = bits(rate).sum()
    assert abs(kept - COUNT * (1 - rate)) <= 5 * math.sqrt(COUNT * rate * (1 - rate))


def test_words_are_uniform_and_so_is_each_bit():
    words = chance.draw(chance.key(0, "x"), torch.arange(COUNT)).numpy()
    for shift in (0, 8, 16, 24):
        counts = np.bincount((words >> shift) & 255, minlength=256)
        assert ((counts - COUNT / 256) ** 2 / (COUNT / 256)).sum() < 255 + 5 * math.sqrt(2 * 255)


@pytest.mark.parametrize(
    "other", [{"view": 1}, {"epoch": 1}, {"epoch": 2}, {"seed": 1}, {"seed": 2**32}, {"stream": "measure"}]
)
def test_views_epochs_seeds_and_streams_are_independent(other):
    assert abs(correlation(bits(), bits(**other))) < 5 / math.sqrt(COUNT)


def test_edges_are_independent_of_their_neighbours_and_their_reverse():
    i, j = torch.arange(COUNT) % 401, torch.arange(COUNT) // 401
    here = bits(i=i, j=j)
    for near in (bits(i=i + 1, j=j), bits(i=i, j=j + 1), bits(i=j, j=i)):
        apart = (i != j).numpy()
        assert abs(correlation(here[apart], near[apart])) < 6 / math.sqrt(COUNT)


def test_an_edge_is_dropped_independently_from_epoch_to_epoch():
    """Over many epochs: single edges keep their rate, and pairs of edges are dropped together as often as chance has it."""
    epochs, edges = 4000, 40
    drawn = np.stack([bits(0.3, epoch=e, i=torch.arange(edges), j=torch.arange(edges) * 7) for e in range(epochs)])
    assert np.abs(drawn.mean(0) - 0.7).max() < 5 * math.sqrt(0.21 / epochs)
    together = np.corrcoef(drawn.T.astype(float)) - np.eye(edges)
    assert np.abs(together).max() < 5.5 / math.sqrt(epochs)
    assert abs(correlation(drawn[1:].ravel(), drawn[:-1].ravel())) < 5 / math.sqrt(drawn.size)


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 7, 10, 16, 17, 99, 100, 101, 997, 2708, 19_717])
def test_permute_is_a_permutation(total):
    image = chance.permute(chance.key(1, "p"), torch.arange(total), total)
    assert sorted(image.tolist()) == list(range(total))


def test_all_permutations_of_four_are_equally_likely():
    trials = 24_000
    key = chance.key(0, "p", torch.arange(trials)[:, None])
    image = chance.permute(key, torch.arange(4)[None, :], 4)
    code = (image * torch.tensor([64, 16, 4, 1])).sum(1)
    counts = np.unique(code.numpy(), return_counts=True)[1]
    assert len(counts) == 24
    assert np.abs(counts / (trials / 24) - 1).max() < 0.2


def test_sampled_nodes_are_distinct_and_every_node_is_as_likely():
    total, count, epochs = 101, 20, 3000
    drawn = torch.stack([chance.sample(0, epoch, total, count, torch.device("cpu")) for epoch in range(epochs)])
    assert all(len(set(row)) == count for row in drawn.tolist())
    hits = np.bincount(drawn.numpy().ravel(), minlength=total)
    expected = epochs * count / total
    assert ((hits - expected) ** 2 / expected).sum() < total + 5 * math.sqrt(2 * total)


def test_samples_do_not_depend_on_what_was_asked_before():
    one = chance.sample(5, 77, 1000, 50, torch.device("cpu"))
    chance._samples.cache_clear()
    chance.sample(5, 3, 1000, 50, torch.device("cpu"))
    assert torch.equal(one, chance.sample(5, 77, 1000, 50, torch.device("cpu")))
    assert torch.equal(one, chance.permute(chance.key(5, "nodes", 77), torch.arange(50), 1000))
    assert not torch.equal(one, chance.sample(5, 78, 1000, 50, torch.device("cpu")))
    assert not torch.equal(one, chance.sample(6, 77, 1000, 50, torch.device("cpu")))


def test_uniform_has_the_moments_of_the_uniform_distribution():
    u = chance.uniform(chance.key(0, "u"), COUNT)
    assert u.dtype == torch.float32
    assert 0 <= u.min() < u.max() < 1
    assert abs(u.double().mean() - 1 / 2) < 5 * math.sqrt(1 / 12 / COUNT)
    assert abs(u.double().var() - 1 / 12) < 5 * math.sqrt(1 / 180 / COUNT)


@pytest.mark.gpu
def test_cpu_and_gpu_agree_to_the_bit(cuda):
    index = torch.arange(1_000_003)
    key = chance.key(11, "train", 5, 1)
    assert torch.equal(chance.draw(key, index, index * 3), chance.draw(key, index.to(cuda), index.to(cuda) * 3).cpu())
    assert torch.equal(chance.keep(key, 0.3, index), chance.keep(key, 0.3, index.to(cuda)).cpu())
    assert torch.equal(chance.uniform(key, 100_001), chance.uniform(key, 100_001, cuda).cpu())
    for epoch in (0, 31, 32, 100):
        here, there = (chance.sample(1, epoch, 169_343, 1024, device) for device in (torch.device("cpu"), cuda))
        assert torch.equal(here, there.cpu())
