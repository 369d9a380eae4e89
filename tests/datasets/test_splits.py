"""Published splits are kept; others are drawn from the labelled nodes by seed alone, 1:1:8 where there are many."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnr.datasets.splits import random_split, split_of
from clnr.errors import DataError
from clnr.graph import Graph, Split
from tests.conftest import tiny


def labelled(count: int, unlabelled: tuple[int, ...] = ()) -> Graph:
    labels = np.arange(count) % 3
    labels[list(unlabelled)] = -1
    return Graph.from_edges([], [], np.ones((count, 1)), labels=labels, name="made")


def test_a_tenth_trains_of_many_and_more_of_few():
    sizes = {10: [6, 2, 2], 19: [11, 3, 5], 250: [100, 50, 100], 999: [100, 99, 800], 7650: [765, 765, 6120]}
    assert {nodes: [len(part) for part in random_split(labelled(nodes), 0)] for nodes in sizes} == sizes


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_each_labelled_node_stands_in_exactly_one_part(seed):
    split = random_split(labelled(200, tuple(range(0, 200, 4))), seed)
    assert sorted(np.concatenate(split).tolist()) == [i for i in range(200) if i % 4]
    assert [len(part) for part in split] == [90, 30, 30]
    assert all(part.tolist() == sorted(part) for part in split)


def test_seeds_give_different_splits_that_overlap_as_chance_would():
    trains = [set(random_split(labelled(1000), seed).train.tolist()) for seed in range(20)]
    assert len({frozenset(train) for train in trains}) == 20
    overlaps = [len(a & b) for i, a in enumerate(trains) for b in trains[:i]]
    # Each overlap is hypergeometric with mean 10 and variance 8.1; 190 of them have a mean within 10 +- 1.
    assert 9 < np.mean(overlaps) < 11
    assert max(overlaps) < 30


@pytest.mark.parametrize(("nodes", "absent"), [(9, ()), (30, tuple(range(21)))])
def test_too_few_labels_are_a_data_error_with_the_count(nodes, absent):
    with pytest.raises(DataError, match=f"made has {nodes - len(absent)} labelled nodes; .* at least 10"):
        random_split(labelled(nodes, absent), 0)


def test_a_published_split_is_kept_for_every_seed_and_else_a_random_one_is_made():
    published = Split(np.array([3, 1]), np.array([0]), np.array([2]))
    graph = Graph.from_edges([0], [1], np.ones((5, 2)), labels=[0, 1, 0, 1, 0], split=published)
    for seed in (0, 1):
        assert [part.tolist() for part in split_of(graph, seed)] == [[3, 1], [0], [2]]
        for a, b in zip(split_of(tiny(), seed), random_split(tiny(), seed), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(DataError, match="tiny has no labels"):
        split_of(tiny().without_labels(), 0)


@pytest.mark.parametrize(
    ("split", "words"),
    [(([0], [], [1]), "made has no validation nodes"), (([0], [1], [2, 5]), "made has test nodes without a label")],
)
def test_a_published_split_that_cannot_be_evaluated_is_a_data_error(split, words):
    split = Split(*(np.array(part, int) for part in split))
    with pytest.raises(DataError, match=words):
        split_of(dataclasses.replace(labelled(20, unlabelled=(5,)), split=split), 0)
