from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clnr import rng
from tests import oracles

COUNT = 200_000


def correlation(a, b):
    return float(np.corrcoef(np.asarray(a, float), np.asarray(b, float))[0, 1])


def bits(rate=0.5, seed=0, stream="train", epoch=0, view=0, i=None, j=0):
    i = torch.arange(COUNT) if i is None else i
    return rng.keep(rng.key(seed, stream, epoch, view), rate, i, j).numpy()


def test_mix_is_the_published_function_in_wrapping_arithmetic():
    x = np.random.default_rng(0).integers(0, 2**32, 10_000)
    np.testing.assert_array_equal(rng.mix(torch.from_numpy(x)).numpy(), oracles.lowbias32(x).astype(np.int64))
    np.testing.assert_array_equal(rng.mix(x), oracles.lowbias32(x).astype(np.int64))
    assert [rng.mix(int(value)) for value in x[:100]] == oracles.lowbias32(x[:100]).tolist()


def test_draws_are_pinned():
    """A change of these numbers changes every result ever recorded."""
    key = rng.key(7, "train", 3, 1, "DropEdges")
    assert key == (1442387001, 649168804, None)
    assert [rng.draw(key, i, 5) for i in range(4)] == [4262289326, 2811785683, 1584431221, 2191824287]


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1, 2**40 + 3])
def test_keys_and_draws_equal_the_loop(seed):
    key = rng.branch(rng.key(seed, "pairs", 12), "row")
    assert key[:2] == oracles.key(seed, "pairs", 12, "row")
    i, j = torch.arange(50), torch.arange(50) * 2**26 % 2**32
    assert rng.draw(key, i, j).tolist() == [oracles.draw(key[:2], a, b) for a, b in zip(i.tolist(), j.tolist(), strict=True)]


def test_keys_from_tensors_equal_keys_from_numbers():
    epochs = torch.arange(50)
    waiting = rng.key(3, "nodes", epochs)
    assert waiting == (*rng.key(3, "nodes")[:2], epochs)
    parallel_seeds = rng.settled(waiting)
    for epoch in range(50):
        assert (int(parallel_seeds.a[epoch]), int(parallel_seeds.b[epoch]), None) == rng.key(3, "nodes", epoch)
    below, mixed = rng.branch(waiting, "row"), rng.branch(parallel_seeds, "row")
    assert below.word is None
    assert torch.equal(below.a, mixed.a)
    assert torch.equal(below.b, mixed.b)


def test_streams_differ_in_every_word_of_their_path():
    keys = [rng.key(seed, s, e, v) for seed in (0, 1, 2**32, 2**40 + 1) for s in "ab" for e in range(50) for v in range(2)]
    assert len(set(keys)) == len(keys)
    assert len({key.a for key in keys}) > 0.99 * len(keys)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_rates(rate):
    kept = bits(rate).sum()
    assert abs(kept - COUNT * (1 - rate)) <= 5 * math.sqrt(COUNT * rate * (1 - rate))


def test_rates_of_pairs_equal_the_loop():
    rates = torch.rand(20, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    i, j = torch.arange(20)[:, None], torch.arange(30)[None, :]
    key = rng.key(1, "x")
    expected = [[oracles.kept(key, float(rates[a, b]), a, b) for b in range(30)] for a in range(20)]
    assert rng.keep(key, rates, i, j).tolist() == expected


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


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 7, 10, 16, 17, 99, 100, 101, 997, 2708, 19_717])
def test_permute_is_a_permutation(total):
    image = rng.permute(rng.key(1, "p"), torch.arange(total), total)
    assert sorted(image.tolist()) == list(range(total))


def test_all_permutations_of_four_are_equally_likely():
    trials = 24_000
    key = rng.key(0, "p", torch.arange(trials)[:, None])
    image = rng.permute(key, torch.arange(4)[None, :], 4)
    code = (image * torch.tensor([64, 16, 4, 1])).sum(1)
    counts = np.unique(code.numpy(), return_counts=True)[1]
    assert len(counts) == 24
    assert np.abs(counts / (trials / 24) - 1).max() < 0.2


def test_samples_do_not_depend_on_what_was_asked_before():
    one, kept = rng.sample(5, 77, 100, 1000, 50, torch.device("cpu")), {}
    for epoch in (3, 76, 77, 99, 77):
        found = rng.sample(5, epoch, 100, 1000, 50, torch.device("cpu"), kept)
        assert torch.equal(one, found) == (epoch == 77)
    assert torch.equal(one, rng.permute(rng.key(5, "nodes", 77), torch.arange(50), 1000))
    assert not torch.equal(one, rng.sample(5, 78, 100, 1000, 50, torch.device("cpu")))
    assert not torch.equal(one, rng.sample(6, 77, 100, 1000, 50, torch.device("cpu")))


def test_of_the_samples_of_many_epochs_few_are_kept(monkeypatch):
    here, kept = torch.device("cpu"), {}
    for epoch in range(200):
        rng.sample(5, epoch, 200, 1000, 50, here, kept)
        rng.sample(5, epoch + 1, 201, 1000, 50, here, kept)
    assert sum(len(table) for table in kept.values()) == 64
    monkeypatch.setattr(rng, "_TABLE", 100)
    assert rng.samples(5, 3, 1000, 50, here, kept) is None
    kept.clear()
    rng.sample(5, 0, 200, 1000, 50, here, kept)
    assert [table.shape for table in kept.values()] == [(2, 50)]


@pytest.mark.parametrize("epoch", [0, 31, 32, 1000])
def test_an_epoch_may_be_a_counter(epoch, monkeypatch):
    counter = torch.tensor(epoch)
    here = torch.device("cpu")
    expected = rng.sample(5, epoch, 2000, 1000, 50, here)
    assert torch.equal(rng.sample(5, counter, 2000, 1000, 50, here), expected)
    kept = {}
    assert torch.equal(rng.sample(5, counter, 2000, 1000, 50, here, kept), expected)
    assert rng.samples(5, 2000, 1000, 50, here, kept) is rng.samples(5, 2000, 1000, 50, here, kept)
    monkeypatch.setattr(rng, "_TABLE", 0)
    assert torch.equal(rng.sample(5, counter, 2000, 1000, 50, here, {}), expected)
    one, other = (rng.branch(rng.key(5, "x", count), "y") for count in (counter, epoch))
    assert torch.equal(rng.keep(one, 0.3, torch.arange(100), 7), rng.keep(other, 0.3, torch.arange(100), 7))
    assert torch.equal(rng.normal(one, 100), rng.normal(other, 100))
    assert torch.equal(rng.shuffle(one, 100), rng.shuffle(other, 100))


@pytest.mark.parametrize("total", [0, 1, 2, 5, 997])
def test_shuffle_is_a_permutation_in_the_order_of_draws(total):
    key = rng.key(4, "s")
    order = rng.shuffle(key, total).tolist()
    assert order == sorted(range(total), key=lambda i: oracles.draw(key, i))


@pytest.mark.gpu
def test_cpu_and_gpu_agree_to_the_bit(cuda):
    index = torch.arange(1_000_003)
    key = rng.key(11, "train", 5, 1)
    assert torch.equal(rng.draw(key, index, index * 3), rng.draw(key, index.to(cuda), index.to(cuda) * 3).cpu())
    assert torch.equal(rng.keep(key, 0.3, index), rng.keep(key, 0.3, index.to(cuda)).cpu())
    rates = torch.rand(1_000_003, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rng.keep(key, rates, index), rng.keep(key, rates.to(cuda), index.to(cuda)).cpu())
    assert torch.equal(rng.uniform(key, 100_001), rng.uniform(key, 100_001, cuda).cpu())
    assert torch.equal(rng.shuffle(key, 100_001), rng.shuffle(key, 100_001, cuda).cpu())
    torch.testing.assert_close(rng.normal(key, 100_001), rng.normal(key, 100_001, cuda).cpu(), rtol=1e-5, atol=1e-6)
    for epoch in (0, 31, 32, 100):
        here, there = (rng.sample(1, epoch, 100, 169_343, 1024, device) for device in (torch.device("cpu"), cuda))
        assert torch.equal(here, there.cpu())
